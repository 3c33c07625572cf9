"""The figures that a run leaves for the pages: of a query, and of its partitions.

Two XComs of `report`, or of `plan` in a dry run. `statemaint_fleet` is small, as the page with all
queries reads one of each query; `statemaint_partitions` is read by the page of one query only.
docs/airflow.md describes both. A reader takes its own `v` and passes over unknown fields.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from statemaint.airflow.connections import open_checkpoint
from statemaint.airflow.settings import QuerySettings
from statemaint.errors import StatemaintError
from statemaint.maintain.work import TaskResults
from statemaint.model.findings import FindingCode
from statemaint.model.verdict import Verdict, worst
from statemaint.plan.withheld import Waiting, together
from statemaint.records.trashed import size_of_trash
from statemaint.report.facts import Unit
from statemaint.report.task import MOST_FINDINGS

FLEET, PARTITIONS = "statemaint_fleet", "statemaint_partitions"
"""The keys of the two XComs."""
FAILED, REFUSED = "statemaint_failed", "statemaint_refused"
"""The keys of the reason why a run looked at nothing: what was known before stays."""

_log = logging.getLogger(__name__)
_MOST = 2**62
# The figures of a partition that the pages show, in the order of `Unit`.
_SHOWN = 10
_SUMMED = ("files", "bytes", "replay_files", "replay_bytes", "reclaimable", "damage", "notices")
_Count = int


class _Json(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    v: Literal[1] = 1


class WithheldFigures(_Json):
    """The due snapshots of a query that are not written for one reason.

    Attributes:
        reason: the reason, of a closed set.
        snapshots: their number.
        text: why, until when, and what the operator can do.
    """

    reason: str
    snapshots: _Count
    text: str


class QueryFigures(_Json):
    """The figures of a query after a run, or of a dry run: `statemaint_fleet`.

    Attributes:
        query: the query's name.
        checkpoint: its address.
        dry_run: whether nothing was carried out.
        failure: why `plan` has failed; the other figures may then be empty.
        success: whether all of the query's work has succeeded; `None` if the figures are of a build
            before this field.
        committed: the newest committed batch; `None` when there is none.
        target: the version of that batch.
        partitions: the number of partitions.
        blocked: the number of partitions in which the target does not load.
        unreported: the number of partitions whose task gave no report; their figures are those of
            `plan`.
        longest: the longest chain.
        longest_at: its partition, such as `op 0 / part 3`.
        replay_files: the files that a restart reads.
        replay_bytes: their size.
        files: the number of all files.
        bytes: their size.
        reclaimable: the bytes that a later run deletes.
        trash_bytes: the bytes in the trash; `None` when it could not be listed.
        damage: the number of findings that are damage.
        notices: the number of other findings.
        codes: the codes of the findings.
        written: the number of snapshots that the run wrote.
        deleted: the number of files that it deleted.
        freed: their size.
        withheld: the due snapshots that it did not write, by reason.
        verdict: the verdict of the run; `None` if the figures are of a build before this field.
    """

    query: str
    checkpoint: str
    dry_run: bool = False
    failure: str | None = None
    success: bool | None = None
    committed: _Count | None = None
    target: _Count | None = None
    partitions: _Count = 0
    blocked: _Count = 0
    unreported: _Count = 0
    longest: _Count | None = None
    longest_at: str | None = None
    replay_files: _Count = 0
    replay_bytes: _Count = 0
    files: _Count = 0
    bytes: _Count = 0
    reclaimable: _Count = 0
    trash_bytes: _Count | None = None
    damage: _Count = 0
    notices: _Count = 0
    codes: list[str] = Field(default_factory=list)
    written: _Count = 0
    deleted: _Count = 0
    freed: _Count = 0
    withheld: list[WithheldFigures] = Field(default_factory=list)
    verdict: str | None = None

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


class Told(_Json):
    """A finding in `statemaint_partitions`."""

    code: str
    detail: str
    damage: bool


class Partitions(_Json):
    """The partitions of a query, and its first findings: `statemaint_partitions`."""

    units: list[list[int | None]] = Field(default_factory=list)
    findings: list[Told] = Field(default_factory=list)


def read_figures(xcom: object) -> QueryFigures | None:
    """Returns the figures of an XCom; `None` for those of a build that this one cannot read."""
    try:
        return QueryFigures.model_validate(xcom)
    except ValidationError:
        return None


def read_partitions(xcom: object) -> tuple[tuple[Unit, ...], tuple[Told, ...]] | None:
    """Returns the partitions and findings of an XCom; `None` if it cannot be read."""
    try:
        read = Partitions.model_validate(xcom)
        return tuple(_unit(one) for one in read.units), tuple(read.findings)
    except ValueError:
        return None


def _unit(row: Sequence[int | None]) -> Unit:
    if len(row) != _SHOWN or any(one is None for one in (*row[:2], *row[3:])):
        raise ValueError("not a partition")
    if any(one is not None and not 0 <= one < _MOST for one in row):
        raise ValueError("not a count")
    return Unit(*row)  # type: ignore[arg-type]


def withheld_texts(waiting: Iterable[Waiting]) -> list[WithheldFigures]:
    """Returns the snapshots that the parts of a run have withheld, summed by reason."""
    return [
        WithheldFigures(reason=one.reason.value, snapshots=one.snapshots, text=str(one))
        for one in together(waiting)
    ]


def figures_json(
    units: Sequence[Unit], findings: Sequence[Mapping[str, Any]], about: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the figures of a query.

    Args:
        units: its partitions.
        findings: its findings, as one task hands them to another.
        about: the other fields of `QueryFigures`; `damage` and `notices` are of the checkpoint as a
            whole and are added to those of the partitions.
    """
    longest = max(units, key=lambda unit: (unit.chain or 0, -unit.operator), default=None)
    sums = {
        name: sum(getattr(unit, name) for unit in units) + about.get(name, 0) for name in _SUMMED
    }
    return QueryFigures(
        **{
            **about,
            **sums,
            "partitions": len(units),
            "blocked": sum(unit.chain is None for unit in units),
            "longest": longest.chain if longest else None,
            "longest_at": str(longest.id) if longest and longest.chain else None,
            "codes": sorted({finding["code"] for finding in findings}),
        }
    ).model_dump()


def partitions_json(units: Iterable[Unit], findings: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the partitions of a query and its first findings."""
    shown = [Told(code=one["code"], detail=one["detail"], damage=one["damage"]) for one in findings]
    rows: list[Any] = [list(unit[:_SHOWN]) for unit in units]
    return Partitions(units=rows, findings=shown).model_dump()


def figures_of_run(
    settings: QuerySettings,
    results: TaskResults,
    *,
    success: bool | None = None,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Returns the XComs for the pages, by their keys: of the query, and of its partitions.

    A run that looked at nothing leaves only the reason.

    Lists the trash, which is the only request; if that fails, the trash is left out.
    """
    plan, reports = results.plan, results.inspected
    if results.reason and not (plan.units or plan.findings or reports):
        return {REFUSED if results.refused else FAILED: results.reason}
    reported = {unit.id: unit for report in reports for unit in report.units}
    units = {unit.id: unit for unit in plan.units} | reported
    findings = [*plan.findings, *(found for report in reports for found in report.findings)]
    waits = [*plan.withheld, *(one for report in reports for one in report.withheld)]
    silent = {unit for bundle in results.planned for unit in bundle.units} - {*reported}
    facts = [plan.facts, *(report.facts for report in reports)]
    found = [one.verdict for one in facts if one and one.verdict]
    about = {
        "query": settings.query,
        "verdict": worst(found).value if found else None,
        "checkpoint": settings.checkpoint,
        "dry_run": dry_run,
        "failure": results.failure,
        "success": success,
        "committed": plan.committed,
        "target": plan.target,
        "unreported": len(silent),
        "damage": plan.counts[0],
        "notices": plan.counts[1],
        "trash_bytes": _trash(settings),
        "withheld": withheld_texts(waits),
        "written": sum(report.snapshots for report in reports),
        "deleted": sum(report.files for report in reports),
        "freed": sum(report.bytes for report in reports),
    }
    shown = sorted(findings, key=lambda finding: not finding["damage"])[:MOST_FINDINGS]
    ordered = [units[unit] for unit in sorted(units)]
    return {
        FLEET: figures_json(ordered, findings, about),
        PARTITIONS: partitions_json(ordered, shown),
    }


def _trash(settings: QuerySettings) -> int | None:
    try:
        return size_of_trash(open_checkpoint(settings.checkpoint, settings.connection))[1]
    except StatemaintError as error:
        _log.warning("the trash is not counted: %s", error)
        return None
