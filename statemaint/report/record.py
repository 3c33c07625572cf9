"""The record of a query's maintenance: its last run, and the totals since it was first maintained.

It is all that metrics show. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum, unique
from operator import add
from typing import Any

from statemaint import errors
from statemaint.model.findings import OF_STORAGE, Finding, FindingCode
from statemaint.model.verdict import Looked, Verdict, worst
from statemaint.report.facts import RunFacts, facts_of_emptied, merged, total
from statemaint.report.run import Emptied, worst_code
from statemaint.report.task import BundleReport, PlanSummary


@unique
class Cause(StrEnum):
    """The cause of a run's failure."""

    PLAN = "plan"  # the plan could not be made, or the checkpoint as a whole is damaged
    DAMAGE = "damage"  # stores are halted
    STORAGE = "storage"  # the storage failed in a task
    LEASE = "lease"  # another run held the lease, or took it over
    TASK = "task"  # a task gave no report


_EXIT_CODES = {Cause.PLAN: 1, Cause.TASK: 1, Cause.STORAGE: 5, Cause.DAMAGE: 3, Cause.LEASE: 4}


@dataclass(frozen=True, slots=True)
class LastRun:
    """The end of a run."""

    run: str
    ended: float  # in seconds since the epoch by the storage's clock
    failed: tuple[Cause, ...] = ()  # every cause of its failure
    silent: int = 0  # the number of tasks that gave no report
    tasks: int = 0
    storage_errors: int = 0  # the number of tasks, the plan included, whose storage failed
    committed: int | None = None  # the newest committed batch
    lag: int | None = None  # versions between the newest snapshot and the target, at worst
    facts: RunFacts | None = None  # `None` when the plan failed before it read the stores
    trash_files: int | None = None  # in the trash; `None` when not listed
    trash_bytes: int | None = None
    # What a repair, a rollback or an undo did, which takes no figures of the stores.
    work: RunFacts | None = None

    @property
    def done(self) -> RunFacts:
        """What it did; a run whose plan failed has done nothing."""
        return self.facts or self.work or RunFacts()

    @property
    def exit_code(self) -> int:
        return worst_code(_EXIT_CODES[cause] for cause in self.failed)


def code_of(reason: str | None) -> str | None:
    return reason.partition(":")[0] if reason else None


def run_ended(
    run: str,
    tasks: int,
    reports: Sequence[BundleReport],
    plan: PlanSummary,
    *,
    ended: float,
    failure: str | None = None,
) -> LastRun:
    inspected = [report for report in reports if report.inspected]
    failures = [report.failure for report in reports if report.failure and not report.inspected]
    lost = [failure.reason for failure in failures]
    parts: list[PlanSummary | BundleReport] = [plan, *inspected]
    facts = [part.facts for part in parts if part.facts]
    whole = total(facts) if facts else None
    damage = [_damage(report) for report in inspected if report.failure]
    failed = {_cause(reason, Cause.TASK) for reason in lost}.union(*damage)
    if whole and whole.counts.get("outcomes", {}).get("halted"):
        failed.add(Cause.DAMAGE)
    if failure and not failed:
        failed.add(_cause(failure, Cause.PLAN))
    silent = tasks - len(inspected)
    if silent > len(lost):
        failed.add(Cause.TASK)
    codes = map(code_of, (*lost, failure))
    storage_errors = sum(code in _STORAGE for code in codes)
    return LastRun(
        run=run,
        ended=ended,
        failed=tuple(cause for cause in Cause if cause in failed),
        silent=silent,
        tasks=tasks,
        storage_errors=storage_errors + sum(Cause.STORAGE in causes for causes in damage),
        committed=plan.committed,
        lag=max((part.lag for part in parts if part.lag is not None), default=None),
        facts=whole,
    )


def _cause(reason: str, otherwise: Cause) -> Cause:
    """Returns the cause by an error's code; a damaged checkpoint is the plan's own cause."""
    code = code_of(reason)
    if code in _LEASE:
        return Cause.LEASE
    if code in _STORAGE:
        return Cause.STORAGE
    return Cause.DAMAGE if code in _DAMAGE and otherwise is Cause.TASK else otherwise


def _damage(report: BundleReport) -> set[Cause]:
    of_storage = {finding["code"] in OF_STORAGE for finding in report.findings if finding["damage"]}
    return {Cause.STORAGE if storage else Cause.DAMAGE for storage in of_storage}


def _codes(kind: type[errors.StatemaintError]) -> set[str]:
    return {kind.code, *(code for below in kind.__subclasses__() for code in _codes(below))}


_STORAGE = _codes(errors.StorageError)
_LEASE = {errors.LeaseHeldError.code, errors.LeaseLostError.code}
_OTHERS = {FindingCode.FAULT, FindingCode.UNSUPPORTED, FindingCode.STORAGE_FAILED}
_DAMAGE = _codes(errors.CheckpointError) | {
    code for code in FindingCode if code not in _OTHERS and Finding(code, "").damage
}


def with_emptied(last: LastRun, emptied: Emptied) -> LastRun:
    """Returns the end of a run of several tasks with what its end deleted from the trash."""
    if emptied.finding:
        failed = tuple(cause for cause in Cause if cause in {*last.failed, Cause.STORAGE})
        last = replace(last, failed=failed, storage_errors=last.storage_errors + 1)
    facts = last.facts and last.facts + facts_of_emptied(emptied)
    return replace(last, facts=facts)


@dataclass(frozen=True, slots=True)
class LastVerification:
    """The end of a verification, in seconds since the epoch; `healthy` if it found no damage."""

    ended: float
    healthy: bool


@dataclass(frozen=True, slots=True)
class LastSavepoint:
    """The newest savepoint of the query, from which one would continue after `batch`."""

    ended: float  # when it was made, or found to be of the newest batch still
    batch: int
    bytes: int
    seconds: float  # how long it took, from its first attempt on


@dataclass(frozen=True, slots=True)
class CountedTrash:
    """The trash as a run last counted it, and when that was."""

    files: int
    bytes: int
    seen: float


@dataclass(frozen=True, slots=True)
class Record:
    """A query's maintenance. What the last run did not look at stays as last known."""

    last: LastRun | None  # `None` if it was only verified
    success: float | None = None  # when the last maintenance without failure ended
    # What all runs did, by the names of `_totals`; they never fall.
    totals: Mapping[str, int] = field(default_factory=dict)
    # The totals before the last run, so that a repeated report counts it once.
    before: Mapping[str, int] = field(default_factory=dict)
    verified: LastVerification | None = None
    looked: LastRun | None = None  # the last that looked at the stores, if it was an earlier one
    trash: CountedTrash | None = None
    savepoint: LastSavepoint | None = None
    # The newest of each depth: a look replaces those that were not deeper.
    verdicts: Mapping[Looked, Verdict] = field(default_factory=dict)

    @property
    def known(self) -> LastRun | None:
        """The run whose figures of the stores are the newest."""
        return self.last if self.last and self.last.facts else self.looked

    def to_json(self) -> dict[str, Any]:
        runs = {name: _run_json(getattr(self, name)) for name in ("last", "looked")}
        return {"v": 1, **asdict(replace(self, last=None, looked=None)), **runs}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Record":
        """Returns what `to_json` encoded; a KeyError, TypeError or ValueError if it did not."""
        if fields["v"] != 1:
            raise ValueError(f"a record of version {fields['v']}")
        last, verified = _run(fields["last"]), fields["verified"]
        trash, savepoint = fields.get("trash"), fields.get("savepoint")
        verdicts = fields.get("verdicts", {}).items()
        return cls(
            last=last,
            success=fields["success"],
            totals={**fields["totals"]},
            before={**fields["before"]},
            verified=LastVerification(**verified) if verified else None,
            looked=_run(fields.get("looked")),  # earlier builds had none of these four
            trash=CountedTrash(**trash) if trash else _trash(last) if last else None,
            savepoint=LastSavepoint(**savepoint) if savepoint else None,
            verdicts={Looked(looked): Verdict(verdict) for looked, verdict in verdicts},
        )


def _run_json(last: LastRun | None) -> dict[str, Any] | None:
    if last is None:
        return None
    fields = asdict(last)
    work = fields.pop("work") and {"work": last.done.to_json()}  # unknown to earlier builds
    return {**fields, "facts": last.facts and last.facts.to_json(), **(work or {})}


def _run(fields: Mapping[str, Any] | None) -> LastRun | None:
    if fields is None:
        return None
    facts, work = (
        RunFacts.from_json(fields[name]) if fields.get(name) else None for name in ("facts", "work")
    )
    failed = tuple(map(Cause, fields["failed"]))
    return LastRun(**{**fields, "failed": failed, "facts": facts, "work": work})


def _trash(last: LastRun) -> CountedTrash | None:
    if last.trash_files is None or last.trash_bytes is None:
        return None
    return CountedTrash(last.trash_files, last.trash_bytes, last.ended)


def next_record(before: Record | None, last: LastRun) -> Record:
    """Returns the record after one more run, or after the last run's report was repeated."""
    before = before or Record(None)
    repeated = bool(last.run) and before.last is not None and before.last.run == last.run
    base = before.before if repeated else before.totals
    totals = _totals(base, last)
    if repeated:  # a task of the run that was cleared may have done less this time
        totals = merged(max, before.totals, totals)
    verdict = run_verdict(last)
    return replace(
        with_verdict(before, Looked.NAMES, verdict) if verdict else before,
        last=last,
        success=before.success if last.failed or last.work else last.ended,
        totals=totals,
        before=base,
        looked=None if last.facts else before.known,
        trash=_trash(last) or before.trash,
    )


def with_part(before: Record | None, run: LastRun) -> Record:
    """Returns the record after a run of a part of the partitions, which counts in the totals.

    The last run and its failures stay, as they are those of all partitions.
    """
    before = before or Record(None)
    return replace(before, totals=_totals(before.totals, run), before=_totals(before.before, run))


def run_verdict(last: LastRun) -> Verdict | None:
    """Returns the verdict of a run; `None` if it has looked at nothing without being to blame."""
    if {Cause.STORAGE, Cause.PLAN}.intersection(last.failed) and not last.work:
        verdict = last.facts.verdict if last.facts else None
        return worst((Verdict.UNKNOWN, verdict or Verdict.UNKNOWN))
    if last.facts:
        return last.facts.verdict
    nothing = last.committed is None and not (last.failed or last.work)
    return Verdict.EMPTY if nothing else None


def with_verdict(
    record: Record, looked: Looked, verdict: Verdict, *, partial: bool = False
) -> Record:
    """Returns the record after a look, which replaces those that were not deeper.

    A partial one is left out unless its verdict is worse than all of them.
    """
    if partial and verdict.rank <= worst((Verdict.HEALTHY, *record.verdicts.values())).rank:
        return record
    prior = record.verdicts.items()
    deeper = {level: found for level, found in prior if level.depth > looked.depth}
    return replace(record, verdicts={looked: verdict, **deeper})


def with_loss(record: Record) -> Record:
    lost = record.totals.get("losses", 0) + 1
    return replace(record, totals={**record.totals, "losses": lost})


def _totals(before: Mapping[str, int], last: LastRun) -> dict[str, int]:
    facts = last.done
    counted = {
        "runs/failed" if last.failed else "runs/succeeded": 1,
        "storage_errors": last.storage_errors,
        **{name: facts.sums.get(name, 0) for name in ("snapshots", "written", "deleted")},
        "files": sum(facts.counts.get("deleted", {}).values()),
        **{f"requests/{verb}": count for verb, count in facts.counts.get("requests", {}).items()},
    }
    return merged(add, before, counted)
