"""A streaming query that runs all the time, and the maintenance of its state beside it.

Two DAGs. In the first, the gate looks at the checkpoint before each start, and repairs what the log
can prove; then the query runs until it stops or fails, and is started again. The second maintains
the state every twenty minutes while the query runs; it never stops it.
"""

from datetime import datetime

from airflow.sdk import DAG, task

from statemaint.airflow.maintenance_dag import StateMaintenanceDag
from statemaint.airflow.operators import CheckpointHealthyOperator

CHECKPOINT = "/data/checkpoints/device_readings"


@task.bash
def device_readings() -> str:
    """Runs the query; a SparkSubmitOperator does as well."""
    return f"spark-submit /opt/jobs/device_readings.py /data/readings /data/means {CHECKPOINT}"


with DAG(
    "device_readings",
    schedule="@continuous",
    start_date=datetime(2026, 1, 1),
    max_active_runs=1,
):
    gate = CheckpointHealthyOperator(
        task_id="gate", checkpoint=CHECKPOINT, repair=True, allow_missing=True
    )
    gate >> device_readings()

maintenance = StateMaintenanceDag(checkpoint=CHECKPOINT, schedule="*/20 * * * *")
