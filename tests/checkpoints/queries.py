"""Every kind of stateful query that a checkpoint of ours stands for, and the input they all read.

Runs in the environment of every Spark, so it imports nothing but PySpark. Each file of the input
is a batch and an hour: its rows add keys to the state and change some of the hour before, and its
newest event moves the watermark on, which removes what is two hours old. All of it is arithmetic,
so that any two runs see the same.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

_START = datetime(2026, 1, 1, tzinfo=UTC)
_DELAY = "1 hour"
_SCHEMA = "id STRING, key STRING, amount LONG, at TIMESTAMP"
STATE_STORE = "spark.sql.streaming.stateStore"
IDS = f"{STATE_STORE}.checkpointFormatVersion"
_PAID_IN_TIME = "paid = id AND paid_at BETWEEN at AND at + INTERVAL 90 MINUTES"

Query = Callable[[SparkSession, Path], DataFrame]


@dataclass(frozen=True)
class Kind:
    """A query and its settings.

    Attributes:
        name: unique, and fit for a directory.
        query: makes the result out of the input directory.
        conf: what makes the state what it is.
        since: the first Spark that can run it.
        begun_until: the last one that can begin it, where later ones can only go on with it.
    """

    name: str
    query: Query
    conf: Mapping[str, str] = field(default_factory=dict)
    since: tuple[int, int] = (3, 3)
    begun_until: tuple[int, int] = (9, 9)

    @property
    def has_ids(self) -> bool:
        """Whether each version of the state has an id, which its commit knows."""
        return self.conf.get(IDS) == "2"


def release(version: str) -> tuple[int, int]:
    major, minor, *_ = version.split(".")
    return int(major), int(minor)


def able(version: str, kinds: Iterable[Kind]) -> tuple[Kind, ...]:
    """Returns those of some kinds that a version of Spark can run."""
    return tuple(kind for kind in kinds if kind.since <= release(version))


def write_input(directory: Path, batches: Iterable[int]) -> None:
    """Writes the files of some batches; what is there already stays as it is."""
    for batch in batches:
        _write(directory / "events" / f"{batch:03d}.json", _events(batch), batch)
        _write(directory / "payments" / f"{batch:03d}.json", _payments(batch), batch)


def _write(path: Path, rows: Iterable[Mapping[str, object]], batch: int) -> None:
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    # Spark takes the oldest file first.
    moment = _START.timestamp() + batch
    os.utime(path, (moment, moment))


def _events(batch: int) -> Iterator[dict[str, object]]:
    """Five to nine new events, two known ones again, and one that changes the hour before."""
    yield from (_event(batch, number) for number in range(_size(batch)))
    if batch:
        yield from (_event(batch - 1, number) for number in (1, 3))
        yield {**_event(batch, 9), "at": _time(batch - 1, 55)}


def _size(batch: int) -> int:
    return 5 + batch * 3 % 5


def _event(batch: int, number: int) -> dict[str, object]:
    return {
        "id": f"{batch:03d}-{number}",
        "key": f"k{(batch * 3 + number * 2) % 7}",
        "amount": (batch * 37 + number * 11) % 100,
        "at": _time(batch, number * 6),
    }


def _payments(batch: int) -> Iterator[dict[str, object]]:
    """Two events of three are paid, half of them in the next batch; the rest never are."""
    for hour, parity in ((batch, 0), (batch - 1, 1)):
        for number in range(parity, _size(hour) if hour >= 0 else 0, 2):
            if number % 3:
                yield {**_event(hour, number), "at": _time(batch, number * 7 + 5)}


def _time(hour: int, minute: int) -> str:
    return (_START + timedelta(hours=hour, minutes=minute)).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_stream(spark: SparkSession, directory: Path) -> DataFrame:
    """Returns the rows of a directory: a file each batch, and an hour for late ones."""
    reader = spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.json(str(directory)).withWatermark("at", _DELAY)


def _aggregation(spark: SparkSession, directory: Path) -> DataFrame:
    hours = read_stream(spark, directory / "events").groupBy(f.window("at", "1 hour"), "key")
    return hours.agg(f.count("*").alias("events"), f.sum("amount"), f.max("id"))


def _dedup(spark: SparkSession, directory: Path) -> DataFrame:
    return read_stream(spark, directory / "events").select("id", "at").dropDuplicates(["id", "at"])


def _dedup_within_watermark(spark: SparkSession, directory: Path) -> DataFrame:
    # Not in all the versions of PySpark that this runs in.
    events: Any = read_stream(spark, directory / "events").select("id", "at")
    unique: DataFrame = events.dropDuplicatesWithinWatermark(["id"])
    return unique


def _session_window(spark: SparkSession, directory: Path) -> DataFrame:
    events = read_stream(spark, directory / "events")
    sessions = events.groupBy(f.session_window("at", "20 minutes"), "key")
    return sessions.agg(f.count("*").alias("events"), f.sum("amount"))


def joined(how: str) -> Query:
    """Returns a query of events and their payments: an inner join, or one of the others."""

    def query(spark: SparkSession, directory: Path) -> DataFrame:
        events = read_stream(spark, directory / "events").select("id", "key", "at")
        payments = read_stream(spark, directory / "payments")
        paid = payments.selectExpr("id paid", "amount", "at paid_at")
        return events.join(paid, f.expr(_PAID_IN_TIME), how)

    return query


def _limit(spark: SparkSession, directory: Path) -> DataFrame:
    # Reached in the ninth batch, and then the state changes no more.
    return read_stream(spark, directory / "events").select("id").limit(80)


def _pandas_state(spark: SparkSession, directory: Path) -> DataFrame:
    return _with_state(spark, directory, _count, "NoTimeout")


def _pandas_state_timeout(spark: SparkSession, directory: Path) -> DataFrame:
    return _with_state(spark, directory, _count_until_quiet, "EventTimeTimeout")


def _with_state(
    spark: SparkSession, directory: Path, function: Callable[..., Any], timeout: str
) -> DataFrame:
    events = read_stream(spark, directory / "events")
    # Pandas knows no time zones that Spark means; milliseconds have none.
    hourly = events.selectExpr("substr(id, 1, 3) hour", "key", "at", "unix_millis(at) ms")
    grouped: Any = hourly.groupBy("hour", "key")
    counted: DataFrame = grouped.applyInPandasWithState(
        function, "name STRING, events LONG", "events LONG", "append", timeout
    )
    return counted


def _count(key: tuple[Any, ...], frames: Iterator[Any], state: Any) -> Iterator[Any]:
    """Counts, and forgets what has come to three."""
    events = sum(len(frame) for frame in frames)
    events += state.get[0] if state.exists else 0
    if events < 3:
        state.update((events,))
    elif state.exists:
        state.remove()
    yield _frame(key, events)


def _count_until_quiet(key: tuple[Any, ...], frames: Iterator[Any], state: Any) -> Iterator[Any]:
    """Counts until nothing has come for an hour of event time, and only then says how many."""
    if state.hasTimedOut:
        (events,) = state.get
        state.remove()
        yield _frame(key, events)
        return
    (events,) = state.get if state.exists else (0,)
    for frame in frames:
        events += len(frame)
        quiet = int(frame["ms"].max()) + 3_600_000
        state.setTimeoutTimestamp(max(quiet, state.getCurrentWatermarkMs() + 1))
    state.update((events,))


def _frame(key: tuple[Any, ...], events: int) -> Any:
    # The environment of Spark 3.3 has none.
    import pandas as pd  # type: ignore[import-untyped]  # noqa: PLC0415

    return pd.DataFrame({"name": ["/".join(key)], "events": [events]})


def _codec(name: str) -> dict[str, str]:
    return {f"{STATE_STORE}.compression.codec": name}


def _aggregation_format(number: int) -> dict[str, str]:
    return {"spark.sql.streaming.aggregation.stateFormatVersion": str(number)}


def join_format(number: int) -> dict[str, str]:
    return {"spark.sql.streaming.join.stateFormatVersion": str(number)}


# Of joins in format 1 Spark refuses outer ones, whose results were wrong; and from 4.1 on it cannot
# begin any, because it has no writer for their schema files.
KINDS = (
    Kind("aggregation1", _aggregation, _aggregation_format(1)),
    Kind("aggregation2", _aggregation, _aggregation_format(2)),
    *(
        Kind(f"aggregation2-{codec}", _aggregation, _aggregation_format(2) | _codec(codec))
        for codec in ("zstd", "snappy", "lzf")
    ),
    Kind(
        "aggregation2-rowchecksum",
        _aggregation,
        _aggregation_format(2) | {f"{STATE_STORE}.rowChecksum.enabled": "true"},
        since=(4, 2),
    ),
    Kind("dedup", _dedup),
    Kind("dedup-within-watermark", _dedup_within_watermark, since=(3, 5)),
    Kind("session-window", _session_window),
    Kind("join1", joined("inner"), join_format(1), begun_until=(4, 0)),
    Kind("join2", joined("leftOuter"), join_format(2)),
    Kind("pandas-state", _pandas_state, since=(3, 4)),
    Kind("pandas-state-timeout", _pandas_state_timeout, since=(3, 4)),
    Kind("limit", _limit),
)
