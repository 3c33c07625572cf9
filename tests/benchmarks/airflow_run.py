"""What a run of a query with many partitions costs in a real Airflow: `make bench-airflow`.

It is compared with the command line on a copy of the same checkpoint, and with as many tasks that
do nothing. Small queries are started meanwhile. Seconds of the processor are those that the system
counts for the processes that ran the tasks: what the executor's workers have waited for.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory

import click
import psutil

from statemaint.storage import MemoryStorage
from tests.support.checkpoints import delta_bytes, offsets_bytes, write_checkpoint
from tests.support.paths import ROOT
from tools.demo.airflow import Airflow, Setup, airflow
from tools.demo.airflow_client import Client

VERSIONS = 60
_POLICY = ("--min-batches-to-retain=5", "--grace=0s")
_QUERIES = """
defaults: {{min_batches_to_retain: 5, grace: 0s}}
queries:
  wide: {{checkpoint: {folder}/wide}}
  again: {{checkpoint: {folder}/again}}
  "small_{{number}}":
    for_each: {{number: [{numbers}]}}
    checkpoint: {folder}/small_{{number}}
"""
_IDLE = """
from airflow.sdk import DAG, task

with DAG("idle", schedule=None):
    @task
    def units() -> list[int]:
        return list(range({count}))

    @task
    def nothing(unit: int) -> None:
        pass

    @task
    def report() -> None:
        pass

    nothing.expand(unit=units()) >> report()
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """What something took.

    Attributes:
        seconds: until it ended.
        tasks: seconds of the processor in the processes that ran tasks, or the program itself.
        parts: seconds of the processor in all other processes of Airflow.
    """

    seconds: float
    tasks: float
    parts: float = 0.0


def command_line(checkpoint: Path) -> Cost:
    """Maintains a checkpoint by the command line."""
    command = [sys.executable, "-m", "statemaint", "maintain", str(checkpoint), *_POLICY]
    began = time.monotonic()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"the command line ended with {process.returncode}")
    return Cost(time.monotonic() - began, used.ru_utime + used.ru_stime)


@dataclass(frozen=True, slots=True)
class Bench:
    """A running Airflow with a DAG for each checkpoint."""

    server: Airflow
    client: Client

    def run(self, dag: str, meanwhile: Sequence[str] = ()) -> tuple[Cost, list[float]]:
        """Runs a DAG once, and others while it runs; returns its cost and their seconds."""
        before, began = self._used(), time.monotonic()
        run = self.client.trigger(dag)
        others = []
        for other in meanwhile:
            self._wait_for_tasks(dag, run)
            others.append(self.run(other)[0].seconds)
        if self.client.wait_for_run(dag, run, seconds=1800) != "success":
            raise RuntimeError(f"{dag} failed")
        seconds, after = time.monotonic() - began, self._used()
        return Cost(seconds, after[0] - before[0], after[1] - before[1]), others

    def _wait_for_tasks(self, dag: str, run: str) -> None:
        """Waits until a mapped task runs, or all is over."""
        while self.client.run_state(dag, run) in ("queued", "running"):
            found = self.client.task_instances(dag, run)
            if any(one.map_index >= 0 and one.state == "running" for one in found):
                return
            time.sleep(0.2)

    def _used(self) -> tuple[float, float]:
        """Returns the seconds of tasks that have ended, and of Airflow's parts."""
        tasks = parts = 0.0
        scheduler = self.server.parts["scheduler"].pid
        for leader in self.server.parts.values():
            for one in _session(leader.pid):
                with suppress(psutil.NoSuchProcess):
                    used = one.cpu_times()
                    worker = leader.pid == scheduler and one.pid != scheduler
                    tasks += used.children_user + used.children_system if worker else 0.0
                    parts += used.user + used.system
        return tasks, parts


def _session(leader: int) -> list[psutil.Process]:
    root = psutil.Process(leader)
    return [root, *root.children(recursive=True)]


def fill(folder: Path, partitions: int, keys: int, small: int) -> None:
    """Makes the checkpoints, with a copy of the large one for the command line."""
    _write(folder / "wide", partitions, keys)
    for number in range(small):
        _write(folder / f"small_{number}", 4, keys)
    for copy in ("copy", "again"):
        shutil.copytree(folder / "wide", folder / copy)
    shutil.copytree(folder / "small_0", folder / "warm")


def _write(folder: Path, partitions: int, keys: int) -> None:
    """Makes a neglected checkpoint, of the same changes in each partition."""
    seen = MemoryStorage()
    write_checkpoint(seen, last=VERSIONS, batches=range(VERSIONS - 9, VERSIONS), partitions=1)
    state = (one for one in seen.files if not one.startswith("state/"))
    files = {path: seen.files[path] for path in state}
    conf = {"shuffle.partitions": str(partitions)}
    for number in range(VERSIONS - 9, VERSIONS):
        files[f"offsets/{number}"] = offsets_bytes(conf)
    random = Random(1)  # noqa: S311 -- no secret
    for version in range(1, VERSIONS + 1):
        rows = [(random.randbytes(24), random.randbytes(48)) for _ in range(keys)]
        content = delta_bytes(rows)
        files |= {f"state/0/{one}/{version}.delta": content for one in range(partitions)}
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def setup(folder: Path, small: int, parallel: int) -> Setup:
    """Returns an Airflow with the project's own DAG file and one DAG that does nothing."""
    numbers = ", ".join(map(str, range(small)))
    (folder / "queries.yaml").write_text(_QUERIES.format(folder=folder, numbers=numbers))
    dags = folder / "dags"
    dags.mkdir()
    shutil.copy(ROOT / "dags/statemaint_dags.py", dags)
    (dags / "idle.py").write_text(_IDLE.format(count=16))
    environ = {"PYTHONPATH": str(ROOT), "AIRFLOW__CORE__PARALLELISM": str(parallel)}
    return Setup(folder / "home", dags, ROOT / "plugins", folder / "queries.yaml", environ=environ)


@click.command()
@click.option("--partitions", default=400, show_default=True)
@click.option("--keys", default=300, show_default=True, help="Keys in each delta.")
@click.option("--small", default=3, show_default=True, help="Small queries, of 4 partitions.")
@click.option("--parallel", default=16, show_default=True, help="Tasks at a time.")
def main(partitions: int, *, keys: int, small: int, parallel: int) -> None:
    """Measures one run of a large query in Airflow, and small ones beside it."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        fill(folder, partitions, keys, 2 * small)
        command_line(folder / "warm")  # compiles where nothing is compiled yet
        alone = command_line(folder / "copy")
        with airflow(setup(folder, 2 * small, parallel)) as server:
            bench = Bench(server, server.client())
            dags = [f"statemaint__small_{number}" for number in range(2 * small)]
            for dag in ("idle", "statemaint__wide", "statemaint__again", *dags):
                bench.client.wait_for_dag(dag)
                bench.client.unpause(dag)
            bench.run("idle")
            idle, _ = bench.run("idle")
            wide, _ = bench.run("statemaint__wide")
            usual = median(bench.run(dag)[0].seconds for dag in dags[:small])
            beside = bench.run("statemaint__again", dags[small:])[1]
    _print(partitions, alone, idle, wide)
    click.echo(f"small queries alone {usual:.1f} s, meanwhile {_listed(beside)} s")


def _print(partitions: int, alone: Cost, idle: Cost, wide: Cost) -> None:
    own = wide.tasks - idle.tasks
    click.echo(f"{partitions} partitions of {VERSIONS} versions, seconds of the processor:")
    click.echo(f"  command line              {alone.tasks:6.1f}  ({alone.seconds:.1f} s)")
    click.echo(f"  tasks that do nothing     {idle.tasks:6.1f}  ({idle.seconds:.1f} s)")
    click.echo(f"  tasks of the run          {wide.tasks:6.1f}  ({wide.seconds:.1f} s)")
    click.echo(
        f"  of these, ours            {own:6.1f}  {own / alone.tasks:.2f} of the command line"
    )
    click.echo(f"  tasks in all              {wide.tasks / alone.tasks:.2f} of the command line")
    click.echo(f"  Airflow's other processes {wide.parts:6.1f}")


def _listed(seconds: Sequence[float]) -> str:
    return ", ".join(f"{one:.1f}" for one in seconds)


if __name__ == "__main__":
    main()
