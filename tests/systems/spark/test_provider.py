"""The provider and its codecs against Spark: both read and write the same bytes."""

import json
import math
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from statemaint.audit import verify
from statemaint.codec.metadata.schema import parse_schema
from statemaint.codec.rows.murmur3 import hash_row, partition_of_row
from statemaint.codec.rows.types import parse_struct
from statemaint.codec.rows.unsafe_write import RowWriter, encode_row, prefix_of
from statemaint.errors import ConfigError
from statemaint.model.ids import StoreId
from statemaint.provider import (
    Bootstrapped,
    HDFSBackedStateStoreProvider,
    LiveCheckpointError,
    StateStoreConf,
    bootstrap,
)
from statemaint.storage import LocalStorage
from tests.support.program import run
from tests.support.spark_providers import SparkProvider
from tests.systems.spark.conftest import RunOn
from tools.demo.pipeline import output_rows
from tools.demo.session import retained_batches

Bytes = tuple[bytes, bytes]
NOON = datetime(2026, 11, 21, 12, 30, 0, 123456, tzinfo=UTC)
WIDE = Context(prec=38)
BIG = Decimal("-12345678901234567890123456.78")

# Each a schema of Spark's, and rows of it.
ROWS: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "primitives": (
        "a BOOLEAN, b BYTE, c SHORT, d INT, e LONG, f FLOAT, g DOUBLE",
        [
            (True, 127, -32768, 2**31 - 1, -(2**63), 1.5, -2.25),
            (False, -128, 32767, -(2**31), 2**63 - 1, -0.0, -0.0),
            (None, None, None, None, None, None, None),
            (True, 0, 0, 0, 0, math.inf, math.nan),
        ],
    ),
    "texts": (
        "a STRING, b BINARY, c VOID, d STRING",
        [
            ("", b"", None, "x"),
            ("ä漢𝄞", bytes(range(256)), None, "eight by"),
            (None, b"\xff\x80\x7f", None, "123456789"),
            ("1234567", None, None, None),
        ],
    ),
    "times": (
        "a DATE, b TIMESTAMP, c TIMESTAMP_NTZ",
        [
            (date(1969, 12, 31), NOON, NOON.replace(tzinfo=None)),
            (date(2026, 2, 28), datetime(1950, 1, 1, 0, 0, 0, 1, tzinfo=UTC), None),
            (None, None, datetime(1, 1, 1)),  # noqa: DTZ001 -- the type without a time zone
        ],
    ),
    "decimals": (
        "a DECIMAL(18,2), b DECIMAL(30,2), c DECIMAL(38,0), d STRING",
        [
            (Decimal("-1.50"), BIG, Decimal(0), "tail"),
            (None, None, Decimal(10**38 - 1), "nulls reserve room"),
            (Decimal("9999999999999999.99"), Decimal("-1.28"), Decimal(-128), None),
        ],
    ),
    "structs": (
        "a STRUCT<x: INT, y: STRUCT<z: STRING, w: DECIMAL(20,1)>>, b STRING",
        [
            ((1, ("deep", Decimal("1.5"))), "after"),
            ((None, None), None),
            (None, "b"),
            ((2, (None, None)), ""),
        ],
    ),
    "arrays": (
        "a ARRAY<BYTE>, b ARRAY<STRING>, c ARRAY<DECIMAL(30,2)>, d ARRAY<ARRAY<DOUBLE>>",
        [
            ([1, None, -3], ["x", None, "longer than eight"], [BIG, None], [[1.0], None, []]),
            ([], [], [], []),
            (None, None, None, None),
            (list(range(70)), ["é"] * 70, [Decimal(1)], [[-0.0, math.nan]]),
        ],
    ),
    "maps": (
        "a MAP<STRING, INT>, b MAP<INT, STRUCT<x: STRING>>",
        [
            ({"one": 1, "none": None}, {1: ("x",), -1: None}),
            ({}, {}),
            (None, None),
        ],
    ),
    "more than 64 columns": (
        ", ".join(f"c{number} INT" for number in range(70)),
        [tuple(number if number % 3 else None for number in range(70))],
    ),
}


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """A session that hashes maps, which Spark does only when it is asked to."""
    one = spark.newSession()
    one.conf.set("spark.sql.legacy.allowHashOnMapType", "true")
    one.conf.set("spark.sql.session.timeZone", "UTC")
    one.conf.set("spark.sql.shuffle.partitions", "3")
    one.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    return one


def unsafe_rows(frame: DataFrame) -> list[bytes]:
    """What Spark's own UnsafeProjection makes of a frame's rows."""
    found = frame._jdf.queryExecution().executedPlan().executeCollect()
    return [bytes(row.getBytes()) for row in found]


@pytest.fixture(params=ROWS)
def sample(
    request: pytest.FixtureRequest, session: SparkSession
) -> tuple[DataFrame, dict[str, Any], list[tuple[Any, ...]]]:
    ddl, rows = ROWS[request.param]
    schema = StructType.fromDDL(ddl)
    create: Any = session.createDataFrame
    frame = create(rows, schema, verifySchema=False).coalesce(1)
    if request.param == "maps":  # on its way to Spark a dictionary loses its order
        rows = [tuple(row) for row in frame.collect()]
    return frame, json.loads(schema.json()), rows


Sample = tuple[DataFrame, dict[str, Any], list[tuple[Any, ...]]]


def test_rows_are_written_as_sparks_projection_writes_them(sample: Sample) -> None:
    frame, schema, rows = sample
    assert [encode_row(row, schema) for row in rows] == unsafe_rows(frame)


def test_rows_are_hashed_and_shuffled_as_spark_does(sample: Sample) -> None:
    frame, schema, rows = sample
    kind = parse_struct(schema)
    hashed = frame.select(f.hash(*frame.columns).alias("h")).collect()
    encoded = [encode_row(row, schema) for row in rows]
    assert [hash_row(row, kind) for row in encoded] == [row.h for row in hashed]
    first = frame.select(f.hash(frame.columns[0]).alias("h")).collect()
    assert [hash_row(row, kind, columns=1) for row in encoded] == [row.h for row in first]
    shuffled = frame.repartition(7, *frame.columns)
    places = [row.p for row in shuffled.select(f.spark_partition_id().alias("p")).collect()]
    assert sorted(places) == sorted(partition_of_row(row, schema, 7) for row in encoded)


def test_a_prefix_is_the_row_of_the_first_columns(sample: Sample) -> None:
    frame, schema, rows = sample
    columns = frame.columns[:2]
    prefixes = [prefix_of(encode_row(row, schema), parse_struct(schema), 2) for row in rows]
    assert prefixes == unsafe_rows(frame.select(*columns))


def test_rows_of_chance_are_written_and_hashed_alike(session: SparkSession) -> None:
    chance = random.Random(20261121)  # noqa: S311 -- the same rows in every run

    def text() -> str:
        return "".join(chr(chance.choice((65, 0xE4, 0x6F22, 0x1D11E))) for _ in range(few()))

    def few() -> int:
        return chance.randrange(12)

    kinds: dict[str, Callable[[], Any]] = {
        "LONG": lambda: chance.getrandbits(64) - (1 << 63),
        "INT": lambda: chance.getrandbits(32) - (1 << 31),
        "STRING": text,
        "BINARY": lambda: chance.randbytes(few()),
        "DOUBLE": lambda: chance.choice((chance.random(), -0.0, 1e300)),
        "DECIMAL(38,3)": lambda: Decimal(chance.getrandbits(chance.randrange(120))).scaleb(
            -3, WIDE
        ),
        "ARRAY<STRING>": lambda: [text() for _ in range(few())],
        "STRUCT<x: STRING, y: DECIMAL(25,0)>": lambda: (text(), Decimal(-chance.getrandbits(70))),
    }
    rows = [
        tuple(make() if chance.random() < 0.8 else None for make in kinds.values())
        for _ in range(500)
    ]
    schema = StructType.fromDDL(", ".join(f"c{n} {kind}" for n, kind in enumerate(kinds)))
    create: Any = session.createDataFrame
    frame = create(rows, schema, verifySchema=False).coalesce(1)
    encoded = [encode_row(row, json.loads(schema.json())) for row in rows]
    assert encoded == unsafe_rows(frame)
    kind = parse_struct(json.loads(schema.json()))
    hashed = [row.h for row in frame.select(f.hash(*frame.columns).alias("h")).collect()]
    assert [hash_row(row, kind) for row in encoded] == hashed


# -- state that Spark wrote


@pytest.mark.parametrize(
    ("operator", "store"),
    [(0, "default"), (1, "left-keyWithIndexToValue"), (1, "right-keyToNumValues")],
)
def test_the_bytes_of_sparks_state_are_those_that_its_rows_are_written_as(
    session: SparkSession, neglected: Path, operator: int, store: str
) -> None:
    must_be_its_rows(session, neglected, 24, operator=operator, store=store)


def test_nulls_and_decimals_have_the_bytes_of_sparks_rows(
    session: SparkSession, tmp_path: Path
) -> None:
    rows: list[Any] = [("n", None, None), ("d", -(10**17), "x"), ("e", 0, ""), ("m", 5, None)]
    add_input(tmp_path, "0.json", rows)
    totals(session, tmp_path)
    must_be_its_rows(session, tmp_path / "checkpoint", 0, operator=0, store="default")


def must_be_its_rows(
    session: SparkSession, checkpoint: Path, batch: int, *, operator: int, store: str
) -> None:
    """Compares a store's bytes with what we write for the rows that Spark reads in it."""
    storage = LocalStorage(checkpoint)
    place = StoreId(operator, 0, store).directory
    schema = parse_schema(storage.read(f"{place}/_metadata/schema"))
    keys, values = RowWriter(schema.key), RowWriter(schema.value)
    read = session.read.format("statestore").option("batchId", batch)
    rows = read.option("operatorId", operator).option("storeName", store).load(str(checkpoint))
    assert rows.count() > 0
    for partition in range(3):
        provider = HDFSBackedStateStoreProvider(StoreId(operator, partition, store), storage)
        found = dict(provider.get_read_store(batch + 1).iterator())
        expected = rows.where(rows.partition_id == partition).collect()
        assert found == {
            keys.write(plain(row.key, schema.key)): values.write(plain(row.value, schema.value))
            for row in expected
        }


def plain(value: Any, kind: Any) -> Any:
    """A row that Python collected, with time zones where its schema means them."""
    if isinstance(value, Row):
        types = [field["type"] for field in kind["fields"]]
        return tuple(plain(one, inner) for one, inner in zip(value, types, strict=True))
    if isinstance(value, datetime) and kind == "timestamp":
        return value.astimezone(UTC)
    return value


# -- Spark's provider and ours on one directory

SCHEMA = StructType().add("k", "string").add("n", "long")


def theirs_of(session: SparkSession, root: Path, conf: Mapping[str, str]) -> SparkProvider:
    return SparkProvider(session, root, conf, key=SCHEMA, value=SCHEMA)


def row_of(name: str, number: int) -> bytes:
    return encode_row((name, number), SCHEMA.jsonValue())


@pytest.mark.parametrize("row_checksums", [False, True])
@pytest.mark.parametrize("codec", ["lz4", "zstd", "snappy", "lzf"])
def test_spark_loads_what_we_wrote_and_we_load_what_it_wrote(
    session: SparkSession, tmp_path: Path, codec: str, *, row_checksums: bool
) -> None:
    conf = {
        "spark.sql.streaming.stateStore.compression.codec": codec,
        "spark.sql.streaming.stateStore.rowChecksum.enabled": str(row_checksums).lower(),
        "spark.sql.streaming.stateStore.minDeltasForSnapshot": "1",
    }
    ours = HDFSBackedStateStoreProvider(
        StoreId(0, 0), LocalStorage(tmp_path), StateStoreConf.of(conf)
    )
    for version in range(3):
        store = ours.get_store(version)
        for number in range(50):
            store.put(row_of("key", version * 30 + number), row_of("x" * number, version))
        store.remove(row_of("key", version))
        assert store.commit() == version + 1
    expected = dict(ours.get_read_store(3).iterator())
    assert len(expected) == 107

    theirs = theirs_of(session, tmp_path, conf)
    assert dict(theirs.rows(3)) == expected  # from our deltas

    ours.do_snapshot()
    for version in range(1, 4):
        (tmp_path / f"state/0/0/{version}.delta").unlink()
    theirs = theirs_of(session, tmp_path, conf)
    assert dict(theirs.rows(3)) == expected  # from our snapshot alone

    changed = theirs.store(3)
    changed.put(theirs.key(row_of("theirs", 1)), theirs.value(row_of("new", 2)), "default")
    gone = next(iter(expected))
    changed.remove(theirs.key(gone), "default")
    assert changed.commit() == 4
    del expected[gone]
    expected[row_of("theirs", 1)] = row_of("new", 2)
    assert dict(ours.get_read_store(4).iterator()) == expected


def test_both_clean_up_the_same_files(session: SparkSession, tmp_path: Path) -> None:
    conf = {
        "spark.sql.streaming.stateStore.minDeltasForSnapshot": "4",
        "spark.sql.streaming.minBatchesToRetain": "3",
    }
    left = []
    for name in ("ours", "theirs"):
        root = tmp_path / name
        root.mkdir()
        provider = HDFSBackedStateStoreProvider(
            StoreId(0, 0), LocalStorage(root), StateStoreConf.of(conf)
        )
        theirs = theirs_of(session, root, conf)
        for version in range(12):
            store = provider.get_store(version)
            store.put(row_of("k", version), row_of("v", version))
            store.commit()
            if name == "ours":
                provider.do_maintenance()
            else:
                theirs.rows(version + 1)
                theirs.maintain()
        names = (file.name for file in (root / "state/0/0").iterdir())
        left.append(sorted(one for one in names if not one.startswith(".")))
    assert left[0] == left[1]
    assert "1.delta" not in left[0]
    assert "12.delta" in left[0]


# -- bootstrap


def totals(
    session: SparkSession, root: Path, trigger: Callable[[Any], None] | None = None
) -> list[tuple[int, dict[str, tuple[Any, ...]]]]:
    """Runs the query over what is new, and returns the number and the result of each batch.

    Or hands its writer to `trigger`.
    """
    found: list[tuple[int, dict[str, tuple[Any, ...]]]] = []

    def keep(frame: DataFrame, batch: int) -> None:
        found.append((batch, {row.key: tuple(row)[1:] for row in frame.collect()}))

    read = session.readStream.schema("key STRING, amount LONG, name STRING")
    events = read.json(str(root / "input"))
    paid = f.col("amount").cast("decimal(20,2)")
    grouped = events.groupBy("key").agg(f.count("*"), f.sum("amount"), f.sum(paid), f.max("name"))
    writer = grouped.writeStream.outputMode("update").foreachBatch(keep)
    query = writer.option("checkpointLocation", str(root / "checkpoint"))
    if trigger is None:
        query.trigger(availableNow=True).start().awaitTermination()
        return found
    trigger(query)
    return found


def add_input(root: Path, name: str, rows: Sequence[tuple[str, int | None, str | None]]) -> None:
    (root / "input").mkdir(exist_ok=True)
    lines = (json.dumps({"key": key, "amount": n, "name": text}) for key, n, text in rows)
    (root / "input" / name).write_text("\n".join(lines))


def test_a_query_goes_on_from_100_000_rows_that_it_never_read(
    session: SparkSession, tmp_path: Path
) -> None:
    add_input(tmp_path, "0.json", [("k1", 5, "first"), ("old", 7, "kept"), ("gone", 1, "x")])
    assert [batch for batch, _ in totals(session, tmp_path)] == [0]
    storage = LocalStorage(tmp_path / "checkpoint")

    rows: list[Any] = [
        ((f"k{number}",), (number, 10 * number, Decimal(number), False, f"name {number}"))
        for number in range(100_000)
    ]
    rows.append((("gone",), None))
    made = bootstrap(storage, rows)
    assert (made.batch, made.version, sum(made.rows.values())) == (1, 2, 100_001)
    assert verify(storage, deep=True).findings == ()

    read = session.read.format("statestore").load(str(tmp_path / "checkpoint"))
    assert read.count() == 100_001  # k0 to k99999 and old
    assert read.where("key.key = 'gone'").count() == 0

    add_input(tmp_path, "1.json", [("k99999", 1, "z"), ("old", 1, "a"), ("gone", 2, "y")])
    assert totals(session, tmp_path) == [
        (
            2,
            {
                "k99999": (100_000, 999_991, Decimal("100000.00"), "z"),
                "old": (2, 8, Decimal("8.00"), "kept"),
                "gone": (1, 2, Decimal("2.00"), "y"),
            },
        )
    ]
    assert totals(session, tmp_path) == []  # and no input is read twice
    assert verify(storage, deep=True).findings == ()


def test_a_batch_that_was_killed_before_its_commit_leaves_the_state_as_it_was(
    session: SparkSession, tmp_path: Path
) -> None:
    add_input(tmp_path, "0.json", [("a", 5, "first")])
    totals(session, tmp_path)
    storage = LocalStorage(tmp_path / "checkpoint")
    made = bootstrap(storage, [(("a",), (100, 100, Decimal(100), False, "ours"))])
    assert made == Bootstrapped(1, 2, made.rows, 3, made.run)
    storage.delete("commits/1")  # as after a crash
    with pytest.raises(LiveCheckpointError, match="batch 1 has begun"):
        bootstrap(storage, [])
    add_input(tmp_path, "1.json", [("a", 1, "z")])
    (replayed, nothing), (batch, found) = totals(session, tmp_path)
    assert (replayed, nothing) == (1, {})
    assert (batch, found) == (2, {"a": (2, 6, Decimal("6.00"), "z")})


def test_corrected_rows_are_what_spark_reads_and_continues_with_and_a_rollback_takes_them_back(
    session: SparkSession, tmp_path: Path
) -> None:
    original, other = tmp_path / "original", tmp_path / "corrected"
    original.mkdir()
    other.mkdir()
    add_input(original, "0.json", [("a", 5, "x"), ("b", 7, "y"), ("c", 9, "z")])
    totals(session, original)
    root, file = original / "checkpoint", tmp_path / "rows.parquet"
    flags = ("--format", "parquet", "--output", str(file))
    assert run("show", str(root), *flags).returncode == 0
    table = pq.read_table(file)
    rows = {row["key"]["key"]: row for row in table.to_pylist()}
    rows["a"]["value"] |= {"sum": 500}
    rows["b"]["value"] = None
    pq.write_table(pa.Table.from_pylist([rows["a"], rows["b"]], table.schema), file)

    def sums(checkpoint: Path) -> dict[str, int]:
        read = session.read.format("statestore").load(str(checkpoint))
        return {row.key.key: row.value[1] for row in read.collect()}  # two columns are named sum

    # A copy is corrected after the original has gone on, and continues by itself.
    add_input(original, "1.json", [("c", 1, "z")])
    assert [batch for batch, _ in totals(session, original)] == [1]
    to = ("bootstrap", str(root), str(file), "--at", "1", "--to", str(other / "checkpoint"))
    assert run(*to).returncode == 0
    assert sums(other / "checkpoint") == {"a": 500, "c": 9}
    add_input(other, "2.json", [("a", 1, "w"), ("b", 1, "w")])
    assert totals(session, other) == [
        (2, {"a": (2, 501, Decimal("6.00"), "x"), "b": (1, 1, Decimal("1.00"), "w")})
    ]
    assert run("bootstrap", str(root), str(file), "--at", "1").returncode == 6
    add_input(original, "2.json", [("a", 1, "w"), ("b", 1, "w")])
    assert run("bootstrap", str(root), str(file), "--at", "2").returncode == 0
    assert sums(root) == {"a": 500, "c": 10}
    assert run("rollback", str(root), "--to-batch", "1", "--apply").returncode == 0
    assert sums(root) == {"a": 5, "b": 7, "c": 10}
    assert totals(session, original) == [
        (2, {"a": (2, 6, Decimal("6.00"), "x"), "b": (2, 8, Decimal("8.00"), "y")})
    ]
    assert verify(LocalStorage(root), deep=True).findings == ()


def test_a_live_query_that_only_waited_finds_its_batch_taken_and_fails(
    session: SparkSession, tmp_path: Path
) -> None:
    add_input(tmp_path, "0.json", [("a", 5, "first")])
    rows = [(("b",), (1, 1, Decimal(1), False, "ours"))]

    def wait_while_we_write(writer: Any) -> None:
        query = writer.trigger(processingTime="0 seconds").start()
        query.processAllAvailable()
        bootstrap(LocalStorage(tmp_path / "checkpoint"), rows)
        add_input(tmp_path, "1.json", [("b", 1, "z")])
        with pytest.raises(StreamingQueryException, match="CONCURRENT_STREAM_LOG_UPDATE"):
            query.awaitTermination()

    assert [batch for batch, _ in totals(session, tmp_path, wait_while_we_write)] == [0]
    assert totals(session, tmp_path) == [(2, {"b": (2, 2, Decimal("2.00"), "z")})]


def hours(session: SparkSession, root: Path) -> list[tuple[int, set[tuple[Any, ...]]]]:
    """Runs a query that counts by hour, and says so once the hour is over."""
    found: list[tuple[int, set[tuple[Any, ...]]]] = []

    def keep(frame: DataFrame, batch: int) -> None:
        found.append((batch, {(row.hour, row.x, row.n) for row in frame.collect()}))

    events = session.readStream.schema("at TIMESTAMP, x DOUBLE").json(str(root / "input"))
    grouped = events.withWatermark("at", "1 hour").groupBy(f.window("at", "1 hour"), "x")
    hour = f.hour("window.start").alias("hour")
    counted = grouped.agg(f.count("*").alias("n")).select(hour, "x", "n")
    writer = counted.writeStream.outputMode("append").foreachBatch(keep)
    writer = writer.option("checkpointLocation", str(root / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    return found


def add_events(root: Path, name: str, *found: tuple[int, float]) -> None:
    (root / "input").mkdir(exist_ok=True)
    lines = (f'{{"at": "2026-11-21T{hour:02}:10:00Z", "x": {x}}}' for hour, x in found)
    (root / "input" / name).write_text("\n".join(lines))


def test_windows_that_we_wrote_end_with_the_watermark(
    session: SparkSession, tmp_path: Path
) -> None:
    """Keys are a struct and a float here, which Spark groups by as 0.0 whatever its sign."""
    add_events(tmp_path, "0.json", (5, 0.0), (5, 1.5))
    assert hours(session, tmp_path) == [(0, set())]

    def window(hour: int) -> tuple[datetime, datetime]:
        start = datetime(2026, 11, 21, hour, tzinfo=UTC)
        return start, start + timedelta(hours=1)

    rows = [((window(5), -0.0), (41,)), ((window(6), 2.5), (7,)), ((window(20), 2.5), (9,))]
    bootstrap(LocalStorage(tmp_path / "checkpoint"), rows)
    add_events(tmp_path, "1.json", (5, -0.0), (9, 0.0))
    assert hours(session, tmp_path) == [(2, set())]
    add_events(tmp_path, "2.json", (9, 0.0))
    assert hours(session, tmp_path) == [(3, {(5, 0.0, 42), (5, 1.5, 1), (6, 2.5, 7)})]


def test_what_we_say_was_seen_is_a_duplicate(session: SparkSession, tmp_path: Path) -> None:
    found: list[list[int]] = []

    def run() -> None:
        read = session.readStream.schema("id LONG").json(str(tmp_path / "input"))
        writer = read.dropDuplicates(["id"]).writeStream.foreachBatch(
            lambda frame, _: found.append(sorted(row.id for row in frame.collect()))
        )
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "0.json").write_text('{"id": 1}')
    run()
    bootstrap(LocalStorage(tmp_path / "checkpoint"), [((n,), (None,)) for n in range(2, 500)])
    (tmp_path / "input" / "1.json").write_text("\n".join(f'{{"id": {n}}}' for n in range(501)))
    run()
    assert found == [[1], [0, 500]]


def test_rows_of_a_join_without_their_side_are_refused(neglected_copy: Path) -> None:
    with pytest.raises(ConfigError, match=r"operator 1 \(symmetricHashJoin\) takes rows by name"):
        bootstrap(LocalStorage(neglected_copy), [], operator=1)
    assert not (neglected_copy / "offsets" / "25").exists()


def test_an_operator_beside_the_edited_one_gets_an_empty_version(
    neglected_copy: Path, tmp_path: Path, run_on: RunOn
) -> None:
    edited, twin = neglected_copy.parent, tmp_path / "twin"
    shutil.copytree(edited, twin)
    made = bootstrap(LocalStorage(neglected_copy), [])
    assert (made.batch, made.rows) == (25, {})
    for root in (edited, twin):
        run_on(root, range(25, 27))
    assert retained_batches(neglected_copy)[-1] == 27  # one more than the twin has
    assert output_rows(edited) == output_rows(twin)
    assert verify(LocalStorage(neglected_copy), deep=True).findings == ()
