"""`python -m tests.restarts`: calibrates the forecast of a restart's time on real Sparks.

measure            restarts of a grid, kept in .run/restarts/grid.jsonl
measure --unseen   of another grid, which no fit sees
measure --slow     of that grid on a slow machine, each after an earlier restart of the same query
fit                the costs, written into the package
check              the forecast, compared with the unseen restarts; the table of the docs
"""

import sys
from pathlib import Path

import click

from statemaint.model.restart_costs import MEASURED
from tests.benchmarks import machine
from tests.restarts import check as checking
from tests.restarts import fit as fitting
from tests.restarts import month as months
from tests.restarts import run
from tests.support.documents import commit, of_commits, rewrite
from tests.support.paths import ROOT

GRID_SEED, UNSEEN_SEED = 1, 2
GRID: Path = run.PLACE / "grid.jsonl"
UNSEEN: Path = run.PLACE / "unseen.jsonl"


@click.group()
def main() -> None:
    """Calibrates the forecast of a restart's time, and checks it."""


@main.command()
@click.option("--spark", "sparks", multiple=True, default=run.SPARKS, show_default=True)
@click.option("--warm", default=38, show_default=True, help="Points of each provider and Spark.")
@click.option("--cold", default=8, show_default=True, help="The same, each in a new JVM.")
@click.option("--slots", default=2, show_default=True)
@click.option("--repeat", default=2, show_default=True, help="Restarts of a warm point.")
@click.option("--heap", default=run.HEAP, show_default=True)
@click.option("--unseen", is_flag=True, help="Measure the grid that no fit has seen.")
@click.option("--slow", is_flag=True, help="Of that, on one core and a slow disk; as root.")
def measure(  # noqa: PLR0913 -- a choice each
    *,
    sparks: tuple[str, ...],
    warm: int,
    cold: int,
    slots: int,
    repeat: int,
    heap: str,
    unseen: bool,
    slow: bool,
) -> None:
    """Measure restarts. What is measured already is kept: run it again to go on."""
    seed, kept = (UNSEEN_SEED, UNSEEN) if unseen or slow else (GRID_SEED, GRID)
    wanted = run.points(sparks, warm, cold, 1 if slow else slots, seed, slow=slow)
    run.measure(wanted, kept, repeat=repeat, heap=heap)


@main.command()
def fit() -> None:
    """Fit the costs to the grid, and write them into the package."""
    lines = run.lines(GRID)
    fitting.write(lines)
    for key, costs in fitting.fitted(lines).items():
        click.echo(f"{key}: {costs}")


@main.command()
@click.argument("points", type=click.Path(path_type=Path), default=UNSEEN)
@click.option("--write/--no-write", default=True, help="Whether to write docs/benchmarks.md.")
def check(points: Path, *, write: bool) -> None:
    """Compare the package's forecast with measured restarts; fail if it does not hold."""
    found = [*checking.check(run.lines(points))]
    table = "\n".join([checking.HEADER, *map(str, found)])
    click.echo(table)
    if write:
        text = f"{machine.described(spark=True)}. {MEASURED}. {of_commits([commit()])}.\n\n{table}"
        rewrite(ROOT / "docs" / "benchmarks.md", text, by="make calibrate")
    sys.exit(0 if found and all(each.holds for each in found) else 1)


@main.command()
@click.option("--spark", default=run.SPARKS[-1], show_default=True)
@click.option("--slots", default=2, show_default=True)
@click.option("--batches", default=720, show_default=True)
@click.option("--looks", default=10, show_default=True, help="Restarts by Spark.")
def month(spark: str, slots: int, batches: int, looks: int) -> None:
    """Play a month under `restart_within` and by default; fail if what must hold does not."""
    found = months.run(months.bench_of(spark, slots), batches, looks)
    for each in found:
        click.echo(each)
    wrong = [*months.failures(*found)]
    click.echo("; ".join(wrong) or "all held")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
