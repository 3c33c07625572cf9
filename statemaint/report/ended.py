"""The end of a run, from what its tasks have handed on, whoever ran them. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from statemaint.errors import (
    CheckpointError,
    LeaseHeldError,
    LeaseLostError,
    StatemaintError,
    StorageError,
)
from statemaint.model.findings import OF_STORAGE, Finding, FindingCode
from statemaint.report.facts import RunFacts, total
from statemaint.report.record import Cause, LastRun


def code_of(reason: str | None) -> str | None:
    """Returns the code of an error that a failure's reason begins with."""
    return reason.partition(":")[0] if reason else None


def run_ended(  # noqa: PLR0913 -- what each task has handed on
    run: str,
    planned: int,
    summaries: Sequence[Mapping[str, Any]],
    decided: Mapping[str, Any],
    *,
    ended: float,
    failure: str | None = None,
    errors: Sequence[str] = (),
) -> LastRun:
    """Returns the end of a run of one task or more.

    Args:
        run: its name.
        planned: the number of tasks of the plan.
        summaries: the summaries of the tasks that made one.
        decided: the results of the plan: `committed`, `lag`, and the `facts` that no task has.
        ended: when it ended, in seconds since the epoch.
        failure: why the plan failed.
        errors: the error code of each task that failed without a summary.
    """
    facts = _facts([decided.get("facts"), *(one.get("facts") for one in summaries)])
    codes = [*errors, *([code] if (code := code_of(failure)) else [])]
    damage = [_damage(one) for one in summaries if one["failed"]]
    failed = {_cause(one, Cause.TASK) for one in errors}
    failed |= {cause for found in damage for cause in found}
    if facts and facts.counts.get("outcomes", {}).get("halted"):
        failed.add(Cause.DAMAGE)
    if failure and not failed:
        failed.add(_cause(code_of(failure), Cause.PLAN))
    silent = planned - len(summaries)
    if silent > len(errors):
        failed.add(Cause.TASK)
    return LastRun(
        run=run,
        ended=ended,
        failed=tuple(one for one in Cause if one in failed),
        silent=silent,
        tasks=planned,
        storage_errors=sum(one in _STORAGE for one in codes)
        + sum(Cause.STORAGE in found for found in damage),
        committed=decided.get("committed"),
        lag=decided.get("lag"),
        facts=facts,
    )


def _facts(parts: Iterable[Mapping[str, Any] | None]) -> RunFacts | None:
    """Returns the facts of a run; `None` if its plan saw no store."""
    facts = [RunFacts.from_json(one) for one in parts if one]
    return total(facts) if facts else None


def _cause(code: str | None, otherwise: Cause) -> Cause:
    """Returns the cause that an error's code tells; `otherwise` is that of whoever had the error.

    A damaged checkpoint is the plan's own cause.
    """
    if code in _LEASE:
        return Cause.LEASE
    if code in _STORAGE:
        return Cause.STORAGE
    return Cause.DAMAGE if code in _DAMAGE and otherwise is Cause.TASK else otherwise


def _damage(summary: Mapping[str, Any]) -> set[Cause]:
    """Returns why a task with a summary failed."""
    codes = {one["code"] for one in summary["findings"] if one["damage"]}
    causes = {Cause.STORAGE} if codes & OF_STORAGE else set()
    return causes | ({Cause.DAMAGE} if codes - OF_STORAGE else set())


def _codes(kind: type[StatemaintError]) -> set[str]:
    return {kind.code, *(code for one in kind.__subclasses__() for code in _codes(one))}


_STORAGE = _codes(StorageError)
_LEASE = {LeaseHeldError.code, LeaseLostError.code}
_OTHERS = {FindingCode.FAULT, FindingCode.UNSUPPORTED, FindingCode.STORAGE_FAILED}
_DAMAGE = _codes(CheckpointError) | {
    one for one in FindingCode if one not in _OTHERS and Finding(one, "").damage
}
