"""The files of one partition, in the order of their versions, each with its fate. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from statemaint.listing import Entry
from statemaint.model.files import ChecksumFile, Delta, Snapshot, SstFile, TempFile, classify_any
from statemaint.plan.actions import Attest, Delete, Plan, StorePlan, WriteSnapshot
from statemaint.plan.withheld import by_reason

# A partition may have a hundred thousand files; a page with all of them is useless.
MOST_FILES = 2_000
_STATE = ("delta", "snapshot")


@dataclass(frozen=True, slots=True)
class File:
    """A file, or one that a run would write, which has no size and time yet.

    Attributes:
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
        return sum(file.bytes or 0 for file in self.files)

    @property
    def versions(self) -> str:
        versions = [file.version for file in self.files if file.version is not None]
        if not versions:
            return ""
        first, last = min(versions), max(versions)
        return str(first) if first == last else f"{first} to {last}"


@dataclass(frozen=True, slots=True)
class StoreTimeline:
    """The files of one store, by version.

    Attributes:
        proofs: the files that a run would verify, each with the reason.
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
        return sum(len(stretch.files) for stretch in self.stretches)


def timelines(plan: Plan, *, most: int = MOST_FILES) -> tuple[StoreTimeline, ...]:
    """Returns the files of each store in the plan of one partition.

    At most the `most` newest state files of a store are shown, and as many others.
    """
    return tuple(_timeline(store, most) for store in plan.stores)


def _timeline(plan: StorePlan, most: int) -> StoreTimeline:
    files = sorted(_files(plan), key=_place)
    state = [file for file in files if file.kind in _STATE]
    others = [file for file in files if file.kind not in _STATE]
    shown = [*state[-most:], *others[:most]]
    stretches = groupby(shown, lambda file: (file.kind, file.fate, file.why))
    return StoreTimeline(
        store=plan.store.id.store,
        stretches=tuple(Stretch(tuple(alike)) for _, alike in stretches),
        proofs=tuple(
            f"{action.path.rpartition('/')[2]} is verified because {action.reason.meaning}"
            for action in plan.actions
            if isinstance(action, Attest)
        ),
        findings=tuple(
            (finding.code.value, finding.detail, finding.damage) for finding in plan.findings
        ),
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
    version: int | None = None
    match classify_any(entry):
        case Delta(version=version):
            kind = "delta"
        case Snapshot(version=version):
            kind = "snapshot"
        case ChecksumFile(version=version):
            kind = "checksum"
        case SstFile():
            kind = "SST"
        case TempFile():
            kind = "temporary"
        case _:
            kind = "other"
    return File(version, entry.name, kind, entry.size, entry.modified, fate, why)


def _place(file: File) -> tuple[bool, str, int, str]:
    # Other files come after the state, or they would cut every stretch in two.
    beside = file.kind not in _STATE
    return (beside, file.kind if beside else "", file.version or 0, file.name)
