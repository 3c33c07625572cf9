"""The three tasks of a DAG that maintains several queries in one Spark program.

`plan` and `report` do for each query, one by one, what they do in the DAG of one query. `spark` has
the bundles of all of them. Each XCom is of one query, by its key (`names.of_query`).
"""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, get_current_context
from airflow.sdk.exceptions import AirflowSkipException, DownstreamTasksSkipped

from statemaint.airflow import on_spark, tasks
from statemaint.airflow.endings import fail, our_task, update_assets
from statemaint.airflow.figures import figures_of_run
from statemaint.airflow.links import add_links
from statemaint.airflow.names import COSTS, NOTE, asset_uri, findings_uri, of_query
from statemaint.airflow.on_spark import OnKill, start_spark
from statemaint.airflow.publish import all_reporting, publish_held, reporting
from statemaint.airflow.run_tasks import holder_of, last_costs, pass_on, results_of
from statemaint.airflow.settings import Options, QuerySettings, unknown_options
from statemaint.airflow.tasks import HANDOVER, PLANNED, REPORT, Planned
from statemaint.airflow.texts import cut, note_of_queries
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
    add_links(planned, spark, report)


def _plan_task(queries: Sequence[QuerySettings]) -> Any:
    @our_task("plan", "Plans each query: its target version, its partitions with work.")
    def plan() -> None:
        context = get_current_context()
        chosen, options = _chosen(queries), Options.of(context["params"])
        with all_reporting(chosen, "plan", first=True) as progress:
            names = [settings.query for settings in chosen]
            plans = dict(zip(names, _plans(chosen, options), strict=True))
            _note_failures(progress, {name: plan.failure for name, plan in plans.items()})
        for query, planned in plans.items():
            pass_on(planned.xcoms(), query)
        failures = {name: plan.failure for name, plan in plans.items() if plan.failure}
        if options.dry_run:
            pass_on({NOTE: cut([f"{name}: {_dry_note(plan)}" for name, plan in plans.items()])})
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
    maintained = [settings.query for settings in queries]
    names = context["params"].get(QUERIES) or maintained
    if strange := sorted(set(names) - set(maintained)):
        listed = ", ".join(strange)
        fail(Failure(f"CONFIG: the DAG does not maintain {listed}, but {', '.join(maintained)}"))
    return [settings for settings in queries if settings.query in names]


def _plans(queries: Sequence[QuerySettings], options: Options) -> Iterable[Planned]:
    dag_run = get_current_context()["dag_run"]

    def plan(settings: QuerySettings, holder: Holder, costs: Mapping[str, float]) -> Planned:
        try:
            return tasks.plan_query(settings, options, holder, run=str(dag_run.run_id), costs=costs)
        except Exception as error:  # noqa: BLE001 -- one query must not stop the others (S16)
            return Planned(failure=_fault(settings, error))

    # Requests to Airflow are made here; threads only make requests to storages.
    holders = [holder_of(dag_run.dag_id) for _ in queries]
    costs = [last_costs("report", of_query(COSTS, settings.query)) for settings in queries]
    with ThreadPoolExecutor(1 if options.dry_run else _AT_A_TIME) as pool:
        plans = list(pool.map(plan, queries, holders, costs))
        if any(planned.held for planned in plans):
            # No run gets a lease in the first seconds after another has ended it.
            time.sleep(QUIET + 1)

            def again(planned: Planned, *request: Any) -> Planned:
                return plan(*request) if planned.held else planned

            plans = list(pool.map(again, plans, queries, holders, costs))
    return [_not_held(settings, planned) for settings, planned in zip(queries, plans, strict=True)]


def _fault(settings: QuerySettings, error: Exception) -> Failure:
    _log.error("%s", settings.query, exc_info=error)
    return replace(Failure.of(error), retry=False)


def _not_held(settings: QuerySettings, planned: Planned) -> Planned:
    """Returns the plan of a query; it fails if another run holds the lease, until the next run."""
    if planned.held is None:
        return planned
    publish_held(settings)
    return replace(planned, failure=Failure(planned.held))


def _spark_task(shared: str, queries: Sequence[QuerySettings]) -> Any:
    @our_task("spark", "Maintains the partitions of all queries in one Spark program.")
    def spark() -> None:
        context = get_current_context()
        ti = context["ti"]
        chosen, options = _chosen(queries), Options.of(context["params"])
        plans = {settings.query: _results(settings.query) for settings in chosen}
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
            pass_on({REPORT: [dumped(report) for report in reports]}, query)
        unplanned = {name: Failure(plan.failure) for name, plan in plans.items() if plan.failure}
        failed = {name: failure for name, (_, failure) in done.items() if failure}
        if failure := _failed({**unplanned, **failed}):
            fail(failure)
        if not works:
            raise AirflowSkipException("no query has work")

    return spark


def shared_start(shared: str, on_kill: OnKill) -> on_spark.Start:
    """Returns a function that runs Spark's program for all queries of a name, under that name."""
    return lambda settings, arguments: start_spark(
        replace(settings, query=shared), arguments, on_kill=on_kill
    )


def _pulled(key: str, query: str, task_id: str = "plan") -> Any:
    return get_current_context()["ti"].xcom_pull(task_ids=task_id, key=of_query(key, query))


def _failed(failures: Mapping[str, Failure]) -> Failure | None:
    """Returns the failure of a task in which some queries have failed; logs each of them."""
    named = [Failure(f"{name}: {why.reason}", why.retry) for name, why in failures.items()]
    for failure in named:
        _log.error(failure.reason)
    return Failure.of_all(named)


def _report_task(queries: Sequence[QuerySettings]) -> Any:
    names = [settings.query for settings in queries]
    outlets = [Asset(uri(name)) for name in names for uri in (asset_uri, findings_uri)]

    @our_task("report", "Adds up, for each query, the results of its partitions.", outlets=outlets)
    def report() -> dict[str, Any]:
        context = get_current_context()
        if Options.of(context["params"]).dry_run:
            raise AirflowSkipException("DRY RUN: there is nothing to report")
        chosen = _chosen(queries)
        reports = {}
        for settings in queries:
            if settings not in chosen:
                update_assets(context, settings.query, {})
                continue
            with reporting(settings, "report"):
                reports[settings.query] = _reported(settings, context)
        pass_on({NOTE: note_of_queries(reports)})
        return reports

    return report


def _reported(settings: QuerySettings, context: Mapping[str, Any]) -> dict[str, Any]:
    query, run = settings.query, str(context["dag_run"].run_id)
    try:
        report, xcoms = tasks.reported(settings, _results(query), run=run)
    except Exception as error:  # noqa: BLE001 -- one query must not keep the others from their end
        reason = _fault(settings, error).reason
        # Or the page would not say so.
        pass_on(figures_of_run(settings, TaskResults(failure=reason), success=False), query)
        update_assets(context, query, {})
        return {"query": query, "success": False, "note": reason}
    del xcoms[NOTE]  # the run has one note, for all queries
    pass_on(xcoms, query)
    update_assets(context, query, report)
    return report


def _results(query: str) -> TaskResults:
    return results_of(_pulled(PLANNED, query), _pulled(REPORT, query, "spark") or ())
