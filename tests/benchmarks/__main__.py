"""`python -m tests.benchmarks`: measures, prints, and writes docs/benchmarks.md."""

import shutil
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import click

from tests.benchmarks import (
    breakdown,
    cases,
    far,
    growth,
    held,
    machine,
    requests,
    rocks,
    savepoints,
    side_by_side,
    small,
    stores,
    tables,
    threads,
)
from tests.benchmarks.bench import Bench
from tests.benchmarks.spark import Sparks
from tests.support.documents import commit, of_commits, rewrite
from tests.support.paths import ROOT

_DOCUMENT = ROOT / "docs" / "benchmarks.md"

PARTS: dict[str, Callable[[Bench], None]] = {
    "aggregation": partial(side_by_side.run, case=cases.AGGREGATION),
    "breakdown": partial(breakdown.run, case=cases.AGGREGATION),
    "join": partial(side_by_side.run, case=cases.JOIN),
    "sessions": partial(side_by_side.run, case=cases.SESSIONS),
    "rocksdb": partial(rocks.run, case=cases.ROCKS),
    "tombstones": partial(side_by_side.run, case=cases.TOMBSTONES),
    "tiny": partial(small.run_partitions, case=cases.TINY),
    "large": partial(
        side_by_side.run_large,
        case=cases.LARGE,
        doubled=cases.LARGE_DOUBLED,
        warm_up=cases.AGGREGATION,
    ),
    "state-size": partial(growth.run, cases=cases.STATE_SIZES),
    "delta-size": partial(growth.run, cases=cases.DELTA_SIZES),
    "chain-length": partial(growth.run, cases=cases.CHAIN_LENGTHS),
    "threads": partial(threads.run, case=cases.AGGREGATION),
    "stores": partial(stores.run, case=cases.SEVERAL),
    "memory": held.run,
    "far": partial(far.run, case=cases.FAR),
    "far-width": partial(
        far.run_all, cases=cases.FAR_WIDTHS, delays=(30,), verbs=("plan", "verify", "maintain")
    ),
    "far-chain": partial(far.run, case=cases.FAR_ONE, delays=(30,)),
    "requests": requests.run,
    "savepoint": savepoints.run,
    "process": partial(small.run_process, case=cases.TINIEST, first=cases.AGGREGATION),
}
_SEPARATE = {"requests": requests.SECTIONS, "savepoint": savepoints.SECTIONS}


@click.command()
@click.option("--case", "chosen", multiple=True, type=click.Choice(list(PARTS)),
              help="Measure only this; may be given more than once.")  # fmt: skip
@click.option("--repeat", default=5, show_default=True, help="Repetitions to take medians of.")
@click.option("--spark/--no-spark", default=True, help="Whether to measure Spark too.")
@click.option("--folder", default=ROOT / ".run" / "bench", type=click.Path(path_type=Path),
              show_default=".run/bench", help="Where the generated files are kept.")  # fmt: skip
def main(chosen: tuple[str, ...], *, repeat: int, spark: bool, folder: Path) -> None:
    """Measures our engine against Spark and against the floor.

    A run that leaves nothing out writes its tables to docs/benchmarks.md. So do the cases
    `requests` and `savepoint`, which have a part of their own there; other cases only print.
    """
    results = tables.Results(facts={"repeat": str(repeat), "sampled": ""})
    sparks = Sparks() if spark else None
    results.say(machine.described(spark=spark))
    try:
        _measure(chosen or tuple(PARTS), Bench(_emptied(folder), repeat, results, sparks))
    finally:
        if sparks:
            sparks.close()
    about = f"{machine.described(spark=spark)}. {of_commits([commit()])}."
    for case, sections in _SEPARATE.items():
        if measured := results.markdown(sections):
            rewrite(_DOCUMENT, f"{about}\n\n{measured}", by=f"make bench, {case}")
    if spark and not chosen:
        rewrite(_DOCUMENT, f"{about}\n\n{results.markdown()}", by="make bench")


def _measure(names: Iterable[str], bench: Bench) -> None:
    for name in names:
        PARTS[name](bench)
    bench.results.show_all()


def _emptied(folder: Path) -> Path:
    """Returns the folder of generated files, without what a run left there that was killed."""
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob("copy-*"):
        shutil.rmtree(left)
    return folder.resolve()


if __name__ == "__main__":
    main()
