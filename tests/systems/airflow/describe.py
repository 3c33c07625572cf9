"""Prints as JSON what Airflow makes of the DAG file, and which of some folders that touches.

Run in a process of its own: Airflow changes logging, warnings and signals of the one it lives in.

    python -m tests.systems.airflow.describe DAG_FILE WATCHED_FOLDER
"""

import json
import sys
from typing import Any


def main(file: str, watched: str) -> dict[str, Any]:
    """Parses a DAG file and describes what came of it."""
    touched: list[str] = []

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("open", "os.listdir", "os.scandir") and str(arguments[0]).startswith(watched):
            touched.append(str(arguments[0]))

    sys.addaudithook(note)
    from airflow.dag_processing.dagbag import DagBag  # noqa: PLC0415 -- after the hook, and in no test's process

    bag = DagBag(dag_folder=file, safe_mode=True)
    return {
        "errors": dict(bag.import_errors),
        "warnings": bag.captured_warnings,
        "touched": touched,
        "dags": {name: describe(dag) for name, dag in bag.dags.items()},
    }


def describe(dag: Any) -> dict[str, Any]:
    """Returns what the tests look at of a DAG."""
    return {
        "schedule": getattr(dag.timetable, "expression", None),
        "timetable": type(dag.timetable).__name__,
        "deadline": next((one.interval.total_seconds() for one in dag.deadline or ()), None),
        "notified": len(dag.on_failure_callback or ()),
        "max_active_runs": dag.max_active_runs,
        "catchup": dag.catchup,
        "paused": dag.is_paused_upon_creation,
        "tags": sorted(dag.tags),
        "doc": dag.doc_md,
        "params": {name: dag.params.get_param(name).dump() for name in dag.params},
        "tasks": {task.task_id: describe_task(task) for task in dag.tasks},
    }


def describe_task(task: Any) -> dict[str, Any]:
    """Returns what the tests look at of a task."""
    return {
        "mapped": type(task).__name__ == "DecoratedMappedOperator",
        "downstream": sorted(task.downstream_task_ids),
        "teardown": task.is_teardown,
        "fails_run": task.on_failure_fail_dagrun,
        "retries": task.retries,
        "arguments": {
            "owner": task.owner,
            "pool": task.pool,
            "priority": task.priority_weight,
            "queue": task.queue,
            "executor": task.executor,
            "timeout": task.execution_timeout and task.execution_timeout.total_seconds(),
            "retry_delay": task.retry_delay.total_seconds(),
            "backoff": task.retry_exponential_backoff,
            "longest_delay": task.max_retry_delay and task.max_retry_delay.total_seconds(),
        },
        "outlets": [asset.name for asset in getattr(task, "outlets", ())],
    }


if __name__ == "__main__":
    print("\n" + json.dumps(main(*sys.argv[1:])))  # noqa: T201 -- what it is for
