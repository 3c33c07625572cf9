"""`python -m tests.benchmarks.against CHECKOUT`: maintain here beside another checkout of the code.

Each repetition is a process of its own, ours and the other's in turn, on a fresh copy of the same
checkpoint. What counts is the CPU time of `maintain`, and the requests to the storage.
"""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import click

from tests.benchmarks import cases
from tests.benchmarks.inputs import copy_of, prepare
from tests.support.paths import ROOT

_NOT_COMPILED = "PYTHONDONTWRITEBYTECODE"
_CASES = {
    "aggregation": cases.AGGREGATION,
    "24,000 small files": replace(cases.TINY, partitions=2000),
}
# Runs in either checkout, so it may only use what both have.
_RUN = """
import json, sys, time
from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.storage import LocalStorage
try:
    import statemaint.fold.compiled.engine
except ImportError:  # before the packages had rooms
    import statemaint.fold.fast
policy = Policy(min_deltas_for_snapshot=1, rebase=False)
began, wall = time.process_time(), time.perf_counter()
report = maintain(LocalStorage(sys.argv[1]), policy)
used = time.process_time() - began, time.perf_counter() - wall
print(json.dumps({"cpu": used[0], "wall": used[1], "written": report.snapshots_written,
                  "requests": sum(report.requests.values())}))
"""


@click.command()
@click.argument("checkout", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--repeat", default=7, show_default=True, help="Repetitions to take medians of.")
@click.option("--folder", default=ROOT / ".run" / "bench", type=click.Path(path_type=Path))
def main(checkout: Path, *, repeat: int, folder: Path) -> None:
    """Prints what maintain costs here, relative to another checkout."""
    folder.mkdir(parents=True, exist_ok=True)
    click.echo(
        "| case | CPU here | there | ratio | requests here | there |\n|---|--:|--:|--:|--:|--:|"
    )
    for name, case in _CASES.items():
        given = prepare(case, folder.resolve())
        found: dict[Path, list[dict[str, Any]]] = {ROOT: [], checkout.resolve(): []}
        for number in range(repeat + 1):
            for root, results in found.items():
                with copy_of(given) as copy:
                    measured = _run(root, copy)
                if number:  # the first one warms up: the page cache, and what is compiled
                    results.append(measured)
        here, there = found.values()
        cpu = [median(one["cpu"] for one in results) for results in (here, there)]
        requests = [one[0]["requests"] for one in (here, there)]
        click.echo(
            f"| {name} | {cpu[0]:.3f} s | {cpu[1]:.3f} s | {cpu[0] / cpu[1]:.3f} "
            f"| {requests[0]:,} | {requests[1]:,} |"
        )


def _run(root: Path, copy: Path) -> dict[str, Any]:
    command = [sys.executable, "-c", _RUN, str(copy)]
    # Either compiles its modules once, in the run that warms up.
    environ = {name: value for name, value in os.environ.items() if name != _NOT_COMPILED}
    done = subprocess.run(
        command, cwd=root, env=environ, capture_output=True, check=True, text=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    main()
