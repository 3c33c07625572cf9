"""The links of tasks, and the DAGs for manual work: as Airflow stores them."""

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("airflow", reason="the extra `airflow`")

from airflow.sdk import DAG

from statemaint.airflow.factory import build_dags
from statemaint.airflow.links import StateLink
from statemaint.airflow.manual import manual_dags
from statemaint.airflow.operators import (
    CheckpointHealthyOperator,
    MaintainCheckpointOperator,
    VerifyCheckpointOperator,
)
from statemaint.airflow.sensors import CheckpointSensor

NO_KEY: Any = None
QUERIES = """
queries:
  a: {checkpoint: /data/a, savepoint: {to: "/saved/{query}/{batch}"}}
  b: {checkpoint: /data/b, savepoint: {to: "/saved/{query}/{batch}", schedule: "@daily"}}
  c: {checkpoint: /data/c, engine: spark, together: t}
"""


@pytest.fixture(scope="module")
def dags(tmp_path_factory: pytest.TempPathFactory) -> dict[str, DAG]:
    file = tmp_path_factory.mktemp("dags") / "queries.yaml"
    file.write_text(QUERIES, encoding="utf-8")
    return {**build_dags(file), **manual_dags(file)}


def test_every_task_leads_to_the_page_of_its_query(dags: dict[str, DAG]) -> None:
    tasks: list[Any] = [task for dag in dags.values() for task in dag.tasks]
    assert len(tasks) > 20
    assert [
        task.task_id
        for task in tasks
        if "State of the query" not in {link.name for link in task.operator_extra_links}
    ] == []
    plan: Any = dags["statemaint__a"].get_task("plan")
    (link,) = (one for one in plan.operator_extra_links if one.name == "State of the query")
    assert link.get_link(plan, ti_key=NO_KEY).endswith("/statemaint/queries/a")


@pytest.mark.parametrize(
    "kind",
    [MaintainCheckpointOperator, VerifyCheckpointOperator, CheckpointHealthyOperator,
     CheckpointSensor],
)  # fmt: skip
def test_an_operator_leads_to_the_query_of_its_checkpoint(kind: Any) -> None:
    operator = kind(task_id="t", checkpoint="/data/clicks")
    (link,) = (one for one in operator.operator_extra_links if one.name == "State of the query")
    assert link.get_link(operator, ti_key=NO_KEY).endswith("/statemaint/queries/clicks")


def test_a_task_of_manual_work_leads_to_the_query_of_its_form() -> None:
    ti = SimpleNamespace(get_template_context=lambda: {"params": {"query": "a/b"}})
    assert StateLink().get_link(object(), ti_key=ti).endswith("/statemaint/queries/a%2Fb")
    none = SimpleNamespace(get_template_context=lambda: {"params": {}})
    assert StateLink().get_link(object(), ti_key=none).endswith("/plugin/statemaint-queries")


def test_only_dags_that_nothing_else_starts_are_unpaused_when_new(dags: dict[str, DAG]) -> None:
    assert {name: dag.is_paused_upon_creation for name, dag in dags.items()} == {
        "statemaint__a": None,
        "statemaint__b": None,
        "statemaint_together_t": None,
        "statemaint_savepoint__a": False,
        "statemaint_savepoint__b": None,
        "statemaint_verify": False,
        "statemaint_repair": False,
        "statemaint_rollback": False,
        "statemaint_undo": False,
        "statemaint_reshape": False,
    }
