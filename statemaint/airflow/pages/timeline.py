"""The files of one partition, in the order of their versions, each with its fate. Pure."""

from bisect import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise

from statemaint.listing import Entry
from statemaint.model.files import ChecksumFile, Delta, Snapshot, SstFile, TempFile, classify_any
from statemaint.plan.actions import Attest, Delete, Plan, StorePlan, WriteSnapshot
from statemaint.plan.withheld import by_reason
from statemaint.wording import counted

# A partition may have a hundred thousand files; a page with all of them is useless.
MOST_FILES = 2_000
_STATE = ("delta", "snapshot")
_OF_VERSIONS: dict[type, str] = {Delta: "delta", Snapshot: "snapshot", ChecksumFile: "checksum"}
_OF_NONE: dict[type, str] = {SstFile: "SST", TempFile: "temporary"}


@dataclass(frozen=True, slots=True)
class File:
    """A file, or one that a run would write, which has no size and time yet."""

    version: int | None
    name: str
    kind: str
    bytes: int | None
    modified: float | None
    fate: str  # `Kept`, `Deleted`, `New`
    why: str  # after `because`


@dataclass(frozen=True, slots=True)
class Stretch:
    """Files of one kind and one fate, in a row."""

    files: tuple[File, ...]

    @property
    def bytes(self) -> int:
        return sum(file.bytes or 0 for file in self.files)

    @property
    def versions(self) -> str:
        versions = [file.version for file in self.files if file.version is not None]
        return _versions(min(versions), max(versions)) if versions else ""


@dataclass(frozen=True, slots=True)
class MissingVersions:
    """Versions without a file, and the last version that does not load without them."""

    first: int
    last: int
    breaks: int

    @property
    def versions(self) -> str:
        return _versions(self.first, self.last)

    @property
    def count(self) -> str:
        return counted(self.last - self.first + 1, "delta")

    @property
    def broken(self) -> str:
        return _versions(self.first, self.breaks)


@dataclass(frozen=True, slots=True)
class StoreTimeline:
    """The files of one store, by version."""

    store: str
    stretches: tuple[Stretch | MissingVersions, ...]  # with the gaps that stop a version to load
    proofs: tuple[str, ...]  # the files that a run would verify, each with the reason
    findings: tuple[tuple[str, str, bool], ...]
    left_out: int  # the number of files that are not shown
    withheld: tuple[str, ...] = ()  # why its due snapshots are not written

    @property
    def files(self) -> int:
        return sum(len(part.files) for part in self.stretches if isinstance(part, Stretch))


def timelines(plan: Plan, *, most: int = MOST_FILES) -> tuple[StoreTimeline, ...]:
    """Returns the files of each store in the plan of one partition.

    At most the `most` newest state files of a store are shown, and as many others.
    """
    return tuple(_timeline(plan, store, most) for store in plan.stores)


def _timeline(whole: Plan, plan: StorePlan, most: int) -> StoreTimeline:
    files = sorted(_files(plan), key=_place)
    state = [file for file in files if file.kind in _STATE]
    others = [file for file in files if file.kind not in _STATE]
    shown = [*state[-most:], *others[:most]]
    gaps = _gaps(whole, plan) if plan.halted else ()
    return StoreTimeline(
        store=plan.store.id.store,
        stretches=tuple(_with_gaps(shown, gaps)),
        proofs=tuple(
            f"{action.path.rpartition('/')[2]} is verified because {action.reason.meaning}"
            for action in plan.actions
            if isinstance(action, Attest)
        ),
        findings=tuple((each.code.value, each.detail, each.damage) for each in plan.findings),
        left_out=len(files) - len(shown),
        withheld=tuple(map(str, by_reason(plan.withheld))),
    )


def _gaps(whole: Plan, plan: StorePlan) -> tuple[MissingVersions, ...]:
    """Returns the gaps below versions that must load; older ones break nothing."""
    if whole.target is None or whole.floor is None:
        return ()
    snapshots = sorted(plan.store.versions.snapshots)
    present = [version for version in plan.store.versions.all if version <= whole.target]
    gaps = []
    for below, above in pairwise((0, *present, whole.target + 1)):
        later = bisect(snapshots, below)
        until = snapshots[later] - 1 if later < len(snapshots) else whole.target
        last = min(until, whole.target)
        if above - below > 1 and last >= whole.floor:
            gaps.append(MissingVersions(below + 1, above - 1, last))
    return tuple(gaps)


def _with_gaps(
    files: Iterable[File], gaps: tuple[MissingVersions, ...]
) -> Iterator[Stretch | MissingVersions]:
    firsts, shown = [gap.first for gap in gaps], 0

    def passed(file: File) -> int:
        # Other files come after the state, and so after every gap.
        return bisect(firsts, file.version or 0) if file.kind in _STATE else len(gaps)

    rows = groupby(files, lambda file: (passed(file), file.kind, file.fate, file.why))
    for (below, *_), alike in rows:
        yield from gaps[shown:below]
        shown = max(shown, below)
        yield Stretch(tuple(alike))
    yield from gaps[shown:]


def _versions(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"


def _files(plan: StorePlan) -> Iterator[File]:
    for kept in plan.kept:
        yield _file(kept.entry, "Kept", kept.reason.meaning)
    for action in plan.actions:
        if isinstance(action, Delete):
            yield _file(action.entry, "Deleted", action.reason.meaning)
        elif isinstance(action, WriteSnapshot):
            name, why = action.path.rpartition("/")[2], action.reason.meaning
            yield File(action.version, name, "snapshot", None, None, "New", why)


def _file(entry: Entry, fate: str, why: str) -> File:
    known = classify_any(entry)
    version = known.version if isinstance(known, Delta | Snapshot | ChecksumFile) else None
    kind = (_OF_VERSIONS | _OF_NONE).get(type(known), "other")
    return File(version, entry.name, kind, entry.size, entry.modified, fate, why)


def _place(file: File) -> tuple[bool, str, int, str]:
    # Other files come after the state, or they would cut every stretch in two.
    beside = file.kind not in _STATE
    return (beside, file.kind if beside else "", file.version or 0, file.name)
