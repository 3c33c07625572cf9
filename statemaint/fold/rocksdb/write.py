"""From a chain to the files of a snapshot."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain as chained
from pathlib import Path
from uuid import uuid4

from statemaint.codec.integrity.digest import StateDigest
from statemaint.codec.rocksdb.snapshot_zip import ImmutableFile, ZipMetadata, ZipShape
from statemaint.errors import UnsupportedError, in_file
from statemaint.fold.rocksdb.changes import Pending, apply
from statemaint.fold.rocksdb.database import Database, Row, opened
from statemaint.fold.rocksdb.fetch import Zip, blaming, fetch, read_zip
from statemaint.fold.rocksdb.sums import LIMITS, Found, KnownRows, Limits, count_all, digest_all
from statemaint.fold.source import Source
from statemaint.fold.temporary import temporary_directory, workplace
from statemaint.model.chain import Chain
from statemaint.model.files import Delta, Snapshot

_SST = ".sst"
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
    """A snapshot that is not in storage yet.

    Attributes:
        version: the state version that it holds.
        metadata: the metadata of its zip.
        members: RocksDB's small files, for `snapshot_zip.render`.
        new: the SST files to write.
        reused: the SST files of the base that it names again, under their old names.
        digest: the digest of all its rows.
    """

    version: int
    metadata: ZipMetadata
    members: Mapping[str, bytes]
    new: tuple[Fresh, ...]
    reused: tuple[ImmutableFile, ...]
    digest: StateDigest


@dataclass(frozen=True, slots=True)
class Folded:
    """A chain folded into a database.

    Attributes:
        source: the files of the chain's store.
        database: the database with all rows.
        base: the zip that it began with.
        pending: the receiver of the changes before they are written to the database.
        path: the file that errors in its rows name.
        stored: the stored bytes of the chain, and of the SST files that it began with.
        known: the digest and counts of its rows, if they are known from the fold.
        limits: the thresholds between ways of working.
    """

    source: Source
    database: Database
    base: Zip | None
    pending: Pending
    path: str
    stored: int
    known: KnownRows | None
    limits: Limits

    @property
    def like(self) -> Zip | None:
        """Returns the zip that names the column families; `None` if there is none."""
        return self.pending.like

    @property
    def families(self) -> ZipMetadata:
        return self.like.metadata if self.like else _NOTHING

    def further(self, deltas: tuple[Delta, ...]) -> "Folded":
        """Applies the changelogs that follow, and returns the longer chain's fold."""
        if not deltas:
            return self
        with self.source.fetching(deltas) as near:
            known = _apply(near, deltas, self.pending, self.database, self.limits)
        stored = self.stored + sum(delta.entry.size for delta in deltas)
        return replace(self, path=deltas[-1].entry.path, stored=stored, known=known)

    def on(self, database: Database) -> "Folded":
        """Returns the same fold in a database with the same changes."""
        self.pending.database = database
        return replace(self, database=database)

    def found(self) -> Found:
        return self._found(self.families)

    def digest(self) -> StateDigest:
        """Returns the digest of all its rows, whether or not their families have names."""
        return self._found(_NOTHING).digest

    def _found(self, families: ZipMetadata) -> Found:
        with in_file(self.path):
            if self.known:
                return count_all(self.known, families)
            compiled = self.stored >= self.limits.compiled
            rows = self.database.rows()
            return digest_all(rows, self.source.key, families, compiled=compiled)

    def must_know_families(self) -> None:
        """Raises `UnsupportedError` when there are column families, and no zip names them."""
        if self.pending.tagged and self.like is None:
            raise UnsupportedError(
                self.path, "a store with column families and no snapshot", "one that has one"
            )


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

    Args:
        source: the files of the chains' store.
        chains: the chains, the shortest first; without a base they start from the empty state.
        workdir: an empty directory, in which the new files stay until the caller has stored them.
        families_from: the snapshot whose column families and merge operator apply to all of them;
            `None`: the base's.
        reuse: let the longest chain's snapshot name files of the base again if they have not
            changed. Set it only if nothing deletes them before the new zip is seen.
        limits: the thresholds between ways of working.

    Raises:
        MissingSstError: when an SST file of the base does not exist.
        UnsupportedError: when there are column families, and no zip names them.
        StaleChecksumError: when a checksum file does not match the file beside it.
    """
    *shorter, longest = chains
    with begun(source, longest, workdir, families_from, limits=limits) as base:
        fold, made, done = base, [], 0
        with _twin(base, workdir, needed=reuse and bool(shorter)) as database:
            for chain in shorter:
                fold, done = fold.further(chain.deltas[done:]), len(chain.deltas)
                made.append(_saved(fold, chain, workdir, reuse=False))
            fold = fold.on(database).further(longest.deltas[done:])
            made.append(_saved(fold, longest, workdir, reuse=reuse, settle=True))
    return tuple(made)


def build_rows(
    rows: Iterator[Row], version: int, source: Source, like: Zip | None, *, workdir: Path, path: str
) -> Built:
    """Writes rows, in the order of their keys, into the files of a snapshot.

    Args:
        rows: all rows, each key once, as they are stored.
        version: the state version that they are.
        source: gives the key of the digest.
        like: the zip whose column families and merge operator it gets.
        workdir: an empty directory, in which the files stay until the caller has stored them.
        path: the file that errors name.
    """
    delimiter = like.delimiter if like else None
    with opened(path, workdir, delimiter, create=True) as database:
        if first := next(rows, None):
            database.ingest(chained((first,), rows))
        pending = Pending(database, like, held=LIMITS.held)
        fold = Folded(source, database, None, pending, path, LIMITS.compiled, None, LIMITS)
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
    fold.must_know_families()
    totals = fold.found()
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
    """Applies a chain to a database in a directory that is deleted afterwards.

    Raises the same errors as `build`.
    """
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
    """Opens a database with the base of a chain; raises the same errors as `build`."""
    base = read_zip(source, chain.base) if chain.base else None
    like = read_zip(source, families_from) if families_from else base
    if base:
        fetch(source, base, workdir / "db")
    path = base.path if base else chain.paths[-1] if chain.paths else ""
    stored = sum(sst.size for sst in base.metadata.ssts) if base else 0
    stored += chain.base.entry.size if chain.base else 0
    delimiter = like.delimiter if like else None
    with (
        blaming(base),
        opened(path, workdir, delimiter, create=base is None) as database,
    ):
        pending = Pending(database, like, held=limits.held)
        yield Folded(source, database, base, pending, path, stored, None, limits)


def _apply(
    source: Source,
    deltas: tuple[Delta, ...],
    pending: Pending,
    database: Database,
    limits: Limits,
) -> KnownRows | None:
    """Applies changelogs; returns the digest and counts of all rows afterwards, if known."""
    size = sum(delta.entry.size for delta in deltas)
    if size < limits.compiled or source.row_checksums:
        apply(source, deltas, pending)
        return None
    from statemaint.fold.rocksdb.changelog_batch import FastPath  # noqa: PLC0415 -- small runs never pay for it

    fast = FastPath(source, pending, database, held=limits.held)
    fast.apply(deltas)
    return fast.known


def _built(version: int, place: Path, fold: Folded, totals: Found, *, reuse: bool) -> Built:
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
    named = (*reused, *(ImmutableFile(one.local.name, one.stored, one.size) for one in new))
    metadata = replace(
        fold.families,
        ssts=tuple(sorted(named, key=lambda sst: sst.local)),
        logs=(),
        keys=totals.keys,
        internal_keys=totals.internal,
    )
    return Built(version, metadata, _members(files), tuple(new), tuple(reused), totals.digest)


def _members(files: list[Path]) -> dict[str, bytes]:
    with temporary_directory():
        return {
            file.name: file.read_bytes()
            for file in files
            if file.suffix != _SST and file.name not in _LEFT_OUT
        }
