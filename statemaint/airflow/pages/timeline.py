"""The files of one partition, in the order of their versions, each with its fate. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from statemaint.listing import Entry
from statemaint.model.files import (
    ChecksumFile,
    Delta,
    Snapshot,
    SstFile,
    StateFile,
    TempFile,
    classify_any,
)
from statemaint.plan.actions import Attest, Delete, Plan, StorePlan, WriteSnapshot
from statemaint.plan.withheld import by_reason

# A partition may have a hundred thousand files; a page with all of them is useless.
MOST_FILES = 2_000
_STATE = ("delta", "snapshot")


@dataclass(frozen=True, slots=True)
class File:
    """A file, or one that a run would write.

    Attributes:
        version: its version; `None` if it has none.
        name: its name in the store's directory.
        kind: `delta`, `snapshot`, `checksum`, `SST`, `temporary`, `other`.
        bytes: its size; `None` if it does not exist yet.
        modified: its time, in seconds since the epoch.
        fate: `Kept`, `Deleted`, `New`.
        why: the reason, after `because`.
    """

    version: int | None
    name: str
    kind: str
    bytes: int | None
    modified: float | None
    fate: str
    why: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """Files of one kind and one fate, in a row."""

    files: tuple[File, ...]

    @property
    def first(self) -> File:
        return self.files[0]

    @property
    def bytes(self) -> int:
        return sum(one.bytes or 0 for one in self.files)

    @property
    def versions(self) -> str:
        """Returns their versions: `17`, `1 to 16`, or nothing."""
        versions = [one.version for one in self.files if one.version is not None]
        if not versions:
            return ""
        first, last = min(versions), max(versions)
        return str(first) if first == last else f"{first} to {last}"


@dataclass(frozen=True, slots=True)
class StoreTimeline:
    """The files of one store.

    Attributes:
        store: its name.
        stretches: its files, by version.
        proofs: the files that a run would verify, each with the reason.
        findings: its findings.
        left_out: the number of files that are not shown.
        withheld: why its due snapshots are not written.
    """

    store: str
    stretches: tuple[Stretch, ...]
    proofs: tuple[str, ...]
    findings: tuple[tuple[str, str, bool], ...]
    left_out: int
    withheld: tuple[str, ...] = ()

    @property
    def files(self) -> int:
        return sum(len(one.files) for one in self.stretches)


def timelines(plan: Plan, *, most: int = MOST_FILES) -> tuple[StoreTimeline, ...]:
    """Returns the files of each store in the plan of one partition.

    Args:
        plan: the plan.
        most: the maximum number of state files shown per store, the newest, and of other files.
    """
    return tuple(_timeline(one, most) for one in plan.stores)


def _timeline(plan: StorePlan, most: int) -> StoreTimeline:
    files = sorted(_files(plan), key=_place)
    state = [one for one in files if one.kind in _STATE]
    others = [one for one in files if one.kind not in _STATE]
    shown = [*state[-most:], *others[:most]]
    return StoreTimeline(
        store=plan.store.id.store,
        stretches=tuple(_stretches(shown)),
        proofs=tuple(_proofs(plan)),
        findings=tuple((one.code.value, one.detail, one.damage) for one in plan.findings),
        left_out=len(files) - len(shown),
        withheld=tuple(map(str, by_reason(plan.withheld))),
    )


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
    version, kind = _kind(classify_any(entry))
    return File(version, entry.name, kind, entry.size, entry.modified, fate, why)


def _kind(file: StateFile) -> tuple[int | None, str]:
    match file:
        case Delta(version=version):
            return version, "delta"
        case Snapshot(version=version):
            return version, "snapshot"
        case ChecksumFile(version=version):
            return version, "checksum"
        case SstFile():
            return None, "SST"
        case TempFile():
            return None, "temporary"
        case _:
            return None, "other"


def _place(file: File) -> tuple[bool, str, int, str]:
    # Other files come after the state, or they would cut every stretch in two.
    beside = file.kind not in _STATE
    return (beside, file.kind if beside else "", file.version or 0, file.name)


def _stretches(files: Sequence[File]) -> Iterator[Stretch]:
    for _, some in groupby(files, lambda one: (one.kind, one.fate, one.why)):
        yield Stretch(tuple(some))


def _proofs(plan: StorePlan) -> Iterable[str]:
    for action in plan.actions:
        if isinstance(action, Attest):
            yield f"{action.path.rpartition('/')[2]} is verified because {action.reason.meaning}"
