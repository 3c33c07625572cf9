"""`python -m tests.certify`: schedules by the thousand, and broken maintainers to catch.

A schedule is made from a number; `--seed N` alone plays that one again and tells its story.
"""

import gc
import json
import logging
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import click

from tests.certify.alarms import Excuse
from tests.certify.mutant import MOST, Caught, hunt
from tests.certify.mutants import MUTANTS
from tests.certify.schedule import Outcome, run
from tests.support.documents import commit, of_commits, rewrite
from tests.support.in_memory import in_memory
from tests.support.paths import ROOT

DOCUMENT = ROOT / "docs" / "safety.md"
CAUGHT = ROOT / "tests" / "certify" / "caught.json"
"""The schedule that caught each mutant the last time: the one to try first."""
ENOUGH = 20_000
LEAST_JUDGED = 90
"""Of a hundred verdicts so many must be judged."""
_CHUNK = 100
_SHOWN = 20


@dataclass(slots=True)
class Counts:
    """What some schedules came to."""

    schedules: int = 0
    tally: Counter[str] = field(default_factory=Counter)
    found: list[Outcome] = field(default_factory=list)

    def add(self, other: "Counts") -> None:
        self.schedules += other.schedules
        self.tally.update(other.tally)
        self.found += other.found

    def to_json(self) -> dict[str, Any]:
        """Returns the counts for a line of a file."""
        found = [(one.seed, one.loss) for one in self.found]
        return {"schedules": self.schedules, "tally": self.tally, "found": found}

    @classmethod
    def of_json(cls, line: dict[str, Any]) -> "Counts":
        found = [Outcome(seed, Counter(), loss) for seed, loss in line["found"]]
        return cls(line["schedules"], Counter(line["tally"]), found)

    def lines(self) -> Iterator[tuple[str, int]]:
        """Yields what was counted, in words."""
        yield "schedules", self.schedules
        yield "steps", self.tally["steps"]
        yield "runs of maintenance", self.tally["runs"]
        yield "storage operations of theirs", self.tally["operations"]
        yield "points at which they could be stopped", self.tally["points"]
        for how, words in (
            ("crash", "crashes"),
            ("fail", "failing operations"),
            ("pause", "pauses"),
        ):
            yield words, self._of(f"{how} at ")
        for name, words in _NAMES.items():
            yield words, self.tally[name]
        yield "verdicts of verify, verify --deep and doctor, alarms of maintenance", self.verdicts
        yield "of these on a state that was wrong", self.tally["verdicts on a wrong state"]
        for reason in Excuse:
            yield f"excused, since {reason}", self.tally[f"excused: {reason}"]
        yield "judged, of a hundred verdicts", self.judged
        yield "findings", len(self.found)

    def _of(self, kind: str) -> int:
        return sum(number for name, number in self.tally.items() if name.startswith(kind))

    @property
    def verdicts(self) -> int:
        return self.tally["verdicts"]

    @property
    def judged(self) -> int:
        """Returns how many of a hundred verdicts were judged; all others are excused."""
        left = self.verdicts - sum(self.tally[f"excused: {reason}"] for reason in Excuse)
        return 100 * left // self.verdicts if self.verdicts else 100

    @property
    def fails(self) -> bool:
        """Returns whether something was found, or too little was judged."""
        return bool(self.found) or self.judged < LEAST_JUDGED


_NAMES = {
    "schedules of RocksDB": "schedules of RocksDB among them",
    "with ids": "of these with unique ids",
    "with column families": "of these with column families",
    "families added": "restarts that added a state variable",
    "families dropped": "restarts that dropped one",
    "changelogs switched": "restarts that switched changelogs off or on",
    "left beside an old log": "schedules with the log of before a rewind beside right zips",
    "left with an unfinished rollback": "schedules left with a rollback to end or to undo by hand",
    "left undercut by executors": "schedules left with a version that executors deleted too early",
    "queries that got unique ids": "queries that got unique ids in mid-life",
    "files lost": "single files lost",
    "with several workers": "schedules with two to eight workers",
    "with two operators": "schedules with two operators",
    "operators removed": "operators that left their query",
    "schedules on a disk with links": "schedules on a real disk, with links",
    "overlaps": "runs that began while another one was paused",
    "batches": "batches of the query",
    "restarts": "restarts of the query",
    "starts refused": "starts refused, since the state does not load",
    "rewinds": "rewinds of the query",
    "rewinds that left our snapshots": "rewinds that left snapshots of ours above the log",
    "rewinds beside a paused run": "rewinds in the middle of a paused run",
    "zombies": "late renames (zombies)",
    "snapshots of Spark": "snapshots by executors",
    "uploads of a version again": "snapshots that executors uploaded twice",
    "cleanups of Spark": "clean-ups by executors",
    "late cleanups of Spark": "clean-ups that deleted what they had chosen earlier",
    "tasks": "tasks of runs that share a lease",
    "tasks that are handed a plan": "such tasks that were handed what the run's plan had read",
    "tasks beside their like": "tasks that began while another one of their run was paused",
    "undos": "runs undone from the trash",
    "undos of rollbacks": "of these rollbacks",
    "repairs": "repairs",
    "rollbacks": "rollbacks",
    "readers": "readers that had listed and not read",
    "pins": "pins of a batch",
    "savepoints": "savepoints",
    "savepoints continued": "of these of a folder that an earlier one had begun",
    "savepoints that are whole": "of these whole at their end",
    "savepoints with another codec": "folders of these whose state gets another codec",
    "savepoints in other partitions": "folders of these in another number of partitions",
    "savepoints in another provider": "folders of these in another provider",
    "savepoints of what was wrong": "looks at one of files that were wrong, and equal to them",
    "savepoints garbled": "of these whose first snapshot the storage garbled",
    "starts from savepoints": "queries that were started from a savepoint",
    "expiries of savepoints": "expiries of savepoints",
    "wrong snapshots": "snapshots made wrong on purpose",
    "garbled writes": "writes that the storage garbled",
    "swapped changes": "files of a log that changed places",
    "edited changes": "files of a log that somebody edited",
    "files put back from a copy": "files put back from a copy, with their old times or new ones",
    "restores of the checkpoint": "older copies of the whole checkpoint put back",
    "foreign files": "foreign files",
    "files of ours deleted": "records of ours deleted by hand",
    "lasting troubles": "troubles of the storage that last until they are mended",
    "verdicts that could not be given": "rounds of verdicts that a closed folder refused",
    "runs after a healthy verdict": "runs right after verify --deep had found nothing",
    "halts at an old log": "of these halted by such a log, below all retained versions",
    "snapshots": "snapshots by maintenance",
    "deletions": "deletions by maintenance",
}


def play(seeds: Sequence[int], without: tuple[str, ...] = ()) -> Counts:
    """Runs the schedules of some seeds."""
    counts = Counts()
    with _in_a_hurry():
        for seed in seeds:
            outcome = run(seed, switches=_switches(without))
            counts.schedules += 1
            counts.tally.update(outcome.tally)
            counts.found += [Outcome(seed, Counter(), outcome.loss)] if outcome.loss else []
    return counts


@contextmanager
def _in_a_hurry() -> Iterator[None]:
    """Logs errors alone, keeps RocksDB in memory, and leaves what was imported uncollected."""
    logger = logging.getLogger("statemaint")
    level = logger.level
    logger.setLevel(logging.ERROR)
    gc.freeze()
    try:
        with in_memory():
            yield
    finally:
        gc.unfreeze()
        logger.setLevel(level)


def _switches(without: tuple[str, ...]) -> dict[str, Any]:
    return {"without": frozenset(without)}


def play_all(
    first: int,
    schedules: int,
    processes: int,
    without: tuple[str, ...] = (),
    kept: Path | None = None,
) -> Counts:
    """Runs N schedules in some processes.

    Args:
        first: the number of the first schedule.
        schedules: how many.
        processes: how many run at a time.
        without: kinds of steps that there are none of.
        kept: a file for the counts of each hundred schedules; those that it has of this commit are
            not played again.
    """
    seeds = range(first, first + schedules)
    chunks = [tuple(seeds[at : at + _CHUNK]) for at in range(0, schedules, _CHUNK)]
    of = [commit(), *sorted(without)]
    played = _played(kept, of) if kept else {}
    counts = Counts()
    for some in (played[chunk] for chunk in chunks if chunk in played):
        _add(counts, some)
    chunks = [chunk for chunk in chunks if chunk not in played]
    with _results(chunks, processes, without) as results:
        for chunk, some in zip(chunks, results, strict=True):
            _add(counts, some)
            if kept:
                line = {"seeds": chunk, "of": of, **some.to_json()}
                with kept.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
    click.echo()
    return counts


@contextmanager
def _results(
    chunks: Sequence[tuple[int, ...]], processes: int, without: tuple[str, ...]
) -> Iterator[Iterator[Counts]]:
    work = partial(play, without=without)
    if processes == 1:
        yield map(work, chunks)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield pool.map(work, chunks)


def _add(counts: Counts, some: Counts) -> None:
    counts.add(some)
    for one in some.found[:_SHOWN]:
        click.echo(f"\rpython -m tests.certify --seed {one.seed}    {one.loss}")
    click.echo(f"\r{counts.schedules:,} schedules, {len(counts.found)} findings", nl=False)


def _played(kept: Path, of: list[str]) -> dict[tuple[int, ...], Counts]:
    """Returns the counts that a file has of this commit, by the numbers of their schedules.

    A line that a killed run left unfinished is removed.
    """
    text = kept.read_text(encoding="utf-8") if kept.exists() else ""
    if text and not text.endswith("\n"):
        text = text[: text.rfind("\n") + 1]
        kept.write_text(text, encoding="utf-8")
    lines = map(json.loads, text.splitlines())
    return {tuple(line["seeds"]): Counts.of_json(line) for line in lines if line["of"] == of}


@click.command(help=__doc__)
@click.option("--schedules", default=1, show_default=True, help="How many.")
@click.option("--seed", default=0, show_default=True, help="The number of the first.")
@click.option("--processes", default=1, show_default=True, help="How many at once.")
@click.option("--without", multiple=True, help="A kind of step that there is none of.")
@click.option("--kept", type=click.Path(dir_okay=False, path_type=Path),
              help="A file for the counts: a run that was stopped goes on by it.")  # fmt: skip
@click.option("--mutants", is_flag=True, help="Break the code on purpose instead, and catch it.")
def main(
    schedules: int,
    seed: int,
    processes: int,
    without: tuple[str, ...],
    *,
    kept: Path | None,
    mutants: bool,
) -> None:
    """Ends with 3 when anything was found, a mutant was not, or too few verdicts were judged."""
    logging.getLogger("statemaint").setLevel(logging.ERROR)
    if mutants:
        sys.exit(_hunt_all(processes))
    if schedules == 1:
        sys.exit(_tell(seed, without))
    if kept and commit().endswith("-dirty"):
        raise click.UsageError("--kept: commit your changes first, counts are kept of a commit")
    counts = play_all(seed, schedules, processes, without, kept)
    for words, number in counts.lines():
        click.echo(f"{words:<80}{number:>16,}")
    if counts.schedules >= ENOUGH and not counts.fails:
        write(counts, range(seed, seed + schedules))
    sys.exit(3 if counts.fails else 0)


def _tell(seed: int, without: tuple[str, ...]) -> int:
    log: list[str] = []
    outcome = run(seed, log=log, switches=_switches(without))
    click.echo("\n".join(log))
    click.echo(f"schedule {seed}: {outcome.loss or 'nothing was lost'}")
    return 3 if outcome.loss else 0


def _hunt_all(processes: int) -> int:
    """Breaks the code in every way; returns 3 when one of them was not noticed.

    The schedule that caught a mutant the last time is tried first.
    """
    rows = ["| rule | a maintainer that | caught by schedule |", "|---|---|--:|"]
    by: dict[str, int] = json.loads(CAUGHT.read_text(encoding="utf-8"))
    hunted = partial(_hunted, by)
    missed = 0
    with ProcessPoolExecutor(processes) as pool:
        for mutant, caught in zip(MUTANTS, pool.map(hunted, range(len(MUTANTS))), strict=True):
            ends = f"{caught.schedules:,}" if caught else f"none of {MOST:,}"
            by |= {mutant.name: caught.schedules - 1} if caught else {}
            missed += not caught
            rows.append(f"| {mutant.rule} | {mutant.says} | {ends} |")
            click.echo(f"{rows[-1]} {caught.loss.split(' (')[0][:90] if caught else ''}")
    CAUGHT.write_text(json.dumps(dict(sorted(by.items())), indent=2) + "\n", encoding="utf-8")
    said = f"{of_commits([commit()])}: {len(MUTANTS) - missed} of {len(MUTANTS)} are caught."
    rewrite(DOCUMENT, "\n".join([said, "", *rows]), by="python -m tests.certify --mutants")
    return 3 if missed else 0


def _hunted(known: Mapping[str, int], number: int) -> Caught | None:
    mutant = MUTANTS[number]
    with _in_a_hurry():
        return hunt(mutant, MOST, first=known.get(mutant.name))


def write(counts: Counts, seeds: range) -> None:
    rows = "\n".join(f"| {words} | {number:,} |" for words, number in counts.lines())
    said = f"{of_commits([commit()])}, the numbers {seeds[0]:,} to {seeds[-1]:,}."
    rewrite(DOCUMENT, f"{said}\n\n| counted | |\n|---|--:|\n{rows}", by="make certify")


if __name__ == "__main__":
    main()
