"""Why due snapshots are not written, in words. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from statemaint.model.findings import Finding, FindingCode
from statemaint.model.restart_time import LONG_CHAIN, LONG_SECONDS
from statemaint.plan.actions import Withheld
from statemaint.plan.reasons import SnapshotReason, WithheldReason
from statemaint.wording import counted, moment

# Findings of their own tell the operator of the others.
_NOTICED = (
    WithheldReason.UNSETTLED,
    WithheldReason.EXECUTORS,
    WithheldReason.NAME_TAKEN,
    WithheldReason.YOUNG_CHECKSUM,
    WithheldReason.VERIFY_OFF,
    WithheldReason.OUT_OF_TIME,
)


@dataclass(frozen=True, slots=True)
class Waiting:
    """The due snapshots of several stores that are withheld for one reason."""

    reason: WithheldReason
    snapshots: int
    at_floor: int  # the number of those that are due at the floor only
    chain: int
    restart: int  # the most deltas that a restart of a store replays now; 0 if only at the floor
    restart_then: int  # the same when the wait ends by a version
    seconds: float
    version: int | None = None  # the committed version that ends the last of the waits, if one does
    time: float | None = None  # the time that does, in seconds since the epoch

    def __add__(self, other: "Waiting") -> "Waiting":
        return Waiting(
            self.reason,
            self.snapshots + other.snapshots,
            self.at_floor + other.at_floor,
            max(self.chain, other.chain),
            max(self.restart, other.restart),
            max(self.restart_then, other.restart_then),
            max(self.seconds, other.seconds),
            max((x for x in (self.version, other.version) if x is not None), default=None),
            max((x for x in (self.time, other.time) if x is not None), default=None),
        )

    @property
    def long(self) -> bool:
        return max(self.restart, self.restart_then) > LONG_CHAIN or self.seconds > LONG_SECONDS

    def __str__(self) -> str:
        floor = f" ({self.at_floor} at the floor)" if self.at_floor else ""
        many = "is" if self.snapshots == 1 else "are"
        head = f"{counted(self.snapshots, 'due snapshot')}{floor} {many} not written"
        chains = f"chains of up to {counted(self.chain, 'delta')}"
        return f"{head}, {chains}: {self.reason.meaning}{self._until}; {self.reason.to_do}"

    @property
    def _until(self) -> str:
        if self.version is not None:
            unless = ", unless one is uploaded before" * (self.reason is WithheldReason.EXECUTORS)
            return f", until version {self.version} is committed at the latest{unless}"
        if self.time is not None:
            return f", until {moment(self.time)} UTC"
        return ""


def by_reason(withheld: Iterable[Withheld]) -> tuple[Waiting, ...]:
    return together(_alone(snapshot) for snapshot in withheld)


def together(waiting: Iterable[Waiting]) -> tuple[Waiting, ...]:
    """Returns the sums by reason, as several tasks of a run report them."""
    sums: dict[WithheldReason, Waiting] = {}
    for part in waiting:
        sums[part.reason] = sums[part.reason] + part if part.reason in sums else part
    return tuple(sums[reason] for reason in WithheldReason if reason in sums)


def _alone(snapshot: Withheld) -> Waiting:
    at_floor, wait = snapshot.due is SnapshotReason.REBASE, snapshot.wait
    restart = 0 if at_floor else snapshot.deltas
    more = 0 if at_floor or wait.version is None else max(0, wait.version - snapshot.version)
    return Waiting(
        wait.reason,
        snapshots=1,
        at_floor=int(at_floor),
        chain=snapshot.deltas,
        restart=restart,
        restart_then=restart + more,
        seconds=0.0 if at_floor else snapshot.seconds,
        version=wait.version,
        time=wait.time,
    )


def long_waits(withheld: Iterable[Withheld]) -> Iterator[Finding]:
    """Yields the notice of each reason that keeps a restart long."""
    for wait in by_reason(withheld):
        if wait.long and wait.reason in _NOTICED:
            then = f", and up to {wait.restart_then:,} by then" if wait.version is not None else ""
            detail = (
                f"{wait}. A restart replays up to {counted(wait.restart, 'delta')} in a store now, "
                f"in about {wait.seconds:.1f} s{then}"
            )
            yield Finding(FindingCode.SNAPSHOT_WITHHELD, detail)
