"""RocksDB behind the engine interface: digests of chains and zips, and changelogs read whole."""

from dataclasses import dataclass, replace

from statemaint.codec.integrity.digest import StateDigest
from statemaint.codec.rocksdb.changelog import families_used
from statemaint.codec.rocksdb.snapshot_zip import ZipMetadata
from statemaint.errors import CodecError, in_file
from statemaint.fold.rocksdb.changes import decoded
from statemaint.fold.rocksdb.sums import LIMITS, Found, Limits
from statemaint.fold.rocksdb.write import folded
from statemaint.fold.source import Folding, Pieces, Source
from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.files import Snapshot


@dataclass(frozen=True, slots=True)
class RocksEngine:
    """The engine that folds with RocksDB on local disk, in a directory that is deleted afterwards.

    It yields no files: `build` makes those of a snapshot.
    """

    limits: Limits = LIMITS

    def fold(
        self, source: Source, chain: Chain, versions: tuple[int, ...], *, write: bool = True
    ) -> Folding:
        """Returns a fold that has a digest of each version of a chain, and no pieces."""
        if write:
            raise ValueError("the files of a RocksDB snapshot are made by `build`")
        return Folding(self._pieces(source, chain, versions))

    def _pieces(self, source: Source, chain: Chain, versions: tuple[int, ...]) -> Pieces:
        yield from ()
        return {version: self._state(source, _up_to(chain, version)) for version in versions}

    def _state(self, source: Source, chain: Chain) -> StateDigest:
        with folded(source, chain, source.families, limits=self.limits) as fold:
            return fold.digest() if source.unnamed else fold.found().digest

    def digest(self, source: Source, path: str) -> StateDigest:
        """Returns the digest of a zip and its SST files, read back whole.

        Raises:
            MissingSstError: when an SST file does not exist.
            CodecError: when a file is damaged, or the zip records another number of rows.
        """
        chain = Chain(0, Snapshot(0, Entry(path, 0, None)), ())
        with folded(source, chain, limits=self.limits) as fold:
            totals = fold.found()
        _must_count(path, fold.families, totals)
        return totals.digest

    def check(self, source: Source, path: str) -> frozenset[int]:
        """Reads a changelog whole, and returns the column families that it needs a zip to name."""
        with in_file(path):
            return families_used(*decoded(source, path))


def _up_to(chain: Chain, version: int) -> Chain:
    deltas = tuple(delta for delta in chain.deltas if delta.version <= version)
    return replace(chain, version=version, deltas=deltas)


def _must_count(path: str, metadata: ZipMetadata, totals: Found) -> None:
    """Compares the number of keys with the zip's, if that can be trusted.

    It cannot be trusted in a store with column families: Spark 4.3 still counts the keys of a
    deleted range, and 4.0 counts the keys of internal families among the others on replay.
    """
    if not metadata.families and 0 <= metadata.keys != totals.keys:
        text = f"it holds {totals.keys} keys and records {metadata.keys}"
        raise CodecError(text, offset=0, path=path)
