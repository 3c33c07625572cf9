"""What Airflow makes of `dags/statemaint_dags.py`, each time in a process of its own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT
from tests.systems.airflow.support import DAGS, neglected, tree_hash

pytestmark = pytest.mark.airflow

DAG_FILE = DAGS / "statemaint_dags.py"
EXAMPLE = DAGS / "statemaint_queries.example.yaml"


def describe(
    folder: Path, *, queries: Path | None, watched: Path = Path("/nowhere"), file: Path = DAG_FILE
) -> dict[str, Any]:
    """Returns what `tests.systems.airflow.describe` prints."""
    environ = {name: value for name, value in os.environ.items() if "STATEMAINT" not in name}
    environ |= {"AIRFLOW_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT)}
    if queries:
        environ["STATEMAINT_QUERIES"] = str(queries)
    done = subprocess.run(
        [sys.executable, "-m", "tests.systems.airflow.describe", str(file), str(watched)],
        env=environ,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return describe(tmp_path_factory.mktemp("example"), queries=EXAMPLE)


def test_the_example_imports_without_an_error_or_a_warning(example: dict[str, Any]) -> None:
    assert (example["errors"], example["warnings"]) == ({}, {})
    assert sorted(example["dags"]) == ["statemaint__click_join", "statemaint__hourly_revenue"]


def test_a_dag_is_scheduled_and_tagged_as_the_file_says(example: dict[str, Any]) -> None:
    join, hourly = _both(example)
    assert (hourly["schedule"], hourly["tags"]) == ("0 * * * *", ["statemaint"])
    assert (join["schedule"], join["tags"]) == ("*/20 * * * *", ["clickstream", "statemaint"])


def test_a_dag_has_one_run_at_a_time_and_makes_nothing_up(example: dict[str, Any]) -> None:
    for dag in example["dags"].values():
        assert (dag["max_active_runs"], dag["catchup"]) == (1, False)


def test_a_dag_says_what_it_does_and_by_which_policy(example: dict[str, Any]) -> None:
    _, hourly = _both(example)
    assert "| `min_batches_to_retain` | 50 |" in hourly["doc"]
    assert "`/data/checkpoints/hourly_revenue`" in hourly["doc"]


def test_a_plan_is_mapped_and_then_reported(example: dict[str, Any]) -> None:
    _, hourly = _both(example)
    downstream = {name: task["downstream"] for name, task in hourly["tasks"].items()}
    assert downstream == {"plan": ["maintain"], "maintain": ["report"], "report": []}
    assert [name for name, task in hourly["tasks"].items() if task["mapped"]] == ["maintain"]


def test_the_report_always_runs_and_never_decides_how_a_run_ended(example: dict[str, Any]) -> None:
    report = _both(example)[1]["tasks"]["report"]
    assert (report["teardown"], report["fails_run"]) == (True, False)
    assert report["outlets"] == ["statemaint://hourly_revenue"]


def test_tasks_are_retried_as_the_file_says(example: dict[str, Any]) -> None:
    join, hourly = _both(example)
    assert {task["retries"] for task in join["tasks"].values()} == {2}
    assert {task["retries"] for task in hourly["tasks"].values()} == {1}


def test_the_form_has_two_switches_and_two_numbers_that_may_stay_empty(
    example: dict[str, Any],
) -> None:
    params = _both(example)[1]["params"]
    schemas = {name: param["schema"] for name, param in params.items()}
    kinds = {name: (params[name]["value"], schemas[name]["type"]) for name in params}
    assert kinds == {
        "dry_run": (False, "boolean"),
        "force_snapshot": (False, "boolean"),
        "min_deltas_for_snapshot": (None, ["null", "integer"]),
        "min_batches_to_retain": (None, ["null", "integer"]),
    }
    assert schemas["min_deltas_for_snapshot"]["minimum"] == 1
    assert all(schema["title"] and schema["description_md"] for schema in schemas.values())
    assert (
        "Empty: 50, as the queries file says." in schemas["min_batches_to_retain"]["description_md"]
    )


def test_parsing_touches_no_storage(tmp_path: Path) -> None:
    checkpoint = neglected(tmp_path / "checkpoint")
    before = tree_hash(checkpoint)
    queries = tmp_path / "queries.yaml"
    queries.write_text(f"queries: {{a: {{checkpoint: {checkpoint}}}}}", encoding="utf-8")
    found = describe(tmp_path, queries=queries, watched=checkpoint)
    assert list(found["dags"]) == ["statemaint__a"]
    assert found["touched"] == []
    assert tree_hash(checkpoint) == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("queries: {a: {checkpoint: /x, cron: 1}}", "queries.a.cron: no such key; known are"),
        (
            "queries: {a: {checkpoint: /x}, b: {checkpoint: /y, schedule: '99 * * * *'}}",
            "queries.b.schedule: '99 * * * *' is not a valid cron expression",
        ),
    ],
)
def test_a_broken_file_is_one_import_error_that_ends_with_the_reason(
    tmp_path: Path, text: str, said: str
) -> None:
    queries = tmp_path / "queries.yaml"
    queries.write_text(text, encoding="utf-8")
    found = describe(tmp_path, queries=queries)
    assert found["dags"] == {}
    (error,) = found["errors"].values()
    last = error.strip().splitlines()[-1]
    assert last.startswith(f"statemaint.errors.ConfigError: {queries}: {said}")


def test_the_file_beside_the_dag_file_is_taken_where_the_environment_names_none(
    tmp_path: Path,
) -> None:
    file = Path(shutil.copy(DAG_FILE, tmp_path))
    shutil.copy(EXAMPLE, tmp_path / "statemaint_queries.yaml")
    assert len(describe(tmp_path, queries=None, file=file)["dags"]) == 2


def test_a_missing_file_is_one_import_error_that_says_so(tmp_path: Path) -> None:
    file = Path(shutil.copy(DAG_FILE, tmp_path))
    (error,) = describe(tmp_path, queries=None, file=file)["errors"].values()
    assert f"{tmp_path / 'statemaint_queries.yaml'}: cannot be read (No such file" in error


def _both(example: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    dags = example["dags"]
    return dags["statemaint__click_join"], dags["statemaint__hourly_revenue"]
