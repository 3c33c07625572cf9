"""What the pages cost where there are many queries, runs and partitions: the work is bounded."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT
from tests.systems.airflow.forking import Pythons

pytest.importorskip("airflow", reason="the extra `airflow`")
pytestmark = [pytest.mark.airflow, pytest.mark.slow]


def costs(pythons: Pythons, home: Path, queries: int, runs: int, partitions: int) -> dict[str, Any]:
    numbers = [str(one) for one in (queries, runs, partitions)]
    program = ["-m", "tests.systems.airflow.many_queries", *numbers]
    done = pythons.run(program, cwd=ROOT, environ={"AIRFLOW_HOME": str(home), "PATH": ""})
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_thousand_queries_cost_as_many_requests_as_two(pythons: Pythons, tmp_path: Path) -> None:
    few = costs(pythons, tmp_path / "few", 2, 1, 4)
    many = costs(pythons, tmp_path / "many", 1000, 3, 1)
    assert many["fleet"]["rows"] == 1000
    assert many["fleet"]["statements"] == few["fleet"]["statements"] <= 8
    assert many["fleet"]["bytes"] < 1000 * 2_500


def test_a_thousand_partitions_are_one_value(pythons: Pythons, tmp_path: Path) -> None:
    few = costs(pythons, tmp_path / "few", 1, 1, 4)
    many = costs(pythons, tmp_path / "many", 1, 3, 1000)
    assert many["query"]["cells"] == 1000
    assert many["query"]["statements"] == few["query"]["statements"] <= 12
    assert many["query"]["bytes"] < 1000 * 500


def test_of_too_many_partitions_the_page_shows_the_worst(pythons: Pythons, tmp_path: Path) -> None:
    assert costs(pythons, tmp_path, 1, 1, 10_000)["query"]["cells"] == 4000


def test_a_run_that_looked_at_nothing_leaves_what_was_known(
    pythons: Pythons, tmp_path: Path
) -> None:
    program = ["-m", "tests.systems.airflow.last_known"]
    done = pythons.run(program, cwd=ROOT, environ={"AIRFLOW_HOME": str(tmp_path), "PATH": ""})
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout.splitlines()[-1])
    unreachable, mistyped = shown["q0"], shown["q1"]
    why = "The last run failed to plan: STORAGE: s3://bucket: no answer"
    assert (unreachable["restart"], unreachable["why"]) == ("unknown", why)
    assert (unreachable["known"], unreachable["files"], unreachable["outcome"]) == (
        True, 30, "failed",
    )  # fmt: skip
    assert "As found by the last run that read the checkpoint," in unreachable["page"]
    assert "Unknown since at least 1970-01-01 01:00 UTC." in unreachable["page"]
    assert "Healthy since at least 1970-01-01 01:00 UTC." in mistyped["page"]
    # A manual run with a mistyped partition is a line in the history.
    assert (mistyped["restart"], mistyped["outcome"], mistyped["files"]) == (
        "healthy",
        "success",
        30,
    )
    assert mistyped["runs"] == ["failed", "success"]
