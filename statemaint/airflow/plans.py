"""The plans that runs leave for the pages, as long as Airflow keeps the run. Pure.

An XCom `statemaint_plan` of `plan` in a dry run, a repair, a rollback or an undo; docs/airflow.md
describes it. Of a plan that is too large it has the counts, the largest files and the first steps.
"""

import csv
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import StringIO
from itertools import islice
from typing import Annotated, Any, Literal
from urllib.parse import quote

from airflow.configuration import conf
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from statemaint.plan.actions import Plan
from statemaint.plan.recovery.recovery_plan import RecoveryPlan, UndoPlan
from statemaint.report.summary import Group, Step, groups, largest, steps_of

PLAN = "statemaint_plan"
"""The key of the XCom."""
MOST_BYTES = 2_000_000
_MOST_GROUPS = 500
# A spreadsheet runs a cell that begins with one of these.
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")

_Row = Annotated[tuple[str, str, str, int, int, int, str], Field(strict=False)]
_Counted = Annotated[tuple[str, int, str, str, int, int], Field(strict=False)]


class KeptPlan(BaseModel):
    """A plan of one query, in the XCom `statemaint_plan`.

    Attributes:
        verb: `maintain`, `repair`, `rollback` or `undo`.
        steps: the number of all steps.
        actions: the steps, in the order of `Step`; only the first of a large plan.
        counts: the steps by kind, store and reason, in the order of `Group`.
        largest: the largest files that go or come back, as `actions`.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    v: Literal[1] = 1
    verb: str
    query: str
    checkpoint: str
    facts: dict[str, int | str | None] = Field(default_factory=dict)
    steps: int
    actions: list[_Row]
    counts: list[_Counted]
    largest: list[_Row]

    @property
    def listed(self) -> tuple[Step, ...]:
        return tuple(Step(*row) for row in self.actions)

    @property
    def groups(self) -> tuple[Group, ...]:
        return tuple(Group(*row) for row in self.counts)

    @property
    def largest_files(self) -> tuple[Step, ...]:
        return tuple(Step(*row) for row in self.largest)

    @property
    def cut(self) -> bool:
        return len(self.actions) < self.steps


def kept_plan(query: str, plan: Plan | RecoveryPlan | UndoPlan) -> dict[str, Any]:
    """Returns the XCom of a plan, of at most `MOST_BYTES` and a little more."""
    match plan:
        case Plan():
            verb, steps = "maintain", [*steps_of(plan.actions)]
            facts: dict[str, Any] = {"target version": plan.target, "floor": plan.floor}
        case RecoveryPlan():
            verb, steps, facts = plan.verb.value, [*steps_of(plan.actions)], {"batch": plan.batch}
        case UndoPlan():
            verb, steps, facts = "undo", [*steps_of(plan.coming)], {"run": plan.run}
    return {
        "v": 1,
        "verb": verb,
        "query": query,
        "checkpoint": plan.root,
        "facts": facts,
        "steps": len(steps),
        "actions": [*_within(MOST_BYTES, steps)],
        "counts": [[*group] for group in islice(groups(steps), _MOST_GROUPS)],
        "largest": [[*step] for step in largest(steps)],
    }


def _within(most: int, steps: Iterable[Step]) -> Iterator[list[Any]]:
    used = 0
    for step in steps:
        row = [*step]
        used += len(json.dumps(row)) + 2
        if used > most:
            return
        yield row


def read_plan(xcom: object) -> KeptPlan | None:
    """Returns the plan of an XCom; `None` if this build cannot read it."""
    try:
        return KeptPlan.model_validate(xcom)
    except ValidationError:
        return None


def plan_address(dag: str, run: str, query: str = "") -> str:
    """Returns the address of the page of a run's plan."""
    base = str(conf.get("api", "base_url", fallback="")).rstrip("/")
    only = f"?query={quote(query, safe='')}" if query else ""
    return f"{base}/statemaint/dags/{quote(dag, safe='')}/plans/{quote(run, safe='')}{only}"


@dataclass(frozen=True, slots=True)
class Difference:
    """The steps of two plans, compared by path and kind; each in the order of its plan."""

    added: tuple[Step, ...]
    gone: tuple[Step, ...]
    unchanged: tuple[Step, ...]


def difference(before: KeptPlan, after: KeptPlan) -> Difference:
    old = {(step.action, step.path): step for step in before.listed}
    new = {(step.action, step.path): step for step in after.listed}
    return Difference(
        tuple(step for key, step in new.items() if key not in old),
        tuple(step for key, step in old.items() if key not in new),
        tuple(step for key, step in new.items() if key in old),
    )


def plan_csv(plan: KeptPlan) -> str:
    """Returns the steps of a plan as CSV; no cell is a formula for a spreadsheet."""
    out = StringIO()
    writer = csv.writer(out)
    writer.writerow((*Step._fields, "meaning"))
    writer.writerows(map(_cell, (*step, step.meaning)) for step in plan.listed)
    return out.getvalue()


def _cell(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULAS) else value


def plan_json(plan: KeptPlan) -> dict[str, Any]:
    """Returns a plan with names for the fields of its steps and counts."""
    return {
        **plan.model_dump(exclude={"actions", "counts", "largest"}),
        "counts": [group._asdict() for group in plan.groups],
        "largest": [step._asdict() for step in plan.largest_files],
        "actions": [step._asdict() for step in plan.listed],
    }
