"""From the queries file to DAGs: `plan` -> mapped `maintain` -> `report`, for each query."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
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
)

from statemaint.airflow.broken import START, broken_dag
from statemaint.airflow.callbacks import callbacks_of, deadline, failure_callbacks
from statemaint.airflow.form import (
    document,
    form,
    savepoint_document,
    savepoint_form,
    together_document,
    together_form,
)
from statemaint.airflow.given import Outputs
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
from statemaint.airflow.run_tasks import Terms, run_tasks
from statemaint.airflow.savepoints import savepoint_tasks
from statemaint.airflow.settings import QuerySettings
from statemaint.airflow.together import together_tasks
from statemaint.metrics.options import Named, Targets
from statemaint.model.policy import Policy
from statemaint.queries.checks import must_be_open
from statemaint.queries.merged import groups
from statemaint.queries.models import Query, SavepointSettings, SparkSettings
from statemaint.queries.problems import Problem
from statemaint.queries.reading import QueriesReading, in_order

# The delays between attempts double up to this.
_LONGEST_DELAY = timedelta(hours=1)
# The address of the Pushgateway of a query.
Gateway = Callable[[str], str | None]


def build_dags(path: str | Path, *, environ: Mapping[str, str] = os.environ) -> dict[str, DAG]:
    """Returns a DAG for each query of a file, by its id; never raises.

    An invalid entry has one DAG that shows why and fails. One more shows the mistakes outside of
    entries, and those of entries whose last good version goes on. Reads no storage, no connection.

    A process that runs one task builds the DAG of that task only.

    Args:
        path: the queries file.
        environ: the environment that may contain STATEMAINT_PUSHGATEWAY.
    """
    requested = get_parsing_context().dag_id
    builders = _builders(queries_reader(path, environ=environ).read(), environ)
    return {name: build() for name, build in builders.items() if requested in (None, name)}


def _builders(reading: QueriesReading, environ: Mapping[str, str]) -> dict[str, Callable[[], DAG]]:
    gateway, wrong = _gateway(reading, environ)
    builders: dict[str, Callable[[], DAG]] = {
        dag_id(name): partial(_dag, reading, name, gateway, dag_id(name), _maintenance)
        for name, query in reading.queries.items()
        if query.enabled and not query.together
    }
    builders |= {
        savepoint_id(name): partial(
            _dag, reading, name, gateway, savepoint_id(name), partial(_savepoints, query.savepoint)
        )
        for name, query in reading.queries.items()
        if query.enabled and query.savepoint
    }
    for shared, names in groups(reading.queries).items():
        builders[together_id(shared)] = partial(_together, reading, shared, names, gateway)
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


def _broken(reading: QueriesReading, name: str, what: str, problems: Iterable[Problem]) -> DAG:
    """Returns the DAG of mistakes, which notifies as the queries of the same files do."""
    listed = in_order(dict.fromkeys(problems))
    files = {one.file for one in listed}
    beside = (one.query for one in reading.sources.values() if one.file.path in files)
    return broken_dag(name, what, [str(one) for one in listed], callbacks_of(beside))


def _what(name: str) -> str:
    return f"`{name}` in the queries file is not valid, so it is not maintained"


def _gateway(reading: QueriesReading, environ: Mapping[str, str]) -> tuple[Gateway, list[Problem]]:
    given = environ.get(GATEWAY_VARIABLE)
    if not given:
        return lambda query: reading.settings_of(query).pushgateway, []
    try:
        gateway = must_be_open(given)
    except ValueError as error:
        return lambda _: None, [Problem(0, GATEWAY_VARIABLE, str(error), "the environment")]
    return lambda _: gateway, []


def _dag(
    reading: QueriesReading,
    name: str,
    gateway: Gateway,
    identity: str,
    make: Callable[[Query, QuerySettings], DAG],
) -> DAG:
    try:
        return make(reading.queries[name], _settings(reading, name, gateway))
    except Exception as error:  # noqa: BLE001 -- one query's mistake must not stop the others
        why = " ".join(str(error).split()) or type(error).__name__
        problem = reading.problem_of(name, why)
        return _broken(reading, identity, _what(name), [problem])


def _together(reading: QueriesReading, shared: str, names: Sequence[str], gateway: Gateway) -> DAG:
    query, identity = reading.queries[names[0]], together_id(shared)
    try:
        settings = [_settings(reading, one, gateway) for one in names]
        arguments = {
            **dag_arguments(query, settings[0]),
            "description": f"Maintains the state of {len(names)} queries, together: {shared}",
            "doc_md": together_document(shared, names, query),
            "params": together_form(names),
            "tags": sorted({"statemaint"}.union(*(reading.queries[one].tags for one in names))),
            "deadline": deadline(shared, query),
        }
        with DAG(dag_id=identity, **arguments) as dag:  # noqa: AIR002 -- they have a schedule
            together_tasks(shared, settings)
    except Exception as error:  # noqa: BLE001 -- as above
        why = " ".join(str(error).split()) or type(error).__name__
        problem = reading.problem_of(names[0], why)
        what = f"`together: {shared}` in the queries file is not valid, so none of it is maintained"
        return _broken(reading, identity, what, [problem])
    return dag


def settings_of(reading: QueriesReading, name: str) -> QuerySettings:
    """Returns the settings of a query of a file for a task, with the environment's Pushgateway."""
    return _settings(reading, name, _gateway(reading, os.environ)[0])


def _settings(reading: QueriesReading, name: str, gateway: Gateway) -> QuerySettings:
    file = reading.settings_of(name)
    outputs = Outputs(gateway(name), file.textfile, file.plans)
    settings = query_settings(name, reading.queries[name], reading.policy_of(name), outputs)
    return with_metrics(settings, reading)


def query_settings(name: str, query: Query, policy: Policy, outputs: Outputs) -> QuerySettings:
    logs = Path(conf.get_mandatory_value("logging", "base_log_folder"))
    return QuerySettings(
        query=name,
        checkpoint=query.checkpoint,
        policy=policy,
        connection=query.connection,
        max_tasks=query.max_tasks,
        engine=query.engine,
        spark=query.spark or SparkSettings(),
        plans=Path(outputs.plans) if outputs.plans else logs / "statemaint_plans",
        schedule=query.schedule,
        named=Named(
            name,
            savepoint_interval=query.savepoint_interval,
            every_unit=query.detail == "partition",
        ),
        targets=Targets(
            outputs.gateway, textfile=Path(outputs.textfile) if outputs.textfile else None
        ),
    )


def _maintenance(query: Query, settings: QuerySettings) -> DAG:
    with DAG(dag_id=dag_id(settings.query), **dag_arguments(query, settings)) as dag:  # noqa: AIR002 -- they have a schedule
        run_tasks(settings, Terms(timedelta(seconds=query.timeout)))
    return dag


def _savepoints(where: SavepointSettings, query: Query, settings: QuerySettings) -> DAG:
    arguments = {
        **dag_arguments(query, settings),
        "description": f"Makes savepoints of {settings.query}, and deletes old ones",
        "doc_md": savepoint_document(query, settings, where),
        "schedule": where.schedule,
        "params": savepoint_form(where.to),
        "deadline": None,
    }
    with DAG(dag_id=savepoint_id(settings.query), **arguments) as dag:  # noqa: AIR002 -- it has one
        savepoint_tasks(settings, where, timedelta(seconds=query.timeout))
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
        "params": form(settings.policy),
        "tags": sorted({"statemaint", *query.tags}),
        "default_args": task_arguments(query),
        "on_failure_callback": failure_callbacks(query) or None,
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
    return dict(_arguments(query))


def _arguments(query: Query) -> Iterator[tuple[str, Any]]:
    yield "pool", query.pool
    yield "priority_weight", query.priority
    yield "execution_timeout", timedelta(seconds=query.timeout)
    yield "retries", query.retries
    yield "retry_delay", timedelta(seconds=query.retry_delay)
    yield "retry_exponential_backoff", 2.0
    yield "max_retry_delay", max(_LONGEST_DELAY, timedelta(seconds=query.retry_delay))
    if query.owner:
        yield "owner", query.owner
    if query.queue:
        yield "queue", query.queue
    if query.executor:
        ExecutorLoader.lookup_executor_name_by_str(query.executor)  # raises if there is none
        yield "executor", query.executor
