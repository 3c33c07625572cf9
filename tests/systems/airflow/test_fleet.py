"""What the pages cost where there are many queries, runs and partitions: the work is bounded."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT

pytest.importorskip("airflow", reason="the extra `airflow`")
pytestmark = [pytest.mark.airflow, pytest.mark.slow]


def costs(home: Path, queries: int, runs: int, partitions: int) -> dict[str, Any]:
    numbers = [str(one) for one in (queries, runs, partitions)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.systems.airflow.many_queries", *numbers],
        env={"AIRFLOW_HOME": str(home), "PATH": ""},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_thousand_queries_cost_as_many_requests_as_two(tmp_path: Path) -> None:
    few = costs(tmp_path / "few", 2, 1, 4)
    many = costs(tmp_path / "many", 1000, 3, 1)
    assert many["fleet"]["rows"] == 1000
    assert many["fleet"]["statements"] == few["fleet"]["statements"] <= 8
    assert many["fleet"]["bytes"] < 1000 * 2_500


def test_a_thousand_partitions_are_one_value(tmp_path: Path) -> None:
    few = costs(tmp_path / "few", 1, 1, 4)
    many = costs(tmp_path / "many", 1, 3, 1000)
    assert many["query"]["cells"] == 1000
    assert many["query"]["statements"] == few["query"]["statements"] <= 10
    assert many["query"]["bytes"] < 1000 * 500


def test_of_too_many_partitions_the_page_shows_the_worst(tmp_path: Path) -> None:
    assert costs(tmp_path, 1, 1, 10_000)["query"]["cells"] == 4000
