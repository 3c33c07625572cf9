"""What the pages cost the API server where they show much: `python -m tests.benchmarks.pages`.

It is the first request in a new process: the database's answers, the values and the HTML of the
page with all queries, and of the page of one query. The database is SQLite, in memory; HTTP and
Airflow's check of the user come on top.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import click

from tests.support.paths import ROOT

_RUNS = 3  # runs of each query in the database


def measure(home: Path, queries: int, partitions: int) -> Mapping[str, Any]:
    """Returns what `tests.systems.airflow.many_queries` prints."""
    numbers = [str(one) for one in (queries, _RUNS, partitions)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.systems.airflow.many_queries", *numbers],
        env={**os.environ, "AIRFLOW_HOME": str(home), "PYTHONPATH": str(ROOT)},
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@click.command()
@click.option("--queries", default=1000, show_default=True, help="How many queries.")
@click.option("--partitions", default=1000, show_default=True, help="Partitions of the one query.")
@click.option("--repeat", default=5, show_default=True, help="Repetitions to take medians of.")
def main(queries: int, *, partitions: int, repeat: int) -> None:
    """Measures the page with all queries, and the page of a query with many partitions."""
    with TemporaryDirectory() as folder:
        home = Path(folder)
        many = [measure(home, queries, 1)["fleet"] for _ in range(repeat)]
        wide = [measure(home, 1, partitions)["query"] for _ in range(repeat)]
    _print(f"page with {many[0]['rows']} queries", many)
    _print(f"page of a query with {wide[0]['cells']} partitions", wide)


def _print(what: str, found: list[Mapping[str, Any]]) -> None:
    seconds, cpu = (median(one[name] for one in found) for name in ("seconds", "cpu"))
    statements = found[0]["statements"]
    click.echo(f"{what}: {seconds:.2f} s, {cpu:.2f} of the processor, {statements} SQL statements")


if __name__ == "__main__":
    main()
