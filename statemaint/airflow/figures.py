"""The figures that a run leaves for the pages: of a query, and of its partitions. Pure.

Two XComs of `report`, or of `plan` in a dry run. `statemaint_fleet` is small, as the page with all
queries reads one of each query; `statemaint_partitions` is read by the page of one query only.
docs/airflow.md describes both. A reader takes its own `v` and passes over unknown fields.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from statemaint.plan import Waiting, together
from statemaint.report.units import Unit

FLEET, PARTITIONS = "statemaint_fleet", "statemaint_partitions"
"""The keys of the two XComs."""
FAILED, REFUSED = "statemaint_failed", "statemaint_refused"
"""The keys of the reason why a run looked at nothing: what was known before stays."""

_MOST = 2**62
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
    if len(row) != len(Unit._fields) or any(one is None for one in (*row[:2], *row[3:])):
        raise ValueError("not a partition")
    if any(one is not None and not 0 <= one < _MOST for one in row):
        raise ValueError("not a count")
    return Unit(*row)  # type: ignore[arg-type]


def merged(before: Iterable[Sequence[Any]], after: Iterable[Sequence[Any]]) -> list[Unit]:
    """Returns the figures of all partitions: those of their tasks, otherwise those of `plan`."""
    units = {one.id: one for one in (Unit(*row) for row in before)}
    units |= {one.id: one for one in (Unit(*row) for row in after)}
    return [units[unit] for unit in sorted(units)]


def withheld_figures(waiting: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns the snapshots that the parts of a run have withheld, summed by reason.

    Args:
        waiting: those of each part, as `report.part.waiting_json` makes them.
    """
    return [
        WithheldFigures(
            reason=one.reason.value, snapshots=one.snapshots, text=str(one)
        ).model_dump()
        for one in together(Waiting.from_json(each) for each in waiting)
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
    longest = max(units, key=lambda one: (one.chain or 0, -one.operator), default=None)
    sums = {name: sum(getattr(one, name) for one in units) for name in _SUMMED}
    sums["damage"] += about.get("damage", 0)
    sums["notices"] += about.get("notices", 0)
    made = QueryFigures(
        **{
            **about,
            **sums,
            "partitions": len(units),
            "blocked": sum(one.chain is None for one in units),
            "longest": longest.chain if longest else None,
            "longest_at": str(longest.id) if longest and longest.chain else None,
            "codes": sorted({one["code"] for one in findings}),
        }
    )
    return made.model_dump()


_SUMMED = (
    "files",
    "bytes",
    "replay_files",
    "replay_bytes",
    "reclaimable",
    "damage",
    "notices",
)


def partitions_json(units: Iterable[Unit], findings: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the partitions of a query and its first findings."""
    shown = [Told(code=one["code"], detail=one["detail"], damage=one["damage"]) for one in findings]
    return Partitions(units=[list(one) for one in units], findings=shown).model_dump()
