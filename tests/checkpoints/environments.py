"""An environment for each Spark, and a way to have it do something."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import click

from tests.support.paths import ROOT

VERSIONS = ("3.3.4", "3.4.4", "3.5.9", "4.0.5", "4.1.4", "4.2.1", "4.3.0")
HERE = Path(__file__).parent

_PIP = ("-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-input")
_MAKING = Lock()


class SparkError(Exception):
    """A Spark did not do its jobs."""


def run_jobs(version: str, jobs: Sequence[Mapping[str, Any]], place: Path) -> list[Any]:
    """Has a Spark do jobs as `spark_job` knows them, and returns their results.

    `place` takes what it says and leaves behind.

    Raises:
        SparkError: when it failed at one of them; with the last of what it said.
    """
    python = python_of(version)
    place.mkdir(parents=True, exist_ok=True)
    asked, told, log = (place / name for name in ("jobs.json", "results.json", "spark.log"))
    asked.write_text(json.dumps(jobs))
    command = [str(one) for one in (python, "-m", "tests.checkpoints.spark_job", asked, told)]
    with log.open("w") as said:
        done = subprocess.run(
            command, cwd=place, env=variables(python), stdout=said, stderr=said, check=False
        )
    if done.returncode:
        raise SparkError(f"Spark {version}, {log}:\n{log.read_text()[-3000:]}")
    results: list[Any] = json.loads(told.read_text())
    return results


def packages(version: str) -> Path:
    (found,) = python_of(version).parents[1].glob("lib/python3.*/site-packages")
    return found


def variables(python: Path) -> dict[str, str]:
    """What a Spark of the machine's own would otherwise decide."""
    others = {key: value for key, value in os.environ.items() if not key.startswith("SPARK_")}
    return {
        **others,
        "PYSPARK_PYTHON": str(python),
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def python_of(version: str) -> Path:
    """Returns the Python of a version's environment, which is made if need be."""
    place = ROOT / ".run" / "sparks" / version
    wanted = (HERE / "requirements" / f"{version}.txt").read_text()
    stamp = place / "requirements.txt"
    with _MAKING:
        if not stamp.exists() or stamp.read_text() != wanted:
            click.echo(f"{version}: making its environment")
            _make(place, version)
            stamp.write_text(wanted)
    return place / "bin" / "python"


def _make(place: Path, version: str) -> None:
    python = sys.executable if sys.version_info[:2] == (3, 11) else shutil.which("python3.11")
    if python is None:
        raise SparkError("no Python 3.11, the only one that all of Spark 3.3 to 4.3 run on")
    subprocess.run([python, "-m", "venv", "--clear", place], check=True)
    requirements = str(HERE / "requirements" / f"{version}.txt")
    command = [str(place / "bin" / "python"), *_PIP, "--require-hashes", "-r", requirements]
    subprocess.run(command, check=True)
