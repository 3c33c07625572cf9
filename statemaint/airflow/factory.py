"""From the queries file to DAGs: `plan` -> mapped `maintain` -> `report`, for each query."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from airflow.executors.executor_loader import ExecutorLoader
from airflow.sdk import (
    DAG,
    Asset,
    AssetAny,
    AssetOrTimeSchedule,
    CronTriggerTimetable,
    get_parsing_context,
    task,
)
from airflow.sdk.exceptions import AirflowFailException

from statemaint.airflow.callbacks import callbacks_of, deadline
from statemaint.airflow.form import (
    document,
    form,
    savepoint_document,
    savepoint_form,
    together_document,
    together_form,
)
from statemaint.airflow.location import queries_reader
from statemaint.airflow.names import (
    FILE_DAG,
    GATEWAY_VARIABLE,
    broken_dag_id,
    dag_id,
    savepoint_id,
    together_id,
)
from statemaint.airflow.publish import with_metrics
from statemaint.airflow.run_tasks import Terms, run_tasks, together_tasks
from statemaint.airflow.savepoints import savepoint_tasks
from statemaint.airflow.settings import QuerySettings, query_settings
from statemaint.queries.checks import must_be_open
from statemaint.queries.merged import groups
from statemaint.queries.models import Query, SavepointSettings
from statemaint.queries.problems import Problem, resolve
from statemaint.queries.reading import QueriesReading, in_order

START = datetime(2026, 1, 1, tzinfo=UTC)
"""Schedules start here; with `catchup` off, missed runs are not made up."""
# The delays between attempts double up to this.
_LONGEST_DELAY = timedelta(hours=1)
# The address of the Pushgateway of a query.
Gateway = Callable[[str], str | None]


def build_dags(path: str | Path, *, environ: Mapping[str, str] = os.environ) -> dict[str, DAG]:
    """Returns a DAG for each query of a file, by its id; never raises.

    An invalid entry has one DAG that shows why and fails. One more shows the mistakes outside of
    entries, and those of entries whose last good version goes on. Reads no storage, no connection.

    A process that runs one task builds the DAG of that task only.
    """
    requested = get_parsing_context().dag_id
    builders = _builders(queries_reader(path, environ=environ).read(), environ)
    return {name: build() for name, build in builders.items() if requested in (None, name)}


def _builders(reading: QueriesReading, environ: Mapping[str, str]) -> dict[str, Callable[[], DAG]]:
    gateway, wrong = _gateway(reading, environ)
    builders: dict[str, Callable[[], DAG]] = {
        identity: partial(_built, reading, identity, name, what, make)
        for identity, name, what, make in _makers(reading, gateway)
    }
    others: list[Problem] = []
    for entry in reading.broken:
        name = broken_dag_id(entry.name)
        if entry.kept or name in builders:
            others += entry.problems
        else:
            builders[name] = partial(_broken, reading, name, _what(entry.name), entry.problems)
    if others := [*others, *reading.problems, *wrong]:
        what = f"The queries file {reading.path} has mistakes"
        builders[FILE_DAG] = partial(_broken, reading, FILE_DAG, what, others)
    return builders


def _makers(
    reading: QueriesReading, gateway: Gateway
) -> Iterator[tuple[str, str, str, Callable[[], DAG]]]:
    """Yields each DAG's id, a query of it, what is wrong if it cannot be made, and its maker."""
    for name, query in reading.queries.items():
        if query.enabled and not query.together:
            make = partial(_maintenance, reading, name, gateway)
            yield dag_id(name), name, _what(name), make
        if query.enabled and query.savepoint:
            make = partial(_savepoints, query.savepoint, reading, name, gateway)
            yield savepoint_id(name), name, _what(name), make
    for shared, names in groups(reading.queries).items():
        what = f"`together: {shared}` in the queries file is not valid, so none of it is maintained"
        make = partial(_together, reading, shared, names, gateway)
        yield together_id(shared), names[0], what, make


def _built(
    reading: QueriesReading, identity: str, name: str, what: str, make: Callable[[], DAG]
) -> DAG:
    try:
        return make()
    except Exception as error:  # noqa: BLE001 -- one query's mistake must not stop the others
        why = " ".join(str(error).split()) or type(error).__name__
        return _broken(reading, identity, what, [reading.problem_of(name, why)])


def _what(name: str) -> str:
    return f"`{name}` in the queries file is not valid, so it is not maintained"


def _broken(reading: QueriesReading, identity: str, what: str, problems: Iterable[Problem]) -> DAG:
    """Returns a DAG whose page and only task state the mistakes, and that fails every hour.

    It is not paused when it is new, as other DAGs are: a mistake must be noticed, as a failed run.
    It notifies as the queries of the same files do.
    """
    listed = in_order(dict.fromkeys(problems))
    files = {problem.file for problem in listed}
    beside = (source.query for source in reading.sources.values() if source.file.path in files)
    text = f"{what}:\n" + "\n".join(f"- {problem}" for problem in listed)
    with DAG(
        dag_id=identity,
        description=f"NOT VALID: {listed[0]}"[:200],
        doc_md=f"### Not valid\n\n{text}\n\nCheck it with `statemaint queries FILE validate`.",
        schedule="@hourly",
        start_date=START,
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=False,
        on_failure_callback=callbacks_of(beside) or None,
        tags=["statemaint", "statemaint-invalid"],
        default_args={"retries": 0},
    ) as dag:

        @task(task_id="configuration", doc_md=text)
        def configuration() -> None:
            raise AirflowFailException(f"CONFIG: {text}")

        configuration()
    return dag


def _gateway(reading: QueriesReading, environ: Mapping[str, str]) -> tuple[Gateway, list[Problem]]:
    given = environ.get(GATEWAY_VARIABLE)
    if not given:
        return lambda query: reading.settings_of(query).pushgateway, []
    try:
        gateway = must_be_open(given)
    except ValueError as error:
        return lambda _: None, [Problem(0, GATEWAY_VARIABLE, str(error), "the environment")]
    return lambda _: gateway, []


def settings_of(
    reading: QueriesReading, name: str, gateway: Gateway | None = None
) -> QuerySettings:
    """Returns the settings of a query of a file, by default with the environment's Pushgateway."""
    gateway = gateway or _gateway(reading, os.environ)[0]
    file = reading.settings_of(name)
    settings = query_settings(
        name,
        reading.queries[name],
        reading.policy_of(name),
        gateway=gateway(name),
        textfile=file.textfile,
        plans=file.plans,
    )
    return with_metrics(settings, reading)


def _maintenance(reading: QueriesReading, name: str, gateway: Gateway) -> DAG:
    query, settings = reading.queries[name], settings_of(reading, name, gateway)
    with DAG(dag_id=dag_id(name), **dag_arguments(query, settings)) as dag:  # noqa: AIR002 -- they have a schedule
        run_tasks(settings, Terms(timedelta(seconds=query.timeout)))
    return dag


def _savepoints(
    where: SavepointSettings, reading: QueriesReading, name: str, gateway: Gateway
) -> DAG:
    query, settings = reading.queries[name], settings_of(reading, name, gateway)
    arguments = {
        **dag_arguments(query, settings),
        "description": f"Makes savepoints of {name}, and deletes old ones",
        "doc_md": savepoint_document(query, settings, where),
        "schedule": where.schedule,
        "params": savepoint_form(where.to),
        "deadline": None,
        # Without a schedule, a new one runs only when asked to: paused, that run would stay queued.
        "is_paused_upon_creation": None if where.schedule else False,
    }
    with DAG(dag_id=savepoint_id(name), **arguments) as dag:  # noqa: AIR002 -- it has one
        savepoint_tasks(settings, where, timedelta(seconds=query.timeout))
    return dag


def _together(reading: QueriesReading, shared: str, names: Sequence[str], gateway: Gateway) -> DAG:
    query = reading.queries[names[0]]
    settings = [settings_of(reading, name, gateway) for name in names]
    arguments = {
        **dag_arguments(query, settings[0]),
        "description": f"Maintains the state of {len(names)} queries, together: {shared}",
        "doc_md": together_document(shared, names, query),
        "params": together_form(names),
        "tags": sorted({"statemaint"}.union(*(reading.queries[name].tags for name in names))),
        "deadline": deadline(shared, query),
    }
    with DAG(dag_id=together_id(shared), **arguments) as dag:  # noqa: AIR002 -- they have a schedule
        together_tasks(shared, settings)
    return dag


def dag_arguments(query: Query, settings: QuerySettings) -> dict[str, Any]:
    """Returns the arguments of the DAG that maintains a query, except its id."""
    return {
        "description": f"Maintains the state of {settings.query}",
        "doc_md": document(query, settings),
        "schedule": _schedule(query),
        "start_date": START,
        "catchup": False,
        "max_active_runs": 1,
        "params": form(settings.policy, settings.engine),
        "tags": sorted({"statemaint", *query.tags}),
        "default_args": task_arguments(query),
        "on_failure_callback": [resolve(notifier) for notifier in query.notify] or None,
        "deadline": deadline(settings.query, query),
    }


def _schedule(query: Query) -> Any:
    if query.after is None:
        return query.schedule
    after: Any = Asset.ref(name=query.after)
    if "://" in query.after:  # as a URI it has Airflow's own spelling, with a slash after the host
        after = AssetAny(after, Asset.ref(uri=Asset(query.after).uri))
    if query.schedule is None:
        return after
    timetable = CronTriggerTimetable(query.schedule, timezone="UTC")
    return AssetOrTimeSchedule(timetable=timetable, assets=after)


def task_arguments(query: Query) -> dict[str, Any]:
    """Returns the arguments of every task of a query."""
    if query.executor:
        ExecutorLoader.lookup_executor_name_by_str(query.executor)  # raises if there is none
    chosen = {"owner": query.owner, "queue": query.queue, "executor": query.executor}
    return {
        "pool": query.pool,
        "priority_weight": query.priority,
        "execution_timeout": timedelta(seconds=query.timeout),
        "retries": query.retries,
        "retry_delay": timedelta(seconds=query.retry_delay),
        "retry_exponential_backoff": 2.0,
        "max_retry_delay": max(_LONGEST_DELAY, timedelta(seconds=query.retry_delay)),
        **{name: value for name, value in chosen.items() if value},
    }
