"""`python -m tests.transcripts.wide`: makes a join of 200 partitions with Spark 4.3, and packs it.

The archive `tests/checkpoints/wide-4.3.0.tar.xz` has it as `join2`: the query and the input of that
kind in `tests.checkpoints.queries`, as a neglected hourly job of few rows in many partitions. It
takes a few minutes, and the environment of the tests, which has that Spark.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from tests.checkpoints.archive import pack
from tests.checkpoints.live import BATCHES
from tests.checkpoints.queries import write_input
from tests.support.paths import ROOT

WIDE, KIND = "wide-4.3.0", "join2"
_PARTITIONS = {"spark.sql.shuffle.partitions": "200"}


@click.command(help=__doc__)
def main() -> None:
    """Makes and packs it."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write_input(place / "input", range(BATCHES))
        job = {
            "run": KIND, "input": str(place / "input"), "root": str(place), "conf": _PARTITIONS,
        }  # fmt: skip
        (place / "jobs.json").write_text(json.dumps([job]))
        command = ["-m", "tests.checkpoints.spark_job", "jobs.json", "results.json"]
        subprocess.run([sys.executable, *command], check=True, cwd=place, env=_environment())
        pack(WIDE, {KIND: place / "checkpoint"}, {})


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


if __name__ == "__main__":
    main()
