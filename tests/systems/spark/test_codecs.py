"""Every codec, and row checksums: we read what Spark wrote, and Spark reads what we wrote."""

import hashlib
import io
import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from statemaint.codec.compression import base as compression
from statemaint.codec.compression.base import Compression
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.hdfs import records
from statemaint.codec.hdfs.records import Record
from statemaint.codec.integrity import row_checksum
from statemaint.scan.scanner import scan
from statemaint.storage import LocalStorage
from tools.demo.session import retained_batches

STATE = "spark.sql.streaming.stateStore"
BATCHES = 5
LARGE = 150_000


@dataclass(frozen=True)
class Ran:
    """A query that ran with some codec: where, and what Spark reads of each of its batches."""

    root: Path
    codec: Compression
    row_checksums: bool
    rows: dict[int, list[str]]

    @property
    def store(self) -> Path:
        return self.root / "checkpoint/state/0/0"

    def read(self, path: Path) -> list[Record]:
        chunks = compression.decode(self.codec, io.BytesIO(path.read_bytes()))
        return list(records.decode(chunks, row_checksums=self.row_checksums))


CASES = [(name, False) for name in COMPRESSIONS] + [("lz4", True), ("zstd", True)]
Read = Callable[[Path, Iterable[int]], dict[int, list[str]]]


@pytest.fixture(scope="module")
def read(spark: SparkSession) -> Read:
    """One Spark job for all batches: most of a small read is the cost of starting one."""

    def state(root: Path, batch: int) -> DataFrame:
        reader = spark.read.format("statestore").option("batchId", batch)
        rows = reader.load(str(root / "checkpoint"))
        return rows.select(f.lit(batch).alias("batch"), f.to_json(f.struct("*")).alias("row"))

    def rows(root: Path, batches: Iterable[int]) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {batch: [] for batch in batches}
        for row in reduce(DataFrame.union, (state(root, batch) for batch in found)).collect():
            found[row["batch"]].append(row["row"])
        return {batch: sorted(lines) for batch, lines in found.items()}

    return rows


@pytest.fixture(
    scope="module", params=CASES, ids=lambda case: case[0] + (" checked" if case[1] else "")
)
def ran(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    read: Read,
    tmp_path_factory: pytest.TempPathFactory,
) -> Ran:
    name, row_checksums = request.param
    root = tmp_path_factory.mktemp(name)
    write_input(root / "input")
    run_query(spark, root, {"compression.codec": name, "rowChecksum.enabled": str(row_checksums)})
    rows = read(root, retained_batches(root / "checkpoint"))
    return Ran(root, COMPRESSIONS[name], row_checksums, rows)


@pytest.fixture
def copy(ran: Ran, tmp_path: Path) -> Ran:
    """The same query in a place where its files may be changed."""
    root = tmp_path / "copy"
    shutil.copytree(ran.root, root)
    return Ran(root, ran.codec, ran.row_checksums, ran.rows)


def write_input(folder: Path) -> None:
    """Writes a file a batch: many small rows, and one that is larger than any block."""
    folder.mkdir()
    for batch in range(BATCHES):
        rows = [row(batch, number, text(number, 40)) for number in range(1500)]
        large = [row(batch, 1500, text(batch, LARGE))]
        lines = [json.dumps(one) for one in rows + large]
        (folder / f"{batch}.json").write_text("\n".join(lines))


def row(batch: int, number: int, words: str) -> dict[str, object]:
    return {"key": f"key-{number}", "at": f"2024-01-01 00:{batch:02}:00", "text": words}


def text(seed: int, size: int) -> str:
    return hashlib.shake_128(str(seed).encode()).hexdigest(size // 2)


def run_query(spark: SparkSession, root: Path, conf: dict[str, str]) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    for name, value in conf.items():
        session.conf.set(f"{STATE}.{name}", value)
    stream = session.readStream.schema("key string, at timestamp, text string")
    events = stream.option("maxFilesPerTrigger", 1).json(str(root / "input"))
    counts = (
        events.withWatermark("at", "1 minute")
        .groupBy(f.window("at", "1 minute"), "key")
        .agg(f.count("*"), f.max("text"))
    )
    writer = counts.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
    writer.option("checkpointLocation", str(root / "checkpoint")).start().awaitTermination()


def test_scan_knows_how_the_state_is_stored(ran: Ran) -> None:
    found = scan(LocalStorage(ran.root / "checkpoint"))
    assert (found.codec, found.row_checksums) == (ran.codec.name, ran.row_checksums)
    assert found.findings == ()


def deltas(ran: Ran) -> Iterator[Path]:
    yield from sorted(ran.store.glob("[0-9]*.delta"), key=lambda path: int(path.stem))


def test_we_read_every_delta_and_write_the_same_records(ran: Ran) -> None:
    found = list(deltas(ran))
    assert len(found) >= BATCHES
    for path in found:
        stored = path.read_bytes()
        payload = b"".join(compression.decode(ran.codec, io.BytesIO(stored)))
        assert b"".join(records.encode(sealed(ran, path))) == payload
        ours = b"".join(compression.encode(ran.codec, [payload]))
        assert b"".join(compression.decode(ran.codec, io.BytesIO(ours))) == payload


def sealed(ran: Ran, path: Path) -> Iterator[Record]:
    """Yields a delta's records; a removal lost its checksum when it was read."""
    for key, value in ran.read(path):
        again = value is None and ran.row_checksums
        yield row_checksum.seal((key, None)) if again else (key, value)


def test_the_query_made_what_the_other_tests_rely_on(ran: Ran) -> None:
    found = [one for path in deltas(ran) for one in ran.read(path)]
    assert any(value is None for _, value in found)
    assert any(value is not None and len(value) > LARGE for _, value in found)


def test_our_blocks_are_as_large_as_sparks(ran: Ran) -> None:
    if ran.codec.name == "zstd":
        return
    stored = next(deltas(ran)).read_bytes()
    payload = b"".join(compression.decode(ran.codec, io.BytesIO(stored)))
    ours = b"".join(compression.encode(ran.codec, [payload]))
    assert block_sizes(ran.codec, ours) == block_sizes(ran.codec, stored)
    assert len(block_sizes(ran.codec, ours)) > 4


def block_sizes(codec: Compression, stored: bytes) -> list[int]:
    return [len(block.payload) for block in codec.blocks(io.BytesIO(stored))]


@pytest.mark.parametrize("version", [1, 3, 5])
def test_spark_reads_our_snapshot_in_place_of_deltas(copy: Ran, read: Read, version: int) -> None:
    write_snapshot(copy, version)
    expected = {batch: rows for batch, rows in copy.rows.items() if batch + 1 >= version}
    assert all(expected.values())
    assert read(copy.root, expected) == expected


def test_spark_reads_our_deltas_in_place_of_its_own(copy: Ran, read: Read) -> None:
    for path in deltas(copy):
        content = b"".join(compression.encode(copy.codec, records.encode(sealed(copy, path))))
        path.write_bytes(content)
        path.with_name(f".{path.name}.crc").unlink()
    newest = max(copy.rows)
    assert read(copy.root, [newest]) == {newest: copy.rows[newest]}


def test_spark_runs_on_from_our_snapshot(copy: Ran, spark: SparkSession, read: Read) -> None:
    write_snapshot(copy, max(copy.rows) + 1)
    # The source knows files by their whole path, so those of the copy would all be new.
    shutil.rmtree(copy.root / "input")
    (copy.root / "input").mkdir()
    more = json.dumps(row(BATCHES, 0, "more"))
    (copy.root / "input" / f"{BATCHES}.json").write_text(more)
    run_query(spark, copy.root, {})
    newest = max(retained_batches(copy.root / "checkpoint"))
    assert newest > max(copy.rows)
    assert any('"more"' in one for one in read(copy.root, [newest])[newest])


def write_snapshot(ran: Ran, version: int) -> None:
    """Folds the deltas up to a version to a snapshot, and deletes them."""
    state: dict[bytes, bytes] = {}
    for path in [path for path in deltas(ran) if int(path.stem) <= version]:
        records.apply(state, ran.read(path))
        path.unlink()
    chunks = compression.encode(ran.codec, records.encode(state.items()))
    (ran.store / f"{version}.snapshot").write_bytes(b"".join(chunks))
