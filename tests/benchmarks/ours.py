"""All that the benchmarks know of the engine that they measure: change its API, change this."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from statemaint.codec.compression.base import encode
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.hdfs import records as hdfs_records
from statemaint.codec.integrity.digest import digest
from statemaint.codec.rocksdb import snapshot_zip
from statemaint.fold import Source, engine_for
from statemaint.fold import rocksdb as rocks
from statemaint.maintain import maintain
from statemaint.model.chain import Chain, Versions
from statemaint.model.files import Delta, Snapshot, classify
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from statemaint.savepoint import savepoint
from statemaint.storage import LocalStorage, MemoryStorage
from statemaint.workers import Workers

# One snapshot a store, of the target version; the default grace then leaves every file in place.
_POLICY = Policy(min_deltas_for_snapshot=1, rebase=False)
_KEY = bytes(16)
_PIECE = 1024 * 1024


def import_all() -> None:
    """Imports what the engine otherwise imports only when there is much to do."""
    import statemaint.fold.compiled.engine  # noqa: F401, PLC0415


def load_loops() -> None:
    """Loads the compiled loops of HDFS-backed stores, by a fold of two rows."""
    storage, lz4 = MemoryStorage(), COMPRESSIONS["lz4"]
    records = b"".join(hdfs_records.encode([(b"one", b"1"), (b"two", b"2")]))
    snapshot = Snapshot(1, storage.write("1.snapshot", encode(lz4, [records])))
    delta = Delta(2, storage.write("2.delta", encode(lz4, [records])))
    source = Source(storage, lz4, row_checksums=False, key=_KEY)
    engine = engine_for(1 << 30)
    for _ in engine.fold(source, Chain(2, snapshot, (delta,)), (2, 1)):
        pass
    engine.digest(source, "1.snapshot")


def fold_and_write(root: Path, version: int) -> None:
    """Folds a version of partition 0's store and writes its snapshot, in the calling thread."""
    source = _source(root)
    chain = _chain(source, version)
    chunks = engine_for(chain.size).fold(source, chain, (version,))
    source.storage.write(_snapshot(version), (chunk for _, chunk in chunks))


def maintain_all(root: Path, workers: Workers | None = None) -> int:
    """Maintains a checkpoint, and returns how many snapshots were written and proved."""
    report = maintain(LocalStorage(root), _POLICY, workers=workers)
    if report.exit_code or report.bytes_deleted:
        raise RuntimeError(report)
    return report.snapshots_written


def save(root: Path) -> None:
    """Makes a savepoint beside a checkpoint, and deletes it."""
    with TemporaryDirectory(dir=root.parent) as place:
        savepoint(LocalStorage(root), LocalStorage(Path(place, "savepoint")))


def digest_of(root: Path, version: int) -> str:
    """Returns the rows, bytes and digest of a snapshot of partition 0's store."""
    source, path = _source(root), _snapshot(version)
    size = source.storage.stat(path).size
    return str(engine_for(size).digest(source, path))


def write_rocks(root: Path, version: int, workdir: Path) -> str:
    """Folds the changelogs of partition 0's store and writes its zip and SST files.

    Returns:
        The rows, bytes and digest of the state.
    """
    source, folder = _source(root), StoreId(0, 0).directory
    chain = Chain(version, None, _changelogs(source, version))
    (built,) = rocks.build(source, [chain], workdir=workdir, families_from=None, reuse=False)
    for fresh in built.new:
        with fresh.local.open("rb") as stream:
            pieces = iter(partial(stream.read, _PIECE), b"")
            source.storage.write(f"{folder}/SSTs/{fresh.stored}", pieces)
    content = snapshot_zip.render(built.members, built.metadata)
    source.storage.write(f"{folder}/{version}.zip", [content])
    return str(built.digest)


def rocks_digest(root: Path, version: int) -> str:
    """Returns the rows, bytes and digest of a zip of partition 0's store, read back whole."""
    path = f"{StoreId(0, 0).directory}/{version}.zip"
    return str(rocks.RocksEngine().digest(_source(root), path))


def _changelogs(source: Source, version: int) -> tuple[Delta, ...]:
    folder = StoreId(0, 0).directory
    paths = (f"{folder}/{number}.changelog" for number in range(1, version + 1))
    return tuple(Delta(number, source.storage.stat(path)) for number, path in enumerate(paths, 1))


def digest_rows(rows: Iterable[tuple[bytes, bytes]]) -> str:
    """Returns the same of some rows, in plain Python."""
    return str(digest(rows, _KEY))


def _source(root: Path) -> Source:
    return Source(LocalStorage(root), COMPRESSIONS["lz4"], row_checksums=False, key=_KEY)


def _chain(source: Source, version: int) -> Chain:
    files = [classify(entry) for entry in source.storage.list(StoreId(0, 0).directory)]
    chain = Versions.of(files).chain(version)
    if not isinstance(chain, Chain):
        raise TypeError(chain)
    return chain


def _snapshot(version: int) -> str:
    return f"{StoreId(0, 0).directory}/{version}.snapshot"
