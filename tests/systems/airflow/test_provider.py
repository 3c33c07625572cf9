"""What the package tells Airflow of itself, and its sensor and notifier without a server."""

import json
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from importlib import import_module, resources
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    TaskDeferred,
)

from statemaint.airflow.hooks import StatemaintHook
from statemaint.airflow.notifications import StateReportNotifier, message
from statemaint.airflow.operators import CheckpointHealthyOperator, MaintainCheckpointOperator
from statemaint.airflow.plugin import plugins_of_a_file
from statemaint.airflow.provider_info import get_provider_info
from statemaint.airflow.sensors import CheckpointSensor
from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.storage import LocalStorage
from tests.support.serving import served
from tests.systems.airflow.support import neglected

pytestmark = pytest.mark.airflow

NOW = datetime.now(UTC)


def sensor(checkpoint: Path, **more: Any) -> CheckpointSensor:
    return CheckpointSensor(task_id="wait", checkpoint=str(checkpoint), max_chain=3, **more)


def test_the_description_follows_airflows_schema() -> None:
    schema = json.loads(
        resources.files("airflow").joinpath("provider_info.schema.json").read_text()
    )
    jsonschema.validate(get_provider_info(), schema)


def test_all_that_is_listed_exists() -> None:
    info = get_provider_info()
    kinds = [one for kind in ("operators", "sensors", "hooks") for one in info[kind]]
    for name in (module for one in kinds for module in one["python-modules"]):
        import_module(name)
    (connection,) = info["connection-types"]
    hook = connection["hook-class-name"]
    for name in (hook, *info["notifications"], *info["extra-links"]):
        module, _, last = name.rpartition(".")
        assert hasattr(import_module(module), last)
    assert (StatemaintHook.conn_type, StatemaintHook.hook_name) == (
        connection["connection-type"],
        connection["hook-name"],
    )


def test_a_file_of_plugins_brings_them_only_without_an_installed_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = "statemaint.airflow.plugin.entry_points"
    monkeypatch.setattr(found, lambda **_: [])
    assert sorted(plugins_of_a_file()) == ["StatemaintListenerPlugin", "StatemaintPlugin"]
    monkeypatch.setattr(found, lambda **_: ["statemaint"])
    assert plugins_of_a_file() == {}


def test_a_sensor_waits_in_the_triggerer_and_looks_again(tmp_path: Path) -> None:
    checkpoint = neglected(tmp_path / "c")
    with pytest.raises(TaskDeferred) as caught:
        sensor(checkpoint).execute({})
    assert caught.value.method_name == "look_again"
    maintain(LocalStorage(checkpoint), Policy(min_batches_to_retain=5, grace=0.0))
    kwargs = caught.value.kwargs or {}
    assert sensor(checkpoint).look_again({}, None, **kwargs)["chain"] == 0


def test_a_sensor_gives_up_after_its_time(tmp_path: Path) -> None:
    long_ago = (NOW - timedelta(days=1)).isoformat()
    waiting = sensor(tmp_path / "none", timeout=60)
    with pytest.raises(AirflowSensorTimeout, match=r"NOT_A_CHECKPOINT.*; gave up after 60 s"):
        waiting.look_again({}, None, since=long_ago)
    with pytest.raises(AirflowSkipException):
        sensor(tmp_path / "none", timeout=60, soft_fail=True).look_again({}, None, since=long_ago)


def test_mistakes_show_when_a_dag_is_parsed() -> None:
    with pytest.raises(ValueError, match=r"policy\.grace: not a duration"):
        MaintainCheckpointOperator(task_id="a", checkpoint="/data/a", policy={"grace": "soon"})
    with pytest.raises(ValueError, match="spark_version"):
        CheckpointHealthyOperator(task_id="a", checkpoint="/data/a", spark_version="new")
    with pytest.raises(ValueError, match="nothing to wait for"):
        CheckpointSensor(task_id="a", checkpoint="/data/a", healthy=False)


def test_templates_have_assets_only_with_a_query() -> None:
    template = "{{ var.value.root }}/a"
    assert MaintainCheckpointOperator(task_id="a", checkpoint=template).outlets == []
    for address, query in (("/data/a", None), (template, "a")):
        named = MaintainCheckpointOperator(task_id="a", checkpoint=address, query=query)
        assert [one.name for one in named.outlets] == ["statemaint://a", "statemaint://a/findings"]


def test_a_hook_reads_a_checkpoint(tmp_path: Path) -> None:
    hook = StatemaintHook(str(neglected(tmp_path / "c")))
    assert hook.health().reason is None
    assert hook.verify().healthy


def test_a_message_names_the_run_what_is_broken_and_what_to_do() -> None:
    run = {"dag_id": "dag", "run_id": "run"}
    report = {"query": "revenue", "note": "Broken: BROKEN_CHAIN"}
    text = message({"dag_run": run, "statemaint": report})
    assert text == "Maintenance of revenue failed (dag, run run).\n\nBroken: BROKEN_CHAIN"
    assert message({"dag_run": run, "reason": "task_failure"}).endswith(
        "(dag, run run): task_failure"
    )
    late = {"dag_run": run, "deadline": {"id": "1", "deadline_time": None}}
    assert message(late).endswith("has missed its deadline (dag, run run).")


def test_a_notifier_posts_to_its_webhook_and_never_shows_the_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    posted: list[Any] = []

    class Webhook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response({"/right": 200, "/moved": 302}.get(self.path, 403))
            self.end_headers()

    with served(Webhook) as address:
        for path in ("right", "wrong", "moved"):
            connection = type("Found", (), {"password": f"{address}/{path}\n"})
            monkeypatch.setattr(BaseHook, "get_connection", lambda _, found=connection: found)
            notifier = StateReportNotifier("oncall", text="it failed")
            if path == "right":
                notifier.notify({})
            else:
                with pytest.raises(
                    RuntimeError, match=r"^the webhook of connection oncall answers"
                ):
                    notifier.notify({})
    assert posted == [{"text": "it failed"}] * 3


def test_a_gate_lets_a_query_begin_only_where_there_is_nothing_at_all(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").touch()

    def gate(name: str, *, allow: bool) -> Any:
        operator = CheckpointHealthyOperator(
            task_id="gate", checkpoint=str(tmp_path / name), allow_missing=allow
        )
        context = {"task": operator, "ti": SimpleNamespace(map_index=-1), "outlet_events": {}}
        found = operator.execute(context)
        assert operator.outlets == [], "an Asset of findings without any"
        return found

    for name in ("missing", "empty"):
        assert gate(name, allow=True)["healthy"]
        with pytest.raises(AirflowFailException, match="NOT_A_CHECKPOINT"):
            gate(name, allow=False)
    with pytest.raises(AirflowFailException, match="NOT_A_CHECKPOINT"):
        gate("other", allow=True)
