"""From a chain to its digests, and to the files of a snapshot."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain as chained
from itertools import islice
from pathlib import Path
from uuid import uuid4

from statemaint.codec.integrity.digest import StateDigest
from statemaint.codec.rocksdb.changelog import families_used
from statemaint.codec.rocksdb.snapshot_zip import ImmutableFile, ZipMetadata, ZipShape
from statemaint.errors import CodecError, UnsupportedError, in_file
from statemaint.fold.rocksdb.changes import LIMITS, Limits, Pending, apply, decoded
from statemaint.fold.rocksdb.database import Database, KnownRows, Row, RowTotals, counted, opened
from statemaint.fold.rocksdb.fetch import Zip, blaming, fetch, read_zip
from statemaint.fold.source import Folding, Pieces, Source
from statemaint.fold.temporary import temporary_directory, workplace
from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.files import Delta, Snapshot

_SST, _BATCH = ".sst", 512
# The file that `rocksdict` adds, and those that RocksDB creates again.
_LEFT_OUT = ("rocksdict-config.json", "LOCK", "LOG")
_NOTHING = ZipMetadata((), shape=ZipShape.PLAIN)


@dataclass(frozen=True, slots=True)
class Fresh:
    """An SST file to write to storage, under a name of its own, before the zip that names it."""

    local: Path
    stored: str
    size: int


@dataclass(frozen=True, slots=True)
class Built:
    """A snapshot that is not in storage yet."""

    version: int
    metadata: ZipMetadata
    members: Mapping[str, bytes]  # RocksDB's small files, for `snapshot_zip.render`
    new: tuple[Fresh, ...]
    reused: tuple[ImmutableFile, ...]  # of the base, named again under their old names
    digest: StateDigest


@dataclass(frozen=True, slots=True)
class Folded:
    """A chain folded into a database, through its pending changes."""

    source: Source
    base: Zip | None
    pending: Pending
    path: str  # the file that errors in its rows name
    stored: int  # bytes of the chain, and of the SST files that it began with
    known: KnownRows | None = None  # if the fold gives the digest and counts of its rows

    @property
    def database(self) -> Database:
        return self.pending.database

    @property
    def like(self) -> Zip | None:
        return self.pending.like

    @property
    def families(self) -> ZipMetadata:
        return self.like.metadata if self.like else _NOTHING

    def further(self, deltas: tuple[Delta, ...]) -> "Folded":
        """Applies the changelogs that follow, and returns the longer chain's fold."""
        if not deltas:
            return self
        size = sum(delta.entry.size for delta in deltas)
        with self.source.fetching(deltas) as near:
            known = self._apply(near, deltas, size)
        return replace(self, path=deltas[-1].entry.path, stored=self.stored + size, known=known)

    def _apply(self, source: Source, deltas: tuple[Delta, ...], size: int) -> KnownRows | None:
        if size < self.pending.limits.compiled or source.row_checksums:
            apply(source, deltas, self.pending)
            return None
        from statemaint.fold.rocksdb.changelog_batch import FastPath  # noqa: PLC0415 -- small runs never pay for it

        return FastPath(source, self.pending).apply(deltas)

    def totals(self, *, named: bool = True) -> RowTotals:
        """Digests and counts all rows; unless `named`, families without a name are accepted."""
        families = self.families if named else _NOTHING
        with in_file(self.path):
            if self.known:
                return self.known.totals(families)
            compiled = self.stored >= self.pending.limits.compiled
            return self.database.totals(self.source.key, families, compiled=compiled)


def build(
    source: Source,
    chains: Sequence[Chain],
    *,
    workdir: Path,
    families_from: Snapshot | None,
    reuse: bool,
    limits: Limits = LIMITS,
) -> tuple[Built, ...]:
    """Folds chains of which each begins the next into the files of their snapshots, in one fold.

    The shortest chain comes first; without a base they start from the empty state. The new files
    stay in `workdir`, an empty directory, until the caller has stored them. The column families and
    merge operator of `families_from` apply to all chains, by default the base's. With `reuse` the
    longest chain's snapshot names unchanged files of the base again: only if nothing deletes them
    before the new zip is seen.
    """
    *shorter, longest = chains
    with begun(source, longest, workdir, families_from, limits=limits) as base:
        fold, made, done = base, [], 0
        with _twin(base, workdir, needed=reuse and bool(shorter)) as database:
            for chain in shorter:
                fold, done = fold.further(chain.deltas[done:]), len(chain.deltas)
                made.append(_saved(fold, chain, workdir, reuse=False))
            base.pending.database = database
            fold = fold.further(longest.deltas[done:])
            made.append(_saved(fold, longest, workdir, reuse=reuse, settle=True))
    return tuple(made)


def build_rows(  # noqa: PLR0913 -- each is a fact of its own
    rows: Iterator[Row],
    version: int,
    source: Source,
    like: Zip | None,
    digest: StateDigest,
    *,
    workdir: Path,
    path: str,
) -> Built:
    """Writes all rows of a version, in the order of their keys, into the files of a snapshot.

    They must have the `digest`, which is not checked. The snapshot gets the column families and
    merge operator of a zip `like` it. The files stay in `workdir`, an empty directory, until the
    caller has stored them; errors name the file at `path`.
    """
    delimiter, counts = like.delimiter if like else None, Counter[bytes]()
    ingested = rows
    if like and like.metadata.families:
        batches = iter(lambda: [*islice(rows, _BATCH)], [])
        ingested = chained.from_iterable(counted(batches, counts))
    with opened(path, workdir, delimiter, create=True) as database:
        database.ingest(ingested)
        known = KnownRows(digest, counts)
        fold = Folded(source, None, Pending(database, like), path, LIMITS.compiled, known)
        return _saved(fold, Chain(version, None, ()), workdir, reuse=False)


@contextmanager
def _twin(fold: Folded, workdir: Path, *, needed: bool) -> Iterator[Database]:
    """Opens the database for the longest chain.

    Each flush makes a file, and a few files are compacted into one that cannot be shared. So if the
    base's files are named again, the files of the shorter chains are kept apart from them.
    """
    if not needed or fold.base is None:
        yield fold.database
    else:
        with fold.database.twin(workdir / "twin") as twin:
            yield twin


def _saved(
    fold: Folded, chain: Chain, workdir: Path, *, reuse: bool, settle: bool = False
) -> Built:
    """Writes a snapshot's files into a directory.

    Only the newest snapshot is compacted: later ones continue with it.
    """
    place = workdir / f"checkpoint-{chain.version}"
    if fold.pending.tagged and fold.like is None:
        what = "a store with column families and no snapshot"
        raise UnsupportedError(fold.path, what, "one that has one")
    totals = fold.totals()
    fold.database.flush()
    if settle:
        fold.database.settle()
    fold.database.checkpoint(place)
    return _built(chain.version, place, fold, totals, reuse=reuse)


@contextmanager
def folded(
    source: Source,
    chain: Chain,
    families_from: Snapshot | None = None,
    *,
    limits: Limits = LIMITS,
) -> Iterator[Folded]:
    """Applies a chain to a database in a directory that is deleted afterwards."""
    with (
        workplace() as workdir,
        begun(source, chain, workdir, families_from, limits=limits) as fold,
    ):
        yield fold.further(chain.deltas)


@contextmanager
def begun(
    source: Source,
    chain: Chain,
    workdir: Path,
    families_from: Snapshot | None = None,
    *,
    limits: Limits = LIMITS,
) -> Iterator[Folded]:
    """Opens a database with the base of a chain."""
    base = read_zip(source, chain.base) if chain.base else None
    like = read_zip(source, families_from) if families_from else base
    if base:
        fetch(source, base, workdir / "db")
    path = base.path if base else chain.paths[-1] if chain.paths else ""
    stored = sum(sst.size for sst in base.metadata.ssts) if base else 0
    stored += chain.base.entry.size if chain.base else 0
    delimiter, create = like.delimiter if like else None, base is None
    with blaming(base), opened(path, workdir, delimiter, create=create) as database:
        yield Folded(source, base, Pending(database, like, limits), path, stored)


def _built(version: int, place: Path, fold: Folded, totals: RowTotals, *, reuse: bool) -> Built:
    files = sorted(place.iterdir())
    ssts = tuple(file for file in files if file.suffix == _SST)
    old = {sst.local: sst for sst in fold.base.metadata.ssts} if fold.base and reuse else {}
    new, reused = [], []
    for file in ssts:
        size = file.stat().st_size
        if file.name in old and old[file.name].size == size:
            reused.append(old[file.name])
        else:
            new.append(Fresh(file, f"{file.stem}-{uuid4()}{_SST}", size))
    named = (*reused, *(ImmutableFile(fresh.local.name, fresh.stored, fresh.size) for fresh in new))
    metadata = replace(
        fold.families,
        ssts=tuple(sorted(named, key=lambda sst: sst.local)),
        logs=(),
        keys=totals.keys,
        internal_keys=totals.internal,
    )
    small = (file for file in files if file.suffix != _SST and file.name not in _LEFT_OUT)
    with temporary_directory():
        members = {file.name: file.read_bytes() for file in small}
    return Built(version, metadata, members, tuple(new), tuple(reused), totals.digest)


# -- behind the engine interface


@dataclass(frozen=True, slots=True)
class RocksEngine:
    """The engine that folds with RocksDB on local disk, in a directory that is deleted afterwards.

    It yields no files: `build` makes those of a snapshot.
    """

    limits: Limits = LIMITS

    def fold(
        self, source: Source, chain: Chain, versions: tuple[int, ...], *, write: bool = True
    ) -> Folding:
        if write:
            raise ValueError("the files of a RocksDB snapshot are made by `build`")
        return Folding(self._pieces(source, chain, versions))

    def _pieces(self, source: Source, chain: Chain, versions: tuple[int, ...]) -> Pieces:
        yield from ()
        return {version: self._digest_at(source, chain, version) for version in versions}

    def _digest_at(self, source: Source, chain: Chain, version: int) -> StateDigest:
        deltas = tuple(delta for delta in chain.deltas if delta.version <= version)
        chain = replace(chain, version=version, deltas=deltas)
        with folded(source, chain, source.families, limits=self.limits) as fold:
            return fold.totals(named=not source.unnamed).digest

    def digest(self, source: Source, path: str) -> StateDigest:
        """Returns the digest of a zip and its SST files, read back whole.

        The number of keys must be the zip's. Only in a store with column families it may differ:
        Spark 4.3 still counts the keys of a deleted range, and 4.0 counts the keys of internal
        families among the others on replay.
        """
        chain = Chain(0, Snapshot(0, Entry(path, 0, None)), ())
        with folded(source, chain, limits=self.limits) as fold:
            totals, metadata = fold.totals(), fold.families
        if not metadata.families and 0 <= metadata.keys != totals.keys:
            text = f"it holds {totals.keys} keys and records {metadata.keys}"
            raise CodecError(text, offset=0, path=path)
        return totals.digest

    def check(self, source: Source, delta: Delta) -> frozenset[int]:
        path = delta.entry.path
        with in_file(path):
            return families_used(*decoded(source, path))
