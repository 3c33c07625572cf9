"""From the queries file to DAGs: `plan` -> mapped `maintain` -> `report`, for each query."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from airflow.configuration import conf
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
from airflow.sdk.definitions.timetables.simple import OnceTimetable
from airflow.sdk.exceptions import AirflowFailException

from statemaint.airflow import form, names
from statemaint.airflow.callbacks import callbacks_of, deadline
from statemaint.airflow.location import queries_reader
from statemaint.airflow.run_tasks import Terms, run_tasks, together_tasks
from statemaint.airflow.savepoints import savepoint_tasks
from statemaint.airflow.settings import QuerySettings, query_settings
from statemaint.metrics.options import GatewayAuth, Targets, origins_of
from statemaint.queries.checks import must_be_open
from statemaint.queries.merged import groups
from statemaint.queries.models import Query, SavepointSettings
from statemaint.queries.problems import Problem, resolve
from statemaint.queries.reading import QueriesReading, in_order

START = datetime(2026, 1, 1, tzinfo=UTC)
"""Schedules start here; with `catchup` off, missed runs are not made up."""
# The delays between attempts double up to this.
_LONGEST_DELAY = timedelta(hours=1)

Made = tuple[dict[str, Any], Callable[[], object]]
"""The arguments of a DAG, but for its id, and the function that adds its tasks."""
Maker = Callable[[], Made]


def build_dags(path: str | Path) -> dict[str, DAG]:
    """Returns a DAG for each query of a file, by its id; never raises.

    An invalid entry has one DAG that shows why and fails. One more shows the mistakes outside of
    entries, and those of entries whose last good version goes on. Reads no storage, no connection.

    A process that runs one task builds the DAG of that task only.
    """
    requested = get_parsing_context().dag_id
    builders = _builders(queries_reader(path).read())
    return {name: build() for name, build in builders.items() if requested in (None, name)}


def _builders(reading: QueriesReading) -> dict[str, Callable[[], DAG]]:
    builders: dict[str, Callable[[], DAG]] = {
        identity: partial(_built, reading, identity, name, what, make)
        for identity, name, what, make in _makers(reading)
    }
    others: list[Problem] = []
    for entry in reading.broken:
        name = names.broken_dag_id(entry.name)
        if entry.kept or name in builders:
            others += entry.problems
        else:
            builders[name] = partial(_broken, reading, name, _what(entry.name), entry.problems)
    if others := [*others, *reading.problems, *_gateway()[1]]:
        what = f"The queries file {reading.path} has mistakes"
        builders[names.FILE_DAG] = partial(_broken, reading, names.FILE_DAG, what, others)
    return builders


def _makers(reading: QueriesReading) -> Iterator[tuple[str, str, str, Maker]]:
    """Yields each DAG's id, a query of it, what is wrong if it cannot be made, and its maker."""
    for name, query in reading.queries.items():
        if query.enabled and not query.together:
            yield names.dag_id(name), name, _what(name), partial(_maintenance, reading, name)
        if query.enabled and query.savepoint:
            make = partial(_savepoints, query.savepoint, reading, name)
            yield names.savepoint_id(name), name, _what(name), make
    for shared, members in groups(reading.queries).items():
        what = f"`together: {shared}` in the queries file is not valid, so none of it is maintained"
        make = partial(_together, reading, shared, members)
        yield names.together_id(shared), members[0], what, make


def _built(reading: QueriesReading, identity: str, name: str, what: str, make: Maker) -> DAG:
    try:
        arguments, add_tasks = make()
        with DAG(dag_id=identity, **arguments) as dag:  # noqa: AIR002 -- they have a schedule
            add_tasks()
    except Exception as error:  # noqa: BLE001 -- one query's mistake must not stop the others
        why = " ".join(str(error).split()) or type(error).__name__
        return _broken(reading, identity, what, [reading.problem_of(name, why)])
    return dag


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


def _gateway() -> tuple[str | None, list[Problem]]:
    """Returns the environment's Pushgateway, and what is wrong with it."""
    given = os.environ.get(names.GATEWAY_VARIABLE)
    try:
        return given and must_be_open(given), []
    except ValueError as error:
        return None, [Problem(0, names.GATEWAY_VARIABLE, str(error), "the environment")]


def settings_of(reading: QueriesReading, name: str) -> QuerySettings:
    query, file = reading.queries[name], reading.settings_of(name)
    origin, former = origins_of(os.environ, conf.get("api", "base_url", fallback=""), reading.path)
    known, detailed = reading.names_for_pruning(name)
    default = Path(reading.path).with_name(names.QUERIES_FILE)
    whole = os.environ.get(names.QUERIES_VARIABLE) or str(default)
    if origin != former and whole != reading.path:
        known = None  # other files of the same origin may have the other queries
    auth = file.pushgateway_auth
    return query_settings(
        name,
        query,
        reading.policy_of(name),
        Targets(
            _gateway()[0] if os.environ.get(names.GATEWAY_VARIABLE) else file.pushgateway,
            GatewayAuth(**auth.model_dump()) if auth else GatewayAuth(),
            Path(file.textfile) if file.textfile else None,
            known,
            detailed,
        ),
        plans=file.plans,
        dag=names.together_id(query.together) if query.together else names.dag_id(name),
        origin=origin,
        former=former,
        routing=reading.routing_of(name),
    )


def _maintenance(reading: QueriesReading, name: str) -> Made:
    query, settings = reading.queries[name], settings_of(reading, name)
    terms = Terms(timedelta(seconds=query.timeout))
    return dag_arguments(query, settings), partial(run_tasks, settings, terms)


def _savepoints(where: SavepointSettings, reading: QueriesReading, name: str) -> Made:
    query, settings = reading.queries[name], settings_of(reading, name)
    arguments = {
        **dag_arguments(query, settings),
        "description": f"Makes savepoints of {name}, and deletes old ones",
        "doc_md": form.savepoint_document(query, settings, where),
        "schedule": where.schedule,
        "params": form.savepoint_form(where.to),
        "deadline": None,
        # Without a schedule, a new one runs only when asked to: paused, that run would stay queued.
        "is_paused_upon_creation": None if where.schedule else False,
    }
    waits = timedelta(seconds=query.timeout)
    return arguments, partial(savepoint_tasks, settings, where, waits)


def _together(reading: QueriesReading, shared: str, members: Sequence[str]) -> Made:
    query, settings = reading.queries[members[0]], [settings_of(reading, name) for name in members]
    arguments = {
        **dag_arguments(query, settings[0]),
        "description": f"Maintains the state of {len(members)} queries, together: {shared}",
        "doc_md": form.together_document(shared, members, query),
        "params": form.together_form(members),
        "tags": sorted({"statemaint"}.union(*(reading.queries[name].tags for name in members))),
        "deadline": deadline(shared, query),
    }
    return arguments, partial(together_tasks, shared, settings)


def dag_arguments(query: Query, settings: QuerySettings) -> dict[str, Any]:
    return {
        "description": f"Maintains the state of {settings.query}",
        "doc_md": form.document(query, settings),
        "schedule": _schedule(query),
        "start_date": START,
        "catchup": False,
        "max_active_runs": 1,
        "params": form.form(settings.policy, settings.engine),
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
    timetable = (
        OnceTimetable()
        if query.schedule == "@once"  # no cron expression
        else CronTriggerTimetable(query.schedule, timezone="UTC")
    )
    return AssetOrTimeSchedule(timetable=timetable, assets=after)


def task_arguments(query: Query) -> dict[str, Any]:
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
