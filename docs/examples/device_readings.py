"""The mean of each device's readings over five minutes: a query that runs until it is stopped.

    spark-submit device_readings.py READINGS MEANS CHECKPOINT

Its executors spend their cores on batches: `device_readings_dag.py` starts it behind the gate, and
maintains its state beside it while it runs.
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

_STATE = "spark.sql.streaming.stateStore"
SETTINGS = {
    f"{_STATE}.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # A batch writes its changes only; without this, every batch uploads a snapshot.
    f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true",
    # Maintenance keeps as many batches by default; never let it keep fewer.
    "spark.sql.streaming.minBatchesToRetain": "100",
    # A number that no chain reaches, so that executors upload no snapshots (500 with
    # `checkpointFormatVersion` 2). `maintenanceInterval` stays as it is: the same thread unloads
    # the stores that moved to another executor.
    f"{_STATE}.minDeltasForSnapshot": "1000000",
    # Spark 4.2 and later ask for snapshots besides; earlier ones do not know these settings.
    f"{_STATE}.forceSnapshotUploadOnLag": "false",
    f"{_STATE}.coordinatorReportSnapshotUploadLag": "false",
}
_READINGS = "device STRING, celsius DOUBLE, read_at TIMESTAMP"


def means(readings: DataFrame) -> DataFrame:
    """Returns the readings and their mean of each device and five minutes, once they are over."""
    return (
        readings.withWatermark("read_at", "10 minutes")
        .groupBy(f.window("read_at", "5 minutes").alias("time"), "device")
        .agg(f.count("*").alias("readings"), f.avg("celsius").alias("celsius"))
    )


def start(
    spark: SparkSession, source: str, target: str, checkpoint: str, every: str = "10 seconds"
) -> StreamingQuery:
    """Starts the query, with a batch in each interval."""
    readings = spark.readStream.schema(_READINGS).json(source)
    return (
        means(readings)
        .writeStream.outputMode("append")
        .format("parquet")
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime=every)
        .start(target)
    )


if __name__ == "__main__":
    builder = SparkSession.builder.appName("device_readings")
    for setting, value in SETTINGS.items():
        builder = builder.config(setting, value)
    start(builder.getOrCreate(), *sys.argv[1:]).awaitTermination()
