"""`python -m tests.restarts measure`: restarts of a grid by real Sparks, for the forecast."""

from pathlib import Path

import click

from tests.restarts import run

GRID_SEED, UNSEEN_SEED = 1, 2


@click.group()
def main() -> None:
    """Calibrates the forecast of a restart's time, and checks it."""


@main.command()
@click.option("--spark", "sparks", multiple=True, default=run.SPARKS, show_default=True)
@click.option("--warm", default=60, show_default=True, help="Points of each provider.")
@click.option("--cold", default=6, show_default=True, help="The same, each in a new JVM.")
@click.option("--slots", default=2, show_default=True)
@click.option("--repeat", default=2, show_default=True, help="Restarts of a warm point.")
@click.option("--heap", default=run.HEAP, show_default=True)
@click.option("--unseen", is_flag=True, help="Measure the grid that no fit has seen.")
def measure(  # noqa: PLR0913 -- a choice each
    *,
    sparks: tuple[str, ...],
    warm: int,
    cold: int,
    slots: int,
    repeat: int,
    heap: str,
    unseen: bool,
) -> None:
    """Measure restarts. What is measured already is kept: run it again to go on."""
    seed, kept = (UNSEEN_SEED, UNSEEN) if unseen else (GRID_SEED, GRID)
    wanted = run.points(sparks, warm, cold, slots, seed)
    run.measure(wanted, kept, repeat=repeat, heap=heap)


GRID: Path = run.PLACE / "grid.jsonl"
UNSEEN: Path = run.PLACE / "unseen.jsonl"

if __name__ == "__main__":
    main()
