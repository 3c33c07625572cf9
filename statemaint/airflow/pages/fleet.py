"""The page with all queries: one row for each, the worst first; its export. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cached_property
from typing import Annotated, Any, Literal
from urllib.parse import quote

from pydantic import BaseModel, Field

from statemaint.airflow.figures import QueryFigures
from statemaint.airflow.names import FILE_DAG, missing_pool
from statemaint.airflow.pages.query import Acknowledgement, AirflowRun, QueryRecord, compact_conf
from statemaint.airflow.pages.render import ago, ahead, span, stamp
from statemaint.airflow.pages.trend import sparkline
from statemaint.airflow.texts import as_csv
from statemaint.model.findings import NOTICES
from statemaint.model.ids import batch_of
from statemaint.model.verdict import Verdict
from statemaint.storage import storage_of
from statemaint.wording import counted

# Older figures are marked, as most queries are maintained at least once a day.
OLD = timedelta(days=2)
# Sorts after every time: the largest whole number that a browser counts exactly.
_NO_TIME = 2**53
Text = Annotated[str, Field(max_length=250)]
_FIGURES = (
    *("committed", "target", "partitions", "blocked", "longest", "longest_at", "replay_files"),
    *("replay_bytes", "restart", "files", "bytes", "reclaimable", "trash_bytes", "damage"),
    "notices",
)


class Unjudged(Enum):
    """Why there is no verdict on a query: its words, its mark, and the place among the verdicts.

    What is not known to be maintained comes first: the queries file, then its invalid entries.
    """

    MISTAKES = "Mistakes in it", "bad", 8
    INVALID = "Invalid", "bad", 7
    UNMAINTAINED = "Not maintained", "bad", 6
    NEVER = "Not looked at", "warn", Verdict.UNKNOWN.rank

    def __init__(self, label: str, mark: str, rank: int) -> None:
        self.label, self.mark, self.rank = label, mark, rank


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on a query, or why there is none, and the reason."""

    state: Verdict | Unjudged
    why: str

    @property
    def label(self) -> str:
        return self.state.value if isinstance(self.state, Verdict) else self.state.label

    @property
    def mark(self) -> str:
        return self.state.mark

    @property
    def rank(self) -> int:
        return -self.state.rank  # the worst has the lowest


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run in words, such as `success, dry run`; `when` it ended or started, as an age."""

    text: str
    mark: str
    when: str
    stamp: str
    run: str | None
    sort: int = 0


@dataclass(frozen=True)
class Row:
    """One query of the page."""

    record: QueryRecord
    verdict: Judged
    outcome: Outcome
    figures: QueryFigures  # zeros if there are none
    known: bool  # whether there are any
    age: str
    old: bool  # whether they are older than `OLD`, or than the last run
    next: str  # when the next run is due, in words
    silence: str = ""  # since when it has committed nothing, in words; empty if that is usual
    acknowledged: Acknowledgement | None = None

    @property
    def attention(self) -> bool:
        bad = self.verdict.mark in ("bad", "warn") or self.outcome.mark == "bad"
        return bad or bool(self.silence)

    @property
    def committed_at(self) -> datetime | None:
        seconds = self.figures.committed_at
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)

    @property
    def loading_batch(self) -> int | None:
        """Returns the newest batch that loads; `None` if only reading the files can tell."""
        figures = self.figures
        refuted = figures.judged is Verdict.BROKEN and figures.loads == figures.target
        return None if figures.loads is None or refuted else batch_of(figures.loads)

    @property
    def address(self) -> str:
        """Returns the address of its page, below that of the pages."""
        return f"dags/{quote(self.record.dag, safe='')}?query={quote(self.record.query, safe='')}"

    @property
    def run_path(self) -> str:
        """Returns the address of its last run, below that of Airflow's DAGs."""
        return f"{quote(self.record.dag, safe='')}/runs/{quote(self.outcome.run or '', safe='')}"

    @property
    def conf(self) -> str:
        """Returns the configuration that compacts it; empty if its DAG does not take one."""
        record = self.record
        if record.group or record.stale or record.invalid is not None:
            return ""
        return compact_conf(record.dag, record.query)

    @cached_property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """Returns its groups: by owner, by tag, by the storage of its checkpoint."""
        place, owner = self.figures.checkpoint, self.record.owner
        # Local paths are not looked up: the API server may not even have them.
        storage = storage_of(place) if "://" in place else place and "local disk"
        groups = {"owner": (owner,), "tag": self.record.tags, "storage": (storage,)}
        return {name: tuple(filter(None, group)) for name, group in groups.items()}

    @cached_property
    def text(self) -> str:
        """Returns the text that a filter searches, in lower case."""
        groups = (name for names in self.groups.values() for name in names)
        words = (self.record.query, self.verdict.label, self.verdict.why, self.outcome.text)
        return " ".join((*words, self.silence, *self.figures.codes, *groups, self.next)).lower()

    @property
    def chains(self) -> tuple[str, str] | None:
        return sparkline(self.figures.chains)

    @property
    def due(self) -> int:
        next_run = None if self.record.paused or self.record.stale else self.record.next_run
        return int(next_run.timestamp()) if next_run else _NO_TIME

    @property
    def rank(self) -> tuple[float | str, ...]:
        figures, sound = self.figures, self.outcome.mark != "bad"
        weight = (-figures.damage, -figures.replay_bytes, -figures.notices)
        return (self.verdict.rank, sound, not self.silence, *weight, self.record.query)


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
        silence=_silence(record),
    )


def totals(rows: Sequence[Row]) -> dict[str, int]:
    """Returns the sums of the rows of queries, without that of the queries file."""
    rows = [row for row in rows if row.verdict.state is not Unjudged.MISTAKES]
    states = [row.verdict.state for row in rows]
    summed = ("partitions", "bytes", "replay_bytes", "reclaimable", "trash_bytes")
    return {
        "queries": len(rows),
        "broken": states.count(Verdict.BROKEN),
        "invalid": states.count(Unjudged.INVALID),
        "unmaintained": states.count(Unjudged.UNMAINTAINED),
        "silent": sum(bool(row.silence) for row in rows),
        "degraded": states.count(Verdict.DEGRADED),
        "unknown": sum(state in {Verdict.UNKNOWN, Unjudged.NEVER} for state in states),
        "failed": sum(row.outcome.mark == "bad" for row in rows),
        **{name: sum(getattr(row.figures, name) or 0 for row in rows) for name in summed},
    }


def verdict(record: QueryRecord) -> Judged:
    if record.invalid is not None:
        of_file = record.dag == FILE_DAG
        return Judged(Unjudged.MISTAKES if of_file else Unjudged.INVALID, record.invalid)
    if record.stale:
        why = (
            f"Airflow has deactivated the DAG {record.dag}, as no DAG file defines it any more: "
            "nothing maintains the query. If it was removed on purpose, "
            f"`airflow dags delete {record.dag}`."
        )
        return Judged(Unjudged.UNMAINTAINED, why)
    if record.missing_pool is not None:
        return Judged(Unjudged.UNMAINTAINED, missing_pool(record.missing_pool))
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
    age, sort = (ago(when, now), int(when.timestamp())) if when else ("", 0)
    return Outcome(text, marks.get(run.state, "plain"), age, stamp(when), run.id, sort)


def _is_old(record: QueryRecord, now: datetime) -> bool:
    if record.looked is None:
        return False
    # A user's DAG may run on for hours after its maintenance.
    began = record.last.started if record.last and record.last.ended else None
    missed = began is not None and record.looked < began
    return missed or now - record.looked > OLD


def _silence(record: QueryRecord) -> str:
    """Returns for how long the query had committed nothing when it was looked at."""
    figures = record.figures
    if not (figures and figures.committed_at and figures.silent_after and record.looked):
        return ""
    age = record.looked.timestamp() - figures.committed_at
    return f"no commit for {span(age)}" if age >= figures.silent_after else ""


def _next(record: QueryRecord, now: datetime) -> str:
    if record.stale:
        return "never"
    if record.paused:
        return "paused"
    if record.next_run:
        return ahead(record.next_run, now)
    by_asset = record.schedule and "asset" in record.schedule.lower()
    return "after an Asset" if by_asset else "by hand"


class Wanted(BaseModel):
    """What an address asks for: the form, and the filter and the group of the page."""

    format: Literal["csv", "json"] = "csv"
    filter: Text = ""
    attention: bool = False
    by: Text = ""
    member: Text = ""


def matching(rows: Iterable[Row], wanted: Wanted) -> Iterator[Row]:
    """Yields the rows that the page shows for a filter and a group, as its script does."""
    text = wanted.filter.strip().lower()
    for row in rows:
        in_group = not wanted.member or wanted.member in row.groups.get(wanted.by, ())
        if text in row.text and (row.attention or not wanted.attention) and in_group:
            yield row


def documents(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Returns a document for each row; figures are null where nothing is known."""
    return [
        {
            "query": row.record.query,
            "dag": row.record.dag,
            "verdict": row.verdict.label,
            "why": row.verdict.why,
            "owner": row.record.owner,
            "tags": list(row.record.tags),
            "checkpoint": row.figures.checkpoint,
            "last_run": row.outcome.text,
            "next_run": row.next,
            "looked_at": row.record.looked.isoformat() if row.record.looked else None,
            "committed_at": row.committed_at.isoformat() if row.committed_at else None,
            **{name: getattr(row.figures, name) if row.known else None for name in _FIGURES},
            "codes": list(row.figures.codes),
        }
        for row in rows
    ]


def export_csv(rows: Iterable[Row]) -> str:
    listed = documents(rows)
    return as_csv([listed[0] if listed else ["query"], *(found.values() for found in listed)])
