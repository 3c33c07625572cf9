"""`python -m tests.hostile`: every verb on checkpoints with strange things in them."""

import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import click

from tests.hostile.trees import prepare
from tests.hostile.verbs import VERBS, play

_STEP = 100


@click.command()
@click.option("--trees", default=10_000, show_default=True, help="How many.")
@click.option("--seed", default=0, show_default=True, help="The number of the first.")
@click.option("--processes", default=2, show_default=True, help="How many at once.")
def main(*, trees: int, seed: int, processes: int) -> None:
    """Grows trees, runs every verb on each, and ends with 1 where one of them broke a rule."""
    with ProcessPoolExecutor(1) as pool:
        healthy = pool.submit(prepare).result()
    broken = 0
    with ProcessPoolExecutor(processes) as pool:
        played = pool.map(partial(play, healthy), range(seed, seed + trees))
        for number, found in enumerate(played, 1):
            for one in found:
                broken += 1
                click.echo(f"{one.seed} {list(one.tree)}\n    {one.verb}: {one.what}")
            if not number % _STEP:
                click.echo(f"{number:,} trees, {broken} broken rules", err=True)
    click.echo(f"{trees:,} trees, {trees * len(VERBS):,} runs of verbs, {broken} broken rules")
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
