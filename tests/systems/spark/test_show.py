"""What we show is what Spark's state reader finds, row for row."""

import json
import os
import re
from collections.abc import Iterator
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from statemaint.audit import verify
from statemaint.state import read_state
from statemaint.storage import LocalStorage
from tests.checkpoints import state_reader
from tests.checkpoints.archive import contents, recorded
from tests.support.checkpoints import put_files
from tests.support.state_rows import as_spark, store_of
from tests.systems.spark.runner import KIND, Runner, newest_batch

EVERY = [(name, kind) for name in ("4.3.0", "rocks-4.3.0") for kind in recorded(name)]
# Each has its rows as Spark read them in its archive (tests/matrix/test_real_show.py), so that a
# few are enough here; `make test-shapes` has all.
_ALL = os.environ.get("STATEMAINT_SHAPES") == "all"
_FEW = ("aggregation2", "join2", "rocks-join4", "rocks-timed-ids", "rocks-expiring")
SHOWN = [one for one in EVERY if _ALL or one[1] in _FEW]
PLACE = re.compile(r'file:[^"]*?/checkpoint/state/')
MILLISECONDS = re.compile(r"[^Z]*T[^Z]*\.\d{3}")
Rows = dict[str, list[str]]


def unpack(archive: str, kind: str, root: Path) -> None:
    """Unpacks a checkpoint, and tells its operators where their schema files are now."""
    put_files(root, contents(archive)[kind])
    for metadata in root.glob("state/*/_metadata/v2/[0-9]*"):
        metadata.write_text(PLACE.sub(f"file:{root}/state/", metadata.read_text()))
        metadata.with_name(f".{metadata.name}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize(("archive", "kind"), SHOWN, ids=["/".join(one) for one in SHOWN])
def test_we_show_the_rows_that_spark_reads(
    spark: SparkSession, tmp_path: Path, archive: str, kind: str
) -> None:
    unpack(archive, kind, tmp_path)
    batches = state_reader._batches(tmp_path)
    older, newest = batches[len(batches) // 2], batches[-1]
    theirs = read_by_spark(spark, tmp_path, (older, newest))
    for batch in (older, newest):
        assert read_by_us(tmp_path, batch) == theirs[batch], batch
    assert theirs[older] != theirs[newest] or kind == "limit"


@pytest.mark.parametrize("kind", ["rocks-timed", "rocks-join4"])
def test_lists_with_row_checksums_are_the_ones_that_spark_reads(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    checked = {"spark.sql.streaming.stateStore.rowChecksum.enabled": "true"}
    Runner(spark, KIND[kind], checked).run(tmp_path / "query", 9)
    checkpoint = tmp_path / "query" / "checkpoint"
    newest = newest_batch(tmp_path / "query")
    theirs = read_by_spark(spark, checkpoint, (newest,))[newest]
    assert len(theirs) > 2
    assert all(theirs.values())
    assert read_by_us(checkpoint, newest) == theirs
    assert verify(LocalStorage(checkpoint), deep=True).findings == ()


def read_by_us(checkpoint: Path, batch: int) -> Rows:
    found: Rows = {}
    for row in read_state(str(checkpoint), version=batch + 1):
        lines = (json.dumps(one, separators=(",", ":")) for one in as_spark(row))
        found.setdefault(store_of(row), []).extend(lines)
    return {store: sorted(lines) for store, lines in found.items()}


def read_by_spark(
    spark: SparkSession, checkpoint: Path, batches: tuple[int, ...]
) -> dict[int, Rows]:
    session = state_reader._session(spark, checkpoint)
    states = (
        state_reader._load(session, checkpoint, options, batch).withColumn("store", f.lit(name))
        for name, options in state_reader._stores(checkpoint)
        for batch in batches
    )
    found: dict[int, Rows] = {batch: {} for batch in batches}
    for row in reduce(DataFrame.union, states).collect():
        found[row["batch"]].setdefault(row["store"], []).append(row["json"])
    return {batch: {name: sorted(lines) for name, lines in rows.items()}
            for batch, rows in found.items()}  # fmt: skip


# No column of these is the same for all rows, or Spark would keep it out of the state.
COLUMNS = """
id > 0 AS yes
CAST(id AS BYTE) AS byte
CAST(id * 100 AS SHORT) AS short
CAST(id * 100000 AS INT) AS int
id * 10000000000 AS long
CAST(id AS FLOAT) / 8 AS float
CASE id WHEN 0 THEN DOUBLE('NaN') WHEN 1 THEN DOUBLE('-Infinity') ELSE id / 3 END AS double
CAST(id AS DECIMAL(12, 3)) / 8 AS small
CAST(id AS DECIMAL(30, 2)) * 12345678901234567890 AS large
concat('ü', id, '"\\n') AS text
CAST(concat('ü', id) AS BINARY) AS bytes
date_add(DATE'1969-12-31', CAST(id * 1000 AS INT)) AS day
timestamp_micros(id * 86399999999) AS moment
CAST(timestamp_millis(id * 86399999 - 1) AS TIMESTAMP_NTZ) AS local
make_dt_interval(CAST(id AS INT), 2, 3, 4.005) AS seconds
make_ym_interval(CAST(id AS INT), 14) AS months
if(id = 1, NULL, id) AS maybe
named_struct('a', if(id = 1, NULL, id), 'b', named_struct('c', CAST(id AS STRING))) AS nested
array(CAST(id AS INT), NULL, CAST(7 AS INT)) AS ints
array(id = 1, NULL, id = 2) AS flags
array(CAST(id AS STRING), NULL, '') AS texts
array(named_struct('a', CAST(id AS BYTE), 'b', array(id, id + 1))) AS structs
array(CAST(id AS DECIMAL(30, 2)), NULL) AS decimals
map(CAST(id AS STRING), id, 'other', NULL) AS numbers
map(CAST(id AS INT), named_struct('a', array(CAST(id AS STRING)))) AS by_number
"""


@pytest.fixture(scope="module")
def typed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A join, whose state has whole rows of whatever types."""
    root = tmp_path_factory.mktemp("types")
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "2")
    (root / "input").mkdir()
    lines = (json.dumps({"id": number}) for number in (-1, 0, 1, 2, 100))
    (root / "input" / "ids.json").write_text("\n".join(lines))
    ids = session.readStream.schema("id LONG").json(str(root / "input"))
    left = ids.selectExpr("id", *COLUMNS.strip().splitlines())
    right = ids.selectExpr("id + 1 AS other_id", "CAST(id AS STRING) AS other")
    joined = left.join(right, f.expr("id = other_id"))
    query = joined.writeStream.format("noop").option("checkpointLocation", str(root / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    return root / "checkpoint"


def test_every_type_reads_as_spark_reads_it(spark: SparkSession, typed: Path) -> None:
    store = "left-keyWithIndexToValue"
    theirs = read_by_spark(spark, typed, (0,))[0][f"0/{store}"]
    ours = [line for row in read_state(str(typed), store=store) for line in as_spark(row)]
    rows = (json.loads(line, parse_float=Decimal) for line in theirs)
    by_id = {row["value"]["id"]: row for row in rows}
    assert len(ours) == len(by_id) == 5
    for row in ours:
        expected = by_id[row["value"]["id"]]
        assert list(row["value"]) == list(expected["value"])
        for name, value in row["value"].items():
            assert alike(value, expected["value"][name]), (name, value, expected["value"][name])


def alike(ours: Any, theirs: Any) -> bool:
    """Whether two values are the same, but for what JSON of Spark has another way to say."""
    if isinstance(ours, dict):
        return isinstance(theirs, dict) and all(pairs_alike(ours, theirs))
    if isinstance(ours, list) and isinstance(theirs, dict):
        return alike({str(pair["key"]): pair["value"] for pair in ours}, theirs)
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(alike, ours, theirs))
    if isinstance(ours, str) and isinstance(theirs, int | Decimal):
        return Decimal(ours) == theirs
    if isinstance(ours, str) and MILLISECONDS.fullmatch(str(theirs)):
        return ours == f"{theirs}000"
    return bool(ours == (float(theirs) if isinstance(theirs, Decimal) else theirs))


def pairs_alike(ours: dict[str, Any], theirs: dict[str, Any]) -> Iterator[bool]:
    yield ours.keys() == theirs.keys()
    yield from (alike(ours[name], theirs[name]) for name in ours)
