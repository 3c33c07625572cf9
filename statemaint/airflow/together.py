"""The three tasks of a DAG that maintains several queries in one Spark program.

`plan` and `report` do for each query, one by one, what they do in the DAG of one query. `spark` has
the bundles of all of them. Each XCom is of one query, by its key (`names.of_query`).
"""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, get_current_context, task
from airflow.sdk.exceptions import AirflowSkipException, DownstreamTasksSkipped

from statemaint.airflow import on_spark, tasks
from statemaint.airflow.advice import cut, is_damaged, note_of_queries
from statemaint.airflow.endings import fail, update_assets
from statemaint.airflow.figures import figures_of_run
from statemaint.airflow.links import links
from statemaint.airflow.names import COSTS, NOTE, asset_uri, findings_uri, of_query
from statemaint.airflow.publish import publish_held
from statemaint.airflow.reporting import all_reporting, reporting
from statemaint.airflow.run_tasks import HANDOVER, PLANNED, REPORT, holder_of, results_of
from statemaint.airflow.settings import Options, QuerySettings, unknown_options
from statemaint.airflow.spark_program import OnKill, start_spark
from statemaint.airflow.tasks import Planned
from statemaint.execute.lease import QUIET
from statemaint.maintain.work import TaskResults
from statemaint.records.claims import Holder
from statemaint.report.task import Failure, dumped

if TYPE_CHECKING:
    from statemaint.metrics.tasks import Progress

_log = logging.getLogger(__name__)

# A run that concerns some of the queries names them.
QUERIES = "queries"
# The fields of a run's form; parts of a checkpoint, and another engine, need a query's own DAG.
OPTIONS = (
    "dry_run",
    "force_snapshot",
    "min_deltas_for_snapshot",
    "min_batches_to_retain",
    QUERIES,
)
# Plans are mostly requests to a storage. Those of a dry run log many lines, kept apart.
_AT_A_TIME = 8


def together_tasks(shared: str, queries: Sequence[QuerySettings]) -> None:
    """Adds the tasks to the current DAG."""
    planned, spark = _plan_task(queries)(), _spark_task(shared, queries)()
    report = _report_task(queries)().as_teardown()
    planned >> spark >> report
    for part in (planned, spark, report):
        part.operator.operator_extra_links = links()


def _plan_task(queries: Sequence[QuerySettings]) -> Any:
    @task(task_id="plan", doc_md="Plans each query: its target version, its partitions with work.")
    def plan() -> None:
        context = get_current_context()
        push = context["ti"].xcom_push
        chosen, options = _chosen(queries), Options.of(context["params"])
        with all_reporting(chosen, "plan", first=True) as progress:
            plans = dict(zip((one.query for one in chosen), _plans(chosen, options), strict=True))
            _note_failures(progress, {name: one.failure for name, one in plans.items()})
        for query, planned in plans.items():
            for key, value in _passed_by_plan(planned):
                push(of_query(key, query), value)
        failures = {name: one.failure for name, one in plans.items() if one.failure}
        if options.dry_run:
            push(NOTE, cut([f"{name}: {_dry_note(one)}" for name, one in plans.items()]))
            if failure := _failed(failures):
                fail(failure)
            raise DownstreamTasksSkipped(tasks=["spark", "report"])  # type: ignore[no-untyped-call]
        # This attempt has no work: another one loses nothing, and may succeed.
        if len(failures) == len(plans) and (failure := _failed(failures)) and failure.retry:
            fail(failure)

    return plan


def _note_failures(
    progress: Mapping[str, "Progress"], failures: Mapping[str, Failure | None]
) -> None:
    for query, failure in failures.items():
        progress[query].failed = failure is not None


def _dry_note(planned: Planned) -> str:
    return planned.note or (planned.failure.reason if planned.failure else "")


def _chosen(queries: Sequence[QuerySettings]) -> list[QuerySettings]:
    """Returns the queries of this run; fails it if its configuration is wrong."""
    context = get_current_context()
    if unknown := unknown_options(context["dag_run"].conf, OPTIONS):
        fail(unknown)
    names = context["params"].get(QUERIES) or [one.query for one in queries]
    settings = {one.query: one for one in queries}
    if strange := sorted(set(names) - set(settings)):
        listed = ", ".join(strange)
        fail(Failure(f"CONFIG: the DAG does not maintain {listed}, but {', '.join(settings)}"))
    return [one for one in queries if one.query in names]


def _plans(queries: Sequence[QuerySettings], options: Options) -> Iterable[Planned]:
    context = get_current_context()
    dag, run, ti = context["dag_run"].dag_id, str(context["dag_run"].run_id), context["ti"]

    def costs(query: str) -> Mapping[str, float]:
        key = of_query(COSTS, query)
        stored = ti.xcom_pull(task_ids="report", key=key, include_prior_dates=True)
        return stored if isinstance(stored, dict) else {}

    # Requests to Airflow are made here; threads only make requests to storages.
    requests = [(one, holder_of(dag), costs(one.query)) for one in queries]
    plan = partial(_plan, options=options, run=run)
    with ThreadPoolExecutor(1 if options.dry_run else _AT_A_TIME) as pool:
        plans = list(pool.map(plan, requests))
        if any(one.held for one in plans):
            # No run gets a lease in the first seconds after another has ended it.
            time.sleep(QUIET + 1)
            again = zip(requests, plans, strict=True)
            plans = list(pool.map(lambda one: plan(one[0]) if one[1].held else one[1], again))
    return [_not_held(one, planned) for one, planned in zip(queries, plans, strict=True)]


def _plan(
    request: tuple[QuerySettings, Holder, Mapping[str, float]], *, options: Options, run: str
) -> Planned:
    settings, holder, costs = request
    try:
        return tasks.plan_query(settings, options, holder, run=run, costs=costs)
    except Exception as error:  # noqa: BLE001 -- one query must not stop the others (S16)
        return Planned(failure=_fault(settings, error))


def _fault(settings: QuerySettings, error: Exception) -> Failure:
    _log.error("%s", settings.query, exc_info=error)
    return replace(Failure.of(error), retry=False)


def _not_held(settings: QuerySettings, planned: Planned) -> Planned:
    """Returns the plan of a query; it fails if another run holds the lease, until the next run."""
    if planned.held is None:
        return planned
    publish_held(settings)
    return replace(planned, failure=Failure(planned.held))


def _passed_by_plan(planned: Planned) -> Iterator[tuple[str, Any]]:
    yield from planned.shown.items()
    yield PLANNED, dumped(planned.results())
    if planned.bundles and planned.handover:
        yield HANDOVER, planned.handover


def _spark_task(shared: str, queries: Sequence[QuerySettings]) -> Any:
    @task(
        task_id="spark",
        show_return_value_in_logs=False,
        doc_md="Maintains the partitions of all queries in one Spark program.",
    )
    def spark() -> None:
        context = get_current_context()
        ti = context["ti"]
        chosen, options = _chosen(queries), Options.of(context["params"])
        plans = {one.query: _results(one.query) for one in chosen}
        run = str(context["dag_run"].run_id)
        works = []
        for settings in chosen:
            if planned := plans[settings.query].planned:
                handover = _pulled(HANDOVER, settings.query)
                order = options.order(settings, planned, run=run, handover=handover)
                works.append((settings, order))
        with all_reporting([settings for settings, _ in works]) as progress:
            start = shared_start(shared, partial(setattr, context["task"], "on_kill"))
            done = on_spark.maintain_queries(works, attempt=ti.try_number, start=start)
            for query, (reports, _) in done.items():
                progress[query].add_reports(reports)
            _note_failures(progress, {query: failure for query, (_, failure) in done.items()})
        for query, (reports, _) in done.items():
            ti.xcom_push(of_query(REPORT, query), [dumped(report) for report in reports])
        unplanned = {name: Failure(one.failure) for name, one in plans.items() if one.failure}
        failed = {name: failure for name, (_, failure) in done.items() if failure}
        if failure := _failed({**unplanned, **failed}):
            fail(failure)
        if not works:
            raise AirflowSkipException("no query has work")

    return spark


def shared_start(shared: str, on_kill: OnKill) -> on_spark.Start:
    """Returns a function that runs Spark's program for all queries of a name, under that name."""

    def start(settings: QuerySettings, arguments: Sequence[str]) -> str | None:
        return start_spark(replace(settings, query=shared), arguments, on_kill=on_kill)

    return start


def _pulled(key: str, query: str, task_id: str = "plan") -> Any:
    return get_current_context()["ti"].xcom_pull(task_ids=task_id, key=of_query(key, query))


def _failed(failures: Mapping[str, Failure]) -> Failure | None:
    """Returns the failure of a task in which some queries have failed; logs each of them."""
    failed = [Failure(f"{name}: {one.reason}", one.retry) for name, one in failures.items()]
    for failure in failed:
        _log.error(failure.reason)
    return Failure.of_all(failed)


def _report_task(queries: Sequence[QuerySettings]) -> Any:
    outlets = [Asset(one) for query in queries for one in _assets(query)]

    @task(
        task_id="report",
        outlets=outlets,
        show_return_value_in_logs=False,
        doc_md="Adds up, for each query, the results of its partitions.",
    )
    def report() -> dict[str, Any]:
        context = get_current_context()
        if Options.of(context["params"]).dry_run:
            raise AirflowSkipException("DRY RUN: there is nothing to report")
        chosen = _chosen(queries)
        reports = {}
        for one in chosen:
            with reporting(one, "report"):
                reports[one.query] = _reported(one, context)
        updates = {one: False for query in queries if query not in chosen for one in _assets(query)}
        update_assets(context, updates, {})
        context["ti"].xcom_push(NOTE, note_of_queries(reports))
        return reports

    return report


def _assets(settings: QuerySettings) -> tuple[str, str]:
    return asset_uri(settings.query), findings_uri(settings.query)


def _reported(settings: QuerySettings, context: Mapping[str, Any]) -> dict[str, Any]:
    query, ti = settings.query, context["ti"]
    event, damage = _assets(settings)
    try:
        run = str(context["dag_run"].run_id)
        report, xcoms = tasks.reported(settings, _results(query), run=run)
    except Exception as error:  # noqa: BLE001 -- one query must not keep the others from their end
        reason = _fault(settings, error).reason
        figures = figures_of_run(settings, TaskResults(failure=reason), success=False)
        for key, value in figures.items():  # or the page would not say so
            ti.xcom_push(of_query(key, query), value)
        update_assets(context, {event: False, damage: False}, {})
        return {"query": query, "success": False, "note": reason}
    for key, value in xcoms.items():
        if key != NOTE:  # the run has one note, for all queries
            ti.xcom_push(of_query(key, query), value)
    updates = {event: report["maintained"], damage: is_damaged(report["broken"])}
    update_assets(context, updates, report)
    return report


def _results(query: str) -> TaskResults:
    """Returns the results of `plan` and, once it has run, of `spark` for a query."""
    return results_of(_pulled(PLANNED, query), _pulled(REPORT, query, "spark") or ())
