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
from statemaint.wording import counted

# Older figures are marked, as most queries are maintained at least once a day.
OLD = timedelta(days=2)
# Sorts after every time: the largest whole number that a browser counts exactly.
_NO_TIME = 2**53


class Restartable(Enum):
    """Whether a query would restart, the worst first; each with its label and its mark.

    What is not known to be maintained comes first: the queries file, then its invalid entries.
    """

    MISTAKES = ("Mistakes in it", "bad")
    INVALID = ("Not maintained", "bad")
    NO = ("No", "bad")
    DOUBTFUL = ("Doubtful", "bad")
    UNKNOWN = ("Unknown", "warn")
    NEVER = ("Not looked at", "warn")
    EMPTY = ("Nothing committed", "plain")
    YES = ("Yes", "good")

    @property
    def label(self) -> str:
        return self.value[0]

    @property
    def mark(self) -> str:
        return self.value[1]

    @property
    def rank(self) -> int:
        return list(Restartable).index(self)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a query would restart, and the reason for this verdict."""

    restart: Restartable
    why: str


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
        verdict: whether it would restart.
        outcome: its last run.
        figures: the figures; zeros if there are none.
        known: whether there are figures.
        age: how old they are.
        old: whether they are older than `OLD`, or than the last run.
        next: when the next run is due, in words.
    """

    record: QueryRecord
    verdict: Verdict
    outcome: Outcome
    figures: QueryFigures
    known: bool
    age: str
    old: bool
    next: str

    @property
    def attention(self) -> bool:
        """Returns whether an operator should look."""
        return self.verdict.restart.mark in ("bad", "warn") or self.outcome.mark == "bad"

    @property
    def due(self) -> int:
        next_run = None if self.record.paused or self.record.stale else self.record.next_run
        return int(next_run.timestamp()) if next_run else _NO_TIME

    @property
    def rank(self) -> tuple[float | str, ...]:
        figures = self.figures
        failed = self.outcome.mark == "bad"
        weight = (-figures.damage, -figures.replay_bytes, -figures.notices)
        return (self.verdict.restart.rank, not failed, *weight, self.record.query)


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums of a page: of queries, and of their bytes."""

    queries: int
    broken: int
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
    rows = [row for row in rows if row.verdict.restart is not Restartable.MISTAKES]
    marks = [row.verdict.restart.mark for row in rows]
    return Totals(
        queries=len(rows),
        broken=marks.count("bad"),
        unknown=marks.count("warn"),
        failed=sum(row.outcome.mark == "bad" for row in rows),
        partitions=sum(row.figures.partitions for row in rows),
        bytes=sum(row.figures.bytes for row in rows),
        replay_bytes=sum(row.figures.replay_bytes for row in rows),
        reclaimable=sum(row.figures.reclaimable for row in rows),
        trash_bytes=sum(row.figures.trash_bytes or 0 for row in rows),
    )


def verdict(record: QueryRecord) -> Verdict:
    """Returns whether a query would restart, by the newest figures."""
    if record.invalid is not None:
        of_file = record.dag == FILE_DAG
        return Verdict(Restartable.MISTAKES if of_file else Restartable.INVALID, record.invalid)
    if why := _not_maintained(record):
        return Verdict(Restartable.INVALID, why)
    if record.failed:
        return _unplanned(record.failed)
    if record.figures is None:
        if record.looked is None:
            ran = "No run has left figures." if record.last else "No run has looked at it yet."
            return Verdict(Restartable.NEVER, ran)
        return Verdict(Restartable.UNKNOWN, "The figures are from another build.")
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


def _unplanned(why: str) -> Verdict:
    return Verdict(Restartable.UNKNOWN, f"The last run failed to plan: {why}")


def _by_figures(figures: QueryFigures) -> Verdict:
    if figures.failure and not figures.partitions:
        return _unplanned(figures.failure)
    if figures.blocked and figures.target is not None:
        does = "does" if figures.blocked == 1 else "do"
        what = f"{figures.blocked} of {counted(figures.partitions, 'partition')} {does} not load"
        return Verdict(Restartable.NO, f"{what}: {_codes(figures)}")
    if figures.damage:
        return _damaged(figures)
    if figures.target is None:
        return Verdict(Restartable.EMPTY, "No batch is committed yet.")
    why = f"Every partition loads at version {figures.target}."
    if figures.unreported:
        why += f" {figures.unreported} are as the plan found them; their tasks gave no report."
    return Verdict(Restartable.YES, why)


def _damaged(figures: QueryFigures) -> Verdict:
    codes = set(_damage(figures))
    if codes and codes <= {FindingCode.STORAGE_FAILED.value}:
        return Verdict(Restartable.UNKNOWN, "The storage failed during the last run.")
    what = "it may fail, or load wrong rows"
    return Verdict(Restartable.DOUBTFUL, f"Damage was found, so {what}: {_codes(figures)}")


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
