"""What the tasks of a run hand on to the one that reports them all. Pure.

Spark's tasks and Airflow's hand on the same: the plan a `PlanSummary`, and each of the others a
`BundleReport`. `dumped` and `loaded` give their JSON, which only tasks of one build exchange.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Self, TypeVar, cast

from statemaint.errors import ConfigError, StatemaintError
from statemaint.model.checkpoint import Store
from statemaint.model.findings import Finding, FindingCode, damaged
from statemaint.plan.actions import Plan
from statemaint.plan.withheld import Waiting, by_reason
from statemaint.report.facts import RunFacts, Unit, facts_of, units_of
from statemaint.report.outcome import StoreOutcome
from statemaint.report.run import Report

_T = TypeVar("_T")
Json = dict[str, Any]

_MOST_NAMED = 5
MOST_FINDINGS = 20


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why a task must fail; `retry` states whether another attempt could succeed."""

    reason: str
    retry: bool = False

    @classmethod
    def of(cls, error: Exception) -> Self:
        if isinstance(error, StatemaintError):
            return cls(f"{error.code}: {error}", retry=not error.lasting)
        fault = f"{FindingCode.FAULT.value}: {type(error).__name__}: {error}"
        return cls(" ".join(fault.split()), retry=True)

    @classmethod
    def of_findings(cls, findings: tuple[Finding, ...]) -> Self | None:
        """Returns the failure that damage is; `None` without damage."""
        if not damaged(findings):
            return None
        failed = (finding for finding in findings if finding.code is FindingCode.STORAGE_FAILED)
        return cls(reasons(findings), retry=any(not finding.lasting for finding in failed))

    @classmethod
    def of_all(cls, failures: Sequence["Failure"]) -> "Failure | None":
        """Returns the failure of a task that has several reasons to fail; `None` without any.

        Another attempt works on those whose failure may pass; damaged ones fail it again.
        """
        if not failures:
            return None
        retry = any(failure.retry for failure in failures)
        return cls(named([failure.reason for failure in failures], "; "), retry)


@dataclass(frozen=True, slots=True)
class BundleReport:
    """The result of some partitions, after a task has maintained them."""

    label: str  # the name that the task is shown by
    inspected: bool = True  # whether it saw its stores; otherwise there is only the failure
    done: int = 0  # the number of stores in this state, as the next two
    skipped: int = 0
    halted: int = 0
    snapshots: int = 0
    bytes_written: int = 0
    files: int = 0  # deleted
    bytes: int = 0  # their size
    seconds: float = 0.0
    finding_count: int = 0
    findings: tuple[Json, ...] = ()  # the first of these, as `findings_json` makes them
    lag: int | None = None
    facts: RunFacts | None = None
    units: tuple[Unit, ...] = ()
    withheld: tuple[Waiting, ...] = ()
    failure: Failure | None = None

    @classmethod
    def of(cls, report: Report, label: str, target: int | None, *, every_unit: bool) -> Self:
        states = [store.state for store in report.stores]
        return cls(
            label=label,
            done=states.count(StoreOutcome.DONE),
            skipped=states.count(StoreOutcome.SKIPPED),
            halted=states.count(StoreOutcome.HALTED),
            snapshots=report.snapshots_written,
            bytes_written=report.bytes_written,
            files=report.files_deleted.total(),
            bytes=report.bytes_deleted,
            seconds=round(report.seconds, 3),
            finding_count=len(report.findings),
            findings=tuple(findings_json(report.findings)),
            lag=lag(report.needed, target),
            facts=facts_of(report, every_unit=every_unit),
            units=tuple(units_of(report.stores, report.forecast)),
            withheld=by_reason(report.withheld),
            failure=Failure.of_findings(report.findings),
        )

    @classmethod
    def of_error(cls, label: str, error: Exception) -> Self:
        return cls(label, inspected=False, failure=Failure.of(error))


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """The facts of a plan that the end of its run needs.

    `lag`, `facts` and `withheld` are those of the partitions without a task, `findings` also those
    of the checkpoint.
    """

    committed: int | None = None
    target: int | None = None  # the version at which all partitions are snapshotted
    lag: int | None = None
    findings: tuple[Json, ...] = ()
    counts: tuple[int, int] = (0, 0)  # of the checkpoint's findings: damage, and others
    units: tuple[Unit, ...] = ()  # every partition as the plan found it, for the pages
    scope: str = ""  # the restriction of the run, in words; empty without one
    facts: RunFacts | None = None
    withheld: tuple[Waiting, ...] = ()
    committed_at: float | None = None  # the storage's time of the newest commit
    silent_after: float = 0.0  # as in the plan
    loads: int | None = None  # the newest version that loads in all stores
    snapshots_from: float | None = None  # the seconds of replay from which a chain is due

    @classmethod
    def of(cls, plan: Plan, findings: Iterable[Finding], **more: Any) -> Self:
        """Returns the facts of a plan, with the findings that no task reports and other fields."""
        damage = sum(finding.damage for finding in plan.findings)
        return cls(
            committed=plan.committed,
            target=plan.target,
            findings=tuple(findings_json(findings)),
            counts=(damage, len(plan.findings) - damage),
            committed_at=plan.commit.modified if plan.commit else None,
            silent_after=plan.silent_after,
            loads=plan.newest_loadable,
            snapshots_from=plan.snapshots_from,
            **more,
        )


def lag(stores: Iterable[Store], target: int | None) -> int | None:
    """Returns the versions between the newest snapshot of each of some stores and the target."""
    if target is None:
        return None
    newest = (max(store.versions.snapshots, default=0) for store in stores)
    return max((target - version for version in newest), default=0)


def reasons(findings: Iterable[Finding]) -> str:
    """Returns why a task fails: the code and detail of each damage, in one line."""
    damage = (finding for finding in findings if finding.damage)
    return named([f"{finding.code.value}: {finding.detail}" for finding in damage], "; ")


def named(texts: Sequence[str], between: str = ", ") -> str:
    """Returns the first of some texts in one line, and the number of the others."""
    more = len(texts) - _MOST_NAMED
    shown = between.join(texts[:_MOST_NAMED])
    return f"{shown}{between}and {more} more" if more > 0 else shown


def findings_json(findings: Iterable[Finding]) -> list[Json]:
    """Returns the first findings as one task hands them to another, damage before all else."""
    ordered = sorted(findings, key=lambda finding: not finding.damage)
    return [
        {"code": finding.code.value, "detail": finding.detail, "damage": finding.damage}
        for finding in ordered[:MOST_FINDINGS]
    ]


def dumped(value: object) -> Any:
    """Returns a dataclass as JSON: only dictionaries, lists, texts and numbers."""
    return _adapter(cast("Any", type(value))).dump_python(value, mode="json")


def loaded(kind: type[_T], document: Any) -> _T:
    """Returns the value that `dumped` encoded.

    A `ValueError` refuses another kind, a missing field, and below a field also one that is
    unknown, such as a setting of the policy: another build made it, and meant something else.
    """
    value: _T = _adapter(cast("Any", kind)).validate_python(document)
    own = dumped(value)
    known = {name: part for name, part in document.items() if name in own}
    for what, names in (("without", _missing(own, known)), ("with", _missing(known, own))):
        if listed := ", ".join(sorted({*names})):
            raise ValueError(f"{kind.__name__} {what} {listed}")
    return value


def _missing(document: Any, other: Any) -> Iterator[str]:
    """Yields the fields of a document, at any depth, that another one lacks."""
    if isinstance(document, dict):
        yield from document.keys() - other.keys()
        for name in document.keys() & other.keys():
            yield from _missing(document[name], other[name])
    elif isinstance(document, list):
        for part, own in zip(document, other, strict=True):
            yield from _missing(part, own)


@contextmanager
def of_one_build(otherwise: str) -> Iterator[None]:
    """Refuses in words what cannot be `loaded`."""
    try:
        yield
    except ValueError as error:
        raise ConfigError(f"{otherwise} ({str(error).splitlines()[0]})") from error


@cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter  # noqa: PLC0415 -- takes as long as a scan

    return TypeAdapter(kind)
