"""Mistakes in the queries file, in a real Airflow whose new DAGs are paused."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.systems.airflow.conftest import Scene

pytestmark = [pytest.mark.airflow, pytest.mark.slow]

FILE = "statemaint_queries_file"


def dag(scene: Scene, name: str) -> Any:
    return scene.admin.get(f"/api/v2/dags/{name}")


def wait(condition: Callable[[], Any]) -> Any:
    """Waits for something that Airflow does by itself."""
    deadline = time.monotonic() + 300
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    return found


def failed_run(scene: Scene, name: str) -> Any:
    """Returns a run of a DAG that Airflow has started by itself, and that has failed, if any."""
    runs = scene.admin.get(f"/api/v2/dags/{name}/dagRuns?state=failed")["dag_runs"]
    return next((one for one in runs if one["run_type"] == "scheduled"), None)


@contextmanager
def spoiled(scene: Scene, text: str) -> Iterator[datetime]:
    """Replaces the queries file for a while, and returns since when."""
    file = scene.folder / "queries.yaml"
    before = file.read_text(encoding="utf-8")
    file.write_text(text, encoding="utf-8")
    try:
        yield datetime.now(UTC)
    finally:
        file.write_text(before, encoding="utf-8")


def test_a_new_entry_with_a_mistake_has_a_dag_that_fails_by_itself_and_notifies(
    scene: Scene,
) -> None:
    assert wait(lambda: failed_run(scene, "statemaint__misspelt"))
    assert dag(scene, "statemaint__misspelt")["is_paused"] is False
    wait((scene.folder / "notified" / "statemaint__misspelt").exists)


def test_an_emptied_file_keeps_every_dag_and_fails_a_dag_that_is_not_paused(scene: Scene) -> None:
    with spoiled(scene, "") as since:
        scene.admin.wait_for_dag(FILE, seconds=300.0)
        assert wait(lambda: failed_run(scene, FILE))
        assert dag(scene, FILE)["is_paused"] is False
        assert len([*(scene.airflow.home / "statemaint_state").glob("*.json")]) == 1
        dags = [f"statemaint__{name}" for name in ("good", "dry", "wide")]
        wait(lambda: all(parsed(scene, one) > since for one in dags))
        assert scene.run("dry", {"dry_run": True}).state == "success"
        page = scene.admin.page("/statemaint/queries", cookie=True).body
        first = page[page.index("<tbody>") :].partition("</tr>")[0]
        assert "queries file" in first
        assert "Mistakes in it" in first
        assert "queries.yaml: was cut: 0 of " in first
        wait((scene.folder / "notified" / FILE).exists)
    wait(lambda: dag(scene, FILE)["is_stale"])


def parsed(scene: Scene, name: str) -> datetime:
    return datetime.fromisoformat(dag(scene, name)["last_parsed_time"])
