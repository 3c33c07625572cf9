"""The work of the DAGs for manual work, without Airflow: verify, show a plan, carry it out."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from statemaint.airflow import advice, texts
from statemaint.airflow.settings import Failure
from statemaint.audit import verify
from statemaint.errors import Superseded
from statemaint.model.findings import damaged
from statemaint.plan import RecoveryPlan, Remove, WriteSnapshot
from statemaint.recover import apply_recovery, parse_recovery
from statemaint.report.recovery_json import recovered_json, recovery_json
from statemaint.storage import Storage

_MONTH = 30 * 24 * 3600.0
# What a person reads before an approval; the log of `plan` has all of it.
_MOST_SHOWN = 50
# What `parse_recovery` needs of a plan; its actions are made again, and must be the same.
_KEPT = ("verb", "checkpoint", "batch", "fingerprint")


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of a verification: what is passed on, and why the task fails, if it does."""

    json: dict[str, Any]
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class Shown:
    """A plan as it is shown.

    Attributes:
        document: what `apply_shown` needs; `None` where there is nothing to do.
        text: the plan for the approval, in Markdown.
        log: the whole plan.
        failure: why the task fails where there is nothing to do: damage that stays.
    """

    document: dict[str, Any] | None
    text: str
    log: str
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class Applied:
    """What was carried out, and why the task fails all the same: damage that stays."""

    json: dict[str, Any]
    log: str
    failure: Failure | None


def verified(storage: Storage, *, deep: bool, sample: tuple[int, int] | None) -> Verified:
    """Verifies a checkpoint.

    Raises:
        StatemaintError: as `verify` does.
    """
    result = verify(storage, deep=deep, sample=sample)
    findings = texts.findings_json(result.findings)
    found = {
        "checkpoint": storage.root,
        "healthy": result.healthy,
        "versions_checked": result.versions_checked,
        "broken": [one for one in findings if one["damage"]],
        "todo": advice.steps(findings, storage.root),
    }
    failed = None if result.healthy else Failure(texts.reasons(result.findings))
    return Verified(found, failed)


def plan_shown(plan: RecoveryPlan) -> Shown:
    """Returns how a plan is shown, and what is needed to carry out exactly this plan."""
    lines = list(_lines(plan))
    document = {**recovery_json(plan), "trash_for": _MONTH}
    kept = {name: document[name] for name in (*_KEPT, "trash_for")}
    more = len(lines) - _MOST_SHOWN
    listed = [f"- {one}" for one in lines[:_MOST_SHOWN]]
    listed += [f"- and {more} more; the log of `plan` has all"] if more > 0 else []
    head = f"**{plan.verb.value} of `{plan.root}`**: {len(plan.actions)} steps"
    text = "\n".join([f"{head}. Removed files are kept in the trash for thirty days.", "", *listed])
    some = kept if plan.actions else None
    return Shown(some, text, "\n".join([text, *lines[_MOST_SHOWN:]]), _remaining(plan))


def apply_shown(storage: Storage, document: dict[str, Any]) -> Applied:
    """Carries out exactly the plan that was shown, or nothing.

    Raises:
        Superseded: when the plan would be another one by now, or the query has another checkpoint.
        StatemaintError: as `repair` and `rollback` do.
    """
    asked = parse_recovery("the plan", json.dumps(document).encode())
    if asked is None or asked.checkpoint != storage.root:
        raise Superseded(storage.root, "the plan that was shown is of another checkpoint")
    done = apply_recovery(storage, asked)
    found = recovered_json(done.run, done.plan, done.removed, done.written)
    log = (
        f"moved {len(done.removed)} files to the trash, wrote {len(done.written)} snapshots; "
        f"`statemaint undo {storage.root} {done.run}` brings the files back"
    )
    return Applied(found, log, _remaining(done.plan))


def _lines(plan: RecoveryPlan) -> Iterator[str]:
    for step in plan.actions:
        match step:
            case Remove():
                reason, size = step.reason.value, texts.size(step.entry.size)
                yield f"remove `{step.path}` ({reason}, {size})"
            case WriteSnapshot():
                yield f"write `{step.path}` (version {step.version}, from the log)"
    for one in plan.repairs:
        if one.proof:
            yield f"proof: {one.store} version {one.version} has {one.proof.rows} rows then"
    yield from (f"not repaired: {one}" for one in plan.unrepaired)
    yield from (f"stays: {one.code.value}: {one.detail}" for one in plan.findings if one.damage)


def _remaining(plan: RecoveryPlan) -> Failure | None:
    return Failure(texts.reasons(plan.findings)) if damaged(plan.findings) else None
