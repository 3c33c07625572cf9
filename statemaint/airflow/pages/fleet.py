"""The facts of a query, and the page with all queries: one row for each, the worst first. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from statemaint.airflow.figures import FindingRow, QueryFigures
from statemaint.airflow.names import FILE_DAG, missing_pool
from statemaint.airflow.pages.render import ago, ahead, stamp
from statemaint.airflow.pages.trend import sparkline
from statemaint.model.findings import NOTICES
from statemaint.model.verdict import Verdict
from statemaint.report.facts import Unit
from statemaint.report.record import LastSavepoint
from statemaint.report.trend import Point
from statemaint.wording import counted

# Older figures are marked, as most queries are maintained at least once a day.
OLD = timedelta(days=2)
# Sorts after every time: the largest whole number that a browser counts exactly.
_NO_TIME = 2**53


@dataclass(frozen=True, slots=True)
class AirflowRun:
    """A run of a DAG.

    Attributes:
        kind: scheduled, manual, ...
        started: `None` while it waits.
        queries: the queries named in its form; empty for all of the DAG.
    """

    id: str
    state: str
    kind: str
    started: datetime | None
    ended: datetime | None
    dry: bool = False
    queries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QueryRecord:
    """A maintained query.

    Attributes:
        group: the task group of its tasks, or the one task of a whole run; empty if the DAG has no
            other tasks.
        schedule: the schedule as Airflow describes it.
        invalid: why the DAG only shows a mistake in the queries file; `None` for all others.
        missing_pool: the pool of its last run's tasks, if it does not exist.
        stale: whether Airflow has deactivated the DAG, as no DAG file defines it any more.
        last: its last run; if several queries share the DAG, with the outcome of this query.
        figures: the newest figures that this build can read.
        looked: when they were made.
        looked_in: the run that left them, by its key in the database.
        failed: why a later run looked at nothing.
    """

    dag: str
    group: str
    query: str
    paused: bool = False
    next_run: datetime | None = None
    schedule: str | None = None
    invalid: str | None = None
    missing_pool: str | None = None
    stale: bool = False
    last: AirflowRun | None = None
    figures: QueryFigures | None = None
    looked: datetime | None = None
    looked_in: int | None = None
    failed: str | None = None


@dataclass(frozen=True, slots=True)
class Details:
    """The other contents of the page of one query; its DAG's last runs, the newest first."""

    units: tuple[Unit, ...] = ()
    findings: tuple[FindingRow, ...] = ()
    runs: tuple[AirflowRun, ...] = ()
    savepoint: LastSavepoint | None = None
    trend: tuple[Point, ...] = ()


class Unjudged(Enum):
    """Why there is no verdict on a query: its words, its mark, and the place among the verdicts.

    What is not known to be maintained comes first: the queries file, then its invalid entries.
    """

    MISTAKES = "Mistakes in it", "bad", 7
    INVALID = "Not maintained", "bad", 6
    NEVER = "Not looked at", "warn", Verdict.UNKNOWN.rank

    @property
    def mark(self) -> str:
        return self.value[1]


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on a query, or why there is none, and the reason."""

    state: Verdict | Unjudged
    why: str

    @property
    def label(self) -> str:
        return self.state.value if isinstance(self.state, Verdict) else self.state.value[0]

    @property
    def mark(self) -> str:
        return self.state.mark

    @property
    def rank(self) -> int:
        # The worst has the lowest.
        return -(self.state.rank if isinstance(self.state, Verdict) else self.state.value[2])


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run in words, such as `success, dry run`; `when` it ended or started, as an age."""

    text: str
    mark: str
    when: str
    stamp: str
    run: str | None


@dataclass(frozen=True, slots=True)
class Row:
    """One query of the page.

    Attributes:
        figures: zeros if there are none, as `known` states.
        old: whether they are older than `OLD`, or than the last run.
        next: when the next run is due, in words.
    """

    record: QueryRecord
    verdict: Judged
    outcome: Outcome
    figures: QueryFigures
    known: bool
    age: str
    old: bool
    next: str

    @property
    def attention(self) -> bool:
        return self.verdict.mark in ("bad", "warn") or self.outcome.mark == "bad"

    @property
    def chains(self) -> tuple[str, str] | None:
        return sparkline(self.figures.chains)

    @property
    def due(self) -> int:
        next_run = None if self.record.paused or self.record.stale else self.record.next_run
        return int(next_run.timestamp()) if next_run else _NO_TIME

    @property
    def rank(self) -> tuple[float | str, ...]:
        figures = self.figures
        failed = self.outcome.mark == "bad"
        weight = (-figures.damage, -figures.replay_bytes, -figures.notices)
        return (self.verdict.rank, not failed, *weight, self.record.query)


def fleet(records: Iterable[QueryRecord], now: datetime) -> tuple[Row, ...]:
    return tuple(sorted((row_of(record, now) for record in records), key=lambda row: row.rank))


def row_of(record: QueryRecord, now: datetime) -> Row:
    figures = record.figures
    return Row(
        record=record,
        verdict=verdict(record),
        outcome=outcome(record.last, now),
        figures=figures or QueryFigures(query=record.query, checkpoint=""),
        # Earlier builds left zeros of a run that did not look.
        known=figures is not None
        and (not figures.failure or bool(figures.partitions or figures.codes)),
        age=ago(record.looked, now),
        old=_is_old(record, now),
        next=_next(record, now),
    )


def totals(rows: Sequence[Row]) -> dict[str, int]:
    """Returns the sums of the rows of queries, without that of the queries file."""
    rows = [row for row in rows if row.verdict.state is not Unjudged.MISTAKES]
    states = [row.verdict.state for row in rows]
    summed = ("partitions", "bytes", "replay_bytes", "reclaimable", "trash_bytes")
    return {
        "queries": len(rows),
        "broken": sum(row.verdict.mark == "bad" for row in rows),
        "degraded": states.count(Verdict.DEGRADED),
        "unknown": sum(state in {Verdict.UNKNOWN, Unjudged.NEVER} for state in states),
        "failed": sum(row.outcome.mark == "bad" for row in rows),
        **{name: sum(getattr(row.figures, name) or 0 for row in rows) for name in summed},
    }


def verdict(record: QueryRecord) -> Judged:
    """Returns the verdict on a query, by the newest figures."""
    if record.invalid is not None:
        of_file = record.dag == FILE_DAG
        return Judged(Unjudged.MISTAKES if of_file else Unjudged.INVALID, record.invalid)
    if record.stale:
        return Judged(
            Unjudged.INVALID,
            f"Airflow has deactivated the DAG {record.dag}, as no DAG file defines it any more: "
            "nothing maintains the query. If it was removed on purpose, "
            f"`airflow dags delete {record.dag}`.",
        )
    if record.missing_pool is not None:
        return Judged(Unjudged.INVALID, missing_pool(record.missing_pool))
    figures = record.figures
    unplanned = figures and not figures.partitions and figures.failure
    if failed := record.failed or unplanned:
        return Judged(Verdict.UNKNOWN, f"The last run failed to plan: {failed}")
    if figures is None:
        return _without_figures(record)
    judged = figures.judged
    return Judged(judged, _why(judged, figures))


def _without_figures(record: QueryRecord) -> Judged:
    if record.looked is not None:
        return Judged(Verdict.UNKNOWN, "The figures are from another build.")
    ran = "No run has left figures." if record.last else "No run has looked at it yet."
    return Judged(Unjudged.NEVER, ran)


def _why(verdict: Verdict, figures: QueryFigures) -> str:
    match verdict:
        case Verdict.UNKNOWN:
            return "The storage failed during the last run."
        case Verdict.BROKEN if figures.blocked:
            does = "does" if figures.blocked == 1 else "do"
            parts = counted(figures.partitions, "partition")
            return f"{figures.blocked} of {parts} {does} not load: {_codes(figures)}"
        case Verdict.BROKEN | Verdict.DEGRADED:
            return f"{verdict.meaning.capitalize()}: {_codes(figures)}"
        case Verdict.EMPTY:
            return "No batch is committed yet."
        case Verdict.HEALTHY:
            loads = f"Every partition loads at version {figures.target}."
            if not figures.unreported:
                return loads
            silent = f"{figures.unreported} are as the plan found them"
            return f"{loads} {silent}; their tasks gave no report."


def _codes(figures: QueryFigures) -> str:
    damage = [code for code in figures.codes if code not in NOTICES]
    return ", ".join(damage or figures.codes) or "the log has a gap"


def outcome(run: AirflowRun | None, now: datetime) -> Outcome:
    if run is None:
        return Outcome("never ran", "plain", "", "", None)
    when = run.ended or run.started
    marks = {"success": "good", "failed": "bad"}
    text = f"{run.state}, dry run" if run.dry else run.state
    age = ago(when, now) if when else ""
    return Outcome(text, marks.get(run.state, "plain"), age, stamp(when), run.id)


def _is_old(record: QueryRecord, now: datetime) -> bool:
    if record.looked is None:
        return False
    ended = record.last.ended if record.last else None
    missed = ended is not None and ended - record.looked > timedelta(minutes=5)
    return missed or now - record.looked > OLD


def _next(record: QueryRecord, now: datetime) -> str:
    if record.stale:
        return "never"
    if record.paused:
        return "paused"
    if record.next_run:
        return ahead(record.next_run, now)
    by_asset = record.schedule and "asset" in record.schedule.lower()
    return "after an Asset" if by_asset else "by hand"
