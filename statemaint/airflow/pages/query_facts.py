"""The facts of a query in Airflow's database: its DAG, its runs, its figures. Pure."""

from dataclasses import dataclass
from datetime import datetime

from statemaint.airflow.figures import FindingRow, QueryFigures
from statemaint.report.facts import Unit
from statemaint.report.record import LastSavepoint
from statemaint.report.trend import Point


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
        owner: that of the DAG's tasks; `tags` are those of the DAG, without ours.
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
    owner: str = ""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """That an operator is working on the queries of a DAG, until a time."""

    until: datetime
    text: str
    user: str = ""


@dataclass(frozen=True, slots=True)
class Details:
    """The other contents of the page of one query; its DAG's last runs, the newest first.

    Attributes:
        failed_task: the task that failed in the last run, and its index among mapped ones.
    """

    units: tuple[Unit, ...] = ()
    findings: tuple[FindingRow, ...] = ()
    runs: tuple[AirflowRun, ...] = ()
    savepoint: LastSavepoint | None = None
    trend: tuple[Point, ...] = ()
    failed_task: tuple[str, int] | None = None
