"""`python -m tests.mutation`: changes the code a little, thousands of times; do the tests notice?

mutmut makes the mutants (`[tool.mutmut]` in pyproject.toml says of which packages), and
`tests.mutation.run` tries them. Here they are counted by package, and each survivor gets the reason
that `reasons.toml` has for changes of its kind. It ends with exit code 1 where a survivor has none.
"""

import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from tests.mutation.run import PACKAGES, run
from tests.support.documents import commit, of_commits, rewrite
from tests.support.paths import ROOT

_DOCUMENT = ROOT / "docs" / "safety.md"
_REASONS = Path(__file__).with_name("reasons.toml")
ENOUGH = 0.9
_BY_TYPES = "caught by type check"
_LEFT = frozenset({"survived", "no tests", "not checked"})


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change, and whether a test failed because of it.

    Attributes:
        name: mutmut's own.
        status: mutmut's own.
        before: the changed lines as they were; empty unless it survived.
        after: the lines instead of them.
    """

    name: str
    status: str
    before: str = ""
    after: str = ""

    @property
    def package(self) -> str:
        return self.name.split(".")[1]

    @property
    def survived(self) -> bool:
        return self.status in _LEFT


@dataclass(frozen=True, slots=True)
class Reason:
    """Why mutants of a kind survive.

    Attributes:
        text: the reason.
        name: matches their names.
        change: matches `before -> after`.
    """

    text: str
    name: re.Pattern[str]
    change: re.Pattern[str]

    def covers(self, mutant: Mutant) -> bool:
        change = f"{mutant.before} -> {mutant.after}"
        return bool(self.name.search(mutant.name) and self.change.search(change))


def reasons() -> tuple[Reason, ...]:
    """Returns the reasons, the first of which that covers a mutant counts."""
    found = tomllib.loads(_REASONS.read_text())["reason"]
    return tuple(
        Reason(one["text"], re.compile(one.get("name", "")), re.compile(one.get("change", "")))
        for one in found
    )


def mutants() -> Iterator[Mutant]:
    """Yields the mutants of the last run, survivors with their changes."""
    from mutmut.__main__ import collect_source_file_mutation_data  # noqa: PLC0415
    from mutmut.mutation.diff_apply import get_diff_for_mutant  # noqa: PLC0415
    from mutmut.stats import status_by_exit_code  # noqa: PLC0415 -- reads pyproject.toml when imported

    for data, name, code in collect_source_file_mutation_data(mutant_names=())[0]:
        found = Mutant(name, status_by_exit_code[code])
        if found.survived:
            found = _changed(found, get_diff_for_mutant(name, path=data.path))
        yield found


def _changed(mutant: Mutant, diff: str) -> Mutant:
    lines = diff.splitlines()[2:]
    before, after = (
        " ".join(line[1:].strip() for line in lines if line.startswith(sign)) for sign in "-+"
    )
    return Mutant(mutant.name, mutant.status, before, after)


def explained(
    found: Iterable[Mutant], known: Iterable[Reason]
) -> dict[Reason | None, list[Mutant]]:
    """Returns the survivors by their reasons; those without one under `None`."""
    survivors: dict[Reason | None, list[Mutant]] = defaultdict(list)
    for one in found:
        if one.survived:
            survivors[next((why for why in known if why.covers(one)), None)].append(one)
    return survivors


def tables(
    found: Iterable[Mutant], survivors: Mapping[Reason | None, Sequence[Mutant]]
) -> Iterator[str]:
    """Yields the lines of both tables: by package, and the survivors by their reasons."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for one in found:
        counts[one.package][_noticed_by(one)] += 1
    yield "| package | mutants | types | tests | survived | noticed, % | by the tests alone, % |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for name in PACKAGES:
        typed, tested, left = (counts[name][one] for one in ("types", "tests", "nobody"))
        shares = (typed + tested) / max(1, typed + tested + left), tested / max(1, tested + left)
        numbers = " | ".join(f"{one:,}" for one in (typed + tested + left, typed, tested, left))
        yield f"| `{name}` | {numbers} | " + " | ".join(f"{100 * one:.1f}" for one in shares) + " |"
    yield from ("", "| survivors | why |", "|--:|---|")
    for why, some in sorted(survivors.items(), key=lambda one: -len(one[1])):
        yield f"| {len(some):,} | {why.text if why else 'not explained'} |"


def _noticed_by(mutant: Mutant) -> str:
    if mutant.survived:
        return "nobody"
    return "types" if mutant.status == _BY_TYPES else "tests"


def shares(found: Iterable[Mutant]) -> dict[str, float]:
    """Returns the noticed part of the mutants of each package."""
    counts: dict[str, Counter[bool]] = defaultdict(Counter)
    for one in found:
        counts[one.package][one.survived] += 1
    return {name: some[False] / some.total() for name, some in counts.items()}


@click.command()
@click.option("--children", default=2, show_default=True, help="Processes at a time.")
@click.option("--rerun/--no-rerun", default=True, help="Whether to try mutants first.")
@click.option("--fresh", is_flag=True, help="Try all; else what no earlier run noticed.")
@click.option("--write", is_flag=True, help="Write the tables to docs/safety.md.")
@click.option("--seconds", default=1.5, show_default=True, help="Of tests for one mutant.")
@click.argument("names", nargs=-1)
def main(names: tuple[str, ...], *, rerun: bool, write: bool, **how: Any) -> None:
    """Runs the tests against mutants; NAMES are patterns of mutmut's, all by default."""
    if rerun:
        run(names, **how)
    found, known = list(mutants()), reasons()
    survivors = explained(found, known)
    lines = list(tables(found, survivors))
    click.echo("\n".join(lines))
    _tell(survivors, known)
    if write:
        lines = [f"{of_commits([commit()])}.", "", *lines]
        rewrite(_DOCUMENT, "\n".join(lines), by="make mutation")
    sys.exit(None in survivors or any(share < ENOUGH for share in shares(found).values()))


def _tell(survivors: Mapping[Reason | None, Sequence[Mutant]], known: Iterable[Reason]) -> None:
    unexplained = survivors.get(None, ())
    for one in unexplained:
        click.echo(f"{one.name} ({one.status}): {one.before} -> {one.after}")
    for why in known:
        if why not in survivors:
            click.echo(f"no survivor has this reason: {why.text}")
    click.echo(f"survivors without a reason: {len(unexplained)}")


if __name__ == "__main__":
    main()
