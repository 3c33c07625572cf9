"""The facts of a query: its DAG, its last runs, the figures that they left. Pure."""

from dataclasses import dataclass
from datetime import datetime

from statemaint.airflow.figures import QueryFigures, Told
from statemaint.report.facts import Unit
from statemaint.report.record import LastSavepoint


@dataclass(frozen=True, slots=True)
class AirflowRun:
    """A run of a DAG.

    Attributes:
        id: its id.
        state: Airflow's state of it.
        kind: scheduled, manual, ...
        started: when it started; `None` while it waits.
        ended: when it ended; `None` until then.
        dry: whether its form requested a dry run.
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
        dag: the id of its DAG.
        group: the task group of its tasks, or the one task of a whole run; empty if the DAG has no
            other tasks.
        query: its name.
        paused: whether the DAG is paused.
        next_run: when the next scheduled run is due; `None` without a schedule.
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
    """The other contents of the page of one query, in addition to its record.

    Attributes:
        units: its partitions.
        findings: its first findings.
        runs: the DAG's last runs, the newest first.
        savepoint: the newest savepoint that the DAG of its savepoints has made.
    """

    units: tuple[Unit, ...] = ()
    findings: tuple[Told, ...] = ()
    runs: tuple[AirflowRun, ...] = ()
    savepoint: LastSavepoint | None = None
