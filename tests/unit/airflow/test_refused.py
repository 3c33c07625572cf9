"""A run that is refused for its own options leaves why, and changes no page."""

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("airflow", reason="the extra `airflow`")


from airflow.sdk.exceptions import AirflowFailException

from statemaint.airflow import passed_on, publish, run_tasks
from statemaint.airflow.figures import REFUSED
from statemaint.airflow.run_tasks import Terms
from statemaint.airflow.settings import QuerySettings
from statemaint.model.policy import Policy
from tests.systems.airflow.support import neglected


@pytest.mark.parametrize(
    ("conf", "why"),
    [
        ({"dry_run": True, "partitions": "99"}, "no store matches"),
        ({"dry_run": True, "partition": "1"}, "has 'partition', which is not an option"),
        ({"partitions": "99"}, "no store matches"),
    ],
)
def test_a_plan_that_is_refused_for_its_options_leaves_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, conf: dict[str, Any], why: str
) -> None:
    pushed: dict[str, Any] = {}
    pulled: dict[str, Any] = {"xcom_pull": lambda **_: None, "xcom_push": pushed.__setitem__}
    context = {
        "ti": SimpleNamespace(task_id="plan", map_index=-1, try_number=1, **pulled),
        "params": conf,
        "dag_run": SimpleNamespace(conf=conf, run_id="r", dag_id="d", start_date=None),
    }
    for module in (passed_on, publish, run_tasks):
        monkeypatch.setattr(module, "get_current_context", lambda: context)
    where = QuerySettings("a", str(neglected(tmp_path / "a")), Policy())
    plan = run_tasks.plan_task(where, Terms(timedelta(0))).function
    with pytest.raises(AirflowFailException, match=why):
        plan(about={})
    assert why in pushed[REFUSED]
