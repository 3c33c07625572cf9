"""What little state costs: ten thousand tiny partitions, and a process for one of them."""

import sys
from pathlib import Path
from statistics import median

from tests.benchmarks import floor, ours
from tests.benchmarks.bench import Bench, snapshot
from tests.benchmarks.cases import Case
from tests.benchmarks.inputs import Input, copy_of, state_files
from tests.benchmarks.measure import Seconds, timed
from tests.benchmarks.processes import cpu_of
from tests.benchmarks.rows import KINDS
from tests.benchmarks.side_by_side import HEAP
from tests.benchmarks.spark import Sparks, SparkSeconds
from tests.benchmarks.tables import PROCESS, TINY, seconds

# So many of the partitions Spark maintains; all of them would take minutes and say no more.
_SAMPLE = 500
_ROOT = "ROOT"
_MAINTAIN = ("maintain", _ROOT, "--grace", "0s")
_RUN = """
import sys
from statemaint.cli import main
try:
    main()
finally:
    print(*sys.modules)
"""
_IMPORT = """
import importlib, sys
for name in sys.stdin.read().split():
    try:
        importlib.import_module(name)
    except ImportError:
        pass  # a module that another one makes
"""


def run_partitions(bench: Bench, case: Case) -> None:
    """Measures maintain on many partitions at once, the floor of the same, and Spark's loop."""
    given = bench.prepare(case)
    with copy_of(given) as root:
        bench.results.say(f"{case.name}: maintain")
        _add(bench, given, "maintain", timed(ours.maintain_all, root))
        bench.results.say(f"{case.name}: floor")
        _add(bench, given, "floor", _floor(given, root))
    if bench.sparks:
        bench.results.say(f"{case.name}: Spark")
        took = _spark(bench.sparks, given)
        _add(bench, given, "Spark: load", took.load)
        _add(bench, given, "Spark: write", took.write)
        bench.results.facts["sampled"] = (
            f"Spark's are those of {min(_SAMPLE, case.partitions)} partitions, scaled."
        )


def _add(bench: Bench, given: Input, what: str, took: Seconds) -> None:
    each = took.cpu / given.case.partitions * 1000
    bench.results.add(TINY, what, seconds(took.wall), seconds(took.cpu), f"{each:.3f}")


def _floor(given: Input, root: Path) -> Seconds:
    """Returns the floor of all partitions, which writes what was just written once more."""
    snapshots = [snapshot(given, root, one) for one in range(given.case.partitions)]
    payloads = [floor.payload(path) for path in snapshots]
    inputs = [state_files(given.root, one) for one in range(given.case.partitions)]

    def all_of_them() -> None:
        for paths, payload, path in zip(inputs, payloads, snapshots, strict=True):
            floor.read(paths)
            floor.write(payload, path.with_suffix(".floor"))

    return timed(all_of_them)


def _spark(sparks: Sparks, given: Input) -> SparkSeconds:
    """Returns what Spark would take for all partitions, from a sample of them."""
    spark, kind = sparks.with_heap(HEAP), KINDS[given.case.kind]
    count = min(_SAMPLE, given.case.partitions)
    for _ in range(2):  # the first time to warm up
        with copy_of(given) as root:
            spark.collect()
            took = spark.maintain(root, kind, version=given.case.last, count=count)
    scale = given.case.partitions / count
    return SparkSeconds(*(_scaled(one, scale) for one in (took.load, took.write)))


def _scaled(took: Seconds, scale: float) -> Seconds:
    return Seconds(took.wall * scale, took.cpu * scale)


def run_process(bench: Bench, case: Case, first: Case) -> None:
    """Measures processes from their start, against their imports alone.

    Args:
        bench: what measures.
        case: a small one, to scan and to maintain.
        first: the first one of the side-by-side table, to maintain.
    """
    for what, given, words in (
        ("--version", case, ("--version",)),
        ("scan, small", case, ("scan", _ROOT)),
        ("maintain, small", case, _MAINTAIN),
        (f"maintain, {first.name}", first, _MAINTAIN),
    ):
        bench.results.say(f"process: {what}")
        _add_process(bench, what, bench.prepare(given), words)


def _add_process(bench: Bench, what: str, given: Input, words: tuple[str, ...]) -> None:
    whole, imports, modules = [], [], ""
    for _ in range(1 + bench.repeat):
        with copy_of(given) as root:
            command = [str(root) if word is _ROOT else word for word in words]
            cpu, printed = cpu_of([sys.executable, "-c", _RUN, *command])
        modules = printed.splitlines()[-1]
        whole.append(cpu)
        imports.append(cpu_of([sys.executable, "-c", _IMPORT], modules)[0])
    run, alone = median(whole[1:]), median(imports[1:])
    loaded = ["yes" if name in modules.split() else "no" for name in ("numba", "numpy")]
    bench.results.add(PROCESS, what, *map(seconds, (run, alone, run - alone)), *loaded)
