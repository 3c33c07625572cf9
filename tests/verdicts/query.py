"""The queries of the verdict matrix.

Some have two stateful operators: operator 0 is a windowed aggregation, operator 1 a deduplication
(one store) or a left outer join (four). The others have one, whose stores have column families:
transformWithState, or a join of format 3 or 4.

Spark runs its own maintenance at the end of each task (`unloadOnCommit`), so that every batch loads
its state from files and snapshots lie at known versions; it never does so for a join, whose stores
have their whole log and no snapshot but the zip that names their column families.

A run ends with an event far in the future, which closes every window: what the query puts out is
then all that its state held.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum, unique
from functools import partial
from pathlib import Path
from typing import Any, cast

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamReader

from tests.verdicts.processor import KEPT, EvolvedOrders, Orders, ReducedOrders

_STATE = "spark.sql.streaming.stateStore"
_CLASSES = "org.apache.spark.sql.execution.streaming.state"
_JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
_ROCKS = {
    f"{_STATE}.providerClass": f"{_CLASSES}.RocksDBStateStoreProvider",
    f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true",
    f"{_STATE}.minDeltasForSnapshot": "4",
}
BATCHES = 10
EVOLVES = 2
"""The first batch of transformWithState after its author added or removed a state variable."""


@unique
class Layout(StrEnum):
    """What the state looks like on disk."""

    HDFS_BACKED = "HDFS-backed"
    ROCKS_V1 = "RocksDB V1"
    ROCKS_V2 = "RocksDB V2"

    @property
    def conf(self) -> Mapping[str, str]:
        match self:
            case Layout.HDFS_BACKED:  # it snapshots one delta later than RocksDB
                return {f"{_STATE}.minDeltasForSnapshot": "3"}
            case Layout.ROCKS_V1:
                return _ROCKS
            case Layout.ROCKS_V2:
                return {**_ROCKS, f"{_STATE}.checkpointFormatVersion": "2"}


@unique
class Shape(StrEnum):
    """Which query it is; a join costs more than twice the time of a deduplication."""

    DEDUPLICATION = "deduplication"
    JOIN = "join"
    TRANSFORM = "transformWithState"
    EVOLVED = "transformWithState with a variable added"
    REDUCED = "transformWithState with a variable removed"
    JOIN_3 = "join of format 3"
    JOIN_4 = "join of format 4"

    @property
    def conf(self) -> Mapping[str, str]:
        match self:
            case Shape.JOIN_3:
                return {_JOIN_FORMAT: "3"}
            case Shape.JOIN_4:
                return {_JOIN_FORMAT: "4"}
            case _:
                return {}

    @property
    def operators(self) -> int:
        return 2 if self in {Shape.DEDUPLICATION, Shape.JOIN} else 1


SESSION = {
    "spark.sql.adaptive.enabled": "false",
    # Compiling code for a few rows would be most of the work.
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.minBatchesToRetain": "100",
    f"{_STATE}.coordinatorReportSnapshotUploadLag": "false",
    f"{_STATE}.forceSnapshotUploadOnLag": "false",
    f"{_STATE}.maintenanceInterval": "24h",
    f"{_STATE}.unloadOnCommit": "true",
}
_BUILDING = {"spark.sql.streaming.noDataMicroBatches.enabled": "false"}

_ORDERS = "order_id STRING, region STRING, cents LONG, ordered_at TIMESTAMP"
_PAYMENTS = "paid_order_id STRING, paid_cents LONG, paid_at TIMESTAMP"
_PAID_IN_TIME = """
    paid_order_id = order_id
    AND paid_at BETWEEN ordered_at AND ordered_at + INTERVAL 2 HOURS
"""
_START = datetime(2026, 1, 1, tzinfo=UTC)
_MS = int(_START.timestamp() * 1000)
_PER_HOUR = 6
_FAR = 24 * 365
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")
_EXCEPTION = re.compile(r"\b(?:[a-z]+\.)+([A-Z]\w*(?:Exception|Error))\b:? ?([^\n]{0,80})")
_CAUSE = re.compile(r"terminated with exception: (.{0,100}?)(?: SQLSTATE|\n|$)")
_SLOW = ("Python worker failed to connect back", "CANNOT_OPEN_SOCKET")
"""What a machine that has too much to do brings about, and no state."""
_TRIES = 5
_WRAPPERS = ("STREAM_FAILED", "FAILED_EXECUTE_UDF")


@dataclass(frozen=True, slots=True)
class Run:
    """How a run of the query ended.

    Attributes:
        error: what Spark refused with; `None` where the run came to its end.
        text: all that Spark said with it.
    """

    error: str | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Query:
    """A query of one layout and one shape.

    Attributes:
        spark: the session of all of them.
        layout: what its state looks like.
        shape: which query it is.
    """

    spark: SparkSession
    layout: Layout
    shape: Shape

    def build(self, root: Path) -> None:
        """Runs for `BATCHES` batches below a root; its author may change it meanwhile."""
        one_by_one = {"maxFilesPerTrigger": "1"}
        evolves = EVOLVES if self.shape in {Shape.EVOLVED, Shape.REDUCED} else 0
        if evolves:
            _write_hours(root / "input", range(evolves))
            self._run(root, _BUILDING, one_by_one, Orders())
        _write_hours(root / "input", range(evolves, BATCHES))
        self._run(root, _BUILDING, one_by_one, self._processor)

    def go_on(self, root: Path, hours: int = 1) -> Run:
        """Restarts on some more files of input, the last of which closes all windows."""
        _write_hours(root / "input", range(BATCHES, BATCHES + hours), last=BATCHES + hours - 1)
        run = self._try(root, hours)
        for _ in range(_TRIES):
            if not any(one in run.text for one in _SLOW):
                return run
            run = self._try(root, hours)
        raise TimeoutError(run.text)

    def _try(self, root: Path, hours: int) -> Run:
        try:
            one_by_one = {"maxFilesPerTrigger": "1"}
            self._run(root, {}, one_by_one if hours > 1 else {}, self._processor)
        except (PySparkException, Py4JJavaError) as error:
            return Run(_named(str(error)), str(error))
        finally:
            _stop_stores(self.spark)
        return Run()

    @property
    def _processor(self) -> Orders:
        match self.shape:
            case Shape.EVOLVED:
                return EvolvedOrders()
            case Shape.REDUCED:
                return ReducedOrders()
            case _:
                return Orders()

    def _run(
        self, root: Path, conf: Mapping[str, str], options: Mapping[str, str], processor: Orders
    ) -> None:
        session = self.spark.newSession()
        for key, value in {**SESSION, **self.layout.conf, **self.shape.conf, **conf}.items():
            session.conf.set(key, value)
        read = partial(_read, session.readStream.options(**options))
        orders = read(root / "input" / "orders", _ORDERS).withWatermark("ordered_at", "1 hour")
        match self.shape:
            case Shape.DEDUPLICATION:
                rows = _hours(orders.dropDuplicates(["order_id", "ordered_at"]))
            case Shape.JOIN:
                rows = _hours(_paid(orders, read, root))
            case Shape.JOIN_3 | Shape.JOIN_4:
                rows = _paid(orders, read, root)
            case Shape.TRANSFORM | Shape.EVOLVED | Shape.REDUCED:
                rows = _kept(orders, processor)
        writer = rows.writeStream.outputMode("append")
        writer = writer.foreachBatch(partial(_put_out, root / "output"))
        writer = writer.option("checkpointLocation", str(root / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()


def output(root: Path, since: int = 0) -> Counter[str]:
    """Returns all rows that the query has put out since a time, in nanoseconds."""
    files = [file for file in (root / "output").glob("*.json") if file.stat().st_mtime_ns > since]
    return Counter(row for file in files for row in json.loads(file.read_text()))


def _named(text: str) -> str:
    conditions = [one for one in _CONDITION.findall(text) if one not in _WRAPPERS]
    if conditions:
        return str(conditions[-1])
    exceptions = [one for one in _EXCEPTION.findall(text) if one[0] != "SparkException"]
    if exceptions:
        return ": ".join(exceptions[-1]).rstrip(": ")
    cause = _CAUSE.search(text)
    return cause[1] if cause else text[:120]


def _hours(rows: DataFrame) -> DataFrame:
    paid = [f.sum("paid_cents")] if "paid_cents" in rows.columns else []
    hours = rows.groupBy(f.window("ordered_at", "1 hour"), "region")
    return hours.agg(f.count("*").alias("orders"), f.sum("cents"), *paid)


def _paid(orders: DataFrame, read: Callable[[Path, str], DataFrame], root: Path) -> DataFrame:
    payments = read(root / "input" / "payments", _PAYMENTS).withWatermark("paid_at", "1 hour")
    return orders.join(payments, f.expr(_PAID_IN_TIME), "leftOuter")


def _kept(orders: DataFrame, processor: Orders) -> DataFrame:
    hour = f.expr(f"(unix_millis(ordered_at) - {_MS}) div 3600000 AS hour")
    grouped: Any = orders.select("region", "order_id", "cents", "ordered_at", hour)
    kept = grouped.groupBy("region").transformWithState(processor, KEPT, "append", "EventTime")
    return cast(DataFrame, kept)


def _read(reader: DataStreamReader, directory: Path, schema: str) -> DataFrame:
    # The source's log holds absolute paths; by name alone a file counts as seen in a copy as well.
    return reader.schema(schema).option("fileNameOnly", "true").json(str(directory / "*.json"))


def _put_out(folder: Path, rows: DataFrame, batch: int) -> None:
    found = sorted(row[0] for row in rows.select(f.to_json(f.struct("*"))).collect())
    folder.mkdir(exist_ok=True)
    (folder / f"{batch}.json").write_text(json.dumps(found))


def _write_hours(folder: Path, hours: Iterable[int], *, last: int = -1) -> None:
    for hour in hours:
        numbers = range(_PER_HOUR)
        # One order of the hour before comes once more.
        orders = [_order(hour - 1, _PER_HOUR - 1), *(_order(hour, number) for number in numbers)]
        # Half of the payments come an hour later than their orders, and some never.
        payments = [_payment(hour, number) for number in numbers if number % 3]
        if hour >= BATCHES:  # more orders of windows that are open already
            orders += [_order(hour - 1, number, late=True) for number in numbers]
        if hour == last:
            orders.append(_order(_FAR, 0))
            payments.append(_payment(_FAR, 0))
        _write(folder / "orders" / f"hour-{hour:04d}.json", orders)
        _write(folder / "payments" / f"hour-{hour:04d}.json", payments)


def _order(hour: int, number: int, *, late: bool = False) -> dict[str, Any]:
    return {
        "order_id": f"{hour}-{number}{'-late' if late else ''}",
        "region": f"region {number % 3}",
        "cents": 100 * hour + number,
        "ordered_at": _time(hour, number),
    }


def _payment(hour: int, number: int) -> dict[str, Any]:
    return {
        "paid_order_id": f"{hour - number % 2}-{number}",
        "paid_cents": 1000 * hour + number,
        "paid_at": _time(hour, number),
    }


def _time(hour: int, number: int) -> str:
    at = _START + timedelta(hours=hour, minutes=60 // _PER_HOUR * number)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def _stop_stores(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()
