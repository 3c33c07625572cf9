"""One query of the soak, run to the end of its input: `python -m tests.soak.query KIND ROOT`.

It keeps no state in memory between batches, so that every batch reads its files anew; and each
batch writes one file, so that a batch that runs again replaces what it wrote before.
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tools.demo.session import local_session

# The query's own promise, and so the tightest that maintenance may be. A rewind needs some: Spark
# restarts only with the offsets of two batches.
BATCHES_TO_RETAIN = 4

_CONF = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.minBatchesToRetain": str(BATCHES_TO_RETAIN),
    "spark.sql.streaming.maxBatchesToRetainInMemory": "0",
    # As an operator sets it who leaves maintenance to statemaint.
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "1000000",
    "spark.sql.streaming.stateStore.forceSnapshotUploadOnLag": "false",
}
_SCHEMA = "user LONG, value LONG, at TIMESTAMP"


def run(kind: str, root: Path) -> None:
    """Runs a query until its input is used up."""
    make, conf = KINDS[kind]
    with local_session(f"soak {kind}", {**_CONF, **conf}) as spark:
        rows = make(spark, root.parent / "input")
        write = partial(_write_batch, folder=root / "output")
        query = (
            rows.writeStream.outputMode("append")
            .foreachBatch(write)
            .option("checkpointLocation", str(root / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()


def _aggregation(spark: SparkSession, folder: Path) -> DataFrame:
    """Short windows: nearly all of the state is removed again a few batches later."""
    events = _read(spark, folder / "left").withWatermark("at", "20 seconds")
    return events.groupBy(f.window("at", "10 seconds"), "user").agg(
        f.count("*").alias("events"), f.sum("value").alias("total")
    )


def _outer_join(spark: SparkSession, folder: Path) -> DataFrame:
    left = _read(spark, folder / "left").withWatermark("at", "20 seconds")
    right = _read(spark, folder / "right").withWatermark("at", "20 seconds")
    both = right.selectExpr("user AS other", "value AS paid", "at AS paid_at")
    near = "user = other AND paid_at BETWEEN at AND at + INTERVAL 30 SECONDS"
    return left.join(both, f.expr(near), "leftOuter")


_STATE = "spark.sql.streaming.stateStore"
_ROCKSDB = {
    f"{_STATE}.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true",
}
Query = Callable[[SparkSession, Path], DataFrame]
KINDS: dict[str, tuple[Query, dict[str, str]]] = {
    "aggregation": (_aggregation, {}),
    "outer-join": (_outer_join, {}),
    "aggregation-rocksdb": (_aggregation, _ROCKSDB),
    "outer-join-rocksdb-ids": (
        _outer_join,
        {**_ROCKSDB, f"{_STATE}.checkpointFormatVersion": "2"},
    ),
}


def _read(spark: SparkSession, folder: Path) -> DataFrame:
    reader = spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.json(str(folder))


def _write_batch(rows: DataFrame, batch: int, *, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    lines = sorted(rows.toJSON().collect())
    temp = folder / f".{batch}.tmp"
    temp.write_text("".join(f"{line}\n" for line in lines))
    temp.rename(folder / f"{batch:05d}.json")


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]))
