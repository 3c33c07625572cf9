"""Revenue by region and hour: a run each hour takes what is new, and ends.

    spark-submit hourly_revenue.py ORDERS REVENUE CHECKPOINT

`own_dag.py` runs it, with the gate before it and the maintenance of its state behind it.
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

_STATE = "spark.sql.streaming.stateStore"
SETTINGS = {
    # Maintenance keeps as many batches by default; never let it keep fewer.
    "spark.sql.streaming.minBatchesToRetain": "100",
    # A number that no chain reaches. Executors of a run that takes longer than a minute would
    # maintain the state as well. `maintenanceInterval` stays as it is.
    f"{_STATE}.minDeltasForSnapshot": "1000000",
    # Spark 4.2 and later ask for snapshots besides; earlier ones do not know these settings.
    f"{_STATE}.forceSnapshotUploadOnLag": "false",
    f"{_STATE}.coordinatorReportSnapshotUploadLag": "false",
}
_ORDERS = "order_id STRING, region STRING, amount_cents LONG, ordered_at TIMESTAMP"


def revenue(orders: DataFrame) -> DataFrame:
    """Returns the orders and the revenue of each region and hour, once the hour is complete."""
    return (
        orders.withWatermark("ordered_at", "30 minutes")
        .dropDuplicatesWithinWatermark(["order_id"])
        .groupBy(f.window("ordered_at", "1 hour").alias("hour"), "region")
        .agg(f.count("*").alias("orders"), f.sum("amount_cents").alias("revenue_cents"))
    )


def run(spark: SparkSession, source: str, target: str, checkpoint: str) -> None:
    """Takes what is new since the last run, and returns when all of it is done."""
    orders = spark.readStream.schema(_ORDERS).json(source)
    started = (
        revenue(orders)
        .writeStream.outputMode("append")
        .format("parquet")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start(target)
    )
    started.awaitTermination()


if __name__ == "__main__":
    builder = SparkSession.builder.appName("hourly_revenue")
    for setting, value in SETTINGS.items():
        builder = builder.config(setting, value)
    run(builder.getOrCreate(), *sys.argv[1:])
