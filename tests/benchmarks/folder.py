"""`python -m tests.benchmarks.folder`: how long fifty checkpoints in one folder take.

Prints the seconds of `scan` and `doctor`, each in new processes: the median and the slowest.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

from tests.support.documents import commit
from tests.support.fifty import write_fifty
from tests.support.terminal import PROGRAM

_TIMES = 5


def _seconds(verb: str, folder: str) -> float:
    began = time.perf_counter()
    done = subprocess.run([*PROGRAM, verb, folder], capture_output=True, check=False)
    took = time.perf_counter() - began
    if done.returncode != 3 or len(done.stdout.splitlines()) != 52:
        sys.exit(f"{verb}: {done.stdout.decode()}{done.stderr.decode()}")
    return took


@click.command(help=__doc__)
def main() -> None:
    """Measures."""
    with tempfile.TemporaryDirectory() as folder:
        write_fifty(Path(folder))
        for verb in ("scan", "doctor"):
            found = [_seconds(verb, folder) for _ in range(_TIMES)]
            click.echo(
                f"{verb}: {statistics.median(found):.1f} s, at most {max(found):.1f} s, "
                f"of {_TIMES} (commit {commit()})"
            )


if __name__ == "__main__":
    main()
