"""`python -m tests.hostile`: every verb on checkpoints with strange things in them."""

import gc
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import click

from tests.hostile.trees import prepare
from tests.hostile.verbs import VERBS, Played, Ran, play
from tests.support.documents import commit, of_commits, rewrite
from tests.support.in_memory import in_memory
from tests.support.paths import ROOT

_STEP = 100
_CODES = (0, 1, 2, 3, 4, 5, 6)


@dataclass(slots=True)
class Tally:
    """What many trees came to.

    Attributes:
        trees: how many.
        broken: how many rules were broken.
        codes: how often each verb ended with each exit code.
        seconds: the most that each verb took of a processor.
        memory: the most bytes that each took.
        total: seconds of a processor of all runs of each verb.
        commits: of the code that ran.
    """

    trees: int = 0
    broken: int = 0
    codes: Counter[tuple[str, int]] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    memory: Counter[str] = field(default_factory=Counter)
    total: Counter[str] = field(default_factory=Counter)
    commits: Counter[str] = field(default_factory=Counter)

    def add(self, played: Played) -> None:
        """Counts a tree."""
        self.trees += 1
        self.broken += len(played.broken)
        self.commits[played.commit] += 1
        for one in played.runs:
            self._add(one)

    def _add(self, one: Ran) -> None:
        self.codes[one.verb, one.code] += 1
        self.total[one.verb] += one.seconds  # type: ignore[assignment]
        self.seconds[one.verb] = max(self.seconds[one.verb], one.seconds)  # type: ignore[assignment]
        self.memory[one.verb] = max(self.memory[one.verb], one.memory)

    def table(self) -> str:
        head = ["verb", "runs", *(f"exit {code}" for code in _CODES)]
        head += ["mean s", "most s", "most MiB"]
        lines = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *self._rows())]
        return "\n".join(lines)

    def _rows(self) -> Iterable[list[str]]:
        for verb in dict.fromkeys(" ".join(one) for one in VERBS):
            runs = sum(self.codes[verb, code] for code in _CODES)
            counts = [f"{self.codes[verb, code]:,}" for code in _CODES]
            mean = self.total[verb] / max(runs, 1)
            yield [
                f"`{verb}`", f"{runs:,}", *counts, f"{mean:.2f}",
                f"{self.seconds[verb]:.1f}", f"{self.memory[verb] >> 20}",
            ]  # fmt: skip


@click.command()
@click.option("--trees", default=10_000, show_default=True, help="How many.")
@click.option("--seed", default=0, show_default=True, help="The number of the first.")
@click.option("--processes", default=2, show_default=True, help="How many at once.")
@click.option("--log", type=click.Path(path_type=Path), help="Keep each tree; go on from there.")
@click.option("--write", is_flag=True, help="Write the counts into docs/safety.md.")
def main(*, trees: int, seed: int, processes: int, log: Path | None, write: bool) -> None:
    """Grows trees, runs every verb on each, and ends with 1 where one of them broke a rule."""
    seeds = range(seed, seed + trees)
    tally = Tally()
    with in_memory():
        for played in _played(seeds, processes, log):
            tally.add(played)
            for what in played.broken:
                click.echo(f"{played.seed} {list(played.tree)}\n    {what}", err=True)
            if not tally.trees % _STEP:
                click.echo(f"{tally.trees:,} trees, {tally.broken} broken rules", err=True)
    text = (
        f"{tally.trees:,} trees, {tally.codes.total():,} runs of verbs, {tally.broken} broken rules"
    )
    if len(tally.commits) > 1:
        text += f" ({', '.join(f'{one}: {count:,} trees' for one, count in tally.commits.items())})"
    click.echo(f"{text}\n\n{tally.table()}")
    if write:
        said = f"{of_commits(tally.commits)}, seeds {seeds[0]} to {seeds[-1]}: {text}."
        rewrite(ROOT / "docs/safety.md", f"{said}\n\n{tally.table()}", by="make hostile")
    sys.exit(bool(tally.broken))


def _played(seeds: range, processes: int, log: Path | None) -> Iterator[Played]:
    """Yields trees: those that a log has, unless they broke a rule, and then the others.

    The others are added to the log.
    """
    with ProcessPoolExecutor(1) as pool:
        healthy = pool.submit(prepare).result()
    before = log.read_text().splitlines() if log and log.exists() else []
    known = {one.seed: one for line in before if not (one := Played.of(json.loads(line))).broken}
    yield from (one for seed, one in known.items() if seed in seeds)
    left = sorted({*seeds} - {*known})
    with ProcessPoolExecutor(processes, initializer=gc.freeze) as pool:
        for played in pool.map(partial(play, healthy, commit=commit()), left):
            if log:
                with log.open("a") as stream:
                    stream.write(f"{json.dumps(asdict(played))}\n")
            yield played


if __name__ == "__main__":
    main()
