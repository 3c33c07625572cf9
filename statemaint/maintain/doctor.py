"""What whoever is on call asks first: can the query restart, from where, and what is to be done."""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from statemaint.errors import CheckpointError, NotFoundError, Superseded, UnsupportedError
from statemaint.fold import Source, digest_of, engine_for
from statemaint.maintain.invariants import newest_right
from statemaint.maintain.rebuild import Depth
from statemaint.maintain.verify import verify_at
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import version_of
from statemaint.model.policy import PRESETS
from statemaint.plan import judge, newest_to_go_back_to
from statemaint.storage import ReadOnly, Storage

_LONG = PRESETS["safe"].min_deltas_for_snapshot
# A restart reads the newest entries of the logs only.
_OF_AN_ENTRY = frozenset({FindingCode.UNREADABLE_COMMIT, FindingCode.MISSING_OFFSET})
# The last one does not fail: Spark takes the snapshot for the state, and is silently wrong.
_BLOCKING = _OF_AN_ENTRY | {
    FindingCode.UNREADABLE_OFFSET,
    FindingCode.UNREADABLE_METADATA,
    FindingCode.UNFINISHED_REPARTITION,
    FindingCode.SNAPSHOT_ABOVE_TARGET,
}
_ADVICE = {
    FindingCode.BROKEN_CHAIN: "put the missing files back from a copy or a bucket's old versions",
    FindingCode.LINEAGE_BROKEN: "put the missing files back from a copy or a bucket's old versions",
    FindingCode.MISSING_SST: "put the missing tables back from a copy or a bucket's old versions",
    FindingCode.CORRUPT_FILE: "put the damaged files back from a copy",
    FindingCode.SNAPSHOT_MISMATCH: "tell which is right, the snapshot or the log below it",
    FindingCode.STALE_SNAPSHOT: (
        "run `statemaint maintain`: it moves stale snapshots to the trash, the log has the state"
    ),
    FindingCode.LOG_REPLACED: "put the files of the log that were replaced back from a copy",
    FindingCode.STALE_CHECKSUM: "put the file that does not fit its checksum back from a copy",
    FindingCode.SNAPSHOT_ABOVE_TARGET: "move snapshots above the last commit away",
    FindingCode.JOIN_MISMATCH: "restore all stores of the join from one time",
    FindingCode.WRONG_PARTITION: "restore the files of these partitions from a copy",
    FindingCode.UNREADABLE_BY_QUERY: (
        "give the snapshots that the query cannot read the owner, group and mode of the changes "
        "beside them"
    ),
    FindingCode.STORAGE_FAILED: "see why the storage refuses, and ask again",
}
_ELSE = "see the runbook"
_OF_ROWS = frozenset({FindingCode.WRONG_PARTITION, FindingCode.JOIN_MISMATCH})
_MENDABLE = frozenset(
    {
        FindingCode.CORRUPT_FILE,
        FindingCode.MISSING_SST,
        FindingCode.SNAPSHOT_ABOVE_TARGET,
        FindingCode.SNAPSHOT_MISMATCH,
        FindingCode.STALE_CHECKSUM,
        FindingCode.UNREADABLE_BY_QUERY,
    }
)


@dataclass(frozen=True, slots=True)
class Reading:
    """One chain, read here by our own code.

    Attributes:
        size: its bytes, those of the tables that its zip refers to among them.
        seconds: what that took.
    """

    size: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found.

    Attributes:
        checkpoint: what was read.
        findings: what is wrong, and what is only worth knowing.
        loadable: the batches of the commit log that load in every store, ascending.
        longest: the store with the longest chain at the newest committed version, if any loads.
        chain: that chain.
        took: how long reading it took here, `None` when nobody could.
        largest: the same of the chain with the most bytes, on which fixed costs weigh least.
        total: bytes of all stores at that version, `None` when one of them does not load.
        slots: how many stores the query's executors read at once.
        right: the newest loadable batch whose rows are all right, if any; looked for where those
            of the newest version are not.
        disputed: what was replaced in logs that snapshots disagree with, by snapshot.
    """

    checkpoint: Checkpoint
    findings: tuple[Finding, ...]
    loadable: tuple[int, ...]
    longest: Store | None = None
    chain: Chain | None = None
    took: Reading | None = None
    largest: Reading | None = None
    total: int | None = None
    slots: int = 1
    right: tuple[int, ...] = ()
    disputed: tuple[str, ...] = ()

    @property
    def speed(self) -> float | None:
        """Returns the stored bytes that are read here in a second."""
        measured = self.largest and self.largest.seconds
        return self.largest.size / measured if self.largest and measured else None

    @property
    def at_least(self) -> float | None:
        """Returns the seconds that a restart takes at least if it reads at that speed.

        Slots share the stores, and a single store is read by one of them alone.
        """
        if self.largest is None or self.speed is None or self.total is None:
            return None
        return max(self.largest.seconds, self.total / self.speed / self.slots)

    @property
    def restarts(self) -> bool:
        """Tells whether the query can be started again as it is."""
        newest = self.checkpoint.committed
        return not any(self.blockers) and (newest is None or newest in self.loadable)

    @property
    def blockers(self) -> Iterator[Finding]:
        """Yields what stops a restart, or makes it wrong, before any state is read."""
        newest = max((*self.checkpoint.offsets, *self.checkpoint.batches), default=0)
        offsets = {f"offsets/{newest}", f"offsets/{newest - 1}"}
        needed = {*offsets, f"commits/{self.checkpoint.committed}"}
        for one in self.findings:
            older = one.code in _OF_AN_ENTRY and one.path not in needed
            if one.code in _BLOCKING and not older:
                yield one

    @property
    def counts(self) -> Counter[FindingCode]:
        """Returns how many findings of each kind are damage."""
        return Counter(one.code for one in self.findings if one.damage)

    @property
    def goes_back_to(self) -> int | None:
        """Returns the newest batch that is worth a rollback, `None` where there is none.

        That is the newest one where the query restarts from there as it is. Where rows of that
        are wrong, which only a deep look sees, it is one whose rows are right. Where a log that
        was replaced disagrees with a snapshot there is none: going back would move the snapshot
        away, which may be all that is left of the right state.
        """
        if self.disputed:
            return None
        right = [one for one in self.loadable if not self.misplaced or one in self.right]
        return newest_to_go_back_to(self.checkpoint, self.findings, right)

    @property
    def misplaced(self) -> bool:
        """Tells whether rows of the newest version are known to be wrong."""
        return any(one.code in _OF_ROWS for one in self.findings)

    @property
    def next(self) -> tuple[str, ...]:
        """Returns what to do, the most urgent first."""
        found = [_ADVICE.get(code, f"{code}: {_ELSE}") for code in sorted(self.counts)]
        if _MENDABLE & self.counts.keys():
            found.insert(0, "see what `statemaint repair` can mend from the log")
        found = [*self.disputed, *found]
        batch = self.goes_back_to
        if batch is not None and (self.misplaced or not self.restarts):
            right = " with all rows in their place" if self.misplaced else ""
            found.append(
                f"or go back: `statemaint rollback --to-batch {batch}`, the newest batch that "
                f"loads in every store{right}"
            )
        if not found and self.chain and len(self.chain.deltas) > _LONG:
            found.append("run `statemaint maintain`: a restart reads more files than it needs to")
        return tuple(dict.fromkeys(found)) or ("nothing",)


def doctor(storage: Storage, *, deep: bool = False, slots: int = 1) -> Diagnosis:
    """Looks a checkpoint over, and says whether and from where its query can restart.

    Args:
        storage: where the checkpoint lives.
        deep: look as deep as `verify` does; else every file of a retained version is decoded.
        slots: how many stores the query's executors read at once, one or more.

    Raises:
        NotACheckpointError: when there is none.
        UnsupportedError: when it is of a kind that cannot be read.
        StorageError: when anything could not be listed or read.
    """
    reading = ReadOnly(storage)
    found = verify_at(reading, Depth.ROWS if deep else Depth.CHAINS)
    checkpoint = found.checkpoint
    chains = _newest(checkpoint)
    longest = max(chains, key=lambda one: (len(one[1].deltas), one[1].size), default=None)
    largest = max(chains, key=lambda one: _stored(*one), default=None)
    took = _measured(reading, checkpoint, longest)
    loadable = tuple(_loadable(checkpoint, found.findings))
    return Diagnosis(
        checkpoint=checkpoint,
        findings=found.findings,
        loadable=loadable,
        longest=longest[0] if longest else None,
        chain=longest[1] if longest else None,
        took=took,
        largest=took if largest is longest else _measured(reading, checkpoint, largest),
        total=_total(checkpoint, chains),
        slots=slots,
        disputed=tuple(_disputed(checkpoint, found.findings)),
        right=tuple(_right(reading, checkpoint, found.findings, loadable)),
    )


def _disputed(checkpoint: Checkpoint, findings: tuple[Finding, ...]) -> Iterator[str]:
    """Yields, for each log in doubt, what to do about it."""
    wrong = {one.path for one in findings if one.code is FindingCode.SNAPSHOT_MISMATCH}
    for store in checkpoint.stores:
        for one in judge(store, checkpoint).disputed:
            if one.path in wrong and not one.by_query:
                yield f"{one.path} disagrees with the log: {one.why}"


def _right(
    storage: Storage,
    checkpoint: Checkpoint,
    findings: tuple[Finding, ...],
    loadable: tuple[int, ...],
) -> Iterator[int]:
    """Yields the newest batch whose rows are right, where those of the newest version are not."""
    if any(one.code in _OF_ROWS for one in findings):
        found = newest_right(storage, checkpoint, loadable)
        yield from () if found is None else (found,)


def _loadable(checkpoint: Checkpoint, findings: tuple[Finding, ...]) -> Iterator[int]:
    required, target = checkpoint.required, checkpoint.target
    if required is None or target is None:
        return
    # Rows out of place load all the same; `misplaced` tells them.
    damage = (one for one in findings if one.damage and one.code not in _OF_ROWS)
    spoiled = {batch for one in damage for batch in one.batches}
    loads = [(one.id, one.versions.loadable(required, target)) for one in checkpoint.stores]
    for batch in checkpoint.batches:
        version = version_of(batch)
        asked = (found for store, found in loads if checkpoint.asks(store, version))
        if batch not in spoiled and all(version in found for found in asked):
            yield batch


_Chains = list[tuple[Store, Chain]]


def _newest(checkpoint: Checkpoint) -> _Chains:
    """Returns what a restart reads of each store that loads."""
    target = checkpoint.target
    if target is None:
        return []
    asked = (store for store in checkpoint.stores if checkpoint.asks(store.id, target))
    chains = ((store, store.versions.chain(target)) for store in asked)
    return [(store, chain) for store, chain in chains if isinstance(chain, Chain)]


def _total(checkpoint: Checkpoint, chains: _Chains) -> int | None:
    asked = [one for one in checkpoint.stores if checkpoint.asks(one.id, checkpoint.target)]
    if not chains or len(chains) < len(asked):
        return None
    return sum(_stored(store, chain) for store, chain in chains)


def _stored(store: Store, chain: Chain) -> int:
    """Returns the bytes that loading a chain reads."""
    if store.rocks is None or chain.base is None:
        return chain.size
    return chain.size + sum(store.rocks.parts.get(chain.base.entry.path, {}).values())


def _measured(
    storage: Storage, checkpoint: Checkpoint, found: tuple[Store, Chain] | None
) -> Reading | None:
    if not found or not found[1].paths:
        return None
    store, chain = found
    engine = engine_for(chain.size, checkpoint.provider)
    source, began = Source.of(storage, store, checkpoint), time.monotonic()
    try:
        digest_of(engine.fold(source, chain, (chain.version,), write=False), chain.version)
    except (CheckpointError, UnsupportedError, NotFoundError, Superseded):
        return None
    return Reading(_stored(store, chain), time.monotonic() - began)
