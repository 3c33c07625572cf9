"""The work of the DAGs for manual work, without Airflow: verify, show a plan, carry it out.

A plan is of a repair, a rollback, an undo, or of a savepoint in another shape.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

from statemaint.airflow import texts
from statemaint.airflow.connections import opener
from statemaint.airflow.hooks import KEPT_FOR
from statemaint.airflow.plans import kept_plan
from statemaint.airflow.settings import QuerySettings
from statemaint.audit import verify
from statemaint.errors import ConfigError, Superseded
from statemaint.maintain import undo
from statemaint.maintain.record import note_verification, recorded_recovery
from statemaint.model.findings import damaged
from statemaint.model.ids import RecoveryVerb
from statemaint.plan.recovery.recovery_plan import RecoveryPlan, UndoPlan
from statemaint.queries.checks import absolute_address
from statemaint.records.savepoints import PROVIDERS, SAME, Shape
from statemaint.recover import RecoveryReport, apply_recovery
from statemaint.report.plan_file import MaintenanceFile, RecoveryFile, parse_plan
from statemaint.report.summary import Fact, Step, decision, largest, steps_of
from statemaint.report.task import MOST_FINDINGS, Failure, findings_json, reasons
from statemaint.report.to_json import fields_json, recovered_json, recovery_json, undo_plan_json
from statemaint.savepoint import SavepointReport, savepoint
from statemaint.storage import Storage
from statemaint.undo.run import Undone
from statemaint.wording import command, counted, markdown, markdown_code

# The lines of one kind that an operator reads before an approval.
_MOST_SHOWN = 50
# The facts that are commands, offsets or paths, and no sentences.
_CODE = ("source", "rows", "largest")
# The part of a plan for `apply_shown`, of an undo or a recovery; its actions are planned again, and
# must be the same.
_KEPT = ("verb", "checkpoint", "run", "batch", "fingerprint")
_OF_ANOTHER = "the shown plan is of another checkpoint"


@dataclass(frozen=True, slots=True)
class Shown:
    """A plan as it is shown: in Markdown for the approval, and for the log.

    Attributes:
        facts: what it decides.
        document: the input of `apply_shown`; `None` if there is nothing to do.
        failure: why the task fails if there is nothing to do: damage that remains.
        subject: the decision in a few words.
        plan: all of it, for its page; `None` if it has none.
    """

    title: str
    head: str
    facts: Sequence[Fact]
    document: dict[str, Any] | None
    failure: Failure | None = None
    subject: str = ""
    plan: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        title = f"**{markdown(self.title)}**: {markdown(self.head)}"
        return "\n".join((title, "", *map(_marked, self.facts)))

    @property
    def log(self) -> str:
        facts = (f"{name:<9} {of}" for name, of in self.facts)
        return "\n".join((f"{self.title}: {self.head}", *facts))


def _marked(fact: Fact) -> str:
    name, of = fact
    shown = markdown_code(of) if name in _CODE else markdown(of)
    return f"- **{name}**: {shown}" if name else f"- {shown}"


@dataclass(frozen=True, slots=True)
class Result:
    """What a task has done or verified, and damage for which it fails nevertheless.

    `figures` are those of the task's metrics; a file in the trash counts as deleted.
    """

    json: dict[str, Any]
    log: str
    failure: Failure | None
    figures: Mapping[str, int] = field(default_factory=dict)


def verified(storage: Storage, *, deep: bool, sample: tuple[int, int] | None) -> Result:
    """Verifies a checkpoint, and records the result for the metrics."""
    result = verify(storage, deep=deep, sample=sample)
    note_verification(
        storage,
        {finding.code.value for finding in result.findings},
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
        **texts.advice(findings, storage.root),
    }
    log = f"{result.versions_checked:,} of {counted(result.versions, 'version')} passed"
    return Result(document, log, None if result.healthy else Failure(reasons(result.findings)))


def plan_shown(plan: RecoveryPlan, query: str = "") -> Shown:
    """Returns what a repair or a rollback decides; the whole plan is one link away."""
    steps = counted(len(plan.actions), "step")
    target = f"roll back to batch {plan.batch}" if plan.verb is RecoveryVerb.ROLLBACK else "repair"
    return Shown(
        f"{plan.verb.value} of {plan.root}",
        f"{steps}. What goes is kept in the trash for thirty days.",
        [*decision(plan, texts.size), *_largest(steps_of(plan.actions)), *_notes(plan)],
        {**_kept(recovery_json(plan)), "trash_for": KEPT_FOR} if plan.actions else None,
        _remaining(plan),
        f"{target}, {steps}",
        kept_plan(query, plan),
    )


def _largest(steps: Iterable[Step]) -> Iterator[Fact]:
    for step in largest(steps):
        why = f"{step.reason}, " if step.reason else ""
        yield "largest", f"{step.path} ({why}{texts.size(step.bytes)})"


def _kept(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: document[name] for name in _KEPT if name in document}


def undo_shown(plan: UndoPlan, query: str = "") -> Shown:
    head = (
        f"it brings back {counted(len(plan.coming), 'file')} ({texts.size(plan.bytes)}), and "
        f"leaves {len(plan.left)} in the trash."
    )
    left = (("stays", f"{path}: {why}") for path, why in plan.left.items())
    return Shown(
        f"undo of run {plan.run} of {plan.root}",
        f"{head} Afterwards, {plan.sequel}." if plan.sequel else head,
        [*_largest(steps_of(plan.coming)), *islice(left, _MOST_SHOWN)],
        {**_kept(undo_plan_json(plan)), "left": len(plan.left)} if plan.coming else None,
        _staying(plan.left),
        f"undo run {plan.run}",
        kept_plan(query, plan),
    )


def apply_shown(storage: Storage, document: dict[str, Any]) -> Result:
    """Carries out exactly the plan that was shown, or nothing."""
    plan_file = parse_plan("the plan", json.dumps(document).encode())
    if isinstance(plan_file, MaintenanceFile) or plan_file.checkpoint != storage.root:
        raise Superseded(storage.root, _OF_ANOTHER)
    if isinstance(plan_file, RecoveryFile):
        recover = partial(apply_recovery, storage, plan_file)
        return _recovered(recorded_recovery(storage, recover))
    restore = partial(undo, storage, plan_file.run, expected=plan_file.fingerprint)
    done = recorded_recovery(storage, restore)
    return _undone(storage.root, done, most_left=document["left"])


def _recovered(done: RecoveryReport) -> Result:
    document = recovered_json(done.run, done.plan, done.removed, done.written)
    log = (
        f"moved {counted(len(done.removed), 'file')} to the trash, wrote "
        f"{counted(len(done.written), 'snapshot')}; "
        f"`{command('undo', done.plan.root, done.run)}` brings the files back"
    )
    figures = {
        "snapshots_written": len(done.written),
        "bytes_written": sum(snapshot.bytes for snapshot in done.written),
        "files_deleted": len(done.removed),
        "bytes_deleted": sum(step.entry.size for step in done.removed),
    }
    return Result(document, log, _remaining(done.plan), figures)


def _undone(checkpoint: str, done: Undone, *, most_left: int) -> Result:
    # It fails if more files stay in the trash than were shown.
    log = f"brought back {counted(done.files, 'file')} ({texts.size(done.bytes)}) of run {done.run}"
    document = {"checkpoint": checkpoint, **fields_json(done, "run undo files bytes")}
    left = dict(islice(done.left.items(), MOST_FINDINGS))
    failure = _staying(done.left) if len(done.left) > most_left else None
    return Result({**document, "left": left}, log, failure)


def _staying(left: Mapping[str, str]) -> Failure | None:
    if not left:
        return None
    path, why = next(iter(left.items()))
    more = f"; and {len(left) - 1} more" if len(left) > 1 else ""
    return Failure(f"UNDO_INCOMPLETE: {path} stays in the trash: {why}{more}")


def _notes(plan: RecoveryPlan) -> Iterator[Fact]:
    for repair in plan.repairs[:_MOST_SHOWN]:
        if repair.proof:
            rows = counted(repair.proof.rows, "row")
            yield "proof", f"{repair.store} version {repair.version} then has {rows}"
    yield from (("unrepaired", why) for why in plan.unrepaired[:_MOST_SHOWN])
    damage = (finding for finding in plan.findings if finding.damage)
    for finding in islice(damage, _MOST_SHOWN):
        yield "stays", f"{finding.code.value}: {finding.detail}"


def _remaining(plan: RecoveryPlan) -> Failure | None:
    return Failure(reasons(plan.findings)) if damaged(plan.findings) else None


def shape_shown(settings: QuerySettings, form: Mapping[str, Any]) -> Shown:
    """Returns what a savepoint in another shape would take; it reads all of the state."""
    report = _saved(settings, form, dry_run=True)
    return Shown(
        f"savepoint of {report.note.source} to {report.dest}",
        f"{', '.join(report.note.changes)}; of the batch that is the newest then.",
        [*_operator_facts(report)],
        {"checkpoint": report.note.source, "to": report.dest},
    )


def reshaped(
    settings: QuerySettings, form: Mapping[str, Any], document: Mapping[str, Any]
) -> Result:
    """Makes the savepoint that was shown; its log has the lines of code that start from it."""
    # The queries file may have changed before the approval.
    if (root := settings.open().root) != document.get("checkpoint"):
        raise Superseded(root, _OF_ANOTHER)
    report = _saved(settings, form, dry_run=False)
    saved = {
        "checkpoint": settings.checkpoint,
        "savepoint": report.dest,
        "batch": report.note.batch,
        "bytes": report.written,
        "code": [*report.code],
    }
    log = f"{report.dest} has batch {report.note.batch}; start the query from it by this code:"
    figures = {"snapshots_written": report.stores, "bytes_written": report.written}
    return Result(saved, "\n".join((log, *report.code)), None, figures)


def _saved(settings: QuerySettings, form: Mapping[str, Any], *, dry_run: bool) -> SavepointReport:
    provider = PROVIDERS[form["provider"]] if form["provider"] else None
    others = {name: form[name] for name in ("partitions", "ids", "codec")}
    shape, opened = Shape(provider=provider, **others), opener(settings.connection)
    if shape == SAME:
        raise ConfigError("the form has no other shape: choose partitions, provider, ids or codec")
    try:
        to = absolute_address(form["to"].strip())
    except ValueError as error:
        raise ConfigError(f"to: {error}") from None
    return savepoint(opened(settings.checkpoint), opened(to), shape=shape, dry_run=dry_run)


def _operator_facts(report: SavepointReport) -> Iterator[Fact]:
    size = texts.size
    for change in report.operators:
        skew = (
            f"{of.partitions} partitions (largest {size(of.largest)}, median {size(of.median)})"
            for of in (change.before, change.after)
        )
        rows = f"{counted(change.rows, 'row')} ({size(change.bytes)})"
        takes = f"at most {size(change.memory)} of memory, {size(change.spill)} on disk"
        yield "operator", f"{change.operator}: {rows}, from {' to '.join(skew)}; {takes}"
