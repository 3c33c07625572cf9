"""The costs of the run before, as Airflow's `xcom_pull` finds them."""

from typing import Any

import pytest

pytest.importorskip("airflow", reason="the extra `airflow`")

from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import (
    GetXCom,
    GetXComSequenceSlice,
    XComResult,
    XComSequenceSliceResult,
)

from statemaint.airflow import passed_on

RUNS = [{"op 0 / part 0": 1.0}, {"op 0 / part 0": 2.0}, {"op 0 / part 0": 3.0}]


class Supervisor:
    """Answers as Airflow's API does; of all runs before, it has the newest first."""

    def __init__(self, runs: int) -> None:
        self.values: list[Any] = RUNS[:runs]

    def send(self, msg: GetXCom | GetXComSequenceSlice) -> XComResult | XComSequenceSliceResult:
        assert msg.include_prior_dates
        if isinstance(msg, GetXComSequenceSlice):
            return XComSequenceSliceResult(root=self.values)
        assert msg.map_index == -1
        return XComResult(key=msg.key, value=next(iter(self.values), None))


@pytest.mark.parametrize("runs", [0, 1, 3])
def test_a_plan_has_the_costs_of_the_last_run_however_many_there_were(
    monkeypatch: pytest.MonkeyPatch, runs: int
) -> None:
    of_plan: Any = {"dag_id": "d", "run_id": "r", "task_id": "plan"}
    instance = task_runner.RuntimeTaskInstance.model_construct(**of_plan)
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", Supervisor(runs), raising=False)
    monkeypatch.setattr(passed_on, "get_current_context", lambda: {"ti": instance})
    assert passed_on.last_costs() == (RUNS[0] if runs else {})
