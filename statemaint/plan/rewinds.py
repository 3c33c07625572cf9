"""The signs that a rewound query has written a log again, by the times of its files. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile

from statemaint.listing import Entry
from statemaint.model.chain import Versions
from statemaint.model.checkpoint import Checkpoint, Store, is_later
from statemaint.model.files import Delta, Snapshot
from statemaint.model.ids import batch_of
from statemaint.model.proof import Attestation, Outdated


def earlier_than_their_log(store: Store, target: int) -> Iterator[tuple[Snapshot, Delta]]:
    """Yields the snapshots without a proof that are older than a change up to their version.

    All writers snapshot after these changes. A rewound query writes some of them again and leaves
    the earlier snapshot; a copy may give them any times.
    """
    with_proof = {it.path for it in store.attestations} | {it.path for it in store.outdated}
    if {file.entry.path for file in store.snapshots} <= with_proof:
        return  # the usual case, checked first because sorting out all files takes longer
    versions = store.versions
    youngest: Delta | None = None
    for version in sorted(versions.all):
        delta, snapshot = versions.deltas.get(version), versions.snapshots.get(version)
        if delta and (youngest is None or is_later(delta.entry.modified, youngest.entry.modified)):
            youngest = delta
        if not (snapshot and youngest) or version > target or snapshot.entry.path in with_proof:
            continue
        if is_later(youngest.entry.modified, snapshot.entry.modified):
            yield snapshot, youngest


@dataclass(frozen=True, slots=True)
class Loose:
    """A snapshot whose proof does not name everything below it, some of which is younger."""

    proof: Attestation
    snapshot: Snapshot
    again: tuple[Delta, ...]  # the younger changes, downward from its version until one is not
    # Whether the commit of one of them exists: most files that were restored are as young, without.
    shown: bool
    grounded: frozenset[int]  # the versions below whose proofs reach the beginning of the log

    @property
    def unnamed(self) -> tuple[Entry, ...]:
        named = {file.path for file in self.proof.inputs}
        return tuple(delta.entry for delta in self.again if delta.entry.path not in named)


def loose(store: Store, checkpoint: Checkpoint, target: int) -> Iterator[Loose]:
    """Yields the snapshots below which a rewound query may have written the log again.

    A proof names the files that a snapshot was folded from, but no change below the snapshot that
    the fold began with, and none at all if there were none. This matters only if the proof does
    not reach the beginning of the log, directly or through the proof of the snapshot that it began
    with, and the snapshot is not younger than everything below it.
    """
    listed = {file.entry.path: file.entry for file in store.snapshots}
    grounded, versions = set[str](), set[int]()
    for proof in sorted(store.attestations, key=lambda proof: proof.version):
        entry = listed.get(proof.path)
        if entry and _is_grounded(proof, entry, store, grounded):
            grounded.add(proof.path)
            versions.add(proof.version)
        elif entry and proof.version <= target and _any_later(store, proof.version, entry.modified):
            snapshot = store.versions.snapshots.get(proof.version)
            if snapshot is None or snapshot.entry != entry:
                continue
            again = tuple(_rewritten(store.versions, snapshot))
            shown = any(batch_of(delta.version) in checkpoint.commit_times for delta in again)
            candidate = Loose(proof, snapshot, again, shown, frozenset(versions))
            if candidate.unnamed:
                yield candidate


def written_below(
    found: Iterable[Loose], store: Store, checkpoint: Checkpoint, target: int
) -> Iterator[Outdated]:
    """Yields the proofs below whose inputs a rewound query has written the log again.

    The query may write the named files again with the bytes that they had before.
    """
    for candidate in found:
        if not candidate.shown:
            continue
        rewritten = {delta.entry.path for delta in candidate.again}
        # An input that was written after its snapshot may be named as it is listed now, if it has
        # its former bytes: its time shows nothing.
        named = candidate.proof.inputs
        inputs = (it._replace(modified=None) if it.path in rewritten else it for it in named)
        outdated = Outdated(replace(candidate.proof, inputs=tuple(inputs)), candidate.unnamed)
        if written_by_query(outdated, store.versions, checkpoint, target):
            yield outdated


def contestable(found: Iterable[Loose], store: Store) -> Iterator[tuple[Snapshot, Delta]]:
    """Yields those whose version the log gives by itself, each with the newest change of its log.

    Once the commits of a rewind have been purged, nothing tells a log that was written again from
    one that was restored or edited; only a comparison shows whether the snapshot is of that log.
    """
    for suspect in found:
        chain = store.versions.from_log(suspect.proof.version, proved=suspect.grounded)
        if chain is not None and chain.start in {0, *suspect.grounded}:
            yield suspect.snapshot, suspect.again[0]


def _is_grounded(proof: Attestation, entry: Entry, store: Store, grounded: set[str]) -> bool:
    """Returns whether no file below those that a proof names can have changed its snapshot."""
    if proof.inputs and (proof.start == 0 or any(file.path in grounded for file in proof.inputs)):
        return True
    return entry.modified is not None and not _any_later(store, proof.version, entry.modified)


def _any_later(store: Store, version: int, modified: float | None) -> bool:
    deltas = (file for file in store.files if isinstance(file, Delta) and file.version <= version)
    return any(is_later(delta.entry.modified, modified) for delta in deltas)


def _rewritten(versions: Versions, snapshot: Snapshot) -> Iterator[Delta]:
    below = [number for number in versions.deltas if number <= snapshot.version]
    downward = (versions.deltas[number] for number in sorted(below, reverse=True))
    return takewhile(lambda it: is_later(it.entry.modified, snapshot.entry.modified), downward)


def written_by_query(
    outdated: Outdated,
    versions: Versions,
    checkpoint: Checkpoint,
    target: int,
    begun: float | None = None,
) -> bool:
    """Returns whether the log was replaced as a rewound query replaces it.

    Such a query writes every version from some version up to the snapshot's again, in order, after
    the snapshot, and commits each afterwards. Some of them may have the bytes that they had before.
    `begun` is when the snapshot was written; by default its listed time.
    """
    listed = {delta.entry.path: delta for delta in versions.deltas.values()}
    inputs = [(listed[it.path], it.modified) for it in outdated.proof.inputs if it.path in listed]
    others = listed.keys() - {it.path for it in outdated.proof.inputs}
    new = [listed[it.path] for it in outdated.replaced if it.path in others]
    again = [*new, *(delta for delta, modified in inputs if delta.entry.modified != modified)]
    again.sort(key=lambda delta: delta.version)
    if not again or any(d.version >= again[0].version and d not in again for d, _ in inputs):
        return False
    after = versions.deltas.get(outdated.version + 1) if outdated.version < target else None
    # A copy may have given the snapshot another time than its proof records.
    begun = versions.snapshots[outdated.version].entry.modified if begun is None else begun
    written = (*again, after) if after else again
    times = [begun, *(delta.entry.modified for delta in written)]
    if not ascending(times) or not is_later(again[0].entry.modified, begun):
        return False
    commits = checkpoint.commit_times
    kept = [delta for delta in again if batch_of(delta.version) in commits]
    # Without a commit as evidence, a single file may also have been edited by hand.
    enough = bool(kept) or (len(again) > 1 and not outdated.swapped)
    return enough and all(_committed(delta, commits, begun) for delta in kept)


def ascending(times: list[float | None]) -> bool:
    stamped = [time for time in times if time is not None]
    return len(stamped) == len(times) and stamped == sorted(stamped)


def _committed(delta: Delta, commits: Mapping[int, float | None], begun: float | None) -> bool:
    """Returns whether the commit of a change was written again, too, and after the change."""
    committed, written = commits[batch_of(delta.version)], delta.entry.modified
    if committed is None or written is None:
        return False
    return committed >= written and is_later(committed, begun)
