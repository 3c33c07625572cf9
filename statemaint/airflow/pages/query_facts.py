"""The facts of a query in Airflow's database: its DAG, its runs, its figures. Pure."""

from dataclasses import dataclass
from datetime import datetime

from statemaint.airflow.figures import FindingRow, QueryFigures
from statemaint.report.facts import Unit
from statemaint.report.record import LastSavepoint
from statemaint.report.trend import Point


@dataclass(frozen=True, slots=True)
class AirflowRun:
    """A run of a DAG."""

    id: str
    state: str
    kind: str  # scheduled, manual, ...
    started: datetime | None  # `None` while it waits
    ended: datetime | None
    dry: bool = False
    queries: tuple[str, ...] = ()  # those named in its form; empty for all of the DAG


@dataclass(frozen=True, slots=True)
class QueryRecord:
    """A maintained query.

    `group` is the task group of its tasks, or the one task of a whole run; empty if the DAG has no
    other tasks. If several queries share the DAG, `last` has the outcome of this one.
    """

    dag: str
    group: str
    query: str
    paused: bool = False
    next_run: datetime | None = None
    schedule: str | None = None  # as Airflow describes it
    invalid: str | None = None  # why the DAG only shows a mistake in the queries file
    missing_pool: str | None = None  # the pool of its last run's tasks, if it does not exist
    stale: bool = False  # whether Airflow has deactivated the DAG, which no DAG file defines
    last: AirflowRun | None = None
    figures: QueryFigures | None = None  # the newest that this build can read
    looked: datetime | None = None  # when they were made
    looked_in: int | None = None  # the run that left them, by its key in the database
    failed: str | None = None  # why a later run looked at nothing
    owner: str = ""  # of the DAG's tasks
    tags: tuple[str, ...] = ()  # of the DAG, without ours


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """That an operator is working on the queries of a DAG, until a time."""

    until: datetime
    text: str
    user: str = ""


@dataclass(frozen=True, slots=True)
class Details:
    """The other contents of the page of one query."""

    units: tuple[Unit, ...] = ()
    findings: tuple[FindingRow, ...] = ()
    runs: tuple[AirflowRun, ...] = ()  # its DAG's last ones, the newest first
    savepoint: LastSavepoint | None = None
    trend: tuple[Point, ...] = ()
    failed_task: tuple[str, int] | None = None  # that of the last run, and its index of mapped ones
