"""The figures that a run leaves for the pages: of a query, and of its partitions.

Three XComs of `report`, or of `plan` in a dry run. `statemaint_fleet` is small, as the page with
all queries reads one of each query. The page of one query alone reads `statemaint_partitions` and
`statemaint_trend`, which is a `report.trend` of fewer points. docs/airflow.md describes them. A
reader takes its own `v` and passes over unknown fields.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, Self, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from statemaint.airflow.settings import QuerySettings
from statemaint.errors import StatemaintError
from statemaint.maintain.record import read_trend
from statemaint.maintain.work import TaskResults
from statemaint.model.findings import FindingCode
from statemaint.model.verdict import Verdict, worst
from statemaint.plan.withheld import Waiting, together
from statemaint.records.trashed import size_of_trash
from statemaint.report.facts import RunFacts, Unit, total
from statemaint.report.task import MOST_FINDINGS, BundleReport, PlanSummary
from statemaint.report.trend import Point, Trend, thinned
from statemaint.storage import Storage

FLEET, PARTITIONS, TREND = "statemaint_fleet", "statemaint_partitions", "statemaint_trend"
"""The keys of the three XComs."""
FAILED, REFUSED = "statemaint_failed", "statemaint_refused"
"""The keys of the reason why a run looked at nothing: what was known before stays."""

_T = TypeVar("_T")
_log = logging.getLogger(__name__)
_OF_PLAN = ("committed", "target", "committed_at", "silent_after", "loads")
_SUMMED = ("files", "bytes", "replay_files", "replay_bytes", "reclaimable", "damage", "notices")
_Count = Annotated[int, Field(ge=0, lt=2**62)]
# The figures of a partition that the pages show, in the order of `Unit`.
_SHOWN = 10
# Of the trend: the points of the query's page, the exact ones among them, and those of its row.
_POINTS, _EXACT, _SPARK = 120, 60, 30
_Row = tuple[_Count, _Count, _Count | None, _Count, _Count, _Count, _Count, _Count, _Count, _Count]


class LeftForPages(BaseModel):
    """A part of what a run leaves for the pages."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    v: Literal[1] = 1

    @classmethod
    def read(cls, xcom: object) -> Self | None:
        """Returns the content of an XCom; `None` if this build cannot read it."""
        try:
            return cls.model_validate(xcom)
        except ValidationError:
            return None


class WithheldFigures(LeftForPages):
    """The due snapshots of a query that are not written for one reason, explained by `text`."""

    reason: str
    snapshots: int
    text: str


class QueryFigures(LeftForPages):
    """The figures of a query after a run, or of a dry run: `statemaint_fleet`.

    Attributes:
        failure: why `plan` has failed; the other figures may then be empty.
        success: like `verdict`, `None` if the figures are of a build before this field.
        blocked: the number of partitions in which the target does not load.
        unreported: that of partitions whose task gave no report, with the figures of `plan`.
        longest_at: the partition of the longest chain, such as `op 0 / part 3`.
        chains: the longest chain after each of the last runs, the newest last.
        committed_at: when the newest batch was committed, in seconds since the epoch.
        silent_after: the age of that commit, in seconds, from which the query may have stopped.
        loads: the newest version that loads in all partitions, by the listing of the plan.
        restart: the most seconds that a restart is forecast to take; `restart_least` with a
            snapshot in every store; `restart_limit` is the policy's `restart_within`.
        reclaimable: the bytes that a later run deletes.
        trash_bytes: `None` when the trash could not be listed.
    """

    query: str
    checkpoint: str
    dry_run: bool = False
    failure: str | None = None
    success: bool | None = None
    committed: int | None = None
    target: int | None = None
    committed_at: float | None = None
    silent_after: float = 0.0
    loads: int | None = None
    restart: float | None = None
    partitions: int = 0
    blocked: int = 0
    unreported: int = 0
    longest: int | None = None
    longest_at: str | None = None
    chains: list[_Count | None] = Field(default_factory=list)
    replay_files: int = 0
    replay_bytes: int = 0
    files: int = 0
    bytes: int = 0
    reclaimable: int = 0
    trash_bytes: int | None = None
    damage: int = 0
    notices: int = 0
    codes: list[str] = Field(default_factory=list)
    written: int = 0
    deleted: int = 0
    freed: int = 0
    withheld: list[WithheldFigures] = Field(default_factory=list)
    verdict: str | None = None
    restart_least: float | None = None
    restart_limit: float | None = None

    @property
    def judged(self) -> Verdict:
        """Returns the verdict; that of figures of another build by their counts."""
        if self.verdict in set(Verdict):
            return Verdict(self.verdict)
        return Verdict.of(
            unread={*self.codes} == {FindingCode.STORAGE_FAILED.value},
            blocked=bool(self.blocked) and self.target is not None,
            damaged=bool(self.damage),
            committed=self.target is not None,
        )


class FindingRow(LeftForPages):
    """A finding in `statemaint_partitions`."""

    code: str
    detail: str
    damage: bool


class Partitions(LeftForPages):
    """The partitions of a query, and its first findings: `statemaint_partitions`."""

    units: list[Annotated[_Row, Field(strict=False)]] = Field(default_factory=list)
    findings: list[FindingRow] = Field(default_factory=list)


read_figures = QueryFigures.read


def read_partitions(xcom: object) -> tuple[tuple[Unit, ...], tuple[FindingRow, ...]] | None:
    read = Partitions.read(xcom)
    return (tuple(Unit(*row) for row in read.units), tuple(read.findings)) if read else None


def read_points(xcom: object) -> tuple[Point, ...]:
    """Returns the points of an XCom; none if this build cannot read them."""
    try:
        return Trend.from_json(cast("Any", xcom)).points
    except (KeyError, TypeError, ValueError, AttributeError):
        return ()


def withheld_texts(waiting: Iterable[Waiting]) -> list[WithheldFigures]:
    """Returns the snapshots that the parts of a run have withheld, summed by reason."""
    return [
        WithheldFigures(reason=part.reason.value, snapshots=part.snapshots, text=str(part))
        for part in together(waiting)
    ]


def figures_json(
    units: Sequence[Unit], findings: Sequence[Mapping[str, Any]], about: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the figures of a query.

    `about` has the other fields of `QueryFigures`; its `damage` and `notices` are of the checkpoint
    as a whole and are added to those of the partitions.
    """
    loading = [unit for unit in units if unit.chain is not None]
    longest = max(loading, key=lambda unit: (unit.chain, -unit.operator), default=None)
    figures = {
        **about,
        "partitions": len(units),
        "blocked": sum(unit.chain is None for unit in units),
        "longest": longest.chain if longest else None,
        "longest_at": str(longest.id) if longest and longest.chain else None,
        "codes": sorted({finding["code"] for finding in findings}),
    }
    for name in _SUMMED:
        figures[name] = figures.get(name, 0) + sum(getattr(unit, name) for unit in units)
    return QueryFigures(**figures).model_dump()


def partitions_json(units: Iterable[Unit], findings: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    rows: list[Any] = [list(unit[:_SHOWN]) for unit in units]
    found = [FindingRow(**finding) for finding in findings]
    return Partitions(units=rows, findings=found).model_dump(mode="json")


def restart_figures(facts: RunFacts) -> dict[str, float | None]:
    return {
        "restart": facts.restart,
        "restart_least": facts.restart_least,
        "restart_limit": facts.highest.get("restart_limit") or None,
    }


def figures_of_run(
    settings: QuerySettings,
    results: TaskResults,
    *,
    success: bool | None = None,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Returns the XComs for the pages, by key.

    A run of some partitions only, or one that looked at nothing, has no figures. The only requests
    read the trend and list the trash, each of which is left out if it fails.
    """
    plan, reports = results.plan, results.inspected
    unread = results.reason and not (plan.units or plan.findings or reports)
    if unread and results.refused:
        return {REFUSED: results.reason}
    whole = _or_none(read_trend, settings, "trend is not shown") or Trend()
    few = replace(whole, points=thinned(whole.points, recent=_EXACT, most=_POINTS))
    trend = {TREND: few.to_json()} if few.points else {}
    if unread:
        return {FAILED: results.reason, **trend}
    if plan.scope:  # the figures of a part are not the query's
        return trend
    parts: list[PlanSummary | BundleReport] = [plan, *reports]
    units = {unit.id: unit for part in parts for unit in part.units}
    reported = {unit.id for report in reports for unit in report.units}
    silent = {unit for bundle in results.planned for unit in bundle.units} - reported
    findings = [finding for part in parts for finding in part.findings]
    facts = [part.facts for part in parts if part.facts]
    verdicts = [known.verdict for known in facts if known.verdict]
    trash = _or_none(size_of_trash, settings, "trash is not counted")
    about = {
        "query": settings.query,
        "verdict": worst(verdicts).value if verdicts else None,
        "checkpoint": settings.checkpoint,
        "dry_run": dry_run,
        "failure": results.failure,
        "success": success,
        **{name: getattr(plan, name) for name in _OF_PLAN},
        "unreported": len(silent),
        "chains": [point.chain for point in few.points[-_SPARK:]],
        "damage": plan.counts[0],
        "notices": plan.counts[1],
        "trash_bytes": trash and trash[1],
        "withheld": withheld_texts(waiting for part in parts for waiting in part.withheld),
        "written": sum(report.snapshots for report in reports),
        "deleted": sum(report.files for report in reports),
        "freed": sum(report.bytes for report in reports),
        **restart_figures(total(facts)),
    }
    shown = sorted(findings, key=lambda finding: not finding["damage"])[:MOST_FINDINGS]
    ordered = [units[unit] for unit in sorted(units)]
    return {
        FLEET: figures_json(ordered, findings, about),
        PARTITIONS: partitions_json(ordered, shown),
        **trend,
    }


def _or_none(read: Callable[[Storage], _T], settings: QuerySettings, without: str) -> _T | None:
    try:
        return read(settings.open())
    except StatemaintError as error:
        _log.warning("the %s: %s", without, error)
        return None
