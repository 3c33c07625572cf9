"""Queries that run side by side until they are stopped: `python -m tests.soak.live_query ROOT`.

With `--restart`, each savepoint of `ROOT/<kind>/restart.json` is started instead, one after the
other, for some batches. Every batch writes what it puts out, and how often it did.
"""

import json
import sys
import time
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from tests.soak.live_truth import DELAY, ROWS, START, USERS, WINDOW, write_input
from tools.demo.session import local_session

RETAINED = 8
RESTARTED = 5
"""So many batches are run from a savepoint."""
_STATE = "spark.sql.streaming.stateStore"
_ROCKSDB = {
    f"{_STATE}.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true",
}
KINDS: dict[str, dict[str, str]] = {
    "hdfs": {},
    "rocksdb": _ROCKSDB,
    "rocksdb-ids": {**_ROCKSDB, f"{_STATE}.checkpointFormatVersion": "2"},
}
_CONF = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.minBatchesToRetain": str(RETAINED),
    f"{_STATE}.minDeltasForSnapshot": "5",
    f"{_STATE}.maintenanceInterval": "2s",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # The files of the newest batches, and the log of them, are compacted and cleaned up too.
    "spark.sql.streaming.fileSource.log.compactInterval": "5",
    "spark.sql.streaming.fileSource.log.cleanupDelay": "1s",
}
_POLL = 0.1


def run(root: Path) -> None:
    """Runs every query until `ROOT/stop` is there; a failed one ends all."""
    with local_session("live", _CONF) as spark:
        queries = [_start(spark, kind, root, root / kind) for kind in KINDS]
        while not (root / "stop").exists() and all(one.isActive for one in queries):
            time.sleep(_POLL)
        for one in queries:
            one.stop()
        if failed := [str(one.exception()) for one in queries if one.exception()]:
            raise SystemExit("\n".join(failed))


def restart(root: Path) -> None:
    """Starts each savepoint that is named, by its newest batch, until it has run some more."""
    with local_session("restart", _CONF) as spark:
        for kind in KINDS:
            for name, batch in json.loads((root / kind / "restart.json").read_text()).items():
                place = root / kind / "saved" / name
                query = _start(spark, kind, root, place)
                last = place / "output" / f"{batch + RESTARTED}.json"
                while not last.exists() and query.isActive:
                    time.sleep(_POLL)
                query.stop()
                if error := query.exception():
                    raise SystemExit(f"{place}: {error}")


def _start(spark: SparkSession, kind: str, root: Path, place: Path) -> StreamingQuery:
    session = spark.newSession()
    for key, value in {**_CONF, **KINDS[kind]}.items():
        session.conf.set(key, value)
    rows = (_files if kind == "hdfs" else _rate)(session, root)
    (place / "output").mkdir(parents=True, exist_ok=True)
    return (
        rows.withWatermark("at", f"{DELAY} seconds")
        .groupBy(f.window("at", f"{WINDOW} seconds"), f.expr(f"value * value % {USERS}"))
        .agg(f.count("*"), f.sum("value"))
        .toDF("window", "user", "events", "total")
        .selectExpr("CAST(window.end AS LONG)", "user", "events", "total")
        .writeStream.outputMode("update")
        .foreachBatch(partial(_put_out, folder=place / "output", feed=kind == "hdfs"))
        .option("checkpointLocation", str(place / "checkpoint"))
        .start()
    )


def _rate(session: SparkSession, _: Path) -> DataFrame:
    reader = session.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS)
    reader = reader.option("numPartitions", 1).option("startTimestamp", START * 1000)
    return reader.load().selectExpr("value", "timestamp AS at")


def _files(session: SparkSession, root: Path) -> DataFrame:
    folder = root / "input"
    if not folder.exists():
        folder.mkdir()
        write_input(folder, 0)
    reader = session.readStream.schema("value LONG, timestamp LONG").option("maxFilesPerTrigger", 1)
    return reader.json(str(folder)).selectExpr("value", "timestamp_seconds(timestamp) AS at")


def _put_out(rows: DataFrame, batch: int, *, folder: Path, feed: bool) -> None:
    """Writes the rows of a batch, and the number of times; the next batch has its input then."""
    file = folder / f"{batch}.json"
    times = 1 + (json.loads(file.read_text())["times"] if file.exists() else 0)
    found = sorted([int(number) for number in row] for row in rows.collect())
    temp = folder / f".{batch}"
    temp.write_text(json.dumps({"times": times, "rows": found}))
    temp.rename(file)
    inputs = folder.parent.parent / "input"
    if feed and inputs.exists():
        write_input(inputs, batch + 1)


if __name__ == "__main__":
    (restart if "--restart" in sys.argv[2:] else run)(Path(sys.argv[1]))
