"""The kinds of queries whose state RocksDB keeps; they read the input of `queries`.

Like `queries`, it imports nothing but PySpark. State names of `TIMED` and `EXPIRING` are those of
their processors. No result depends on when a query runs: timers follow the watermark, and what
expires does so in the very next batch or not for years.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.checkpoints.queries import (
    IDS,
    KINDS,
    STATE_STORE,
    Kind,
    join_format,
    joined,
    read_stream,
)

_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_PAID_SOON = "paid = key AND paid_at BETWEEN at AND at + INTERVAL 30 MINUTES"
_HALF_AN_HOUR = 1_800_000
_YEARS = 10 * 365 * 86_400_000
_OUTPUT = "name STRING, total LONG, kept LONG"
EVOLVES = 2
"""The first batch of the evolving query that has one more state variable."""


class Timed:
    """Keeps a value, a list, a map and timers for each key, and clears them as time goes on.

    Spark 3.5 has no class to inherit from, and later ones do not ask for it.
    """

    def init(self, handle: Any) -> None:
        """Declares the state."""
        self._handle = handle
        self._total = handle.getValueState("total", "events LONG")
        self._amounts = handle.getListState("amounts", "amount LONG")
        self._hours = handle.getMapState("hours", "hour STRING", "events LONG")

    def handleInputRows(  # noqa: N802
        self, key: tuple[Any, ...], rows: Iterator[Any], timers: Any
    ) -> Iterator[Any]:
        """Adds a batch to all of them; a list that has become long begins anew."""
        events = _sorted(rows)
        self._total.update((_first(self._total) + len(events),))
        _append(self._amounts, [(amount,) for _, _, amount in events])
        for _, hour, _ in events:
            before = self._hours.getValue((hour,)) or (0,)
            self._hours.updateValue((hour,), (before[0] + 1,))
        newest = max(ms for ms, _, _ in events)
        self._handle.registerTimer(max(newest, timers.getCurrentWatermarkInMs()) + _HALF_AN_HOUR)
        yield _row(key, _first(self._total), len(list(self._amounts.get())))

    def handleExpiredTimer(  # noqa: N802
        self,
        key: tuple[Any, ...],
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Any]:
        """Forgets the oldest hour, and all when nothing else is awaited."""
        hours = sorted(hour for (hour,) in self._hours.keys())  # noqa: SIM118
        if hours:
            self._hours.removeKey((hours[0],))
        if list(self._handle.listTimers()) == [expiredTimerInfo.getExpiryTimeInMs()]:
            for state in (self._total, self._amounts, self._hours):
                state.clear()
        yield _row(key, timerValues.getCurrentWatermarkInMs(), len(hours))

    def close(self) -> None:
        """Has nothing to close."""


class Expiring:
    """Keeps values, lists and maps that expire at once, and others that do so in years."""

    def init(self, handle: Any) -> None:
        """Declares the state."""
        self._total = handle.getValueState("total", "events LONG", _YEARS)
        self._amounts = handle.getListState("amounts", "amount LONG", _YEARS)
        self._hours = handle.getMapState("hours", "hour STRING", "events LONG", _YEARS)
        self._brief = handle.getValueState("brief", "events LONG", 1)
        self._brief_amounts = handle.getListState("briefAmounts", "amount LONG", 1)
        self._brief_hours = handle.getMapState("briefHours", "hour STRING", "events LONG", 1)

    def handleInputRows(  # noqa: N802
        self, key: tuple[Any, ...], rows: Iterator[Any], _timers: Any
    ) -> Iterator[Any]:
        """Adds a batch to all of them; what was brief is not there any more."""
        events = _sorted(rows)
        forgotten = not (self._brief.exists() or self._brief_amounts.exists())
        amounts = [(amount,) for _, _, amount in events]
        for value in (self._total, self._brief):
            value.update((_first(value) + len(events),))
        for values in (self._amounts, self._brief_amounts):
            _append(values, amounts)
        for _, hour, amount in events:
            self._hours.updateValue((hour,), (amount,))
            self._brief_hours.updateValue((hour,), (amount,))
        yield _row(key, _first(self._total), int(forgotten))

    def close(self) -> None:
        """Has nothing to close."""


class Evolving:
    """Keeps a value and a list; its author adds a map, at which Spark forces a zip.

    Only zips name column families.
    """

    def __init__(self, *, evolved: bool) -> None:
        self._evolved = evolved

    def init(self, handle: Any) -> None:
        """Declares the state."""
        self._total = handle.getValueState("total", "events LONG")
        self._amounts = handle.getListState("amounts", "amount LONG")
        if self._evolved:
            self._hours = handle.getMapState("hours", "hour STRING", "events LONG")

    def handleInputRows(  # noqa: N802
        self, key: tuple[Any, ...], rows: Iterator[Any], _timers: Any
    ) -> Iterator[Any]:
        """Adds a batch to all of them."""
        events = _sorted(rows)
        self._total.update((_first(self._total) + len(events),))
        _append(self._amounts, [(amount,) for _, _, amount in events])
        for _, hour, amount in events if self._evolved else ():
            self._hours.updateValue((hour,), (amount,))
        yield _row(key, _first(self._total), int(self._evolved))

    def close(self) -> None:
        """Has nothing to close."""


def _sorted(frames: Iterator[Any]) -> list[tuple[int, str, int]]:
    """All events of a batch as time, hour and amount."""
    rows = (row for frame in frames for row in frame.itertuples(index=False))
    return sorted((int(row.ms), str(row.hour), int(row.amount)) for row in rows)


def _first(state: Any) -> int:
    return int(state.get()[0]) if state.exists() else 0


def _append(state: Any, values: list[tuple[int]]) -> None:
    """In every way that there is: anew, one by one, and all at once."""
    before = list(state.get()) if state.exists() else []
    if len(before) > 7:
        state.clear()
    elif len(before) == 5:
        state.put(values)
    else:
        state.appendValue(values[0])
        state.appendList(values)


def _row(key: tuple[Any, ...], total: int, kept: int) -> Any:
    # The environment of Spark 3.3 has none.
    import pandas as pd  # type: ignore[import-untyped]  # noqa: PLC0415

    return pd.DataFrame({"name": ["/".join(key)], "total": [total], "kept": [kept]})


def _timed(spark: SparkSession, directory: Path) -> DataFrame:
    return _transform(spark, directory, Timed(), "EventTime")


def _evolving(spark: SparkSession, directory: Path) -> DataFrame:
    """It has evolved where there is more input than that of its first start."""
    evolved = len(list((directory / "events").glob("*.json"))) > EVOLVES
    return _transform(spark, directory, Evolving(evolved=evolved), "ProcessingTime")


def _expiring(spark: SparkSession, directory: Path) -> DataFrame:
    return _transform(spark, directory, Expiring(), "ProcessingTime")


def _transform(spark: SparkSession, directory: Path, processor: Any, time: str) -> DataFrame:
    # Pandas knows no time zones that Spark means; milliseconds have none.
    events = read_stream(spark, directory / "events").selectExpr(
        "key", "substr(id, 1, 3) hour", "amount", "at", "unix_millis(at) ms"
    )
    grouped: Any = events.groupBy("key")
    result: DataFrame = grouped.transformWithStateInPandas(processor, _OUTPUT, "append", time)
    return result


def _crowded_join(spark: SparkSession, directory: Path) -> DataFrame:
    """Many rows have a key in common, some are the same, and some keys are null."""
    events = read_stream(spark, directory / "events")
    payments = read_stream(spark, directory / "payments")
    left = events.selectExpr("id", "nullif(key, 'k0') key", "at")
    right = payments.selectExpr("nullif(key, 'k0') paid", "amount", "at paid_at")
    return left.join(right, f.expr(_PAID_SOON), "leftOuter")


def _chained(spark: SparkSession, directory: Path) -> DataFrame:
    """Three stateful operators, each of which reads what the one before has put out."""
    unique = read_stream(spark, directory / "events").dropDuplicates(["id", "at"])
    hourly = unique.groupBy(f.window("at", "1 hour"), "key").agg(f.sum("amount").alias("amount"))
    later = hourly.groupBy(f.window("window", "3 hours"))
    return later.agg(f.count("*").alias("keys"), f.sum("amount"))


def _changelogs(enabled: bool) -> dict[str, str]:  # noqa: FBT001
    return {f"{STATE_STORE}.rocksdb.changelogCheckpointing.enabled": str(enabled).lower()}


def _rocks(name: str, kind: Kind, conf: Mapping[str, str] | None = None) -> Kind:
    """Keeps the state of a kind in RocksDB; before 3.5, which has no changelogs, in zips."""
    conf = {f"{STATE_STORE}.providerClass": _PROVIDER, **_changelogs(True), **(conf or {})}
    return replace(kind, name=f"rocks-{name}", conf={**kind.conf, **conf})


def _with_ids(kind: Kind) -> Kind:
    conf = {**kind.conf, IDS: "2"}
    return replace(kind, name=f"{kind.name}-ids", conf=conf, since=max(kind.since, (4, 0)))


# By processing time they would run batches for ever, as something may always have expired.
_ONLY_WITH_DATA = {"spark.sql.streaming.noDataMicroBatches.enabled": "false"}
_OTHERS = {kind.name: kind for kind in KINDS}
_AGGREGATION = _OTHERS["aggregation2"]
_EITHER = (
    _rocks("aggregation", _AGGREGATION),
    _rocks("zips", _AGGREGATION, _changelogs(False)),
    _rocks("dedup", _OTHERS["dedup"]),
    _rocks("session-window", _OTHERS["session-window"]),
    *(
        _rocks(f"join{number}", Kind("", _crowded_join, join_format(number), since))
        for number, since in ((2, (3, 3)), (3, (4, 1)), (4, (4, 3)))
    ),
    _rocks("timed", Kind("", _timed, since=(4, 0))),
    _rocks(
        "expiring",
        Kind("", _expiring, _ONLY_WITH_DATA, (4, 0)),
    ),
)
_MAINTAINED = {"rocks-aggregation", "rocks-aggregation-ids", "rocks-zips", "rocks-timed-ids"}
ROCKS_KINDS = (
    *_EITHER,
    *(_with_ids(kind) for kind in _EITHER),
    _rocks("zstd", _OTHERS["aggregation2-zstd"]),
    _rocks("rowchecksum", _OTHERS["aggregation2-rowchecksum"]),
)

_JOINS = tuple(
    Kind(f"join2-{name}", joined(how), join_format(2))
    for name, how in (
        ("right", "rightOuter"),
        ("full", "fullOuter"),
        ("semi", "leftSemi"),
    )
)
_CHAINED = Kind("chained", _chained, since=(3, 4))
_MORE = tuple(
    _rocks(kind.name, kind)
    for kind in (
        _CHAINED,
        _OTHERS["dedup-within-watermark"],
        _OTHERS["pandas-state-timeout"],
    )
)
UNARCHIVED_KINDS = (_CHAINED, *_JOINS, *_MORE, *map(_with_ids, _MORE))
"""Those of which no archive is kept."""

_EVOLVING = _rocks("evolving", Kind("", _evolving, _ONLY_WITH_DATA, (4, 0)))
# 4.0 itself fails to evolve a schema in structure V2: "Expected v1, but found v2".
EVOLVING_KINDS = (_EVOLVING, replace(_with_ids(_EVOLVING), since=(4, 1)))

# Spark's own maintenance, at its most eager. A JVM maintains all that it runs as the first says.
MAINTENANCE = {
    f"{STATE_STORE}.maintenanceInterval": "100ms",
    f"{STATE_STORE}.minDeltasForSnapshot": "2",
    "spark.sql.streaming.minBatchesToRetain": "4",
    "spark.sql.streaming.ratioExtraSpaceAllowedInCheckpoint": "0",
}
MAINTAINED_KINDS = tuple(
    replace(kind, name=f"{kind.name}-maintained", conf={**kind.conf, **MAINTENANCE})
    for kind in ROCKS_KINDS
    if kind.name in _MAINTAINED
)
