"""The checkpoint of a query that only its DAG describes, as Airflow stores it."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("airflow", reason="the extra `airflow`")

from airflow.models.serialized_dag import SerializedDagModel
from sqlalchemy.orm import Session

from statemaint.airflow.pages.sources import CheckpointSource, source_of
from statemaint.errors import ConfigError
from statemaint.model.policy import Policy


@pytest.fixture(autouse=True)
def no_queries(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    file = tmp_path / "queries.yaml"
    file.write_text("queries: {}\n", encoding="utf-8")
    monkeypatch.setenv("STATEMAINT_QUERIES", str(file))
    monkeypatch.setenv("STATEMAINT_STATE", str(tmp_path / "state"))


def source(monkeypatch: pytest.MonkeyPatch, **more: Any) -> CheckpointSource:
    about = {"query": "a", "checkpoint": "/a", "policy": {}, **more}
    task = {"__var": {"task_id": "plan", "op_kwargs": {"about": about}}, "__type": "operator"}
    stored = SimpleNamespace(data={"dag": {"tasks": [task]}})
    monkeypatch.setattr(SerializedDagModel, "get", lambda *_, **__: stored)
    return source_of("d", "a", cast("Session", None))


def test_a_dag_names_the_checkpoint_of_its_query(monkeypatch: pytest.MonkeyPatch) -> None:
    found = source(monkeypatch, checkpoint="/data/{a}", policy={"grace": 60.0})
    assert found == CheckpointSource("/data/{a}", None, Policy(grace=60.0), in_file=False)


def test_a_template_is_no_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="is a template"):
        source(monkeypatch, checkpoint="/data/{{ ds }}")


def test_a_policy_of_another_build_is_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="another build of statemaint has stored the policy of a"):
        source(monkeypatch, policy={"setting_of_another_build": 1})
