"""The facts of the maintained queries in Airflow's database: their DAGs, runs and figures.

A query is identified by the Asset `statemaint://QUERY` that one of its tasks may update; Airflow
forgets those of a DAG that it has deactivated, whose figures or id name its queries. Each function
makes a fixed number of database queries, whatever the number of DAGs. At the end: the plans that
runs keep for the pages.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow.models.asset import AssetModel, TaskOutletAssetReference
from airflow.models.dag import DagModel, DagTag
from airflow.models.dagrun import DagRun
from airflow.models.pool import Pool
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from sqlalchemy import func, or_, select, tuple_
from sqlalchemy.orm import Session

from statemaint.airflow import figures as xcoms
from statemaint.airflow import names
from statemaint.airflow.pages.query import AirflowRun, Details, QueryRecord
from statemaint.airflow.pages.sources import NoPlanError
from statemaint.airflow.plans import PLAN, KeptPlan, difference, read_plan
from statemaint.report.record import LastSavepoint
from statemaint.report.task import loaded

_SCHEME = names.asset_uri("")
_TAG, _INVALID = "statemaint", "statemaint-invalid"
# The tasks of a run that leave something for the pages.
_TASKS = ("plan", "report")
# The number of a DAG's last runs that are shown.
_RUNS = 15
# Of a longer plan, the downloads have the rest.
MOST_SHOWN = 2_000
_MOST_RUNS = 10
# A DAG, the group of its tasks, and their query.
_Place = tuple[str, str, str]


def _columns(model: Any, columns: str) -> Any:
    return select(*(getattr(model, column) for column in columns.split()))


_DAG = _columns(
    DagModel,
    "dag_id is_paused next_dagrun_create_after timetable_summary description is_stale owners",
)
_RUN = _columns(DagRun, "dag_id run_id state run_type start_date end_date conf")
_XCOM = _columns(XComModel, "dag_id task_id key run_id dag_run_id value timestamp")


def records(session: Session, readable: Iterable[str], dag: str | None = None) -> list[QueryRecord]:
    """Returns a record of each query whose DAG is among the readable ones, or of one DAG."""
    allowed = set(readable) if dag is None else {dag} & set(readable)
    listed = session.execute(_of_dag(_DAG, DagModel.dag_id, dag))
    dags = {row.dag_id: row for row in listed if row.dag_id in allowed}
    active = {name for name, row in dags.items() if not row.is_stale}
    invalid = dags.keys() & session.scalars(_invalid(dag))
    places = {
        (outlet.dag_id, _group(outlet.task_id), outlet.name.removeprefix(_SCHEME))
        for outlet in session.execute(_outlets(dag))
        if outlet.dag_id in active
    }
    gone = dags.keys() - active
    named = {(name, "", names.query_of(name)) for name in gone - invalid}
    places |= {(name, group, query) for name, group, query in named if query is not None}
    newest = session.execute(_RUN.where(DagRun.id.in_(_newest(dag))))
    last = {row.dag_id: _run(row) for row in newest}
    figures = _figures(session, places, dag)
    places |= {  # of the queries that deactivated DAGs have maintained
        (name, group, query or read.query)
        for (name, group, query, *_), row in figures.items()
        if name in gone and (read := xcoms.read_figures(row.value))
    }
    tags = _tags(session, dag)
    pools = dict(session.execute(_missing_pools(dag)).all())
    made = [
        replace(
            _record(dags[name], group, query, last, figures),
            missing_pool=pools.get(name),
            tags=tags.get(name, ()),
        )
        for name, group, query in places
    ]
    made += [_mistake(dags[name], last) for name in invalid & active]
    maintained = {record.query for record in made if not record.stale}
    shown = (record for record in made if not record.stale or record.query not in maintained)
    return sorted(shown, key=lambda record: (record.query, record.dag, record.group))


def details(session: Session, record: QueryRecord) -> Details:
    read = xcoms.read_partitions(_value(session, record, xcoms.PARTITIONS)) or ((), ())
    listed = _of_dag(_RUN, DagRun.dag_id, record.dag).order_by(DagRun.id.desc()).limit(_RUNS)
    runs = tuple(map(_run, session.execute(listed)))
    # The newest run has left a trend, even if it has looked at nothing.
    trend = xcoms.read_points(_value(session, record, xcoms.TREND, [run.id for run in runs]))
    failed = _failed_task(session, record)
    return Details(*read, runs, _savepoint(session, record.query), trend, failed)


def _failed_task(session: Session, record: QueryRecord) -> tuple[str, int] | None:
    if record.last is None or record.last.state != "failed":
        return None
    task = TaskInstance
    of_run = (task.dag_id == record.dag) & (task.run_id == record.last.id)
    failed = select(task.task_id, task.map_index).where(of_run, task.state == "failed")
    # The first to fail: `report` fails because others have.
    row = session.execute(failed.order_by(task.end_date, task.map_index).limit(1)).first()
    return (row.task_id, row.map_index) if row else None


def _savepoint(session: Session, query: str) -> LastSavepoint | None:
    made = (XComModel.dag_id == names.savepoint_id(query)) & (XComModel.key == names.SAVED)
    newest = select(XComModel.value).where(made).order_by(XComModel.timestamp.desc()).limit(1)
    try:
        return loaded(LastSavepoint, session.scalar(newest))
    except (TypeError, ValueError):
        return None  # there is none, or it is that of another build


def handover(session: Session, record: QueryRecord) -> str | None:
    value = _value(session, record, "handover")
    return value if isinstance(value, str) else None


def _value(session: Session, record: QueryRecord, key: str, others: Sequence[str] = ()) -> Any:
    """Returns the newest XCom of the run that has left the figures, and of some others."""
    keys = (key, names.of_query(key, record.query))
    of_runs = XComModel.dag_run_id == record.looked_in
    if others:
        of_runs |= XComModel.run_id.in_(others)
    selected = select(XComModel.task_id, XComModel.value).where(
        XComModel.dag_id == record.dag, of_runs, XComModel.key.in_(keys)
    )
    rows = session.execute(selected.order_by(XComModel.timestamp.desc()))
    return next((value for task, value in rows if _group(task) == record.group), None)


def _of_dag(selected: Any, column: Any, dag: str | None) -> Any:
    return selected.where(column == dag) if dag else selected


def _invalid(dag: str | None) -> Any:
    return _of_dag(select(DagTag.dag_id).where(DagTag.name == _INVALID), DagTag.dag_id, dag)


def _outlets(dag: str | None) -> Any:
    reference = TaskOutletAssetReference
    selected = (
        select(reference.dag_id, reference.task_id, AssetModel.name)
        .join(AssetModel, AssetModel.id == reference.asset_id)
        .where(AssetModel.name.startswith(_SCHEME, autoescape=True))
        # Not `endswith`: that of a query named `findings` ends so, too.
        .where(AssetModel.name.not_like(names.findings_uri("%")))
    )
    return _of_dag(selected, reference.dag_id, dag)


def _tags(session: Session, dag: str | None) -> dict[str, tuple[str, ...]]:
    selected = _of_dag(select(DagTag.dag_id, DagTag.name), DagTag.dag_id, dag)
    theirs = selected.where(DagTag.name != _TAG).order_by(DagTag.name)
    tags: dict[str, tuple[str, ...]] = {}
    for row in session.execute(theirs):
        tags[row.dag_id] = (*tags.get(row.dag_id, ()), row.name)
    return tags


def ours(dag: str | None) -> Any:
    """Selects the ids of the DAGs that maintain queries, or did, or one of them."""
    ours = _outlets(dag).with_only_columns(TaskOutletAssetReference.dag_id)
    stale = _of_dag(select(DagModel.dag_id).where(DagModel.is_stale), DagModel.dag_id, dag)
    return ours.union(_invalid(dag), stale).scalar_subquery()


def _newest(dag: str | None) -> Any:
    # A run that was refused for its own arguments says nothing about the query.
    refused = select(XComModel.dag_run_id).where(XComModel.key == xcoms.REFUSED)
    newest = select(func.max(DagRun.id)).where(DagRun.dag_id.in_(ours(dag)))
    newest = newest.where(DagRun.id.not_in(refused))
    return newest.group_by(DagRun.dag_id).scalar_subquery()


def _missing_pools(dag: str | None) -> Any:
    """Selects, of each DAG whose last run has not succeeded, a pool that does not exist."""
    task = TaskInstance
    selected = select(task.dag_id, func.min(task.pool)).join(
        DagRun, (DagRun.dag_id == task.dag_id) & (DagRun.run_id == task.run_id)
    )
    missing = task.pool.not_in(select(Pool.pool)) & (task.map_index == -1)
    failing = DagRun.id.in_(_newest(dag)) & (DagRun.state != "success")
    return selected.where(failing, missing).group_by(task.dag_id)


def _run(row: Any) -> AirflowRun:
    dry = isinstance(row.conf, dict) and row.conf.get("dry_run") is True
    queries = chosen_queries(row.conf)
    state, kind = str(getattr(row.state, "value", row.state)), str(row.run_type)
    return AirflowRun(row.run_id, state, kind, row.start_date, row.end_date, dry, queries)


def chosen_queries(conf: Any) -> tuple[str, ...]:
    """Returns the queries that the configuration of a run names; none for all of its DAG."""
    named = conf.get("queries") if isinstance(conf, dict) else None
    return tuple(map(str, named)) if isinstance(named, list) else ()


def _figures(session: Session, places: set[_Place], dag: str | None) -> dict[tuple[str, ...], Any]:
    """Returns the newest figures by DAG, group and query, of the last run that left any.

    Also the reasons of newest runs that looked at nothing, by these three and `FAILED`.

    A task of several queries leaves those of each under a key of its own; a run may concern only
    some of them. The query is empty if a task has only one.
    """
    newest = _XCOM.where(XComModel.dag_run_id.in_(_newest(dag)))
    rows = list(session.execute(newest.where(_keys(xcoms.FLEET))))
    failed = session.execute(newest.where(_keys(xcoms.FAILED)))
    if {_own_place(place) for place in places} - {_place_of(row) for row in rows}:
        of_task = (XComModel.dag_id, XComModel.task_id, XComModel.key)
        earlier = select(*of_task, func.max(XComModel.dag_run_id)).where(_keys(xcoms.FLEET))
        runs = _of_dag(earlier, XComModel.dag_id, dag).group_by(*of_task)
        rows += session.execute(_XCOM.where(tuple_(*of_task, XComModel.dag_run_id).in_(runs)))
    rows.sort(key=lambda row: (row.dag_run_id, row.timestamp))
    figures: dict[tuple[str, ...], Any] = {_place_of(row): row for row in rows}
    return figures | {(*_place_of(row), xcoms.FAILED): row for row in failed}


def _place_of(row: Any) -> _Place:
    return row.dag_id, _group(row.task_id), _query_of(row.key)


def _own_place(place: _Place) -> _Place:
    """Returns the place of a query's figures: only if several share its tasks, it has its name."""
    dag, group, query = place
    return dag, group, query if names.is_together(dag) else ""


def _keys(key: str) -> Any:
    # The key, or that of one query of several.
    several = XComModel.key.startswith(names.of_query(key, ""), autoescape=True)
    return or_(XComModel.key == key, several)


def _query_of(key: str) -> str:
    return key.removeprefix(xcoms.FLEET).removeprefix(xcoms.FAILED)[1:]


def _record(
    dag: Any,
    group: str,
    query: str,
    last: Mapping[str, AirflowRun],
    figures: Mapping[tuple[str, ...], Any],
) -> QueryRecord:
    place = _own_place((dag.dag_id, group, query))
    row, failed = figures.get(place), figures.get((*place, xcoms.FAILED))
    read = xcoms.read_figures(row.value) if row else None
    run = last.get(dag.dag_id)
    return QueryRecord(
        dag=dag.dag_id,
        group=group,
        query=query,
        paused=dag.is_paused,
        next_run=dag.next_dagrun_create_after,
        schedule=dag.timetable_summary,
        stale=dag.is_stale,
        last=_own(query, run, failed or row, read) if names.is_together(dag.dag_id) else run,
        figures=read,
        looked=row.timestamp if row else None,
        looked_in=row.dag_run_id if row else None,
        failed=str(failed.value) if failed else None,
        owner=dag.owners or "",
    )


def _own(
    query: str, last: AirflowRun | None, row: Any, figures: xcoms.QueryFigures | None
) -> AirflowRun | None:
    """Returns the last run of a query that shares its DAG, with the outcome of the query."""
    if last is None or row is None:
        return last
    looked = figures if row.key.startswith(xcoms.FLEET) else None  # else the run looked at nothing
    if row.key.startswith(xcoms.FLEET) and (looked is None or looked.success is None):
        return last
    state = "success" if looked and looked.success else "failed"
    if row.run_id == last.id:
        return replace(last, state=state) if last.ended else last
    if not last.queries or query in last.queries:
        return last
    dry = looked is not None and looked.dry_run
    return AirflowRun(row.run_id, state, "", None, row.timestamp, dry)


def _mistake(dag: Any, last: Mapping[str, AirflowRun]) -> QueryRecord:
    return QueryRecord(
        dag=dag.dag_id,
        group="",
        query=names.query_of(dag.dag_id) or "queries file",
        paused=dag.is_paused,
        invalid=(dag.description or "").removeprefix("NOT VALID: ") or "It is not valid.",
        last=last.get(dag.dag_id),
    )


def _group(task: str) -> str:
    # An operator that does a whole run is its own group.
    group, _, name = task.rpartition(".")
    return group if name in _TASKS else task


def plan_of(session: Session, dag: str, run: str, query: str | None) -> KeptPlan:
    """Returns the plan of a query, by default the first, that a run keeps."""
    key = XComModel.key.in_((PLAN, names.of_query(PLAN, query))) if query else _keys(PLAN)
    selected = select(XComModel.value).where(_of_run(dag, run), key).order_by(XComModel.timestamp)
    # One at a time: each may have megabytes.
    for value in session.scalars(selected.execution_options(yield_per=1)):
        plan = read_plan(value)
        if plan and query in (None, plan.query):
            return plan
    raise NoPlanError(
        f"the run {run} of {dag} keeps no plan{f' of {query}' if query else ''}: dry runs, "
        "repairs, rollbacks and undos keep theirs as long as Airflow keeps the run"
    )


def _of_run(dag: str, run: str) -> Any:
    return (XComModel.dag_id == dag) & (XComModel.run_id == run)


def _queries_of(session: Session, dag: str, run: str) -> list[str]:
    keys = select(XComModel.key).where(_of_run(dag, run), _keys(PLAN)).order_by(XComModel.key)
    prefix = names.of_query(PLAN, "")
    return [key.removeprefix(prefix) for key in session.scalars(keys) if key != PLAN]


def runs_with_plans(session: Session, dag: str) -> list[str]:
    """Returns the last runs of a DAG that keep a plan, the newest first."""
    kept = select(XComModel.dag_run_id).where((XComModel.dag_id == dag) & _keys(PLAN))
    newest = select(DagRun.run_id).where(DagRun.id.in_(kept)).order_by(DagRun.id.desc())
    return list(session.scalars(newest.limit(_MOST_RUNS)))


def plan_page(
    session: Session, dag: str, run: str, query: str | None, other: str | None = None
) -> dict[str, Any]:
    """Returns the values of the page of a plan, or of its difference from that of another run."""
    plan = plan_of(session, dag, run, query)
    before = plan_of(session, dag, other, plan.query) if other else None
    return {
        "dag": dag,
        "run": run,
        "plan": plan,
        "most": MOST_SHOWN,
        "queries": [name for name in _queries_of(session, dag, run) if name != plan.query],
        "others": [kept for kept in runs_with_plans(session, dag) if kept != run],
        "other": other,
        "before": before,
        "compared": before and difference(before, plan),
    }


def file_name(run: str, plan: KeptPlan) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", f"plan-{plan.query}-{run}").strip(".-")[:150]
