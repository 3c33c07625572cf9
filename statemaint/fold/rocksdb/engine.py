"""RocksDB behind the engine interface: digests of chains and zips, and changelogs read whole."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from statemaint.codec.integrity.digest import StateDigest
from statemaint.fold.rocksdb import read
from statemaint.fold.source import Folding, Pieces, Source
from statemaint.fold.temporary import temporary_directory
from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.files import Delta, Snapshot


class RocksEngine:
    """The engine that folds with RocksDB on local disk, in a directory that is deleted afterwards.

    It yields no files: `build` makes those of a snapshot.
    """

    def fold(
        self, source: Source, chain: Chain, versions: tuple[int, ...], *, write: bool = True
    ) -> Folding:
        """Returns a fold that has a digest of each version of a chain, and no pieces.

        Raises:
            ValueError: when `write` is set.
        """
        if write:
            raise ValueError("the files of a RocksDB snapshot are made by `build`")
        return Folding(self._pieces(source, chain, versions))

    def digest(self, source: Source, path: str) -> StateDigest:
        """Returns the digest of a zip and its SST files, read back whole."""
        with workplace() as place:
            return read.digest(source, Snapshot(0, Entry(path, 0, None)), workdir=place)

    def check(self, source: Source, path: str) -> frozenset[int]:
        """Reads a changelog whole, and returns the column families that it needs a zip to name."""
        return read.check(source, Delta(0, Entry(path, 0, None)))

    def _pieces(self, source: Source, chain: Chain, versions: tuple[int, ...]) -> Pieces:
        yield from ()
        return {version: self._state(source, _up_to(chain, version)) for version in versions}

    def _state(self, source: Source, chain: Chain) -> StateDigest:
        with workplace() as place:
            return read.state(source, chain, workdir=place, families_from=source.families)


@contextmanager
def workplace() -> Iterator[Path]:
    """Yields a directory on local disk that is deleted at the end of the block."""
    with temporary_directory():
        place = TemporaryDirectory(prefix="statemaint-", ignore_cleanup_errors=True)
    with place as path:
        yield Path(path)


def _up_to(chain: Chain, version: int) -> Chain:
    deltas = tuple(delta for delta in chain.deltas if delta.version <= version)
    return replace(chain, version=version, deltas=deltas)
