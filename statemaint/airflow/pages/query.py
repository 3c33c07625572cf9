"""The page of one query: the heat map of its partitions, its findings, its actions. Pure."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from statemaint.airflow import advice
from statemaint.airflow.figures import Told
from statemaint.airflow.names import REPAIR_DAG, VERIFY_DAG, is_together, savepoint_id
from statemaint.airflow.texts import size
from statemaint.report.facts import Unit

# The maximum number of partitions with a cell; the worst ones have one.
MOST_CELLS = 4_000
MOST_WORST = 20
BROKEN = "x"


@dataclass(frozen=True, slots=True)
class Cell:
    """A partition in the heat map.

    Attributes:
        unit: its figures.
        levels: its levels by chain, bytes and findings: `0` to `4`, or `x` for damage.
        texts: its values by chain, bytes and findings, as shown in the cell.
    """

    unit: Unit
    levels: tuple[str, str, str]
    texts: tuple[str, str, str]

    @property
    def label(self) -> str:
        """Returns all its values in words."""
        chain = "does not load" if self.unit.chain is None else f"{self.unit.chain} deltas"
        return f"{self.unit.id}: {chain}, {self.texts[1]}, findings: {self.texts[2]}"


@dataclass(frozen=True, slots=True)
class OperatorMap:
    """The cells of one operator."""

    operator: int
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class HeatMap:
    """The heat map of a query.

    Attributes:
        operators: the cells, by operator.
        left_out: the number of partitions without a cell.
        limit: the length from which on a chain is too long.
    """

    operators: tuple[OperatorMap, ...]
    left_out: int
    limit: int


@dataclass(frozen=True, slots=True)
class Advice:
    """Findings of one code, and the next step.

    Attributes:
        code: the code.
        damage: whether it is damage.
        details: a line for each finding.
        command: the next command; empty if there is nothing to do.
    """

    code: str
    damage: bool
    details: tuple[str, ...]
    command: str


@dataclass(frozen=True, slots=True)
class Button:
    """A button that starts a run of a DAG under the rights of the user.

    Attributes:
        label: its text.
        dag: the DAG.
        conf: the configuration of the run, as JSON.
        asks: the text to confirm first; empty without one.
        refused: why it is disabled; empty if it is not.
        about: its description.
    """

    label: str
    dag: str
    conf: str
    asks: str
    refused: str
    about: str


def heat_map(units: Sequence[Unit], limit: int) -> HeatMap:
    """Returns the heat map of some partitions.

    Args:
        units: the partitions, ascending.
        limit: the length from which on a chain is too long.
    """
    shown = sorted(sorted(units, key=badness)[:MOST_CELLS])
    most = max((one.bytes for one in units), default=0)
    operators: dict[int, list[Cell]] = {}
    for unit in shown:
        operators.setdefault(unit.operator, []).append(_cell(unit, limit, most))
    maps = tuple(OperatorMap(operator, tuple(some)) for operator, some in operators.items())
    return HeatMap(maps, len(units) - len(shown), limit)


def badness(unit: Unit) -> tuple[Any, ...]:
    """Returns a partition's place, the worst first."""
    return (unit.chain is not None, -unit.damage, -(unit.chain or 0), -unit.bytes, unit.id)


def worst_units(units: Iterable[Unit]) -> tuple[Unit, ...]:
    """Returns the worst partitions, the worst first."""
    return tuple(sorted(units, key=badness)[:MOST_WORST])


def _cell(unit: Unit, limit: int, most: int) -> Cell:
    findings = unit.damage + unit.notices
    chain = "no" if unit.chain is None else str(unit.chain)
    return Cell(
        unit,
        (_chain_level(unit.chain, limit), _bytes_level(unit.bytes, most), _finding_level(unit)),
        (chain, size(unit.bytes), str(findings) if findings else "none"),
    )


def _chain_level(chain: int | None, limit: int) -> str:
    if chain is None:
        return BROKEN
    thresholds = (limit, 2 * limit, 5 * limit, 20 * limit)
    return str(sum(chain > one for one in thresholds))


def _bytes_level(count: int, most: int) -> str:
    """Returns the level of a size relative to the largest: each is a tenth of the next."""
    return str(sum(count * 10**power > most for power in (3, 2, 1, 0.3))) if count else "0"


def _finding_level(unit: Unit) -> str:
    if unit.damage:
        return BROKEN
    return "2" if unit.notices else "0"


def advise(findings: Iterable[Told], checkpoint: str) -> tuple[Advice, ...]:
    """Returns the findings by code, damage first, with the next command for each."""
    documents = [one.model_dump() for one in findings]
    steps = {one["code"]: one["command"] for one in advice.steps(documents, checkpoint)}
    codes: dict[str, list[Any]] = {}
    for one in sorted(documents, key=lambda one: (not one["damage"], one["code"])):
        codes.setdefault(one["code"], []).append(one)
    return tuple(
        Advice(
            code,
            any(one["damage"] for one in some),
            tuple(one["detail"] for one in some),
            steps.get(code, ""),
        )
        for code, some in codes.items()
    )


def buttons(dag: str, query: str, *, own: bool, refused: dict[str, str]) -> tuple[Button, ...]:
    """Returns the buttons of a query.

    Args:
        dag: the query's own DAG.
        query: the query's name.
        own: whether the DAG takes the options of maintenance; one with other tasks does not.
        refused: why a DAG cannot be run, by its id; others can.
    """
    why = refused.get(dag, "")
    if not own:
        why = why or "The DAG has tasks other than maintenance: run it on its own page."
    manual = {"query": query}
    # The DAG of several queries runs for this one only.
    only = {"queries": [query]} if is_together(dag) else {}
    return (
        _button(
            "Dry run", dag, {"dry_run": True, **only}, why, about="Shows the plan, changes nothing."
        ),
        _button(
            "Compact",
            dag,
            {"force_snapshot": True, **only},
            why,
            asks="Compact writes a snapshot of every partition, and deletes what it replaces.",
            about="Writes a snapshot of every partition, and deletes what it replaces.",
        ),
        _button(
            "Verify",
            VERIFY_DAG,
            manual,
            refused.get(VERIFY_DAG, ""),
            about="Checks every file that a retained version needs.",
        ),
        _button(
            "Savepoint",
            savepoint_id(query),
            {},
            refused.get(savepoint_id(query), ""),
            about="Saves the newest batch as a checkpoint of its own, while the query runs.",
        ),
        _button(
            "Repair",
            REPAIR_DAG,
            manual,
            refused.get(REPAIR_DAG, ""),
            asks="Repair plans first, and waits for an approval in Airflow. Stop the query first.",
            about="Plans a repair, and waits for an approval.",
        ),
    )


def _button(
    label: str, dag: str, conf: dict[str, Any], refused: str, *, about: str, asks: str = ""
) -> Button:
    return Button(label, dag, json.dumps(conf), asks, refused, about)
