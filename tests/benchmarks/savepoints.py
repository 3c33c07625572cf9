"""Savepoints: of much state beside `maintain`, and of many small stores to a bucket far away."""

import time
from statistics import median
from typing import Any

from statemaint.savepoint import savepoint
from statemaint.storage import LocalStorage
from tests.benchmarks.bench import Bench
from tests.benchmarks.cases import FAR_SAVEPOINT, LARGE, Case
from tests.benchmarks.far import far_bucket
from tests.benchmarks.inputs import copy_of, prepare
from tests.benchmarks.processes import in_child
from tests.benchmarks.tables import FAR_SAVEPOINTS, LARGE_SAVEPOINT, seconds, times

SECTIONS = (LARGE_SAVEPOINT, FAR_SAVEPOINTS)
DELAY = 30
_VERBS = ("maintain", "savepoint")


def run(bench: Bench) -> None:
    run_large(bench)
    run_far(bench)


def run_large(bench: Bench, case: Case = LARGE) -> None:
    """Measures one store in new processes, which take turns with those of `maintain`."""
    given = bench.prepare(case)
    taken: dict[str, list[dict[str, float]]] = {verb: [] for verb in _VERBS}
    for _ in range(bench.repeat):
        for verb in _VERBS:
            bench.results.say(f"{case.name}: {verb}")
            with copy_of(given) as root:
                taken[verb].append(in_child(verb, root, case.last))
    alone = median(one["seconds"] for one in taken["maintain"])
    for verb, runs in taken.items():
        took = median(one["seconds"] for one in runs)
        cpu, peak = median(one["cpu"] for one in runs), max(one["peak"] for one in runs)
        row = (verb, seconds(took), seconds(cpu), times(took / alone), f"{peak:,.0f}")
        bench.results.add(LARGE_SAVEPOINT, case.name, *row)


def run_far(bench: Bench, case: Case = FAR_SAVEPOINT) -> None:
    """Counts the requests of a savepoint from a local disk, and from the same bucket."""
    folder = bench.folder / "far"
    folder.mkdir(exist_ok=True)
    given = prepare(case, folder)
    with far_bucket(folder, DELAY) as bucket, copy_of(given) as root:
        for source in (LocalStorage(root), bucket.storage(case.key)):
            place = "a local disk" if isinstance(source, LocalStorage) else "the same bucket"
            name = f"{case.name} from {place}"
            bench.results.say(name)
            bucket.reset()
            began, used = time.perf_counter(), time.process_time()
            savepoint(source, bucket.storage("savepoint"))
            took = time.perf_counter() - began, time.process_time() - used
            _add(bench, name, took, bucket.told())


def _add(bench: Bench, name: str, took: tuple[float, float], told: dict[str, Any]) -> None:
    asked = told["requests"]
    kinds = ", ".join(f"{asked[verb]:,} {verb}" for verb in sorted(asked))
    counts = f"{sum(asked.values()):,}", kinds, str(told["at once"])
    bench.results.add(FAR_SAVEPOINTS, name, *map(seconds, took), *counts)
