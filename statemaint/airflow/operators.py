"""The three tasks of a query's DAG: what Airflow runs, around the work in `tasks`."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from airflow.sdk import Asset, get_current_context, task
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSkipException,
    DownstreamTasksSkipped,
)

from statemaint.airflow import tasks
from statemaint.airflow.bundles import Bundle
from statemaint.airflow.names import NOTE, asset_uri
from statemaint.airflow.settings import Failure, Options, QuerySettings, unknown_options
from statemaint.maintain import Holder

# The keys under which the tasks pass on what they found, beside `plan`'s list of bundles.
_DECIDED, _HANDOVER, _FAILURE = "decided", "handover", "failure"
_REPORT, _COSTS = "report", "costs"
_FIRST_WAIT, _LONGEST_WAIT = timedelta(seconds=5), timedelta(minutes=5)


def plan_task(settings: QuerySettings, waits: timedelta) -> Any:
    """Returns the task `plan`; it waits at most so long for the lease of another run."""

    @task(task_id="plan", doc_md="Fixes the target version; finds the partitions with work.")
    def plan() -> list[dict[str, Any]]:
        context = get_current_context()
        push = context["ti"].xcom_push
        if unknown := unknown_options(context["dag_run"].conf):
            push(_FAILURE, unknown.reason)
            _fail(unknown)
        options, costs = _options(), _last_costs()
        run = context["run_id"]
        planned = tasks.plan_query(settings, options, _holder(), run=run, costs=costs)
        if planned.held:
            _wait(planned.held, waits)
        if planned.note:
            push(NOTE, planned.note)
        push(_DECIDED, tasks.decided_json(planned.decided))
        if planned.failure:
            push(_FAILURE, planned.failure.reason)
            _fail(planned.failure)
        if options.dry_run:
            raise DownstreamTasksSkipped(tasks=["maintain", "report"])  # type: ignore[no-untyped-call]
        if planned.handover:
            push(_HANDOVER, planned.handover)
        return [bundle.to_json() for bundle in planned.bundles]

    return plan


def maintain_task(settings: QuerySettings) -> Any:
    """Returns the task `maintain`, to be mapped over the bundles of `plan`."""

    @task(
        task_id="maintain",
        show_return_value_in_logs=False,
        map_index_template="{{ task.op_kwargs['bundle']['label'] }}",
        doc_md="Snapshots and cleans up the partitions that its name says.",
    )
    def maintain(bundle: dict[str, Any]) -> None:
        context = get_current_context()
        handover = context["ti"].xcom_pull(task_ids="plan", key=_HANDOVER)
        done = tasks.maintain_bundle(
            settings,
            Bundle.from_json(bundle),
            _options(),
            run=context["run_id"],
            handover=handover,
        )
        # Passed on before the task may fail: a failed task returns nothing.
        if done.summary:
            context["ti"].xcom_push(_REPORT, done.summary)
        if done.failure:
            _fail(done.failure)

    return maintain


def report_task(settings: QuerySettings) -> Any:
    """Returns the task `report`, which must run whatever became of the others."""
    event = Asset(asset_uri(settings.query))

    @task(
        task_id="report",
        outlets=[event],
        show_return_value_in_logs=False,
        doc_md="Adds up what the partitions came to.",
    )
    def report() -> dict[str, Any]:
        context = get_current_context()
        if _options().dry_run:
            raise AirflowSkipException("DRY RUN: there is nothing to report")
        ti = context["ti"]
        planned = [Bundle.from_json(one) for one in ti.xcom_pull(task_ids="plan") or ()]
        summaries = _present(ti.xcom_pull(task_ids=["maintain"], key=_REPORT))
        decided = ti.xcom_pull(task_ids="plan", key=_DECIDED)
        failure = ti.xcom_pull(task_ids="plan", key=_FAILURE)
        found = tasks.finish(
            settings,
            planned,
            summaries,
            decided=tasks.Decided(**decided) if decided else None,
            failure=failure,
        )
        ti.xcom_push(NOTE, found["note"])
        if planned:
            ti.xcom_push(_COSTS, tasks.run_costs(planned, summaries))
        if found["maintained"]:
            context["outlet_events"][event].extra = found
        else:
            # Nothing was changed, or not everything went well, so no event is sent.
            context["task"].outlets.clear()
        return found

    return report


def _present(found: Iterable[Any] | None) -> list[Any]:
    return [one for one in found or () if one is not None]


def _options() -> Options:
    return Options.of(get_current_context()["params"])


def _last_costs() -> dict[str, float]:
    """Returns how slow each partition was in the last run that had work."""
    ti = get_current_context()["ti"]
    found = ti.xcom_pull(task_ids="report", key=_COSTS, include_prior_dates=True)
    return found if isinstance(found, dict) else {}


def _holder() -> Holder:
    """Returns a new holder of the lease, for the tasks of this attempt at the run.

    Two DAGs with one schedule have runs with the same id, and two installations have DAGs with the
    same id; no two runs have the same start time.
    """
    context = get_current_context()
    run = context["dag_run"]
    name = f"{run.dag_id}/{run.run_id}, begun {run.start_date}"
    return Holder(name, attempt=context["ti"].try_number)


def _wait(held: str, most: timedelta) -> NoReturn:
    """Ends this attempt, to look again later: each wait is twice as long as the one before.

    Waiting takes no worker and no slot of the pool, and is no retry.
    """
    context = get_current_context()
    now = datetime.now(UTC)
    first = context["ti"].get_first_reschedule_date(context) or now
    if now - first > most:
        raise AirflowFailException(f"{held}; gave up after {most}")
    waits = int(context.get("task_reschedule_count", 0) or 0)
    delay = min(_FIRST_WAIT * 2 ** min(waits, 10), _LONGEST_WAIT)
    tasks.log_waiting(held, delay)
    raise AirflowRescheduleException(now + delay)  # type: ignore[no-untyped-call]


def _fail(failure: Failure) -> NoReturn:
    if failure.retry:
        raise AirflowException(failure.reason)
    raise AirflowFailException(failure.reason)
