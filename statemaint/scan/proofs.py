"""The proofs that still count, given the files that are listed now (S6).

Identities cost no read: path, size, time, and the storage's own mark of the content. Only where one
of these has changed, or is inconclusive (whole-second times of young files), the file is read and
its fingerprint decides: a copy or a restore gives files other times and leaves their bytes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import google_crc32c

from statemaint.errors import NotFoundError, Superseded, UnreadableError
from statemaint.listing import Entry
from statemaint.model.checkpoint import Store
from statemaint.model.files import Snapshot, SstFile
from statemaint.model.proof import Attestation, FileRecord, Outdated
from statemaint.storage import Storage, deprived


def with_proofs(storage: Storage, store: Store, proofs: Sequence[Attestation], at: float) -> Store:
    """Returns a store with the proofs that count, and those whose inputs were replaced.

    A proof does not count if its snapshot, or an SST file of the snapshot, was replaced, but it
    still records the former log. A proof whose snapshot is missing records nothing.
    """
    if not proofs:
        return store
    listed = _Comparison(storage, {file.entry.path: file.entry for file in store.files}, at)
    counting, outdated, former = [], [], []
    for proof in proofs:
        if proof.path not in listed.entries:
            continue
        stands = listed.stands(proof)
        replaced = listed.replaced(proof.inputs, proof)
        if not stands:
            former.append(Outdated(proof, replaced))
        elif replaced:  # keeps the former identities, which show the other files written again
            outdated.append(Outdated(proof, replaced, listed.swapped(proof, replaced)))
        else:
            counting.append(proof.refreshed(listed.same, at) if listed.same else proof)
    attestations = tuple(counting)
    return replace(store, attestations=attestations, outdated=tuple(outdated), former=tuple(former))


@dataclass(slots=True)
class _Comparison:
    """The comparison of listed files with their records."""

    storage: Storage
    entries: Mapping[str, Entry]
    at: float
    # The records whose bytes are listed under another identity, as a read has shown.
    same: dict[FileRecord, Entry] = field(default_factory=dict)
    sums: dict[str, tuple[int, int] | None] = field(default_factory=dict)  # `None`: deleted

    def stands(self, proof: Attestation) -> bool:
        self.same = {}
        records = (proof.own, *proof.parts)
        listed = all(record.path in self.entries for record in records)
        return listed and not self.replaced(records, proof)

    def replaced(self, records: Iterable[FileRecord], proof: Attestation) -> tuple[Entry, ...]:
        """Returns the listed files whose bytes differ from their record.

        A doubted file has been compared as it is now, and its former content may be restored.
        """
        listed = ((file, self.entries[file.path]) for file in records if file.path in self.entries)
        accepted = {file.path: file for file in proof.doubted}
        differ = (entry for file, entry in listed if not self._equal(file, entry, proof.at))
        doubts = ((entry, accepted.get(entry.path)) for entry in differ)
        return tuple(it for it, as_ in doubts if not (as_ and self._equal(as_, it, proof.at)))

    def swapped(self, proof: Attestation, replaced: Iterable[Entry]) -> bool:
        """Returns whether a replaced file has the bytes that another input of a proof had."""
        of_size: dict[int, set[int | None]] = {}
        for record in proof.inputs:
            of_size.setdefault(record.size, set()).add(record.sum)
        alike = (entry for entry in replaced if entry.size in of_size)
        sums = (self._sum(entry.path) for entry in alike)
        return any(current and current[1] in of_size.get(current[0], ()) for current in sums)

    def _equal(self, record: FileRecord, entry: Entry, at: float) -> bool:
        if record.identifies(entry, at):
            return True
        if record.sum is None or record.size != entry.size:
            return False
        current = self._sum(entry.path)
        if current is None:  # deleted since it was listed: a missing file was not replaced
            return True
        if current != (record.size, record.sum):
            return False
        self.same[record] = entry
        return True

    def _sum(self, path: str) -> tuple[int, int] | None:
        if path not in self.sums:
            self.sums[path] = fingerprint(self.storage, path)
        return self.sums[path]


# -- the stored bytes of files


_PIECE = 1024 * 1024


def _sum_of(storage: Storage, path: str) -> tuple[int, int]:
    size = total = 0
    with storage.open(path) as stream:
        while piece := stream.read(_PIECE):
            size, total = size + len(piece), google_crc32c.extend(total, piece)
    return size, total


def crc32c_of(storage: Storage, path: str) -> int:
    return _sum_of(storage, path)[1]


def fingerprint(storage: Storage, path: str) -> tuple[int, int] | None:
    """Returns the size and the CRC-32C of a listed file; `None` when it does not exist any more."""
    try:
        return _sum_of(storage, path)
    except NotFoundError:
        return None
    except Superseded:  # replaced during the read: not the file of any record
        return -1, 0


def is_same(one: Entry, other: Entry | FileRecord) -> bool:
    return (one.path, one.size, one.modified) == (other.path, other.size, other.modified)


def equal(storage: Storage, one: str, other: str) -> bool:
    """Returns whether two files hold the same bytes; equal sizes prove nothing."""
    if storage.stat(one).size != storage.stat(other).size:
        return False
    with storage.open(one) as first, storage.open(other) as second:
        while piece := first.read(_PIECE):
            if piece != second.read(_PIECE):
                return False
    return True


# -- our snapshots that the query might not be able to read (S22)


def with_unreadable(storage: Storage, store: Store) -> Store:
    """Returns a store with the snapshots of ours that a reader of its log cannot read.

    Requests are made only for files that owners, groups and modes in the listing leave in doubt,
    and none if listings have no modes. A snapshot that may be an executor's counts only if its
    owner differs from the log's.
    """
    ours = (snapshot for snapshot in store.snapshots if snapshot.entry.path in store.ours)
    unreadable = {it.entry.path: why for it in ours if (why := _why(storage, store, it))}
    return replace(store, unreadable=unreadable) if unreadable else store


def _why(storage: Storage, store: Store, snapshot: Snapshot) -> str | None:
    beside = store.beside(snapshot.version)
    if beside is None or beside.access is None:
        return None
    # No executor can have written it: the ledger lists some snapshots of theirs.
    proved = {proof.path for proof in store.attestations if proof.ours}
    sure = store.rocks is not None or snapshot.entry.path in proved
    for entry in (snapshot.entry, *_parts(store, snapshot)):
        if entry.access is None or deprived(beside.access, entry.access) is None:
            continue
        if not sure and entry.access.owner == beside.access.owner:
            continue
        try:
            storage.check_readable(entry.path, like=beside.path)
        except UnreadableError as error:
            return str(error)
        except NotFoundError:
            return None  # deleted by the query since it was listed
    return None


def _parts(store: Store, snapshot: Snapshot) -> Iterator[Entry]:
    named = store.rocks.parts.get(snapshot.entry.path, {}) if store.rocks else {}
    shared = (file.entry for file in store.files if isinstance(file, SstFile))
    return (entry for entry in shared if entry.path in named)
