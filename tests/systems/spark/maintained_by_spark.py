"""A job whose executors do maintain its state: snapshots of Spark's own."""

from pathlib import Path

from tools.demo.events import write_hours
from tools.demo.pipeline import hourly_job
from tools.demo.session import local_session

CONF = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.minBatchesToRetain": "4",
    "spark.sql.streaming.stateStore.maintenanceInterval": "50ms",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
}


def run(root: Path, hours: int) -> None:
    """Runs the hourly job with in-executor maintenance at its most eager."""
    write_hours(root / "input", hours=range(hours), seed=1)
    with local_session("maintained-by-spark", CONF) as spark:
        job = hourly_job(spark, root, max_files_per_trigger=1)
        job.trigger(availableNow=True).start().awaitTermination()
