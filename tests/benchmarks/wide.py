"""A wide query in a real Airflow: `python -m tests.benchmarks.wide`.

Prints the seconds of the processor that Airflow's tasks take together, beside those of the command
line on the same checkpoint, and how long a small query takes alone and while the wide one runs.
"""

import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import psutil

from tests.support.paths import ROOT
from tests.systems.airflow.support import DAGS, PLUGINS, neglected
from tools.demo.airflow import Airflow, Setup, airflow
from tools.demo.airflow_client import Client

_QUERIES = "defaults: {min_batches_to_retain: 5, grace: 0s}\nqueries:\n"
_POLICY = ("--min-batches-to-retain", "5", "--grace", "0s")
_SMALL = ("small_alone", "small_beside")


@click.command()
@click.option("--partitions", default=400, show_default=True, help="Of the wide query.")
def main(partitions: int) -> None:
    """Measures one wide query and two small ones."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        for copy in ("wide", "by_hand"):
            neglected(folder / copy, partitions=partitions)
        for small in _SMALL:
            neglected(folder / small)
        by_hand = _by_hand(folder / "by_hand")
        click.echo(f"command line: {by_hand:.1f} s of the processor for {partitions} partitions")
        with airflow(_setup(folder)) as running:
            _measure(running, by_hand)


def _by_hand(checkpoint: Path) -> float:
    """Returns the seconds of the processor that `statemaint maintain` takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "statemaint", "maintain", str(checkpoint), *_POLICY]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _setup(folder: Path) -> Setup:
    names = ("wide", *_SMALL)
    entries = (f"  {name}: {{checkpoint: {folder / name}, retries: 0}}\n" for name in names)
    queries = folder / "queries.yaml"
    queries.write_text(_QUERIES + "".join(entries), encoding="utf-8")
    environ = {"PYTHONPATH": str(ROOT)}
    return Setup(folder / "home", DAGS, PLUGINS, queries, environ=environ)


def _measure(running: Airflow, by_hand: float) -> None:
    client = running.client()
    for name in ("wide", *_SMALL):
        client.wait_for_dag(f"statemaint__{name}")
        client.unpause(f"statemaint__{name}")
    began = _cpu(running)
    alone = _seconds(client, _SMALL[0])
    small = _cpu(running) - began
    wide = client.trigger("statemaint__wide")
    beside = _seconds(client, _SMALL[1])
    state = client.wait_for_run("statemaint__wide", wide, seconds=1800)
    cpu = _cpu(running) - began - 2 * small
    tasks = len(client.task_instances("statemaint__wide", wide))
    click.echo(f"Airflow: {state}, {tasks} tasks, {cpu:.1f} s of the processor")
    click.echo(f"that is {cpu / by_hand:.2f} times the command line")
    click.echo(f"a small query: {alone:.1f} s alone, {beside:.1f} s beside the wide one")


def _seconds(client: Client, query: str) -> float:
    """Runs a query's DAG, and returns how long it takes."""
    dag, began = f"statemaint__{query}", time.monotonic()
    client.wait_for_run(dag, client.trigger(dag), seconds=1800)
    return time.monotonic() - began


def _cpu(running: Airflow) -> float:
    """Returns the seconds of the processor of all tasks so far, in the scheduler's children."""
    found = 0.0
    for child in psutil.Process(running.parts["scheduler"].pid).children(recursive=True):
        times = child.cpu_times()
        found += times.user + times.system + times.children_user + times.children_system
    return found


if __name__ == "__main__":
    main()
