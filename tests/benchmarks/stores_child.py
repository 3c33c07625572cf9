"""One run of several stores: `python -m tests.benchmarks.stores_child ROOT WORKERS MEMORY`.

Prints its seconds, from when the loops are loaded, and the peak of the whole process.
"""

import json
import sys
from pathlib import Path

from statemaint.memory import keep_freed_memory, memory_size
from statemaint.workers import Workers
from tests.benchmarks import ours
from tests.benchmarks.measure import timed
from tests.benchmarks.processes import peak_mib


def main(root: str, workers: str, memory: str) -> None:
    """Maintains a checkpoint."""
    keep_freed_memory()  # as the command line does
    ours.load_loops()
    took = timed(ours.maintain_all, Path(root), Workers(int(workers), memory_size(memory)))
    told = {"seconds": took.wall, "cpu": took.cpu, "peak": peak_mib()}
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
