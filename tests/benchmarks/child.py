"""One piece of work in a process of its own: `python -m tests.benchmarks.child WORK ROOT VERSION`.

Prints its seconds and its peak memory, and what that was after the imports alone.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks import ours
from tests.benchmarks.processes import peak_mib

WORK: dict[str, Callable[[Path, int], object]] = {
    "fold": ours.fold_and_write,
    "maintain": lambda root, _version: ours.maintain_all(root),
    "savepoint": lambda root, _version: ours.save(root),
}


def main(work: str, root: str, version: str) -> None:
    """Does the work."""
    ours.import_all()
    imports, cpu, began = peak_mib(), time.process_time(), time.perf_counter()
    WORK[work](Path(root), int(version))
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    told = {"seconds": seconds, "cpu": cpu, "imports": imports, "peak": peak_mib()}
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
