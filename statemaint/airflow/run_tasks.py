"""The tasks of a run, around the work in `tasks`.

One query has `plan`, mapped `maintain` and `report`, in its DAG or in a task group. Several that
share a DAG have `plan`, `spark` and `report`: `plan` and `report` do for each query, one by one,
what they do in the DAG of one query, and `spark` has the bundles of all of them in one Spark
program. Each XCom is then of one query, by its key (`names.of_query`).
"""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any, NoReturn, cast

from airflow.sdk import Asset, get_current_context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from statemaint.airflow import on_spark, tasks
from statemaint.airflow.endings import fail, notify_all, our_task, skip, update_assets, wait
from statemaint.airflow.figures import REFUSED, figures_of_run
from statemaint.airflow.form import together_form
from statemaint.airflow.links import add_links
from statemaint.airflow.names import NOTE, asset_uri, findings_uri, run_name
from statemaint.airflow.passed_on import (
    by_one_build,
    last_costs,
    own_group,
    pass_on,
    pulled,
    report_key,
    results_from,
    sibling,
)
from statemaint.airflow.publish import all_reporting, publish_held, reporting
from statemaint.airflow.settings import (
    Notified,
    Options,
    QuerySettings,
    about,
    unknown_options,
    wrong_options,
)
from statemaint.airflow.tasks import HANDOVER, PLANNED, Planned
from statemaint.airflow.texts import cut, note_of_queries
from statemaint.execute.lease import QUIET
from statemaint.maintain.work import TaskResults, WorkOrder
from statemaint.queries.checks import absolute_address
from statemaint.records.claims import Holder
from statemaint.report.task import Failure, dumped

_log = logging.getLogger(__name__)
_NEVER_BEGUN = ("skipped", "upstream_failed", "removed", None)
# Plans are mostly requests to a storage. Those of a dry run log many lines, kept apart.
_AT_A_TIME = 8


@dataclass(frozen=True, slots=True)
class Terms:
    """How the tasks of a query are run.

    Attributes:
        waits: the maximum time that `plan` waits for the lease of another run.
        options: the options of every run, for tasks in a user's DAG, whose params are not ours;
            `None` if a run's params are the options, and it must have no others.
        notify: the notifiers that `report` calls after a failed run.
    """

    waits: timedelta
    options: Options | None = None
    notify: tuple[Notified, ...] = ()


def run_tasks(settings: QuerySettings, terms: Terms) -> list[Any]:
    """Returns the tasks of a run on one query."""
    planned = plan_task(settings, terms)(about=about(settings))
    mapped = _maintain_task(settings, terms).expand(bundle=planned)
    # A teardown runs whatever the outcome of the units, and never decides a run's state: the
    # run fails when a unit fails, although the report, its last task, succeeds.
    report = _report_task(settings, terms)().as_teardown()
    mapped >> report
    add_links(planned, mapped, report, query=settings.query)
    return [planned, mapped, report]


def plan_task(settings: QuerySettings, terms: Terms) -> Any:
    @our_task("plan", "Fixes the target version; finds the partitions with work.")
    @reporting(settings, "plan", first=True)
    def plan(about: dict[str, Any]) -> list[dict[str, Any]]:
        del about  # only for the pages, which read it from the DAG as Airflow stores it
        context = get_current_context()
        if terms.options is None and (wrong := wrong_options(context)):
            pass_on(tasks.planned_xcoms(TaskResults(failure=wrong.reason, refused=True)))
            fail(wrong)
        options, where = _options(terms), _located(settings, terms)
        holder, costs = holder_of(context["dag_run"].dag_id, own_group()), last_costs()
        planned = tasks.plan_query(where, options, holder, run=_run(), costs=costs)
        if planned.held:
            _wait(planned.held, where, terms)
        pass_on(planned.xcoms(options) | ({NOTE: planned.note} if planned.note else {}))
        fail(planned.failure)
        if options.dry_run:
            skip(sibling("maintain"), sibling("report"))
        return tasks.mapped(where, planned.bundles)

    return plan


def _wait(held: str, settings: QuerySettings, terms: Terms) -> NoReturn:
    context, task = get_current_context(), cast("Any", get_current_context()["task"])
    if not (context.get("task_reschedule_count") or task.looks):
        publish_held(settings)
    pass_on({PLANNED: dumped(TaskResults(failure=held))})
    wait(held, terms.waits, checkpoint=settings.checkpoint, connection=settings.connection)


def _maintain_task(settings: QuerySettings, terms: Terms) -> Any:
    @our_task(
        "maintain",
        "Snapshots and cleans up the partitions in its name.",
        map_index_template="{{ task.op_kwargs['bundle']['label'] }}",
    )
    def maintain(bundle: dict[str, Any]) -> None:
        where, options = _located(settings, terms), _options(terms)
        # Airflow does not give a mapped task the links that its DAG shows.
        add_links(get_current_context()["task"], query=settings.query)
        with by_one_build():
            planned = tasks.bundles_of([bundle])
        order = options.order(where, planned, run=_run(), handover=pulled(HANDOVER))
        with reporting(where) as progress:
            if "bundles" in bundle:
                reports, failure = _on_spark([(where, order)], where.query)[where.query]
                progress.add_reports(reports)
            else:
                changes = progress.changes()
                report = tasks.maintain_bundle(where, order, planned[0], on_outcome=changes)
                reports, failure = [report], report.failure
            # Passed on before the task may fail: a failed task returns nothing.
            pass_on({report_key(order.bundles): [dumped(report) for report in reports]})
            fail(failure)

    return maintain


def _on_spark(
    works: Sequence[tuple[QuerySettings, WorkOrder]], name: str
) -> dict[str, on_spark.Done]:
    context = get_current_context()
    on_kill = partial(setattr, context["task"], "on_kill")
    start = partial(on_spark.start_spark, on_kill=on_kill, name=name)
    return on_spark.maintain_queries(works, attempt=context["ti"].try_number, start=start)


def _report_task(settings: QuerySettings, terms: Terms) -> Any:
    @our_task("report", "Adds up the results of the partitions.", outlets=_outlets([settings]))
    @reporting(settings, "report")
    def report() -> dict[str, Any]:
        if _options(terms, scoped=False).dry_run:
            raise AirflowSkipException("DRY RUN: there is nothing to report")
        if terms.options is not None and not _plan_has_begun():
            raise AirflowSkipException("`plan` has not run: there is nothing to report")
        results = results_from("maintain")
        done = tasks.reported(_located(settings, terms), results, run=_run())
        run_report = _end(settings.query, *done)
        if not run_report["success"]:
            notify_all(terms.notify, get_current_context(), run_report)
        return run_report

    return report


def _outlets(queries: Iterable[QuerySettings]) -> list[Asset]:
    uris = (asset_uri, findings_uri)
    return [Asset(uri(settings.query)) for settings in queries for uri in uris]


def _end(
    of: str, report: dict[str, Any], xcoms: Mapping[str, Any], query: str = ""
) -> dict[str, Any]:
    """Passes on the end of a run on a query, and returns its report."""
    pass_on(xcoms, query)
    update_assets(get_current_context(), of, report)
    return report


def together_tasks(shared: str, queries: Sequence[QuerySettings]) -> None:
    """Adds the tasks of a run on several queries to the current DAG."""
    planned, spark = _plan_all_task(queries)(), _spark_task(shared, queries)()
    report = _report_all_task(queries)().as_teardown()
    planned >> spark >> report
    add_links(planned, spark, report)


def _plan_all_task(queries: Sequence[QuerySettings]) -> Any:
    @our_task("plan", "Plans each query: its target version, its partitions with work.")
    def plan() -> None:
        chosen, options = _chosen(queries), Options.of(get_current_context()["params"])
        with all_reporting(chosen, "plan", first=True) as progress:
            names = [settings.query for settings in chosen]
            plans = dict(zip(names, _plans(chosen, options), strict=True))
            failures = {name: plan.failure for name, plan in plans.items() if plan.failure}
            for query in failures:
                progress[query].failed = True
        for query, planned in plans.items():
            pass_on(planned.xcoms(), query)
        if options.dry_run:
            notes = (
                f"{name}: {plan.note or failures[name].reason}" for name, plan in plans.items()
            )
            pass_on({NOTE: cut([*notes])})
            fail(_failed(failures))
            skip("spark", "report")
        # This attempt has no work: another one loses nothing, and may succeed.
        if len(failures) == len(plans) and (failure := _failed(failures)) and failure.retry:
            fail(failure)

    return plan


def _chosen(queries: Sequence[QuerySettings]) -> list[QuerySettings]:
    """Returns the queries of this run; fails it if its configuration is wrong."""
    context = get_current_context()
    known = tuple(together_form(()))
    wrong = unknown_options(context["dag_run"].conf, known) or wrong_options(context, known)
    maintained = [settings.query for settings in queries]
    names = context["params"].get("queries") or maintained
    if not wrong and (strange := sorted(set(names) - set(maintained))):
        listed = ", ".join(strange)
        what = f"the DAG does not maintain {listed}, but {', '.join(maintained)}"
        wrong = Failure(f"CONFIG: {what}")
    if wrong:
        pass_on({REFUSED: wrong.reason})
        fail(wrong)
    return [settings for settings in queries if settings.query in names]


def _plans(queries: Sequence[QuerySettings], options: Options) -> list[Planned]:
    """Returns the plan of each query; it fails if another run holds the lease."""
    dag, run = get_current_context()["dag_run"].dag_id, _run()

    def plan(settings: QuerySettings, holder: Holder, costs: Mapping[str, float]) -> Planned:
        try:
            return tasks.plan_query(settings, options, holder, run=run, costs=costs)
        except Exception as error:  # noqa: BLE001 -- one query must not stop the others (S16)
            return Planned(failure=_fault(settings, error))

    def again(planned: Planned, *request: Any) -> Planned:
        return plan(*request) if planned.held else planned

    # Requests to Airflow are made here; threads only make requests to storages.
    holders = [holder_of(dag) for _ in queries]
    costs = [last_costs(settings.query) for settings in queries]
    with ThreadPoolExecutor(1 if options.dry_run else _AT_A_TIME) as pool:
        plans = list(pool.map(plan, queries, holders, costs))
        if any(planned.held for planned in plans):
            # No run gets a lease in the first seconds after another has ended it.
            time.sleep(QUIET + 1)
            plans = list(pool.map(again, plans, queries, holders, costs))
    for settings, planned in zip(queries, plans, strict=True):
        if planned.held:
            publish_held(settings)
    return [replace(plan, failure=Failure(plan.held)) if plan.held else plan for plan in plans]


def _fault(settings: QuerySettings, error: Exception) -> Failure:
    _log.error("%s", settings.query, exc_info=error)
    return replace(Failure.of(error), retry=False)


def _spark_task(shared: str, queries: Sequence[QuerySettings]) -> Any:
    @our_task("spark", "Maintains the partitions of all queries in one Spark program.")
    def spark() -> None:
        chosen, options = _chosen(queries), Options.of(get_current_context()["params"])
        plans = {settings.query: results_from("spark", settings.query) for settings in chosen}
        works = []
        for settings in (each for each in chosen if plans[each.query].planned):
            bundles, handover = plans[settings.query].planned, pulled(HANDOVER, settings.query)
            order = options.order(settings, bundles, run=_run(), handover=handover)
            works.append((settings, order))
        failures = {name: Failure(plan.failure) for name, plan in plans.items() if plan.failure}
        with all_reporting([settings for settings, _ in works], first=False) as progress:
            done = _on_spark(works, shared)
            for query, (reports, failure) in done.items():
                progress[query].add_reports(reports)
                if failure:
                    failures[query] = failure
                    progress[query].failed = True
        for query, (reports, _) in done.items():
            key = report_key(plans[query].planned)
            pass_on({key: [dumped(report) for report in reports]}, query)
        fail(_failed(failures))
        if not works:
            raise AirflowSkipException("no query has work")

    return spark


def _failed(failures: Mapping[str, Failure]) -> Failure | None:
    """Returns the failure of a task in which some queries have failed; logs each of them."""
    named = [Failure(f"{name}: {why.reason}", why.retry) for name, why in failures.items()]
    for failure in named:
        _log.error(failure.reason)
    return Failure.of_all(named)


def _report_all_task(queries: Sequence[QuerySettings]) -> Any:
    about = "Adds up, for each query, the results of its partitions."

    @our_task("report", about, outlets=_outlets(queries))
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
                reports[settings.query] = _reported_or_fault(settings)
        pass_on({NOTE: note_of_queries(reports)})
        return reports

    return report


def _reported_or_fault(settings: QuerySettings) -> dict[str, Any]:
    query = settings.query
    try:
        report, xcoms = tasks.reported(settings, results_from("spark", query), run=_run())
    except Exception as error:  # noqa: BLE001 -- one query must not keep the others from their end
        reason = _fault(settings, error).reason
        # Or the page would not say so.
        _end(query, {}, figures_of_run(settings, TaskResults(failure=reason), success=False), query)
        return {"query": query, "success": False, "note": reason}
    del xcoms[NOTE]  # the run has one note, for all queries
    return _end(query, report, xcoms, query)


def _options(terms: Terms, *, scoped: bool = True) -> Options:
    return terms.options or Options.of(get_current_context()["params"], scoped=scoped)


def _located(settings: QuerySettings, terms: Terms) -> QuerySettings:
    # The run's form may name another engine. In a user's DAG, the address may be a template.
    settings = replace(settings, engine=_options(terms, scoped=False).engine or settings.engine)
    if terms.options is None:
        return settings
    context = get_current_context()
    address = context["task"].render_template(settings.checkpoint, context)
    try:
        return replace(settings, checkpoint=absolute_address(str(address)))
    except ValueError as error:
        raise AirflowFailException(f"CONFIG: {error}") from None


def _plan_has_begun() -> bool:
    ti, plan = get_current_context()["ti"], sibling("plan")
    states = ti.get_task_states(dag_id=ti.dag_id, task_ids=[plan], run_ids=[ti.run_id])
    return states.get(ti.run_id, {}).get(plan) not in _NEVER_BEGUN


def _run() -> str:
    """Returns the run's name in the ledger."""
    run, group = get_current_context()["dag_run"], own_group()
    # A user's DAG may maintain one checkpoint twice, and two DAGs the same one.
    return run_name(run.dag_id, group, run.run_id) if group else run_name(run.run_id)


def holder_of(dag: str, part: str = "") -> Holder:
    """Returns a new holder of the lease for this attempt at this run of a DAG, or of a part of it.

    Two DAGs with one schedule have runs with the same id, and two installations have DAGs with the
    same id; no two runs have the same start time.
    """
    context = get_current_context()
    run, name = context["dag_run"], f"{dag}.{part}" if part else dag
    return Holder(f"{name}/{run.run_id}, begun {run.start_date}", attempt=context["ti"].try_number)
