"""The page of one query: the heat map of its partitions, its findings, its actions. Pure.

The records are what Airflow's database has of a query: its DAG, its runs, its figures.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from statistics import median
from typing import Any

from statemaint.airflow import names, texts
from statemaint.airflow.figures import FindingRow, QueryFigures
from statemaint.airflow.texts import size
from statemaint.report.facts import Unit
from statemaint.report.record import LastSavepoint
from statemaint.report.trend import Point
from statemaint.wording import command

# The maximum number of partitions with a cell; the worst ones have one.
MOST_CELLS = 4_000
MOST_WORST = 20
BROKEN = "x"
_MAIL = re.compile(r"[\w.+-]+@[\w-]+(\.[\w-]+)+")


@dataclass(frozen=True, slots=True)
class AirflowRun:
    """A run of a DAG."""

    id: str
    state: str
    kind: str  # scheduled, manual, ...
    started: datetime | None  # `None` while it waits
    ended: datetime | None
    dry: bool = False
    queries: tuple[str, ...] = ()  # those named in its form; empty for all of the DAG


@dataclass(frozen=True, slots=True)
class QueryRecord:
    """A maintained query.

    `group` is the task group of its tasks, or the one task of a whole run; empty if the DAG has no
    other tasks. If several queries share the DAG, `last` has the outcome of this one.
    """

    dag: str
    group: str
    query: str
    paused: bool = False
    next_run: datetime | None = None
    schedule: str | None = None  # as Airflow describes it
    invalid: str | None = None  # why the DAG only shows a mistake in the queries file
    missing_pool: str | None = None  # the pool of its last run's tasks, if it does not exist
    stale: bool = False  # whether Airflow has deactivated the DAG, which no DAG file defines
    last: AirflowRun | None = None
    figures: QueryFigures | None = None  # the newest that this build can read
    looked: datetime | None = None  # when they were made
    looked_in: int | None = None  # the run that left them, by its key in the database
    failed: str | None = None  # why a later run looked at nothing
    owner: str = ""  # of the DAG's tasks
    tags: tuple[str, ...] = ()  # of the DAG, without ours


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """That an operator is working on the queries of a DAG, until a time."""

    until: datetime
    text: str
    user: str = ""


@dataclass(frozen=True, slots=True)
class Details:
    """The other contents of the page of one query."""

    units: tuple[Unit, ...] = ()
    findings: tuple[FindingRow, ...] = ()
    runs: tuple[AirflowRun, ...] = ()  # its DAG's last ones, the newest first
    savepoint: LastSavepoint | None = None
    trend: tuple[Point, ...] = ()
    failed_task: tuple[str, int] | None = None  # that of the last run, and its index of mapped ones


@dataclass(frozen=True, slots=True)
class Cell:
    """A partition in the heat map: by chain, bytes and findings a level, and the shown text.

    Levels are `0` to `4`, or `x` for damage.
    """

    unit: Unit
    levels: tuple[str, str, str]
    texts: tuple[str, str, str]

    @property
    def label(self) -> str:
        chain = "does not load" if self.unit.chain is None else f"{self.unit.chain} deltas"
        return f"{self.unit.id}: {chain}, {self.texts[1]}, findings: {self.texts[2]}"


@dataclass(frozen=True, slots=True)
class HeatMap:
    """The cells of a query by operator; chains above `limit` are too long."""

    operators: Mapping[int, Sequence[Cell]]
    left_out: int
    limit: int


@dataclass(frozen=True, slots=True)
class Advice:
    """Findings of one code, and the next command; empty if there is nothing to do."""

    code: str
    damage: bool
    details: tuple[str, ...]
    command: str


@dataclass(frozen=True, slots=True)
class Button:
    """A button that starts a run of a DAG under the rights of the user; its texts may be empty."""

    label: str
    dag: str
    conf: str  # of the run, as JSON
    refused: str  # why it is disabled
    about: str
    asks: str = ""  # the text to confirm first
    field: str = ""  # the field of the form that it asks for, a number


def heat_map(units: Sequence[Unit], limit: int) -> HeatMap:
    shown = sorted(sorted(units, key=badness)[:MOST_CELLS])
    sizes = [unit.bytes for unit in units]
    usual, most = median(sizes or [0]), max(sizes, default=0)
    cells = (_cell(unit, limit, usual, most) for unit in shown)
    operators = {of: [*some] for of, some in groupby(cells, lambda cell: cell.unit.operator)}
    return HeatMap(operators, len(units) - len(shown), limit)


def badness(unit: Unit) -> tuple[Any, ...]:
    return (unit.chain is not None, -unit.damage, -(unit.chain or 0), -unit.bytes, unit.id)


def worst_units(units: Iterable[Unit]) -> tuple[Unit, ...]:
    """Returns the worst partitions; one without a chain, a finding or waste is not among them."""
    poor = (
        unit for unit in units if unit.chain != 0 or unit.reclaimable or unit.damage or unit.notices
    )
    return tuple(sorted(poor, key=badness)[:MOST_WORST])


def _cell(unit: Unit, limit: int, usual: float, most: int) -> Cell:
    findings = unit.damage + unit.notices
    chain, by_chain = "no", BROKEN
    if unit.chain is not None:
        thresholds = (limit, 2 * limit, 5 * limit, 20 * limit)
        chain, by_chain = str(unit.chain), str(sum(unit.chain > step for step in thresholds))
    # Relative to the largest, where each level is a tenth of the next; a usual size is never high.
    by_largest = sum(unit.bytes * 10**power > most for power in (3, 2, 1, 0.3))
    by_median = 1 + sum(unit.bytes > times * usual for times in (2, 5, 20))
    by_findings = BROKEN if unit.damage else "2" if unit.notices else "0"
    levels = (by_chain, str(min(by_largest, by_median)), by_findings)
    return Cell(unit, levels, (chain, size(unit.bytes), str(findings or "none")))


def contact_link(contact: str) -> str:
    """Returns the address of a contact that is one, of https or of mail; empty for other text."""
    if contact.startswith(("https://", "mailto:")):
        return contact
    return f"mailto:{contact}" if _MAIL.fullmatch(contact) else ""


def advise(findings: Sequence[FindingRow], checkpoint: str) -> tuple[Advice, ...]:
    """Returns the findings by code, damage first, with the next command for each."""
    documents = [finding.model_dump() for finding in findings]
    steps = {step["code"]: step["command"] for step in texts.advice(documents, checkpoint)["todo"]}
    codes: dict[str, list[FindingRow]] = {}
    for finding in sorted(findings, key=lambda finding: (not finding.damage, finding.code)):
        codes.setdefault(finding.code, []).append(finding)
    return tuple(
        Advice(code, of_code[0].damage, tuple(each.detail for each in of_code), steps.get(code, ""))
        for code, of_code in codes.items()
    )


def compact_conf(dag: str, query: str) -> str:
    return json.dumps({"force_snapshot": True, **_only(dag, query)})


def _only(dag: str, query: str) -> dict[str, Any]:
    # The DAG of several queries runs for this one only.
    return {"queries": [query]} if names.is_together(dag) else {}


def buttons(dag: str, query: str, *, own: bool, refused: Mapping[str, str]) -> tuple[Button, ...]:
    """Returns the buttons of a query of a DAG.

    `own` is whether the DAG takes the options of maintenance; one with other tasks does not.
    `refused` has the DAGs that cannot be run, and why.
    """

    def button(label: str, of: str, conf: dict[str, Any], about: str, **more: str) -> Button:
        return Button(label, of, json.dumps(conf), why.get(of, ""), about, **more)

    others = "The DAG has tasks other than maintenance: run it on its own page."
    why, only = refused if own else {dag: others, **refused}, _only(dag, query)
    return (
        button("Dry run", dag, {"dry_run": True, **only}, "Shows the plan, changes nothing."),
        button(
            "Compact",
            dag,
            {"force_snapshot": True, **only},
            "Writes a snapshot of every partition, and deletes what it replaces.",
            asks="Compact writes a snapshot of every partition, and deletes what it replaces.",
        ),
        button(
            "Verify",
            names.VERIFY_DAG,
            {"query": query},
            "Checks every file that a retained version needs.",
        ),
        button(
            "Savepoint",
            names.savepoint_id(query),
            {},
            "Saves the newest batch as a checkpoint of its own, while the query runs.",
        ),
        button(
            "Repair",
            names.REPAIR_DAG,
            {"query": query},
            "Plans a repair, and waits for an approval.",
            asks="Repair plans first, and waits for an approval in Airflow. Stop the query first.",
        ),
        button(
            "Roll back",
            names.ROLLBACK_DAG,
            {"query": query},
            "Plans a rollback to a batch, and waits for an approval.",
            asks="A rollback is planned first, and waits for an approval. Stop the query first.",
            field="batch",
        ),
    )


def undo_button(query: str, refused: str | None, run: str) -> Button:
    conf, about = {"query": query, "run": run}, "Plans an undo, and waits for an approval."
    asks = f"Undo of {run} plans first, and waits for an approval in Airflow. Stop the query first."
    return Button("Undo", names.UNDO_DAG, json.dumps(conf), refused or "", about, asks)


def commands(checkpoint: str) -> tuple[tuple[str, str], ...]:
    """Returns commands for a shell that change nothing: what each shows, and the command."""
    back = f"{command('rollback', checkpoint, '--to-batch')} BATCH"
    return (
        ("Doctor: whether the query would restart, and what to do", command("doctor", checkpoint)),
        ("Repair: what the log can repair", command("repair", checkpoint)),
        ("Roll back: what going back to a batch would undo", back),
    )
