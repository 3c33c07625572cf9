"""DAGs as a user writes them, around checkpoints in a folder of the tests."""

import os
from pathlib import Path

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, task
from airflow.sdk.exceptions import AirflowSkipException

from statemaint.airflow.maintenance_dag import StateMaintenanceDag
from statemaint.airflow.operators import (
    CheckpointHealthyOperator,
    MaintainCheckpointOperator,
    VerifyCheckpointOperator,
)
from statemaint.airflow.sensors import CheckpointSensor
from statemaint.airflow.task_group import StateMaintenanceTaskGroup
from tests.systems.airflow.notified import note
from tests.systems.airflow.support import neglected

FOLDER = Path(os.environ["STATEMAINT_TEST_FOLDER"])
POLICY = {"min_batches_to_retain": 5, "grace": "0s"}


@task
def run_query(folder: str) -> None:
    """Stands in for a query's run with `AvailableNow`: its first one makes the checkpoint."""
    if folder == "skip":
        raise AirflowSkipException
    if not Path(folder).exists():
        neglected(Path(folder))


with DAG("own_group", schedule=None):
    (
        run_query(str(FOLDER / "grouped"))
        >> StateMaintenanceTaskGroup(
            checkpoint="{{ var.value.checkpoints }}/grouped", query="grouped", policy=POLICY
        )
        >> EmptyOperator(task_id="next_query")
    )

with DAG("own_damaged", schedule=None):
    group = StateMaintenanceTaskGroup(
        "state", checkpoint=f"{FOLDER}/damaged", policy=POLICY, notify=[note]
    )
    group >> EmptyOperator(task_id="next_query")

with DAG("own_skipped", schedule=None):
    group = StateMaintenanceTaskGroup(checkpoint=f"{FOLDER}/none", policy=POLICY)
    run_query("skip") >> group >> EmptyOperator(task_id="next_query")

for name, repair in (("gate", False), ("mending_gate", True)):
    with DAG(f"own_{name}", schedule=None):
        gate = CheckpointHealthyOperator(
            task_id="gate", checkpoint=f"{FOLDER}/{name}", repair=repair
        )
        gate >> EmptyOperator(task_id="query")

with DAG("own_operators", schedule=None):
    maintain = MaintainCheckpointOperator(
        task_id="maintain", checkpoint=f"{FOLDER}/single", policy=POLICY
    )
    mapped = MaintainCheckpointOperator.partial(task_id="mapped", policy=POLICY).expand(
        checkpoint=[f"{FOLDER}/one", f"{FOLDER}/two"]
    )
    verify = VerifyCheckpointOperator(
        task_id="verify",
        checkpoint="{{ var.value.checkpoints }}/torn",
        query="torn",
        fail_on_damage=False,
        deep=True,
    )
    wait = CheckpointSensor(
        task_id="wait", checkpoint=f"{FOLDER}/single", max_chain=0, deferrable=False
    )
    maintain >> wait

with DAG("own_query", schedule=None):
    task(outlets=[Asset("hourly_clicks")])(run_query.function)(str(FOLDER / "followed"))

with DAG("own_waiting", schedule=None):
    CheckpointSensor(
        task_id="wait", checkpoint=f"{FOLDER}/awaited", max_chain=3, poke_interval=1, timeout=300
    )


@task
def run_spark(root: str) -> None:
    """Runs an hourly query with `AvailableNow` in a Spark of its own, as far as it is behind.

    Each of three more hours is a batch, and so is the empty one that moves the watermark on.
    """
    # Nothing to parse a DAG with.
    from tools.demo.events import write_hours  # noqa: PLC0415
    from tools.demo.pipeline import hourly_job  # noqa: PLC0415
    from tools.demo.session import end_jvm, local_session  # noqa: PLC0415

    done = len([*Path(root).glob("input/orders/*")])
    write_hours(Path(root) / "input", hours=range(done, done + 3), seed=1)
    conf = {"spark.sql.shuffle.partitions": "2", "spark.sql.streaming.minBatchesToRetain": "2"}
    with local_session("own", conf, master="local[1]") as spark:
        job = hourly_job(spark, Path(root), max_files_per_trigger=1)
        job.trigger(availableNow=True).start().awaitTermination()
    end_jvm()


with DAG("own_spark", schedule=None, max_active_runs=1):
    run_spark(f"{FOLDER}/hourly") >> StateMaintenanceTaskGroup(
        checkpoint=f"{FOLDER}/hourly/checkpoint",
        query="hourly",
        policy={**POLICY, "min_deltas_for_snapshot": 2, "min_batches_to_retain": 2},
    )

StateMaintenanceDag("own_dag", checkpoint=f"{FOLDER}/dagged", policy=POLICY, schedule=None)
