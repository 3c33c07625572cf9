"""What we say changed between versions is what Spark's change feed leads to, key for key."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from statemaint.state import StateRow
from statemaint.state.diff import ChangedRow, StateDiff, diff_state
from tests.checkpoints import state_reader
from tests.support.state_rows import as_spark, store_of
from tests.systems.spark.test_show import EVERY, unpack

# A batch that writes a zip writes no changelog, which is all that the feed reads.
WITHOUT_CHANGELOGS = {"rocks-zips", "rocks-zips-ids"}
# Unique ids and compression change where rows are read, which other tests show for each kind;
# `make test-shapes` has all.
_ALL = os.environ.get("STATEMAINT_SHAPES") == "all"
_ALIKE = re.compile(r"-(zstd|snappy|lzf)$|rocks-(dedup|session-window|join[23]|expiring)-ids$")
WITH_FEED = [
    one for one in EVERY if one[1] not in WITHOUT_CHANGELOGS and (_ALL or not _ALIKE.search(one[1]))
]
TIMERS = "timers"

Key = tuple[str, str]
"""The store and the columns of the key, as JSON."""
Rows = Mapping[Key, tuple[str, ...]]
"""The entries of each value, as JSON: one, but for lists and the rows of a join in format 4."""
Change = tuple[str, Key, str]


@pytest.mark.parametrize(("archive", "kind"), WITH_FEED, ids=["/".join(one) for one in WITH_FEED])
def test_our_diff_is_what_the_change_feed_leads_to(
    spark: SparkSession, tmp_path: Path, archive: str, kind: str
) -> None:
    unpack(archive, kind, tmp_path)
    batches = state_reader._batches(tmp_path)
    first, last = batches[0], batches[-1]
    assert batches == list(range(first, last + 1))
    states = states_by_spark(spark, tmp_path, (first, last))
    feed = feed_by_spark(spark, tmp_path, first + 1, last)
    must_be_the_diff(tmp_path, (first + 1, last + 1), states[first], all_of(feed))
    steps = [states[first]]
    for batch in batches[1:]:
        changes = feed.get(batch, [])
        must_be_the_diff(tmp_path, (batch, batch + 1), steps[-1], changes)
        steps.append(folded(steps[-1], changes))
    assert steps[-1] == states[last]
    assert len({frozenset(one.items()) for one in steps}) > 2 or kind == "limit"
    newest = {batch: changes for batch, changes in feed.items() if batch == last}
    assert feed_by_spark(spark, tmp_path, last, last) == newest


def must_be_the_diff(
    checkpoint: Path, versions: tuple[int, int], before: Rows, changes: list[Change]
) -> None:
    """Compares what a feed does to the older state with what we say."""
    after = folded(before, changes)
    named = {key for _, key, _ in changes}
    found = diff_state(str(checkpoint), versions).compare(without_timers)
    ours = {key_of(row): (entries(row.before), entries(row.after)) for row in found.rows}
    theirs = {key: (before.get(key), after.get(key)) for key in named}
    assert ours == {key: pair for key, pair in theirs.items() if pair[0] != pair[1]}, versions
    same = {key for key, pair in theirs.items() if pair[0] and pair[0] == pair[1]}
    assert rewritten(found) == len(same), versions


def without_timers(row: ChangedRow) -> bool:
    return TIMERS not in store_of(as_state(row, {}))


def rewritten(found: StateDiff) -> int:
    return sum(
        one.counts.rewritten or 0
        for one in found.stores
        if not (one.family or "").endswith("_keyToTimestamp")
    )


def as_state(row: ChangedRow, value: Any) -> StateRow:
    return StateRow(row.store, row.family, row.key, value)


def key_of(row: ChangedRow) -> Key:
    value = row.before if row.after is None else row.after
    columns = next(as_spark(as_state(row, value)))
    kept = ("partition_id", "key", "user_map_key")
    return store_of(as_state(row, value)), text(
        {name: columns[name] for name in kept if name in columns}
    )


def entries(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    return tuple(text(one) for one in (value if isinstance(value, list) else [value]))


def text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def folded(before: Rows, changes: Iterable[Change]) -> Rows:
    """Carries a feed out: an update puts, an append goes behind what is there, a delete removes."""
    rows = dict(before)
    for kind, key, value in changes:
        if kind == "delete":
            rows.pop(key, None)
        else:
            rows[key] = (*(rows.get(key, ()) if kind == "append" else ()), value)
    return rows


def all_of(feed: Mapping[int, list[Change]]) -> list[Change]:
    return [change for batch in sorted(feed) for change in feed[batch]]


# -- Spark


def states_by_spark(
    spark: SparkSession, checkpoint: Path, batches: tuple[int, ...]
) -> dict[int, Rows]:
    found: dict[int, dict[Key, tuple[str, ...]]] = {batch: {} for batch in batches}
    for row in collected(
        as_json(load(spark, checkpoint, options, {"batchId": batch}), name, f.lit(batch))
        for name, options in stores(checkpoint)
        for batch in batches
    ):
        rows, key = found[row["batch"]], (row["store"], row["key"])
        rows[key] = (*rows.get(key, ()), row["value"])
    return dict(found)


def feed_by_spark(
    spark: SparkSession, checkpoint: Path, first: int, last: int
) -> dict[int, list[Change]]:
    ends = {"readChangeFeed": True, "changeStartBatchId": first, "changeEndBatchId": last}
    found: dict[int, list[Change]] = {}
    for row in collected(
        as_json(load(spark, checkpoint, options, ends), name, f.col("batch_id"))
        for name, options in stores(checkpoint)
    ):
        change = row["change"], (row["store"], row["key"]), row["value"]
        found.setdefault(row["batch"], []).append(change)
    return found


def stores(checkpoint: Path) -> Iterator[tuple[str, dict[str, str]]]:
    for name, options in sorted(state_reader._stores(checkpoint)):
        if not name.endswith(TIMERS):
            # The feed has a row for each entry of a list, so let the state have them too.
            yield (
                name,
                {key: one for key, one in options.items() if key != "flattenCollectionTypes"},
            )


def load(
    spark: SparkSession, checkpoint: Path, options: Mapping[str, str], more: Mapping[str, Any]
) -> DataFrame:
    session = state_reader._session(spark, checkpoint)
    reader = session.read.format("statestore").options(**options).options(**more)
    return reader.load(str(checkpoint))


def as_json(rows: DataFrame, store: str, batch: Any) -> DataFrame:
    key = [name for name in ("partition_id", "key", "user_map_key") if name in rows.columns]
    value = next(
        name for name in ("value", "user_map_value", "list_element") if name in rows.columns
    )
    change = f.col("change_type") if "change_type" in rows.columns else f.lit("update")
    return rows.select(
        f.lit(store).alias("store"),
        batch.alias("batch"),
        change.alias("change"),
        f.to_json(f.struct(*key), state_reader._JSON).alias("key"),
        f.to_json(f.col(value), state_reader._JSON).alias("value"),
    )


def collected(rows: Iterable[DataFrame]) -> list[Row]:
    return reduce(DataFrame.union, rows).collect()


# -- what its feed cannot do


def failure(spark: SparkSession, root: Path, options: dict[str, str]) -> str:
    last = state_reader._batches(root)[-1]
    ends = {"readChangeFeed": True, "changeStartBatchId": last, "changeEndBatchId": last}
    with pytest.raises(Py4JJavaError) as caught:
        load(spark, root, options, ends).collect()
    return str(caught.value.java_exception)


@pytest.mark.parametrize(
    ("kind", "file"), [("rocks-zips", "13.changelog"), ("rocks-zips-ids", "13_")]
)
def test_spark_has_no_feed_of_batches_that_wrote_zips_and_we_have_a_diff(
    spark: SparkSession, tmp_path: Path, kind: str, file: str
) -> None:
    unpack("rocks-4.3.0", kind, tmp_path)
    told = failure(spark, tmp_path, {})
    assert "CANNOT_READ_STREAMING_STATE_FILE" in told
    assert f"/{file}" in told
    first, last = (state_reader._batches(tmp_path)[at] for at in (0, -1))
    states = states_by_spark(spark, tmp_path, (first, last))
    found = diff_state(str(tmp_path), (first + 1, last + 1)).compare()
    ours = {key_of(row): (entries(row.before), entries(row.after)) for row in found.rows}
    keys = states[first].keys() | states[last].keys()
    theirs = {key: (states[first].get(key), states[last].get(key)) for key in keys}
    assert ours == {key: pair for key, pair in theirs.items() if pair[0] != pair[1]}
    assert found.total.rewritten is None
    assert ours


@pytest.mark.parametrize("kind", ["rocks-timed", "rocks-timed-ids"])
def test_spark_has_no_feed_of_timers(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    unpack("rocks-4.3.0", kind, tmp_path)
    told = failure(spark, tmp_path, {"readRegisteredTimers": "true"})
    assert (
        "java.lang.Long cannot be cast to class org.apache.spark.sql.catalyst.InternalRow" in told
    )
    found = diff_state(str(tmp_path), family="$eventTimers_keyToTimestamp").compare()
    assert found.total.removed == 10
