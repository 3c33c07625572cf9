"""The page with all queries: one row for each, the worst first. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from statemaint.airflow.figures import QueryFigures
from statemaint.airflow.names import FILE_DAG, missing_pool
from statemaint.airflow.pages.model import AirflowRun, QueryRecord
from statemaint.airflow.pages.render import ago, ahead, stamp
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.verdict import Verdict
from statemaint.wording import counted

# Older figures are marked, as most queries are maintained at least once a day.
OLD = timedelta(days=2)
# Sorts after every time: the largest whole number that a browser counts exactly.
_NO_TIME = 2**53


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
        """Returns its place: the worst has the lowest."""
        return -(self.state.rank if isinstance(self.state, Verdict) else self.state.value[2])


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run in words.

    Attributes:
        text: its outcome: `success`, `failed`, `running`, `never ran`, `success, dry run`.
        mark: its colour.
        when: how long ago it ended, or started.
        stamp: that time.
        run: its id; `None` if there is none.
    """

    text: str
    mark: str
    when: str
    stamp: str
    run: str | None


@dataclass(frozen=True, slots=True)
class Row:
    """One query of the page.

    Attributes:
        record: the query.
        verdict: the verdict on it.
        outcome: its last run.
        figures: the figures; zeros if there are none.
        known: whether there are figures.
        age: how old they are.
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
        """Returns whether an operator should look."""
        return self.verdict.mark in ("bad", "warn") or self.outcome.mark == "bad"

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


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums of a page: of queries, and of their bytes."""

    queries: int
    broken: int
    degraded: int
    unknown: int
    failed: int
    partitions: int
    bytes: int
    replay_bytes: int
    reclaimable: int
    trash_bytes: int


def fleet(records: Iterable[QueryRecord], now: datetime) -> tuple[Row, ...]:
    return tuple(sorted((row_of(one, now) for one in records), key=lambda one: one.rank))


def row_of(record: QueryRecord, now: datetime) -> Row:
    figures = record.figures
    return Row(
        record=record,
        verdict=verdict(record),
        outcome=outcome(record.last, now),
        figures=figures or QueryFigures(query=record.query, checkpoint=""),
        known=figures is not None and _has_looked(figures),
        age=ago(record.looked, now),
        old=_is_old(record, now),
        next=_next(record, now),
    )


def totals(rows: Sequence[Row]) -> Totals:
    """Returns the sums of the rows of queries, without that of the queries file."""
    rows = [row for row in rows if row.verdict.state is not Unjudged.MISTAKES]
    states = [row.verdict.state for row in rows]
    return Totals(
        queries=len(rows),
        broken=sum(row.verdict.mark == "bad" for row in rows),
        degraded=states.count(Verdict.DEGRADED),
        unknown=sum(one in {Verdict.UNKNOWN, Unjudged.NEVER} for one in states),
        failed=sum(row.outcome.mark == "bad" for row in rows),
        partitions=sum(row.figures.partitions for row in rows),
        bytes=sum(row.figures.bytes for row in rows),
        replay_bytes=sum(row.figures.replay_bytes for row in rows),
        reclaimable=sum(row.figures.reclaimable for row in rows),
        trash_bytes=sum(row.figures.trash_bytes or 0 for row in rows),
    )


def verdict(record: QueryRecord) -> Judged:
    """Returns the verdict on a query, by the newest figures."""
    if record.invalid is not None:
        of_file = record.dag == FILE_DAG
        return Judged(Unjudged.MISTAKES if of_file else Unjudged.INVALID, record.invalid)
    if why := _not_maintained(record):
        return Judged(Unjudged.INVALID, why)
    if record.failed:
        return _unplanned(record.failed)
    if record.figures is None:
        if record.looked is None:
            ran = "No run has left figures." if record.last else "No run has looked at it yet."
            return Judged(Unjudged.NEVER, ran)
        return Judged(Verdict.UNKNOWN, "The figures are from another build.")
    return _by_figures(record.figures)


def _not_maintained(record: QueryRecord) -> str | None:
    if record.stale:
        return (
            f"Airflow has deactivated the DAG {record.dag}, as no DAG file defines it any more: "
            "nothing maintains the query. If it was removed on purpose, "
            f"`airflow dags delete {record.dag}`."
        )
    return None if record.missing_pool is None else missing_pool(record.missing_pool)


def _has_looked(figures: QueryFigures) -> bool:
    """Returns whether a run looked at the query; earlier builds left zeros of one that did not."""
    return not figures.failure or bool(figures.partitions or figures.codes)


def _unplanned(why: str) -> Judged:
    return Judged(Verdict.UNKNOWN, f"The last run failed to plan: {why}")


def _by_figures(figures: QueryFigures) -> Judged:
    if figures.failure and not figures.partitions:
        return _unplanned(figures.failure)
    found = figures.judged
    return Judged(found, _why(found, figures))


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
            silent = (
                f" {figures.unreported} are as the plan found them; their tasks gave no report."
            )
            loads = f"Every partition loads at version {figures.target}."
            return loads + (silent if figures.unreported else "")


def _damage(figures: QueryFigures) -> list[str]:
    codes = {one.value for one in FindingCode}
    return [
        one for one in figures.codes if one not in codes or Finding(FindingCode(one), "").damage
    ]


def _codes(figures: QueryFigures) -> str:
    return ", ".join(_damage(figures) or figures.codes) or "the log has a gap"


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
