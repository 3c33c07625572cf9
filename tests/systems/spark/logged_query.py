"""Runs a query and restarts it twice in one Spark with an event log: prints the seconds of each.

python -m tests.systems.spark.logged_query CHECKPOINT LOGS [KEY=VALUE ...]
"""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from tools.demo.session import local_session


def main(checkpoint: str, logs: str, *conf: str) -> None:
    settings = dict(each.split("=", 1) for each in conf)
    settings |= {"spark.eventLog.enabled": "true", "spark.eventLog.dir": Path(logs).as_uri(),
                 "spark.sql.shuffle.partitions": "2"}  # fmt: skip
    with local_session("logged", settings) as spark:
        took = [_run(spark, checkpoint) for _ in range(3)]
    sys.stdout.write(f"\n{json.dumps(took)}\n")


def _run(spark: SparkSession, checkpoint: str) -> float:
    began = time.monotonic()
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 20).load()
    counted = rate.groupBy((f.col("value") % 5).alias("key")).count()
    writer = counted.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
    writer.option("checkpointLocation", checkpoint).start().awaitTermination()
    return time.monotonic() - began


if __name__ == "__main__":
    main(*sys.argv[1:])
