"""The work of the DAGs for manual work, without Airflow: verify, show a plan, carry it out."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

from statemaint.airflow import advice, texts
from statemaint.audit import verify
from statemaint.errors import Superseded
from statemaint.maintain import undo
from statemaint.maintain.record import note_verification, recorded_recovery
from statemaint.model.findings import damaged
from statemaint.plan.actions import WriteSnapshot
from statemaint.plan.recovery.recovery_plan import RecoveryPlan, Remove, UndoPlan
from statemaint.recover import RecoveryReport, apply_recovery
from statemaint.report.plan_file import MaintenanceFile, RecoveryFile, parse_plan
from statemaint.report.recovery_json import recovered_json, recovery_json, undo_plan_json
from statemaint.report.task import MOST_FINDINGS, Failure, findings_json, reasons
from statemaint.storage import Storage
from statemaint.undo.run import Undone
from statemaint.wording import command, counted

_MONTH = 30 * 24 * 3600.0
# The lines that an operator reads before an approval; the log of `plan` has all of them.
_MOST_SHOWN = 50
# The part of a plan for `apply_shown`; its actions are planned again, and must be the same.
_KEPT = ("verb", "checkpoint", "batch", "fingerprint")
# The same of an undo.
_KEPT_OF_UNDO = ("verb", "checkpoint", "run", "fingerprint")


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of a verification: what is passed on, and why the task fails, if it does."""

    json: dict[str, Any]
    failure: Failure | None

    @property
    def line(self) -> str:
        """Returns the number of versions that passed, of all that were looked at."""
        versions = counted(self.json["versions"], "version")
        return f"{self.json['versions_checked']:,} of {versions} passed"


@dataclass(frozen=True, slots=True)
class Shown:
    """A plan as it is shown.

    Attributes:
        document: the input of `apply_shown`; `None` if there is nothing to do.
        text: the plan for the approval, in Markdown.
        log: the whole plan.
        failure: why the task fails if there is nothing to do: damage that remains.
    """

    document: dict[str, Any] | None
    text: str
    log: str
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class Applied:
    """What was carried out, and why the task fails nevertheless: damage that remains.

    `figures` are those of the task's metrics; a file in the trash counts as deleted.
    """

    json: dict[str, Any]
    log: str
    failure: Failure | None
    figures: Mapping[str, int] = field(default_factory=dict)


def verified(storage: Storage, *, deep: bool, sample: tuple[int, int] | None) -> Verified:
    """Verifies a checkpoint, and records the result for the metrics."""
    result = verify(storage, deep=deep, sample=sample)
    codes = {one.code.value for one in result.findings}
    note_verification(
        storage,
        codes,
        healthy=result.healthy,
        verdict=result.verdict,
        looked=result.looked,
        sampled=sample is not None,
    )
    findings = findings_json(result.findings)
    document = {
        "checkpoint": storage.root,
        "verdict": result.verdict,
        "healthy": result.healthy,
        "versions_checked": result.versions_checked,
        "versions": result.versions,
        "broken": [one for one in findings if one["damage"]],
        "todo": advice.steps(findings, storage.root),
    }
    failed = None if result.healthy else Failure(reasons(result.findings))
    return Verified(document, failed)


def plan_shown(plan: RecoveryPlan) -> Shown:
    lines = list(_lines(plan))
    document = {**recovery_json(plan), "trash_for": _MONTH}
    kept = {name: document[name] for name in (*_KEPT, "trash_for")}
    head = (
        f"**{plan.verb.value} of `{plan.root}`**: {len(plan.actions)} steps. Removed files "
        "are kept in the trash for thirty days."
    )
    return shown(head, lines, kept if plan.actions else None, _remaining(plan))


def undo_shown(plan: UndoPlan) -> Shown:
    lines = [
        *(f"bring back `{one.path}` ({texts.size(one.entry.size)})" for one in plan.coming),
        *(f"stays in the trash: `{path}`: {why}" for path, why in plan.left.items()),
    ]
    document = undo_plan_json(plan)
    kept = {name: document[name] for name in _KEPT_OF_UNDO} | {"left": len(plan.left)}
    head = (
        f"**undo of run `{plan.run}` of `{plan.root}`**: it brings back "
        f"{counted(len(plan.coming), 'file')} ({texts.size(plan.bytes)}), and leaves "
        f"{len(plan.left)} in the trash."
    )
    if plan.sequel:
        head += f" Afterwards, {plan.sequel}."
    return shown(head, lines, kept if plan.coming else None, _staying(plan.left))


def shown(
    head: str, lines: Sequence[str], document: dict[str, Any] | None, failure: Failure | None
) -> Shown:
    more = len(lines) - _MOST_SHOWN
    listed = [f"- {one}" for one in lines[:_MOST_SHOWN]]
    listed += [f"- and {more} more; the log of `plan` has all"] if more > 0 else []
    text = "\n".join([head, "", *listed])
    return Shown(document, text, "\n".join([text, *lines[_MOST_SHOWN:]]), failure)


def apply_shown(storage: Storage, document: dict[str, Any]) -> Applied:
    """Carries out exactly the plan that was shown, or nothing."""
    plan_file = parse_plan("the plan", json.dumps(document).encode())
    if isinstance(plan_file, MaintenanceFile) or plan_file.checkpoint != storage.root:
        raise Superseded(storage.root, "the shown plan is of another checkpoint")
    if isinstance(plan_file, RecoveryFile):
        recover = partial(apply_recovery, storage, plan_file)
        return _recovered(storage, recorded_recovery(storage, recover))
    restore = partial(undo, storage, plan_file.run, expected=plan_file.fingerprint)
    done = recorded_recovery(storage, restore)
    return _undone(done, most_left=document["left"])


def _recovered(storage: Storage, done: RecoveryReport) -> Applied:
    document = recovered_json(done.run, done.plan, done.removed, done.written)
    log = (
        f"moved {counted(len(done.removed), 'file')} to the trash, wrote "
        f"{counted(len(done.written), 'snapshot')}; "
        f"`{command('undo', storage.root, done.run)}` brings the files back"
    )
    figures = {
        "snapshots_written": len(done.written),
        "bytes_written": sum(one.bytes for one in done.written),
        "files_deleted": len(done.removed),
        "bytes_deleted": sum(one.entry.size for one in done.removed),
    }
    return Applied(document, log, _remaining(done.plan), figures)


def _undone(done: Undone, *, most_left: int) -> Applied:
    """Returns the result of an undo; a failure if more files stay in the trash than shown."""
    log = f"brought back {counted(done.files, 'file')} ({texts.size(done.bytes)}) of run {done.run}"
    document = {"run": done.run, "undo": done.undo, "files": done.files, "bytes": done.bytes}
    left = dict(islice(done.left.items(), MOST_FINDINGS))
    failure = _staying(done.left) if len(done.left) > most_left else None
    return Applied({**document, "left": left}, log, failure)


def _staying(left: Mapping[str, str]) -> Failure | None:
    if not left:
        return None
    path, why = next(iter(left.items()))
    more = f"; and {len(left) - 1} more" if len(left) > 1 else ""
    return Failure(f"UNDO_INCOMPLETE: {path} stays in the trash: {why}{more}")


def _lines(plan: RecoveryPlan) -> Iterator[str]:
    for step in plan.actions:
        match step:
            case Remove():
                reason, size = step.reason.value, texts.size(step.entry.size)
                yield f"remove `{step.path}` ({reason}, {size})"
            case WriteSnapshot():
                yield f"write `{step.path}` (version {step.version}, from the log)"
    for repair in plan.repairs:
        if repair.proof:
            rows = counted(repair.proof.rows, "row")
            yield f"proof: {repair.store} version {repair.version} then has {rows}"
    yield from (f"not repaired: {one}" for one in plan.unrepaired)
    yield from (f"stays: {one.code.value}: {one.detail}" for one in plan.findings if one.damage)


def _remaining(plan: RecoveryPlan) -> Failure | None:
    return Failure(reasons(plan.findings)) if damaged(plan.findings) else None
