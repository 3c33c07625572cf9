"""A streaming query that runs each hour with AvailableNow, and the maintenance of its state.

The gate stops the pipeline where the query would not restart, after it has repaired what the log
can prove. The query runs; maintenance follows while it is stopped.
"""

from datetime import datetime

from airflow.sdk import DAG, task

from statemaint.airflow.operators import CheckpointHealthyOperator
from statemaint.airflow.task_group import StateMaintenanceTaskGroup

CHECKPOINT = "/data/checkpoints/hourly_revenue"


@task.bash
def hourly_revenue() -> str:
    """Runs the query; a SparkSubmitOperator does as well."""
    return f"spark-submit /opt/jobs/hourly_revenue.py /data/orders /data/revenue {CHECKPOINT}"


with DAG(
    "hourly_revenue",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,  # no run may start while another one's query or maintenance is at work
):
    gate = CheckpointHealthyOperator(
        task_id="gate", checkpoint=CHECKPOINT, repair=True, allow_missing=True
    )
    gate >> hourly_revenue() >> StateMaintenanceTaskGroup(checkpoint=CHECKPOINT)
