"""The plans that runs leave for the pages, as long as Airflow keeps the run. Pure.

An XCom `statemaint_plan` of `plan` in a dry run, a repair, a rollback or an undo; docs/airflow.md
describes it. Of a plan that is too large it has the counts, the largest files and the first steps.
"""

import json
from itertools import accumulate
from typing import Any
from urllib.parse import quote

from airflow.configuration import conf
from pydantic import Field

from statemaint.airflow.figures import LeftForPages
from statemaint.airflow.texts import as_csv
from statemaint.plan.actions import Plan
from statemaint.plan.recovery.recovery_plan import RecoveryPlan, UndoPlan
from statemaint.report.summary import Group, Step, groups, largest, steps_of

PLAN = "statemaint_plan"
"""The key of the XCom."""
MOST_BYTES = 2_000_000
_MOST_GROUPS = 500


class KeptPlan(LeftForPages, strict=False):
    """A plan of one query, in the XCom `statemaint_plan`.

    Attributes:
        verb: `maintain`, `repair`, `rollback` or `undo`.
        actions: the steps; only the first of a large plan.
        counts: all steps by kind, store and reason.
    """

    verb: str
    query: str
    checkpoint: str
    facts: dict[str, int | str | None] = Field(default_factory=dict)
    steps: int
    actions: list[Step]
    counts: list[Group]
    largest: list[Step]

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
    used = accumulate(len(json.dumps(step)) + 2 for step in steps)
    return KeptPlan(
        verb=verb,
        query=query,
        checkpoint=plan.root,
        facts=facts,
        steps=len(steps),
        actions=[step for step, size in zip(steps, used, strict=True) if size <= MOST_BYTES],
        counts=list(groups(steps)[:_MOST_GROUPS]),
        largest=list(largest(steps)),
    ).model_dump(mode="json")


read_plan = KeptPlan.read


def plan_address(dag: str, run: str, query: str = "") -> str:
    base = str(conf.get("api", "base_url", fallback="")).rstrip("/")
    only = f"?query={quote(query, safe='')}" if query else ""
    return f"{base}/statemaint/dags/{quote(dag, safe='')}/plans/{quote(run, safe='')}{only}"


def difference(before: KeptPlan, after: KeptPlan) -> dict[str, list[Step]]:
    """Returns the steps that were added, were removed and are unchanged, by kind and path."""
    old, new = ({step[:2]: step for step in plan.actions} for plan in (before, after))
    return {
        "Added": [step for key, step in new.items() if key not in old],
        "Removed": [step for key, step in old.items() if key not in new],
        "Unchanged": [step for key, step in new.items() if key in old],
    }


def plan_csv(plan: KeptPlan) -> str:
    steps = ((*step, step.meaning) for step in plan.actions)
    return as_csv([(*Step._fields, "meaning"), *steps])


def plan_json(plan: KeptPlan) -> dict[str, Any]:
    """Returns a plan with names for the fields of its steps and counts."""
    names = ("counts", "largest", "actions")
    lists = {name: [part._asdict() for part in getattr(plan, name)] for name in names}
    return plan.model_dump(exclude={*names}) | lists
