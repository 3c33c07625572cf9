"""Runs and reads streaming queries with the Spark of whatever environment this runs in.

    python spark_job.py JOBS RESULTS

JOBS is a file with a list of jobs, RESULTS will be one with a result for each:

    {"run": KIND, "input": DIRECTORY, "root": DIRECTORY}   all files of the input, a batch each;
                                                           the result is null
    {"read": CHECKPOINT}                                   what Spark's state reader finds:
                                                           {STORE: {BATCH: {rows, digest}}}

A STORE is `operator/name`. The reader is Spark 4.0's or later; it also reads checkpoints of older
Sparks, which have no operator metadata. One start of a JVM serves all jobs.
"""

import hashlib
import json
import sys
from collections.abc import Iterable, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.checkpoints.queries import KINDS

_CONF = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.catalogImplementation": "in-memory",
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
# To compile code for a few rows would be most of the work.
_READING = {
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
}
# By default `to_json` drops nulls and all below a millisecond.
_JSON = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}


def main(jobs: Path, results: Path) -> None:
    """Does all jobs in one session."""
    builder = SparkSession.builder.master("local[2]").appName("tests/checkpoints")
    for key, value in _CONF.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    done = [_do(spark, job) for job in json.loads(jobs.read_text())]
    results.write_text(json.dumps(done))
    spark.stop()


def _do(spark: SparkSession, job: dict[str, str]) -> Any:
    if "run" in job:
        return _run(spark, job["run"], Path(job["input"]), Path(job["root"]))
    return _read(spark, Path(job["read"]))


def _run(spark: SparkSession, name: str, directory: Path, root: Path) -> None:
    (kind,) = (one for one in KINDS if one.name == name)
    session = _session(spark, kind.conf)
    writer = kind.query(session, directory).writeStream.format("json").outputMode("append")
    writer = writer.option("checkpointLocation", str(root / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(root / "output"))
    query.awaitTermination()


def _session(spark: SparkSession, conf: Mapping[str, str]) -> SparkSession:
    session = spark.newSession()
    for key, value in conf.items():
        session.conf.set(key, value)
    return session


def _read(spark: SparkSession, checkpoint: Path) -> dict[str, dict[str, dict[str, Any]]]:
    session = _session(spark, _READING)
    batches = [int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit()]
    return {
        f"{operator}/{store}": _read_store(session, checkpoint, (operator, store), sorted(batches))
        for operator, store in sorted(_stores(checkpoint / "state"))
    }


def _stores(state: Path) -> Iterable[tuple[int, str]]:
    """The directories say it as well for the Sparks that write no operator metadata."""
    for operator in state.iterdir():
        named = [path.name for path in (operator / "0").iterdir() if path.is_dir()]
        names = [name for name in named if not name.startswith("_")] or ["default"]
        yield from ((int(operator.name), name) for name in names)


def _read_store(
    spark: SparkSession, checkpoint: Path, store: tuple[int, str], batches: Iterable[int]
) -> dict[str, dict[str, Any]]:
    """One Spark job for all batches: most of a small read is the cost of starting one."""
    states = (_load(spark, checkpoint, store, batch) for batch in batches)
    rows = reduce(DataFrame.union, states).collect()
    return {
        str(batch): _digest(sorted(row["json"] for row in rows if row["batch"] == batch))
        for batch in batches
    }


def _load(spark: SparkSession, checkpoint: Path, store: tuple[int, str], batch: int) -> DataFrame:
    operator, name = store
    reader = spark.read.format("statestore").option("batchId", batch)
    state = reader.option("operatorId", operator).option("storeName", name).load(str(checkpoint))
    row = f.to_json(f.struct("partition_id", "key", "value"), _JSON)
    return state.select(f.lit(batch).alias("batch"), row.alias("json"))


def _digest(lines: list[str]) -> dict[str, Any]:
    digest = hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()
    return {"rows": len(lines), "digest": digest[:32]}


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
