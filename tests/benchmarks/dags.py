"""What Airflow's parts pay for many queries: `python -m tests.benchmarks.dags`.

Seconds of the processor in a process of its own, beyond Airflow's own import.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import click

from tests.support.paths import ROOT

_ENTRY = """\
  query_{number}:
    checkpoint: s3://lake/checkpoints/query_{number}
    connection: lake
    schedule: "{minute} * * * *"
    owner: streaming
    tags: [streaming, lake]
    policy: {{grace: 2h, min_batches_to_retain: 50}}
"""
_PARSE = """
import sys, time
from airflow.executors import executor_loader
from airflow.sdk import DAG, Asset, Param, task
began = time.process_time()
from statemaint.airflow.factory import build_dags
imported = time.process_time()
count = len(build_dags(sys.argv[1]))
print(count, imported - began, time.process_time() - imported)
"""


def queries(count: int) -> str:
    """Returns a queries file with so many queries."""
    entries = (_ENTRY.format(number=number, minute=number % 60) for number in range(count))
    return "queries:\n" + "".join(entries)


def parse(folder: Path, count: int) -> tuple[int, float, float]:
    """Returns the number of DAGs, and the seconds of our import and of building them."""
    file = folder / "queries.yaml"
    file.write_text(queries(count), encoding="utf-8")
    environ = {**os.environ, "AIRFLOW_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", _PARSE, str(file)],
        env=environ, capture_output=True, text=True, check=True,
    )  # fmt: skip
    made, imported, built = done.stdout.splitlines()[-1].split()
    return int(made), float(imported), float(built)


@click.command()
@click.option("--queries", "count", default=200, show_default=True, help="How many queries.")
@click.option("--repeat", default=5, show_default=True, help="Repetitions to take medians of.")
def main(count: int, *, repeat: int) -> None:
    """Measures what parsing the DAG file costs beyond Airflow's own import."""
    with TemporaryDirectory() as folder:
        found = [parse(Path(folder), count) for _ in range(repeat)]
    click.echo(
        f"{found[0][0]} DAGs: {_median(found, 1)} s our import, {_median(found, 2)} s to build"
    )


def _median(found: Sequence[tuple[int, float, float]], column: int) -> str:
    return f"{median(one[column] for one in found):.2f}"


if __name__ == "__main__":
    main()
