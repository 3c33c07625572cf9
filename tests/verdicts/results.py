"""What the verdict matrix has found: kept in a file, and shown as a table."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.documents import of_commits
from tests.verdicts.damages import Kind
from tests.verdicts.judge import Outcome, Verdict
from tests.verdicts.kinds import KINDS
from tests.verdicts.query import Layout

_Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Results:
    """Verdicts by layout and kind."""

    verdicts: dict[_Key, Verdict]

    @classmethod
    def read(cls, path: Path) -> "Results":
        """Returns what was kept of the kinds that there are; nothing where there is no file."""
        kept, found = cls({}), cls({})
        for one in json.loads(path.read_text()) if path.exists() else ():
            listed = {key: tuple(value) for key, value in one.items() if isinstance(value, list)}
            kept.add(Verdict(**{**one, **listed}))
        for kind in KINDS:
            for layout in kind.layouts:
                if verdict := kept.of(kind, layout):
                    found.add(verdict)
        return found

    def write(self, path: Path) -> None:
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps([one.as_json() for one in self.verdicts.values()], indent=1))

    def add(self, one: Verdict) -> None:
        self.verdicts[one.layout, one.group, one.kind, one.history] = one

    @property
    def disagreeing(self) -> list[Verdict]:
        """Returns the verdicts that are not Spark's, or whose advice leads nowhere."""
        return [one for one in self.verdicts.values() if one.faults]

    def of(self, kind: Kind, layout: Layout) -> Verdict | None:
        return self.verdicts.get((layout.value, kind.group, kind.name, kind.history.value))

    @property
    def untried(self) -> int:
        return sum(self.of(kind, one) is None for kind in KINDS for one in kind.layouts)

    @property
    def every_kind(self) -> bool:
        return all(any(self.of(kind, one) for one in kind.layouts) for kind in KINDS)


def table(results: Results) -> str:
    return "\n".join([*_summary(results), "", *_rows(results)])


def _summary(results: Results) -> Iterator[str]:
    counts = Counter(one.layout for one in results.verdicts.values())
    tried = ", ".join(f"{counts[one.value]} {one.value}" for one in Layout)
    hidden = sum(bool(one.hidden) for one in results.verdicts.values())
    untried = f", {results.untried} not tried" if results.untried else ""
    said = of_commits(one.commit for one in results.verdicts.values())
    yield f"{said}: {len(KINDS)} kinds, {len(results.verdicts)} verdicts ({tried}{untried})."
    yield f"{len(results.disagreeing)} of them disagree. In {hidden} nothing that is left shows the"
    yield "damage, and `doctor` says that it cannot see such a thing."


def _rows(results: Results) -> Iterator[str]:
    yield "| what was done | Spark 4.3 then | `doctor --deep` | after the advice |"
    yield "|---|---|---|---|"
    group = ""
    for kind in KINDS:
        if kind.group != group:
            group = kind.group
            yield f"| **{group}** | | | |"
        found: dict[str, list[Layout]] = {}
        for layout in kind.layouts:
            if one := results.of(kind, layout):
                found.setdefault(_cells(one), []).append(layout)
        where = "" if kind.history.value == "whole log" else f" ({kind.history})"
        for cells, layouts in found.items():
            only = "" if layouts == list(Layout) else f" [{_named(layouts)}]"
            yield f"| {kind.name}{where}{only} | {cells} |"


def _named(layouts: list[Layout]) -> str:
    return ", ".join(one.value.removeprefix("RocksDB ") for one in layouts)


def _cells(one: Verdict) -> str:
    doctor = "yes; unseen" if one.hidden else one.deep.partition(": ")[0]
    return f"{one.spark}{_why(one.error)} | {doctor} | {_end(one)}"


def _why(error: str) -> str:
    """Returns Spark's name for an error, where it has one: texts have paths and ids in them."""
    condition = re.fullmatch(r"(?:[A-Z0-9_]+\.)*([A-Z0-9_]+)", error)
    found = condition or re.match(r"(\w+(?:Exception|Error))\b", error)
    return f": `{found[1]}`" if found else ""


def _end(one: Verdict) -> str:
    steps = ", ".join(step for step in one.steps if not step.startswith("maintain"))
    if one.after == Outcome.NOT_TRIED:
        said = "begins anew" if one.spark == Outcome.ANEW else "cannot be repaired"
        return f"{steps}; {said}".removeprefix("; ")
    return f"{steps}: {one.after}".removeprefix(": ")
