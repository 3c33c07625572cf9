from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("airflow", reason="the extra `airflow`")

from airflow.sdk.exceptions import AirflowFailException

from statemaint.airflow import passed_on, run_tasks
from statemaint.airflow.maintenance_dag import StateMaintenanceDag
from statemaint.airflow.names import run_name
from statemaint.airflow.operators import VerifyCheckpointOperator
from statemaint.airflow.sensors import CheckpointSensor
from statemaint.airflow.settings import given_query, given_settings
from statemaint.airflow.task_group import StateMaintenanceTaskGroup


def refused(name: str | None, checkpoint: str, **keys: object) -> str:
    with pytest.raises(ValueError, match=": ") as caught:
        given_query(name, checkpoint, keys)
    return str(caught.value)


def test_a_query_is_named_after_its_checkpoint() -> None:
    assert given_query(None, "s3://lake/checkpoints/revenue/", {})[0] == "revenue"
    assert given_query("mine", "/data/revenue", {})[0] == "mine"


def test_the_keys_are_those_of_the_queries_file() -> None:
    keys = {"policy": {"grace": "2h"}, "timeout": "1h", "connection": "lake", "max_tasks": 4}
    _, query = given_query(None, "s3://lake/revenue", keys)
    assert (query.policy.grace, query.timeout, query.max_tasks) == (7200.0, 3600.0, 4)


def test_a_template_is_kept_and_needs_a_name() -> None:
    template = "{{ var.value.root }}/revenue"
    assert given_query("revenue", template, {"connection": "lake"})[1].checkpoint == template
    assert refused(None, template).startswith("query: give the query's name")


def test_every_mistake_is_named_by_its_key() -> None:
    said = refused(None, "/data/a", policy={"grace": "soon"}, retries=-1)
    assert "policy.grace: not a duration" in said
    assert "retries: " in said
    assert "cron: no such key" in refused(None, "/data/a", cron="@hourly")
    assert "checkpoint: 'data/a' depends on where" in refused(None, "data/a")
    assert refused(None, "/data/with space").startswith("query: must be a name")


def test_only_queries_of_the_file_share_a_dag() -> None:
    said = refused("a", "/a", savepoint={"to": "/to/{batch}"})
    assert said.startswith("savepoint: only queries of the queries file have its DAG")
    said = refused("a", "/a", engine="spark", together="hourly")
    assert said.startswith("together: only queries of the queries file share a DAG")


def test_a_key_without_effect_is_refused() -> None:
    said = refused("a", "/a", enabled=False)
    assert said.startswith("enabled: only queries of the queries file are disabled by it")
    said = refused("a", "/a", for_each={"region": ["eu"]})
    assert said.startswith("for_each: only queries of the queries file have a pattern")
    assert given_query("a", "/a", {"enabled": True, "together": None})[0] == "a"
    for keys in ({"deadline": "1h"}, {"after": "clicks"}, {"tags": ["web"]}):
        keys_of_dag: Any = keys
        with pytest.raises(ValueError, match="a DAG has it, not its tasks"):
            StateMaintenanceTaskGroup(checkpoint="/a", **keys_of_dag)


def test_a_folder_around_another_names_no_query() -> None:
    assert refused(None, "/data/a/..").startswith("query: must be a name of up to 200 letters")


def test_the_pushgateway_of_the_environment_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    def gateway() -> str | None:
        _, settings = given_settings("a", "/a", {}, pushgateway="http://given:1")
        return settings.targets.gateway

    monkeypatch.delenv("STATEMAINT_PUSHGATEWAY", raising=False)
    assert gateway() == "http://given:1"
    monkeypatch.setenv("STATEMAINT_PUSHGATEWAY", "http://there:1")
    assert gateway() == "http://there:1"


def test_long_names_of_runs_fit_into_a_files_name_and_stay_unique() -> None:
    assert run_name("dag", "", "run") == "dag.run"
    one, other = (run_name("d" * 250, "group", run) for run in ("run1", "run2"))
    assert len(one) < 200
    assert one != other


@pytest.mark.parametrize("task", ["plan", "group.plan"])
def test_a_run_with_a_long_id_has_a_name_that_fits(
    monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    run = SimpleNamespace(run_id="r" * 250, dag_id="d")
    context = {"ti": SimpleNamespace(task_id=task), "dag_run": run}
    for module in (passed_on, run_tasks):
        monkeypatch.setattr(module, "get_current_context", lambda: context)
    assert len(run_tasks._run()) < 200


def test_a_template_that_gives_no_name_of_a_query_fails_for_good() -> None:
    task = VerifyCheckpointOperator(task_id="verify", checkpoint="/a", query="{{ params.query }}")
    task.query = "a/b"  # as Airflow fills it in
    with pytest.raises(AirflowFailException, match="CONFIG: query: must be a name"):
        task.execute({})


@pytest.mark.parametrize("kind", [VerifyCheckpointOperator, CheckpointSensor])
def test_a_relative_address_is_refused_when_a_dag_is_parsed(kind: Any) -> None:
    with pytest.raises(ValueError, match="depends on where a task happens to run"):
        kind(task_id="t", checkpoint="data/a")
    assert kind(task_id="t", checkpoint="{{ var.value.root }}/a").checkpoint.endswith("/a")


def test_default_arguments_and_params_of_a_dag_join_those_of_its_query() -> None:
    more: dict[str, Any] = {"default_args": {"depends_on_past": True}, "params": {"mine": 1}}
    dag = StateMaintenanceDag(checkpoint="/a", retries=7, dag={**more, "catchup": True})
    plan = dag.get_task("plan")
    assert (plan.pool, plan.retries, plan.depends_on_past) == ("statemaint", 7, True)
    assert {"dry_run", "mine"} <= set(dag.params)
    assert dag.catchup
