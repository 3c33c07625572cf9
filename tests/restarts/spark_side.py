"""Begins and restarts queries with the Spark of whatever environment this runs in.

    python -m tests.restarts.spark_side SLOTS HEAP

Reads a job a line from stdin, and writes a result a line to stdout; both are JSON. It imports
nothing but PySpark.

    {"begin": ROOT, "conf": {...}, "wide": TRUTH}   runs the first batch of a new query; null
    {"restart": ROOT, "wide": TRUTH}                restarts it for one batch: what it took

A restart is measured as its operator sees it: from `start()` until the batch is committed, by the
time at which its entry in the commit log appeared. The session is there already: a cold restart is
the first query of a new process.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

_ROWS = 20
_TEXT = 1024
_CONF = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    # Nothing but the query is to be measured; its provider is unloaded after each restart.
    "spark.sql.streaming.stateStore.maintenanceInterval": "24h",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def main(slots: str, heap: str) -> None:
    """Does jobs until stdin ends; all that others print goes to stderr."""
    results = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    builder = SparkSession.builder.master(f"local[{slots}]").appName("tests/restarts")
    for key, value in {**_CONF, "spark.driver.memory": heap}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for line in sys.stdin:
        job = json.loads(line)
        try:
            done = _done(spark, job)
        except Exception as error:  # noqa: BLE001 -- the next point may succeed
            done = {"failed": str(error)[:500]}
        _forget(spark)
        results.write(f"{json.dumps(done)}\n")
    spark.stop()


def _done(spark: SparkSession, job: dict[str, Any]) -> dict[str, Any]:
    if "begin" not in job:
        return _restart(spark, job)
    _begin(spark, job)
    return {}


def _begin(spark: SparkSession, job: dict[str, Any]) -> None:
    session = spark.newSession()
    for key, value in job["conf"].items():
        session.conf.set(key, value)
    _run(session, Path(job["begin"]), wide=job["wide"])


def _restart(spark: SparkSession, job: dict[str, Any]) -> dict[str, Any]:
    checkpoint = Path(job["restart"])
    before = _newest(checkpoint)
    began = time.time()
    progress = _run(spark.newSession(), checkpoint, wide=job["wide"])
    committed = checkpoint / "commits" / str(before + 1)
    rows = [operator["numRowsTotal"] for operator in progress["stateOperators"]]
    return {
        "seconds": committed.stat().st_mtime - began,
        "batches": _newest(checkpoint) - before,
        "rows": sum(rows),
        "phases": progress["durationMs"],
    }


def _run(session: SparkSession, checkpoint: Path, *, wide: bool) -> dict[str, Any]:
    rate = session.readStream.format("rate-micro-batch").option("rowsPerBatch", _ROWS)
    query = _counted(rate.option("numPartitions", 1).load(), wide=wide)
    writer = query.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
    running = writer.option("checkpointLocation", str(checkpoint)).start()
    running.awaitTermination()
    last: Any = running.lastProgress
    found: dict[str, Any] = last if isinstance(last, dict) else json.loads(last.json)
    return found


def _counted(rows: DataFrame, *, wide: bool) -> DataFrame:
    """Returns an aggregation whose state has the columns of the rows in `shapes`."""
    user = f.lpad(f.hex(f.col("value")), 16, "0").alias("user")
    if wide:
        text = f.lpad(f.hex(f.col("value")), _TEXT, "0").alias("text")
        return rows.select(user, text).groupBy("user").agg(f.max("text"))
    return rows.select(user, "timestamp").groupBy("user").agg(f.count("*"), f.max("timestamp"))


def _newest(checkpoint: Path) -> int:
    return max(int(path.name) for path in (checkpoint / "commits").glob("[0-9]*"))


def _forget(spark: SparkSession) -> None:
    """Unloads what state the process still has: its memory is for the next point."""
    jvm: Any = spark._jvm
    states = jvm.org.apache.spark.sql.execution.streaming.state
    getattr(getattr(states, "StateStore$"), "MODULE$").unloadAll()
    jvm.System.gc()


if __name__ == "__main__":
    main(*sys.argv[1:])
