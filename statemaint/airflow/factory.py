"""From the queries file to DAGs: `plan` -> mapped `maintain` -> `report`, for each query."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from airflow.sdk import DAG, Asset, Param, get_current_context, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from croniter import croniter  # type: ignore[import-untyped]

from statemaint.airflow import tasks
from statemaint.airflow.bundles import Bundle
from statemaint.airflow.names import GATEWAY_VARIABLE, asset_uri, dag_id
from statemaint.airflow.tasks import Failure, Options, QuerySettings
from statemaint.errors import ConfigError
from statemaint.maintain import Holder
from statemaint.model.policy import Policy, duration
from statemaint.queries import QueriesFile, Query, load_queries, must_be_open

_REPORT = "report"  # the key under which each task passes on its summary
# Schedules start here; with `catchup` off, missed runs are not made up.
_START = datetime(2026, 1, 1, tzinfo=UTC)


def build_dags(path: str | Path, *, environ: Mapping[str, str] = os.environ) -> dict[str, DAG]:
    """Returns a DAG for each query of a file, by its id.

    Reads only the file: no storage, no connection, no Variable.

    Args:
        path: the queries file.
        environ: the environment in which STATEMAINT_PUSHGATEWAY is looked up.

    Raises:
        ConfigError: naming the error in the file, in one line.
    """
    file = load_queries(path)
    for name, query in file.queries.items():
        _must_be_cron(path, name, query.schedule)
    built = {name: _settings(file, name, environ) for name in file.queries}
    return {dag_id(name): _dag(file.queries[name], settings) for name, settings in built.items()}


def _must_be_cron(path: str | Path, name: str, schedule: str | None) -> None:
    if schedule and not schedule.startswith("@") and not croniter.is_valid(schedule):
        raise ConfigError(
            f"{path}: queries.{name}.schedule: {schedule!r} is not a valid cron expression"
        )


def _settings(file: QueriesFile, name: str, environ: Mapping[str, str]) -> QuerySettings:
    query = file.queries[name]
    return QuerySettings(
        query=name,
        checkpoint=query.checkpoint,
        policy=file.policy_of(name),
        connection=query.connection,
        max_tasks=query.max_tasks,
        gateway=_gateway(environ) or file.pushgateway,
        textfile=Path(file.textfile) if file.textfile else None,
    )


def _gateway(environ: Mapping[str, str]) -> str | None:
    given = environ.get(GATEWAY_VARIABLE)
    try:
        return must_be_open(given) if given else None
    except ValueError as error:
        raise ConfigError(f"{GATEWAY_VARIABLE}: {error}") from None


def _dag(query: Query, settings: QuerySettings) -> DAG:
    with DAG(
        dag_id=dag_id(settings.query),
        description=f"Maintains the state of {settings.query}",
        doc_md=_document(query, settings),
        schedule=query.schedule,
        start_date=_START,
        catchup=False,
        max_active_runs=1,
        params=_form(settings.policy),
        tags=sorted({"statemaint", *query.tags}),
        default_args={"retries": query.retries},
    ) as dag:
        mapped = _maintain_task(settings).expand(bundle=_plan_task(settings)())
        # A teardown runs whatever the outcome of the units, and never decides a run's state: the
        # run fails when a unit fails, although the report, its last task, succeeds.
        mapped >> _report_task(settings)().as_teardown()
    return dag


def _plan_task(settings: QuerySettings) -> Any:
    @task(task_id="plan", doc_md="Fixes the target version; finds the partitions with work.")
    def plan() -> list[dict[str, Any]]:
        planned = tasks.plan_query(settings, _options(), _holder())
        if planned.failure:
            _fail(planned.failure)
        return [bundle.to_json() for bundle in planned.bundles]

    return plan


def _maintain_task(settings: QuerySettings) -> Any:
    @task(
        task_id="maintain",
        show_return_value_in_logs=False,
        map_index_template="{{ task.op_kwargs['bundle']['label'] }}",
        doc_md="Snapshots and cleans up the partitions that its name says.",
    )
    def maintain(bundle: dict[str, Any]) -> None:
        context = get_current_context()
        run = context["run_id"]
        done = tasks.maintain_bundle(settings, Bundle.from_json(bundle), _options(), run=run)
        # Passed on before the task may fail: a failed task returns nothing.
        if done.summary:
            context["ti"].xcom_push(_REPORT, done.summary)
        if done.failure:
            _fail(done.failure)

    return maintain


def _report_task(settings: QuerySettings) -> Any:
    event = Asset(asset_uri(settings.query))

    @task(task_id="report", outlets=[event], doc_md="Adds up what the partitions came to.")
    def report() -> None:
        context = get_current_context()
        options = _options()
        listed = context["ti"].xcom_pull(task_ids="plan")
        found = context["ti"].xcom_pull(task_ids=["maintain"], key=_REPORT)
        planned = [Bundle.from_json(one) for one in listed or ()]
        summaries = [one for one in found if one is not None]
        extra = tasks.finish(settings, planned, summaries, options)
        if options.dry_run or listed is None:
            # Nothing was maintained, so no event is sent.
            context["task"].outlets.clear()
        else:
            context["outlet_events"][event].extra = extra

    return report


def _options() -> Options:
    return Options.of(get_current_context()["params"])


def _holder() -> Holder:
    """Returns a new holder of the lease, for the tasks of this attempt at the run.

    Two DAGs with one schedule have runs with the same id, and two installations have DAGs with the
    same id; no two runs have the same start time.
    """
    context = get_current_context()
    run = context["dag_run"]
    name = f"{run.dag_id}/{run.run_id}, begun {run.start_date}"
    return Holder(name, attempt=context["ti"].try_number)


def _fail(failure: Failure) -> NoReturn:
    if failure.retry:
        raise AirflowException(failure.reason)
    raise AirflowFailException(failure.reason)


def _form(policy: Policy) -> dict[str, Param]:
    return {
        "dry_run": Param(
            False,
            type="boolean",
            title="Dry run",
            description_md="Only show in the tasks' logs what would be done; write nothing.",
        ),
        "force_snapshot": Param(
            False,
            type="boolean",
            title="Force a snapshot",
            description_md="Snapshot every partition at the target, however short its chain is.",
        ),
        "min_deltas_for_snapshot": _count(
            "Deltas before a snapshot",
            "Snapshot chains with more deltas than this.",
            policy.min_deltas_for_snapshot,
        ),
        "min_batches_to_retain": _count(
            "Batches to retain",
            "Number of versions below the target that stay loadable.",
            policy.min_batches_to_retain,
        ),
    }


def _count(title: str, text: str, default: int) -> Param:
    return Param(
        None,
        type=["null", "integer"],
        minimum=1,
        title=title,
        description_md=f"{text} Empty: {default}, as the queries file says.",
    )


def _document(query: Query, settings: QuerySettings) -> str:
    policy = settings.policy
    verify = "on" if policy.verify else "**off**, so nothing is deleted"
    return f"""\
### State of `{settings.query}`

Snapshots long chains of `{query.checkpoint}` and deletes what no retained version needs.

| setting | value |
|---|---|
| `min_deltas_for_snapshot` | {policy.min_deltas_for_snapshot} |
| `min_batches_to_retain` | {policy.min_batches_to_retain} |
| `grace` | {duration(policy.grace)} |
| `orphan_age` | {duration(policy.orphan_age)} |
| `rebase` | {"on" if policy.rebase else "off"} |
| `max_deletes_per_run` | {policy.max_deletes_per_run} |
| `trash_for` | {duration(policy.trash_for)} |
| `verify` | {verify} |

`plan` fixes the version that all partitions are snapshotted at, `maintain` runs once for each
partition with work, `report` adds up. A damaged partition fails its own task, with the reason in
its log; the others go on. Trigger with a configuration for a dry run or a forced snapshot.
"""
