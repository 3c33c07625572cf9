"""How a task runs Spark's program; without a Spark."""

import inspect
import logging
import shlex
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("airflow", reason="the extra `airflow`")

from airflow.sdk.exceptions import AirflowException
from airflow.sdk.execution_time.supervisor import WatchedSubprocess

from statemaint.airflow.on_spark import PATIENCE, start_spark
from statemaint.airflow.settings import QuerySettings
from statemaint.errors import ConfigError
from statemaint.model.policy import Policy
from statemaint.queries.models import SparkSettings

PROVIDER = "airflow.providers.apache.spark.hooks.spark_submit"


def settings(**spark: Any) -> QuerySettings:
    return QuerySettings("q", "/c", Policy(), spark=SparkSettings.model_validate(spark))


def keep(_end: Callable[[], object]) -> None:
    """Lets the program live."""


class Hook:
    """The hook of Airflow's Spark provider package, as far as we use it."""

    made: dict[str, Any]
    submitted: str
    fails = False

    def __init__(self, **given: Any) -> None:
        type(self).made = given

    def submit(self, application: str) -> None:
        type(self).submitted = application
        if self.fails:
            raise AirflowException("Error code is: 1.")

    def on_kill(self) -> None:
        """Ends what was submitted."""


class FailingHook(Hook):
    fails = True


def installed(monkeypatch: pytest.MonkeyPatch, hook: type[Hook]) -> None:
    module = ModuleType(PROVIDER)
    module.SparkSubmitHook = hook  # type: ignore[attr-defined]
    for name in ("airflow.providers.apache", "airflow.providers.apache.spark"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, PROVIDER.rpartition(".")[0], ModuleType("hooks"))
    monkeypatch.setitem(sys.modules, PROVIDER, module)


def test_bad_settings_are_the_last_line_of_the_program() -> None:
    with pytest.raises(ConfigError, match=r"Missing argument 'CHECKPOINT KEY"):
        start_spark(settings(), ["units"], on_kill=keep)


def test_the_output_of_the_program_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert start_spark(settings(master="local[2]"), ["units", "--help"], on_kill=keep) is None
    assert any(line.endswith("units --help --master 'local[2]'") for line in caplog.messages)
    assert any("Maintain the bundles that Airflow's `plan`" in one for one in caplog.messages)


def test_the_settings_of_a_query_join_those_of_its_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    program = tmp_path / "python"
    program.write_text('#!/bin/sh\necho "given: $PYSPARK_SUBMIT_ARGS"\n', encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    where = settings(conf={"spark.a": "b c"})
    for usual, given in (
        ("--packages g:n:1 pyspark-shell", "--packages g:n:1 --conf 'spark.a=b c' pyspark-shell"),
        ("", "--conf 'spark.a=b c' pyspark-shell"),
    ):
        monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", usual)
        assert start_spark(where, ["units"], on_kill=keep) is None
        assert f"given: {given}" in caplog.messages


def test_a_program_of_many_queries_has_their_name_and_is_ended_with_its_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed(monkeypatch, Hook)
    ends: list[Callable[[], object]] = []
    where, units = settings(connection="cluster"), ["units", "/a", "k", "/b", "l"]
    assert start_spark(where, units, on_kill=ends.append, name="hourly") is None
    assert Hook.made["name"] == "statemaint hourly"
    assert Hook.made["application_args"] == ["units", "/a", "k", "/b", "l"]
    assert len(ends) == 1


def test_a_program_that_is_killed_with_its_task_ends_and_says_so() -> None:
    killed = start_spark(settings(), ["units", "/c", "key"], on_kill=lambda end: end())
    assert killed == "Spark's program ended with -15"


def test_a_process_of_a_killed_program_that_goes_on_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, ready = tmp_path / "python", tmp_path / "ready"
    stubborn = f"trap '' TERM; touch {shlex.quote(str(ready))}; while :; do sleep 1; done"
    program.write_text(f"#!/bin/sh\nsh -c {shlex.quote(stubborn)} &\nwait\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))

    def kill(end: Callable[[], object]) -> None:
        while not ready.exists():
            time.sleep(0.01)
        end()

    assert start_spark(settings(), [], on_kill=kill) == "Spark's program ended with -15"


def test_a_killed_program_has_ended_when_airflow_kills_its_task() -> None:
    kill = inspect.signature(WatchedSubprocess.kill)
    assert kill.parameters["escalation_delay"].default > PATIENCE


def test_a_connection_goes_to_airflows_own_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, Hook)
    where = settings(connection="cluster", conf={"spark.x": True}, submit={"num_executors": 4})
    ends: list[Any] = []
    assert start_spark(where, ["units", "/c", "key"], on_kill=ends.append) is None
    assert Hook.made == {
        "conn_id": "cluster",
        "conf": {"spark.x": "true"},
        "application_args": ["units", "/c", "key"],
        "name": "statemaint q",
        "num_executors": 4,
    }
    assert Path(Hook.submitted).parts[-3:] == ("statemaint", "spark", "__main__.py")
    assert Path(Hook.submitted).is_file()
    assert [one.__name__ for one in ends] == ["on_kill"]


def test_a_cluster_has_the_program_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, Hook)
    where = settings(connection="cluster", application="local:///opt/__main__.py")
    start_spark(where, [], on_kill=keep)
    assert Hook.submitted == "local:///opt/__main__.py"


def test_a_submission_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, FailingHook)
    where = settings(connection="cluster")
    assert start_spark(where, [], on_kill=keep) == "spark-submit: Error code is: 1."


def test_a_spark_submit_that_is_not_installed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    class Absent(Hook):
        def submit(self, application: str) -> None:
            raise FileNotFoundError(2, "No such file or directory", application)

    installed(monkeypatch, Absent)
    found = start_spark(settings(connection="cluster"), [], on_kill=keep)
    assert str(found).startswith("spark-submit: [Errno 2] No such file or directory")


def test_arguments_that_the_hook_does_not_take_are_a_mistake_of_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Strict(Hook):
        def __init__(
            self, *, conn_id: str, conf: object, application_args: object, name: str
        ) -> None:
            """Takes no other."""

    installed(monkeypatch, Strict)
    where = settings(connection="cluster", submit={"num_executor": 4})
    with pytest.raises(ConfigError, match=r"spark\.submit: .*'num_executor'"):
        start_spark(where, [], on_kill=keep)


def test_what_is_ours_cannot_be_given_to_the_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, Hook)
    where = settings(connection="cluster", submit={"application_args": ["x"], "conn_id": "y"})
    with pytest.raises(ConfigError, match=r"application_args, conn_id cannot be set there"):
        start_spark(where, [], on_kill=keep)


@pytest.mark.skipif(
    find_spec("airflow.providers") is not None
    and find_spec("airflow.providers.apache") is not None
    and find_spec("airflow.providers.apache.spark") is not None,
    reason="Airflow's Spark provider package is installed",
)
def test_a_connection_without_the_provider_package_names_it() -> None:
    with pytest.raises(ConfigError, match=r"pip install apache-airflow-providers-apache-spark, or"):
        start_spark(settings(connection="cluster"), [], on_kill=keep)
