"""The three tasks of a run, in a query's DAG or in a task group, around the work in `tasks`."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any, NoReturn, cast

from airflow.sdk import Asset, get_current_context
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowSkipException,
    DownstreamTasksSkipped,
)

from statemaint.airflow import on_spark, tasks
from statemaint.airflow.endings import fail, notify_all, of_one_build, our_task, update_assets, wait
from statemaint.airflow.links import add_links
from statemaint.airflow.names import COSTS, NOTE, asset_uri, findings_uri, of_query, run_name
from statemaint.airflow.on_spark import start_spark
from statemaint.airflow.plans import PLAN, plan_address
from statemaint.airflow.publish import publish_held, reporting
from statemaint.airflow.settings import Options, QuerySettings, about, wrong_options
from statemaint.airflow.tasks import HANDOVER, PLANNED, REPORT
from statemaint.maintain.work import TaskResults
from statemaint.queries.checks import absolute_address
from statemaint.records.claims import Holder
from statemaint.report.task import BundleReport, dumped, loaded

_log = logging.getLogger(__name__)
_NEVER_BEGUN = ("skipped", "upstream_failed", "removed", None)


@dataclass(frozen=True, slots=True)
class Terms:
    """How the tasks of a query are run.

    Attributes:
        waits: the maximum time that `plan` waits for the lease of another run.
        options: the options of every run, for tasks in a user's DAG, whose params are not ours;
            `None` if a run's params are the options, and it must have no others.
        notify: the notifiers that `report` calls with Airflow's context after a failed run.
    """

    waits: timedelta
    options: Options | None = None
    notify: tuple[Callable[[Mapping[str, Any]], object], ...] = ()


def run_tasks(settings: QuerySettings, terms: Terms) -> list[Any]:
    """Returns the tasks of a run: `plan`, mapped `maintain`, and the teardown `report`."""
    planned = plan_task(settings, terms)(about=about(settings))
    mapped = maintain_task(settings, terms).expand(bundle=planned)
    # A teardown runs whatever the outcome of the units, and never decides a run's state: the
    # run fails when a unit fails, although the report, its last task, succeeds.
    report = report_task(settings, terms)().as_teardown()
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
            pass_on({PLANNED: dumped(TaskResults(failure=wrong.reason, refused=True))})
            fail(wrong)
        options, run = _options(terms), _run(terms)
        where, costs = _located(settings, terms), last_costs(_sibling("report"))
        planned = tasks.plan_query(where, options, _holder(terms), run=run, costs=costs)
        if planned.held:
            _wait(planned.held, where, terms)
        pass_on(planned.xcoms(options) | ({NOTE: planned.note} if planned.note else {}))
        if planned.failure:
            fail(planned.failure)
        if options.dry_run:
            skipped = [_sibling("maintain"), _sibling("report")]
            raise DownstreamTasksSkipped(tasks=skipped)  # type: ignore[no-untyped-call]
        return tasks.mapped(where, planned.bundles)

    return plan


def _wait(held: str, settings: QuerySettings, terms: Terms) -> NoReturn:
    context, task = get_current_context(), cast("Any", get_current_context()["task"])
    if not (context.get("task_reschedule_count") or task.looks):
        publish_held(settings)
    pass_on({PLANNED: dumped(TaskResults(failure=held))})
    wait(held, terms.waits, checkpoint=settings.checkpoint, connection=settings.connection)


def maintain_task(settings: QuerySettings, terms: Terms) -> Any:
    @our_task(
        "maintain",
        "Snapshots and cleans up the partitions in its name.",
        map_index_template="{{ task.op_kwargs['bundle']['label'] }}",
    )
    def maintain(bundle: dict[str, Any]) -> None:
        context = get_current_context()
        ti, where, options = context["ti"], _located(settings, terms), _options(terms)
        # Airflow does not give a mapped task the links that its DAG shows.
        add_links(context["task"], query=settings.query)
        handover = ti.xcom_pull(task_ids=_sibling("plan"), key=HANDOVER)
        with of_one_build():
            planned = tasks.bundles_of([bundle])
        order = options.order(where, planned, run=_run(terms), handover=handover)
        with reporting(where) as progress:
            if "bundles" in bundle:
                start = partial(start_spark, on_kill=partial(setattr, context["task"], "on_kill"))
                works, attempt = [(where, order)], ti.try_number
                done = on_spark.maintain_queries(works, attempt=attempt, start=start)
                reports, failure = done[where.query]
                progress.add_reports(reports)
            else:
                changes = progress.changes()
                report = tasks.maintain_bundle(where, order, planned[0], on_outcome=changes)
                reports, failure = [report], report.failure
            # Passed on before the task may fail: a failed task returns nothing.
            ti.xcom_push(REPORT, [dumped(report) for report in reports])
            if failure:
                fail(failure)

    return maintain


def report_task(settings: QuerySettings, terms: Terms) -> Any:
    @our_task(
        "report",
        "Adds up the results of the partitions.",
        outlets=[Asset(asset_uri(settings.query)), Asset(findings_uri(settings.query))],
    )
    @reporting(settings, "report")
    def report() -> dict[str, Any]:
        context = get_current_context()
        if _options(terms, scoped=False).dry_run:
            raise AirflowSkipException("DRY RUN: there is nothing to report")
        if terms.options is not None and not _plan_has_begun():
            raise AirflowSkipException("`plan` has not run: there is nothing to report")
        ti = context["ti"]
        planned = ti.xcom_pull(task_ids=_sibling("plan"), key=PLANNED)
        lists = ti.xcom_pull(task_ids=[_sibling("maintain")], key=REPORT) or ()
        results = results_of(planned, (report for reports in lists for report in reports or ()))
        where = _located(settings, terms)
        run_report, xcoms = tasks.reported(where, results, run=_run(terms))
        pass_on(xcoms)
        update_assets(context, settings.query, run_report)
        if not run_report["success"]:
            notify_all(terms.notify, context, run_report)
        return run_report

    return report


def pass_on(xcoms: Mapping[str, Any], query: str = "") -> None:
    """Passes on the XComs of a task; those of one query of several have keys of their own.

    The log names the page of a plan among them.
    """
    context = get_current_context()
    for key, value in xcoms.items():
        own = of_query(key, query) if query else key
        context["ti"].xcom_push(own, value)
    if plan := xcoms.get(PLAN):
        run = context["dag_run"]
        _log.info("the whole plan: %s", plan_address(run.dag_id, run.run_id, plan["query"]))


def results_of(planned: Any, reports: Iterable[Any]) -> TaskResults:
    with of_one_build():
        results = loaded(TaskResults, planned) if planned else TaskResults()
        return replace(results, reports=tuple(loaded(BundleReport, report) for report in reports))


def _options(terms: Terms, *, scoped: bool = True) -> Options:
    """Returns the options of this run; those for the whole run can be read if the rest is wrong."""
    params = get_current_context()["params"]
    return terms.options or Options.of(params if scoped else Options.unscoped(params))


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


def _group() -> str:
    return str(get_current_context()["ti"].task_id).rpartition(".")[0]


def _sibling(name: str) -> str:
    return f"{_group()}.{name}".lstrip(".")


def _plan_has_begun() -> bool:
    ti = get_current_context()["ti"]
    plan = _sibling("plan")
    states = ti.get_task_states(dag_id=ti.dag_id, task_ids=[plan], run_ids=[ti.run_id])
    return states.get(ti.run_id, {}).get(plan) not in _NEVER_BEGUN


def last_costs(report: str, key: str = COSTS) -> dict[str, float]:
    """Returns the cost of each partition in the last run that had work."""
    ti = get_current_context()["ti"]
    costs = ti.xcom_pull(task_ids=report, key=key, include_prior_dates=True)
    return costs if isinstance(costs, dict) else {}


def _run(terms: Terms) -> str:
    run = get_current_context()["dag_run"]
    # A user's DAG may maintain one checkpoint twice, and two DAGs the same one.
    if terms.options is None:
        return str(run.run_id)
    return run_name(run.dag_id, _group(), run.run_id)


def _holder(terms: Terms) -> Holder:
    dag = get_current_context()["dag_run"].dag_id
    return holder_of(dag if terms.options is None else f"{dag}.{_group()}")


def holder_of(dag: str) -> Holder:
    """Returns a new holder of the lease for this attempt at this run of a DAG, or of a group.

    Two DAGs with one schedule have runs with the same id, and two installations have DAGs with the
    same id; no two runs have the same start time.
    """
    context = get_current_context()
    run = context["dag_run"]
    return Holder(f"{dag}/{run.run_id}, begun {run.start_date}", attempt=context["ti"].try_number)
