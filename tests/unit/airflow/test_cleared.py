"""A run that an operator clears as a whole: its second plan, without an Airflow."""

from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from shutil import rmtree
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("airflow", reason="the extra `airflow`")

from airflow.sdk.exceptions import AirflowFailException

from statemaint.airflow import passed_on, publish, run_tasks, tasks
from statemaint.airflow.run_tasks import Terms
from statemaint.airflow.settings import Options, QuerySettings
from statemaint.model.policy import Policy
from statemaint.records.claims import Holder
from tests.systems.airflow.support import damaged, neglected

OPTIONS = Options()


class Instances:
    """The XComs of a run: Airflow deletes those of an instance only when it begins again."""

    task_id, try_number = "t", 1

    def __init__(self) -> None:
        self.values: dict[tuple[str, int, str], Any] = {}
        self.now = ("plan", -1)

    @property
    def map_index(self) -> int:
        return self.now[1]

    def begin(self, task: str, index: int = -1) -> None:
        self.now = (task, index)
        self.values = {key: of for key, of in self.values.items() if key[:2] != self.now}

    def xcom_push(self, key: str, value: Any) -> None:
        self.values[*self.now, key] = value

    def xcom_pull(self, task_ids: str | list[str], key: str) -> Any:
        if isinstance(task_ids, str):
            return self.values.get((task_ids, -1, key))
        return [
            of for (task, _, name), of in self.values.items() if (task, name) == (*task_ids, key)
        ]


def test_the_report_of_a_cleared_run_counts_no_task_of_the_plan_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    checkpoint, instances = damaged(tmp_path / "a"), Instances()
    intact = (neglected(tmp_path / "b") / "state/0/2/7.delta").read_bytes()
    where = QuerySettings("a", str(checkpoint), Policy(grace=0.0))
    context = {
        "ti": instances,
        "params": {},
        "dag_run": SimpleNamespace(run_id="r", dag_id="d"),
        "task": SimpleNamespace(operator_extra_links=()),
    }
    for module in (passed_on, publish, run_tasks):
        monkeypatch.setattr(module, "get_current_context", lambda: context)
    maintain = run_tasks._maintain_task(where, Terms(timedelta(0))).function

    def run(attempt: int) -> dict[str, Any]:
        instances.begin("plan")
        planned = tasks.plan_query(where, OPTIONS, Holder("d/r", attempt), run="r")
        passed_on.pass_on(planned.xcoms(OPTIONS))
        for index, bundle in enumerate(tasks.mapped(where, planned.bundles)):
            instances.begin("maintain", index)
            with suppress(AirflowFailException):
                maintain(bundle)
        instances.begin("report")
        return tasks.reported(where, passed_on.results_from("maintain"), run="r")[0]

    first = run(1)
    assert (first["success"], first["halted"], first["snapshots"]) == (False, 1, 3)
    (checkpoint / "state/0/2/7.delta").write_bytes(intact)
    rmtree(checkpoint / "_statemaint/lease")  # seconds later, it has expired
    second = run(2)
    assert (second["success"], second["halted"], second["snapshots"]) == (True, 0, 1)
    assert not second["broken"]
