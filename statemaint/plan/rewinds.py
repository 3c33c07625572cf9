"""Whether a query that was rewound has written a log again, as far as its times say. Pure."""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from statemaint.listing import Entry
from statemaint.model.chain import Versions
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.files import Delta, Snapshot
from statemaint.model.ids import batch_of
from statemaint.model.proof import Attestation, Outdated


def earlier_than_their_log(store: Store, target: int) -> Iterator[tuple[Snapshot, Delta]]:
    """Yields the snapshots without a proof that are older than a change up to their version.

    Both executors and maintenance write a snapshot after all of these. A query that was rewound
    writes some of them again and leaves the snapshot of before; a copy may give them any times.
    """
    known = {one.path for one in store.attestations} | {one.path for one in store.outdated}
    files = {file.entry.path for file in store.files if isinstance(file, Snapshot)}
    if files <= known:
        return  # mostly: sorting all files out takes longer
    versions = store.versions
    youngest: Delta | None = None
    for version in sorted(versions.all):
        delta, snapshot = versions.deltas.get(version), versions.snapshots.get(version)
        if delta and (youngest is None or _later(delta.entry.modified, youngest.entry.modified)):
            youngest = delta
        if (
            snapshot
            and youngest
            and version <= target
            and snapshot.entry.path not in known
            and _later(youngest.entry.modified, snapshot.entry.modified)
        ):
            yield snapshot, youngest


def written_below(store: Store, checkpoint: Checkpoint, target: int) -> Iterator[Outdated]:
    """Yields the proofs below whose inputs a query that was rewound has written the log again.

    A proof names what a snapshot was folded from, and no change below the snapshot that this began
    with. The query may write again with the bytes that they had before what the proof names. That
    says nothing where the proof reaches the beginning of the log, by that of the snapshot that it
    began with, or this one is younger than all that lies below it.
    """
    listed = {one.entry.path: one.entry for one in store.files if isinstance(one, Snapshot)}
    grounded = set[str]()
    for proof in sorted(store.attestations, key=lambda one: one.version):
        entry = listed.get(proof.path)
        if entry and _is_grounded(proof, entry, store, grounded):
            grounded.add(proof.path)
        elif entry and proof.version <= target and _any_later(store, proof.version, entry.modified):
            versions, named = store.versions, {one.path for one in proof.inputs}
            rewritten = tuple(_rewritten(versions, proof.version, entry))
            new = tuple(one.entry for one in rewritten if one.entry.path not in named)
            # What came back from a trash or a copy is as new as that, and has no commit left.
            tells = any(batch_of(one.version) in checkpoint.commit_times for one in rewritten)
            snapshot = versions.snapshots.get(proof.version)
            found = Outdated(_as_proved(proof, rewritten), new)
            counts = snapshot is not None and snapshot.entry == entry and tells
            if new and counts and written_by_query(found, versions, checkpoint, target):
                yield found


def _is_grounded(
    proof: Attestation, entry: Entry, store: Store, grounded: AbstractSet[str]
) -> bool:
    """Returns whether what lies below all that a proof names cannot have changed its snapshot."""
    if proof.inputs and (proof.start == 0 or any(one.path in grounded for one in proof.inputs)):
        return True
    return entry.modified is not None and not _any_later(store, proof.version, entry.modified)


def _as_proved(proof: Attestation, rewritten: tuple[Delta, ...]) -> Attestation:
    """Returns a proof that does not know the files that were written after its snapshot.

    Where they have the bytes of then, the proof names them as they are listed now.
    """
    again = {one.entry.path for one in rewritten}
    inputs = (one._replace(modified=None) if one.path in again else one for one in proof.inputs)
    return replace(proof, inputs=tuple(inputs))


def _any_later(store: Store, version: int, modified: float | None) -> bool:
    deltas = (one for one in store.files if isinstance(one, Delta) and one.version <= version)
    return any(_later(one.entry.modified, modified) for one in deltas)


def _rewritten(versions: Versions, version: int, snapshot: Entry) -> Iterator[Delta]:
    """Yields the changes up to a version that are younger than its snapshot, down to the first."""
    for one in sorted((one for one in versions.deltas if one <= version), reverse=True):
        if not _later(versions.deltas[one].entry.modified, snapshot.modified):
            return
        yield versions.deltas[one]


def written_by_query(
    one: Outdated,
    versions: Versions,
    checkpoint: Checkpoint,
    target: int,
    begun: float | None = None,
) -> bool:
    """Returns whether the log was replaced as a query that was rewound replaces it.

    It writes every version from some one up to the snapshot's again, in their order, after the
    snapshot, and commits each after that. Some of them may have the bytes that they had before.

    Args:
        one: the proof, and what of its inputs was replaced.
        versions: of the store.
        checkpoint: whose commits tell as well.
        target: the newest committed version.
        begun: when the snapshot was written; by default as it is listed.
    """
    listed = {delta.entry.path: delta for delta in versions.deltas.values()}
    inputs = [(listed[it.path], it.modified) for it in one.proof.inputs if it.path in listed]
    named = {it.path for it in one.proof.inputs}
    new = [listed[it.path] for it in one.replaced if it.path not in named and it.path in listed]
    again = [*new, *(delta for delta, modified in inputs if delta.entry.modified != modified)]
    again.sort(key=lambda delta: delta.version)
    if not again or any(d.version >= again[0].version and d not in again for d, _ in inputs):
        return False
    after = versions.deltas.get(one.version + 1) if one.version < target else None
    # A copy may have given it another time than the one of its proof.
    begun = versions.snapshots[one.version].entry.modified if begun is None else begun
    times = [begun, *(delta.entry.modified for delta in (*again, *_some(after)))]
    if not _ascending(times) or not _later(again[0].entry.modified, begun):
        return False
    commits = checkpoint.commit_times
    kept = [delta for delta in again if batch_of(delta.version) in commits]
    # Once no commit tells, a single file is as well one that somebody has edited.
    enough = bool(kept) or (len(again) > 1 and not one.swapped)
    return enough and all(_committed(delta, commits, begun) for delta in kept)


def _some(delta: Delta | None) -> tuple[Delta, ...]:
    return (delta,) if delta else ()


def _ascending(times: list[float | None]) -> bool:
    known = [one for one in times if one is not None]
    return len(known) == len(times) and known == sorted(known)


def _committed(delta: Delta, commits: Mapping[int, float | None], begun: float | None) -> bool:
    """Returns whether the commit of a change was written again as well, and after it."""
    committed, written = commits[batch_of(delta.version)], delta.entry.modified
    if committed is None or written is None:
        return False
    return committed >= written and _later(committed, begun)


def _later(one: float | None, other: float | None) -> bool:
    return one is not None and other is not None and one > other
