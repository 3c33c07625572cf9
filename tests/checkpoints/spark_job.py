"""Runs and reads streaming queries with the Spark of whatever environment this runs in.

    python spark_job.py JOBS RESULTS

JOBS is a file with a list of jobs, RESULTS will be one with a result for each:

    {"run": KIND, "input": DIRECTORY, "root": DIRECTORY, "conf": {...}}
                            all files of the input, a batch each; the result is null
    {"read": CHECKPOINT, "newest": NUMBER, "placed": TRUTH}
                            what Spark's state reader finds at so many of the newest batches, or
                            at all (null), with the partition of each row unless placed is false:
                            {STORE: {BATCH: {rows, digest}}}

`state_reader` says what a STORE is. One start of a JVM serves all jobs, of which no two may be of
one query: six are done at a time, as one alone leaves the cores idle half of the time.
"""

import json
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.checkpoints.queries import KINDS
from tests.checkpoints.rocks_queries import (
    EVOLVING_KINDS,
    MAINTAINED_KINDS,
    ROCKS_KINDS,
    UNARCHIVED_KINDS,
)
from tests.checkpoints.state_reader import read

_ALL = (*KINDS, *ROCKS_KINDS, *MAINTAINED_KINDS, *EVOLVING_KINDS, *UNARCHIVED_KINDS)
_AT_A_TIME = 6
_STATE = "org.apache.spark.sql.execution.streaming.state"
_CONF = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC "
        "-Djdk.lang.Process.launchMechanism=VFORK"
    ),
    "spark.driver.host": "127.0.0.1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.catalogImplementation": "in-memory",
    # To compile code for a few rows would be most of the work.
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.minBatchesToRetain": "8",
    # 4.1 asks for the coordinator where only a query has one.
    "spark.sql.streaming.stateStore.coordinatorReportSnapshotUploadLag": "false",
    "spark.sql.streaming.stateStore.forceSnapshotUploadOnLag": "false",
    # Neglect: no maintenance while this runs. A query's end does not end its maintenance.
    "spark.sql.streaming.stateStore.maintenanceInterval": "24h",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def main(jobs: Path, results: Path) -> None:
    builder = SparkSession.builder.master("local[2]").appName("tests/checkpoints")
    for key, value in _CONF.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    if spark.version.startswith("4.0."):
        # A JVM of this version reads and writes zips in one of two formats, by the session that
        # needs it first: this one. So queries with unique ids and without can share it, and the
        # reader of Spark 4.3 can read all; what 4.0 writes for ids alone, it could not.
        jvm: Any = spark._jvm
        jvm.java.lang.Class.forName(f"{_STATE}.RocksDBCheckpointMetadata$")
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        done = list(pool.map(partial(_do, spark), json.loads(jobs.read_text())))
    results.write_text(json.dumps(done))
    spark.stop()


def _do(spark: SparkSession, job: dict[str, Any]) -> Any:
    if "run" in job:
        return _run(spark, job)
    return read(spark, Path(job["read"]), job["newest"], placed=job["placed"])


def _run(spark: SparkSession, job: dict[str, Any]) -> None:
    (kind,) = (one for one in _ALL if one.name == job["run"])
    root = Path(job["root"])
    session = _session(spark, {**kind.conf, **job["conf"]})
    writer = kind.query(session, Path(job["input"])).writeStream.format("json").outputMode("append")
    writer = writer.option("checkpointLocation", str(root / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(root / "output"))
    query.awaitTermination()


def _session(spark: SparkSession, conf: Mapping[str, str]) -> SparkSession:
    session = spark.newSession()
    for key, value in conf.items():
        session.conf.set(key, value)
    return session


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
