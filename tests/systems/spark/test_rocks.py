"""RocksDB: we fold what Spark wrote to what Spark reads, and Spark reads what we built.

By Spark's own RocksDB class, below its rows: lists are merged, ranges deleted, and snapshots hold
operands that RocksDB has not merged yet.
"""

import re
import shutil
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from pyspark.sql import SparkSession

from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.integrity.row_checksum import bare_row
from statemaint.errors import CodecError
from statemaint.fold import Source
from statemaint.fold.rocksdb import RocksEngine, build
from statemaint.fold.rocksdb.database import opened
from statemaint.fold.rocksdb.fetch import fetch, read_zip
from statemaint.model.chain import Chain
from statemaint.model.files import Delta, Snapshot
from statemaint.storage import LocalStorage
from tests.support.rocks_stores import KEY, STORE, State, rows_of, store
from tests.support.spark_rocks import SparkRocks

_STATE = "spark.sql.streaming.stateStore"
VERSIONS = 9
CONF = {f"{_STATE}.minDeltasForSnapshot": "3"}


@dataclass(frozen=True)
class Written:
    """A store that Spark wrote, and what Spark read of each version."""

    root: Path
    conf: Mapping[str, str]
    families: Mapping[str, int]
    rows: Mapping[int, State]

    @property
    def source(self) -> Source:
        checked = self.conf.get(f"{_STATE}.rowChecksum.enabled") == "true"
        return Source(LocalStorage(self.root), COMPRESSIONS["lz4"], checked, KEY)

    def files(self, suffix: str) -> dict[int, Path]:
        found = (self.root / STORE).iterdir()
        names = [path for path in found if re.fullmatch(rf"[0-9]+\.{suffix}", path.name)]
        return {int(path.stem): path for path in names}

    def snapshot(self, version: int) -> Snapshot:
        return Snapshot(version, self.source.storage.stat(f"{STORE}/{version}.zip"))

    def chain(self, version: int, start: int) -> Chain:
        stat = self.source.storage.stat
        numbers = range(start + 1, version + 1)
        deltas = tuple(Delta(one, stat(f"{STORE}/{one}.changelog")) for one in numbers)
        return Chain(version, self.snapshot(start) if start else None, deltas)


# The merge operator's version, and whether rows have checksums.
CASES = [("1", "false"), ("2", "false"), ("2", "true")]


@pytest.fixture(scope="module", params=CASES, ids=["delimiter", "no delimiter", "row checksums"])
def written(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Written:
    root = tmp_path_factory.mktemp("rocks")
    operator, checked = request.param
    conf = {
        **CONF,
        f"{_STATE}.rocksdb.mergeOperatorVersion": operator,
        f"{_STATE}.rowChecksum.enabled": checked,
    }
    spark_rocks, rng, rows = SparkRocks(spark, root, conf), Random(1), {}  # noqa: S311
    spark_rocks.load(0)
    families = {name: spark_rocks.family(name) for name in ("default", "list")}
    families["$count"] = spark_rocks.family("$count", internal=True)
    for version in range(1, VERSIONS + 1):
        change(spark_rocks, rng, version)
        spark_rocks.commit()
        spark_rocks.load(version)
        rows[version] = spark_rocks.rows(families)
    spark_rocks.close()
    return Written(root, conf, families, rows)


def change(rocks: SparkRocks, rng: Random, version: int) -> None:
    def key() -> bytes:
        return b"\0key%02d" % rng.randrange(12)

    for number in range(6):
        rocks.put(key(), b"\0value %d of %d" % (number, version))
        rocks.merge(key(), b"<%d of %d>" % (number, version), "list")
    rocks.remove(key())
    rocks.remove(key(), "list")
    rocks.put(key(), b"[first of %d]" % version, "list")
    rocks.put(key(), b"\0%d" % version, "$count")
    if version % 3 == 0:
        rocks.delete_range(b"\0key03", b"\0key06", "list")
        rocks.merge(b"\0key04", b"<after>", "list")


@pytest.fixture
def workdir() -> Iterator[Path]:
    with TemporaryDirectory() as place:
        yield Path(place)


def test_from_every_snapshot_each_version_folds_to_what_spark_reads(written: Written) -> None:
    zips = written.files("zip")
    assert len(zips) >= 3
    for version, expected in written.rows.items():
        for start in [one for one in zips if one <= version]:
            found = rows_of(written.source, written.chain(version, start))
            assert bare(written, found) == expected, (version, start)


def test_spark_s_snapshots_hold_operands_that_only_the_operator_merges(
    written: Written, workdir: Path
) -> None:
    first = read_zip(written.source, written.snapshot(1))
    fetch(written.source, first, workdir / "db")
    with (
        opened(first.path, workdir, None) as database,
        pytest.raises(CodecError, match="merge_operator_ must be set"),
    ):
        deque(database.rows(), maxlen=0)


def bare(written: Written, rows: State) -> State:
    """Returns rows as Spark hands them out: without checksums."""
    if not written.source.row_checksums:
        return rows
    return {key: b"".join(entries(key, value)) for key, value in rows.items()}


def entries(key: bytes, value: bytes) -> Iterator[bytes]:
    """Yields what a value holds, each entry behind its checksum and its length."""
    while value:
        size = 8 + int.from_bytes(value[4:8], "little")
        yield bare_row(key, value[:size], offset=0)
        value = value[size:]


def test_spark_reads_what_we_built_and_goes_on_with_it(
    written: Written, spark: SparkSession, tmp_path: Path
) -> None:
    root = tmp_path / "copy"
    shutil.copytree(written.root, root)
    ours = Written(root, written.conf, written.families, written.rows)
    for version in sorted(ours.files("zip"))[1:]:
        (root / STORE / f"{version}.zip").unlink()
        (root / STORE / f".{version}.zip.crc").unlink()
    for version, start, reuse in ((4, 1, True), (6, 4, False), (VERSIONS, 6, True)):
        publish(ours, version, start, reuse=reuse)
    for version in range(4):
        (root / STORE / f"{version}.changelog").unlink(missing_ok=True)
    for version in (4, 5, 6, 8, VERSIONS):
        rocks = SparkRocks(spark, root, written.conf)
        rocks.load(version)
        assert rocks.rows(written.families) == written.rows[version], version
        rocks.close()
    go_on(ours, spark)


def publish(ours: Written, version: int, start: int, *, reuse: bool) -> None:
    chain = ours.chain(version, start)
    with TemporaryDirectory() as place:
        (built,) = build(ours.source, [chain], workdir=Path(place), families_from=None, reuse=reuse)
        snapshot = store(ours.source, built)
        assert RocksEngine().digest(ours.source, snapshot.entry.path) == built.digest


def go_on(ours: Written, spark: SparkSession) -> None:
    """Spark builds further snapshots on ours, and we fold what comes of it."""
    rocks, rng, rows = SparkRocks(spark, ours.root, ours.conf), Random(2), {}  # noqa: S311
    last = VERSIONS + 4
    for version in range(VERSIONS + 1, last + 1):
        rocks.load(version - 1)
        change(rocks, rng, version)
        rocks.commit()
    rocks.load(last)
    rows = rocks.rows(ours.families)
    rocks.close()
    theirs = max(ours.files("zip"))
    assert theirs > VERSIONS
    for start in (VERSIONS, theirs):
        assert bare(ours, rows_of(ours.source, ours.chain(last, start))) == rows
