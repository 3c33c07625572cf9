"""The hourly job whose state is not maintained: orders joined with payments, then aggregated.

One query, two stateful operators. Operator 1 is a stream-stream left outer join (four stores),
operator 0 a windowed aggregation in append mode (one store). All its files are below one root:
`input/`, `checkpoint/` and `output/`. Input files are remembered by name only and the output is
written by this module, so that a copy of the root continues independently, wherever it is.
"""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tools.demo.events import write_atomically, write_hours
from tools.demo.session import local_session

PARTITIONS = 4
MIN_BATCHES_TO_RETAIN = 8

_ORDERS = "order_id STRING, region STRING, amount_cents LONG, ordered_at TIMESTAMP"
_PAYMENTS = "paid_order_id STRING, paid_cents LONG, paid_at TIMESTAMP"
_LATENESS = "30 minutes"
_PAID_IN_TIME = """
    paid_order_id = order_id
    AND paid_at BETWEEN ordered_at AND ordered_at + INTERVAL 2 HOURS
"""


def run_hours(
    root: Path,
    *,
    hours: Iterable[int],
    seed: int,
    progress: Callable[[int], None],
) -> None:
    """Runs the job once for each of `hours`, as a scheduler does, and reports each completed hour.

    Each run has its own Spark with default maintenance settings. It adds two state versions (the
    hour's data, then an empty batch that advances the watermark) and ends before its first
    maintenance is due. Hence no snapshot is written and no state file deleted, while the commit log
    keeps `MIN_BATCHES_TO_RETAIN + 1` batches. Beyond 50 versions, Spark 4.2 and later requests a
    snapshot at a commit.
    """
    conf = {
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.sql.streaming.minBatchesToRetain": str(MIN_BATCHES_TO_RETAIN),
    }
    for hour in hours:
        write_hours(root / "input", hours=[hour], seed=seed)
        with local_session("statemaint-demo", conf) as spark:
            hourly_job(spark, root).trigger(availableNow=True).start().awaitTermination()
        progress(hour)


def hourly_job(
    spark: SparkSession, root: Path, *, max_files_per_trigger: int | None = None
) -> DataStreamWriter:
    """Returns the job on `root`, ready for a trigger; by default all new files make one batch."""

    def read(name: str, schema: str) -> DataFrame:
        # The source's log contains absolute paths. By name only, a copied file counts as seen; for
        # a pattern, unlike a directory, a restart does not require its last files to be below it.
        reader = spark.readStream.schema(schema).option("fileNameOnly", "true")
        if max_files_per_trigger is not None:
            reader = reader.option("maxFilesPerTrigger", max_files_per_trigger)
        return reader.json(str(root / "input" / name / "*.json"))

    return (
        revenue(read("orders", _ORDERS), read("payments", _PAYMENTS))
        .writeStream.outputMode("append")
        .foreachBatch(partial(_write_batch, output=root / "output"))
        .option("checkpointLocation", str(root / "checkpoint"))
    )


def revenue(orders: DataFrame, payments: DataFrame) -> DataFrame:
    """Returns orders, revenue and unpaid orders by region and hour, once the hour is complete."""
    timely = orders.withWatermark("ordered_at", _LATENESS)
    joined = timely.join(
        payments.withWatermark("paid_at", _LATENESS), f.expr(_PAID_IN_TIME), "leftOuter"
    )
    return (
        joined.groupBy(f.window("ordered_at", "1 hour").alias("hour"), "region")
        .agg(
            f.count("*").alias("orders"),
            f.sum(f.coalesce("paid_cents", f.lit(0))).alias("revenue_cents"),
            f.count_if(f.isnull("paid_order_id")).alias("unpaid"),
        )
        .withColumn("hour", f.col("hour.start"))
    )


def output_rows(root: Path) -> list[str]:
    """Returns all rows that the job has written below `root`, as sorted JSON lines."""
    files = (root / "output").glob("batch-*.json")
    return sorted(line for file in files for line in file.read_text().splitlines())


def _write_batch(rows: DataFrame, batch_id: int, *, output: Path) -> None:
    # A file sink's own log would pin absolute paths. A batch that runs again replaces its file.
    lines = sorted(row[0] for row in rows.select(f.to_json(f.struct("*"))).collect())
    write_atomically(output / f"batch-{batch_id:05d}.json", lines)
