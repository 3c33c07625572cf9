"""Queries that Airflow does not maintain, though nothing is wrong with their checkpoints."""

import re
from pathlib import Path

import pytest

from tests.systems.airflow.conftest import Scene
from tests.systems.airflow.test_configuration import dag, spoiled, wait

pytestmark = [pytest.mark.airflow, pytest.mark.slow]

CREATE = "`airflow pools set &#39;no such pool&#39; 32 maintenance`"


def row(scene: Scene, query: str) -> str:
    """Returns the row of a query on the page with all of them."""
    page = scene.admin.page("/statemaint/queries").body
    rows = re.findall(r"<tr\b.*?</tr>", page, re.DOTALL)
    return next((one for one in rows if f'data-v="{query}"' in one), "")


def test_a_run_without_its_pool_fails_at_once_says_why_and_notifies(scene: Scene) -> None:
    ended = scene.run("poolless")
    assert ended.state == "failed"
    assert ended.states == {"plan": "failed", "maintain": "failed", "report": "failed"}
    note = scene.admin.get(f"/api/v2/dags/{ended.dag}/dagRuns/{ended.run}")["note"]
    assert note == (
        "Nothing was done: Its tasks are set to run in the pool 'no such pool', which does not "
        "exist: `airflow pools set 'no such pool' 32 maintenance`. Then trigger it again."
    )
    shown = row(scene, "poolless")
    assert "Not maintained" in shown
    assert CREATE in shown
    wait((scene.folder / "notified" / ended.dag).exists)
    scene.admin.post("/api/v2/pools", {"name": "no such pool", "slots": 1})
    assert "Not looked at" in row(scene, "poolless")
    assert scene.run("poolless").state == "success"
    assert (
        "Every partition loads at version 25."
        in scene.admin.page("/statemaint/dags/statemaint__poolless").body
    )


def without(text: str, query: str) -> str:
    return "".join(
        one for one in text.splitlines(keepends=True) if not one.startswith(f"  {query}:")
    )


def test_a_query_whose_dag_is_deactivated_stays_on_the_page(scene: Scene) -> None:
    assert scene.run("removed").state == "success"
    assert "Every partition loads" in scene.admin.page("/statemaint/dags/statemaint__removed").body
    file = Path(scene.folder / "queries.yaml").read_text(encoding="utf-8")
    changed = without(file, "removed").replace("  idle: {", "  idle: {enabled: false, ")
    with spoiled(scene, changed):
        wait(lambda: dag(scene, "statemaint__removed")["is_stale"])
        wait(lambda: dag(scene, "statemaint__idle")["is_stale"])
        shown = row(scene, "removed")
        assert "Not maintained" in shown
        assert "Airflow has deactivated the DAG statemaint__removed" in shown
        assert "4 files" in shown  # as the last run left it
        assert row(scene, "idle") == ""
    wait(lambda: not dag(scene, "statemaint__removed")["is_stale"])
    assert "Airflow has deactivated" not in row(scene, "removed")
