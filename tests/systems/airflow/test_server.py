"""Starting and ending a real Airflow."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.systems.airflow.support import DAGS, PLUGINS, THRIFTY
from tools.demo.airflow import AirflowEndedError, AirflowNotReadyError, Setup, start, stop
from tools.demo.processes import Process, alive, spawn

pytestmark = [pytest.mark.airflow, pytest.mark.slow]

QUERIES = DAGS / "statemaint_queries.example.yaml"


def setup(home: Path, **environ: str) -> Setup:
    settings = {**THRIFTY, **environ}
    return Setup(home=home, dags=DAGS, plugins=PLUGINS, queries=QUERIES, environ=settings)


def test_an_airflow_outlives_its_starter_and_a_client_notices_when_a_part_ends(
    tmp_path: Path,
) -> None:
    said: list[str] = []
    running = start(setup(tmp_path / "home"), progress=said.append)
    try:
        assert all(alive(part) for part in running.parts.values())
        assert running.client("viewer").get("/api/v2/dags")["dags"] is not None
        assert said[0] == "preparing the database"
        assert said[-1] == f"healthy at {running.url}"
        os.kill(running.parts["scheduler"].pid, signal.SIGKILL)
        with pytest.raises(AirflowEndedError, match="Airflow's scheduler has ended; the end of"):
            running.client().wait_for_dag("no_such_dag")
    finally:
        stop(tmp_path / "home")
    assert not any(alive(part) for part in running.parts.values())
    stop(tmp_path / "home")


def test_a_part_that_ends_at_once_is_named_with_its_log_and_nothing_is_left(
    tmp_path: Path,
) -> None:
    noted: list[Process] = []

    def note(line: str) -> None:
        file = tmp_path / "home/airflow.server.json"
        if line == "starting the dag-processor":
            parts = json.loads(file.read_text(encoding="utf-8"))
            noted.extend(Process(**part) for part in parts.values())

    broken = setup(tmp_path / "home", AIRFLOW__CORE__EXECUTOR="NoSuchExecutor")
    with pytest.raises(AirflowNotReadyError) as caught:
        start(broken, progress=note)
    assert "scheduler did not become ready" in str(caught.value)
    assert "NoSuchExecutor" in str(caught.value)
    assert len(noted) == 2
    assert not any(alive(part) for part in noted)
    assert not (tmp_path / "home/airflow.server.json").exists()


def test_a_database_that_cannot_be_made_is_said_at_once(tmp_path: Path) -> None:
    nowhere = setup(tmp_path / "home", AIRFLOW__DATABASE__SQL_ALCHEMY_CONN="sqlite:////none/a.db")
    with pytest.raises(AirflowNotReadyError, match="database"):
        start(nowhere)


def test_a_second_airflow_in_a_home_ends_the_first(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    first = spawn(["/bin/sleep", "60"], log=home / "log", environ={})
    note = {"first": {"pid": first.pid, "started": first.started}}
    (home / "airflow.server.json").write_text(json.dumps(note), encoding="utf-8")
    with pytest.raises(AirflowNotReadyError):
        start(setup(home, AIRFLOW__DATABASE__SQL_ALCHEMY_CONN="sqlite:////none/a.db"))
    assert not alive(first)


def test_passwords_stay_the_same_and_are_for_the_owner_only(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    file = home / "passwords.json"
    file.write_text('{"admin": "chosen"}', encoding="utf-8")
    with pytest.raises(AirflowNotReadyError):
        start(setup(home, AIRFLOW__DATABASE__SQL_ALCHEMY_CONN="sqlite:////none/a.db"))
    known = json.loads(file.read_text(encoding="utf-8"))
    assert known["admin"] == "chosen"
    assert len(known["viewer"]) >= 12
    assert file.stat().st_mode & 0o077 == 0
