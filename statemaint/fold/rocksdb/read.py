"""Reading back: snapshots with all their rows, chains without writing them, and changelogs."""

from pathlib import Path

from statemaint.codec.integrity.digest import StateDigest
from statemaint.codec.rocksdb.changelog import families_used
from statemaint.codec.rocksdb.snapshot_zip import ZipMetadata
from statemaint.errors import CodecError
from statemaint.fold.rocksdb.changes import decoded, named
from statemaint.fold.rocksdb.sums import LIMITS, Found, Limits
from statemaint.fold.rocksdb.write import folded
from statemaint.fold.source import Source
from statemaint.model.chain import Chain
from statemaint.model.files import Delta, Snapshot


def digest(
    source: Source, snapshot: Snapshot, *, workdir: Path, limits: Limits = LIMITS
) -> StateDigest:
    """Returns the digest of a snapshot: its zip and SST files, read back from storage whole.

    Args:
        source: the files of the snapshot's store.
        snapshot: the snapshot.
        workdir: an empty directory for the copies.
        limits: the thresholds between ways of working.

    Raises:
        MissingSstError: when an SST file does not exist.
        CodecError: naming the file, when one is damaged, or the zip records another number of rows.
        StaleChecksumError: when a checksum file does not match its file.
        StorageError: when a file cannot be read, or the temporary directory fails.
    """
    chain = Chain(snapshot.version, snapshot, ())
    with folded(source, chain, workdir, limits=limits) as fold:
        totals = fold.found()
    _must_count(snapshot.entry.path, fold.families, totals)
    return totals.digest


def state(
    source: Source,
    chain: Chain,
    *,
    workdir: Path,
    families_from: Snapshot | None = None,
    limits: Limits = LIMITS,
) -> StateDigest:
    """Returns the digest of the state that a chain folds to; no files are kept.

    Args:
        source: the files of the chain's store.
        chain: the chain to fold.
        workdir: an empty directory.
        families_from: a snapshot whose merge operator applies, if the chain has no base.
        limits: the thresholds between ways of working.

    Raises:
        MissingSstError, CodecError, StaleChecksumError, StorageError: as `build` does.
    """
    with folded(source, chain, workdir, families_from, limits=limits) as fold:
        return fold.digest() if source.unnamed else fold.found().digest


def check(source: Source, delta: Delta) -> frozenset[int]:
    """Reads a changelog whole, and returns the column families that it needs a zip to name.

    Raises:
        StaleChecksumError: when its checksum file does not match it.
    """
    with named(delta.entry.path):
        return families_used(*decoded(source, delta))


def _must_count(path: str, metadata: ZipMetadata, totals: Found) -> None:
    """Compares the number of keys with the zip's, if that can be trusted.

    It cannot be trusted in a store with column families: Spark 4.3 still counts the keys of a
    deleted range, and 4.0 counts the keys of internal families among the others on replay.
    """
    if not metadata.families and 0 <= metadata.keys != totals.keys:
        text = f"it holds {totals.keys} keys and records {metadata.keys}"
        raise CodecError(text, offset=0, path=path)
