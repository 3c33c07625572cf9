"""What Airflow's database knows of the maintained queries: their DAGs, runs and figures.

A query is known by the Asset `statemaint://QUERY` that one of its tasks may update. Each function
makes a fixed number of database queries, whatever the number of DAGs.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from airflow.models.asset import AssetModel, TaskOutletAssetReference
from airflow.models.dag import DagModel, DagTag
from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from statemaint.airflow.figures import FLEET, PARTITIONS, read_figures, read_partitions
from statemaint.airflow.names import asset_uri, findings_uri
from statemaint.airflow.pages.model import AirflowRun, Details, QueryRecord

_SCHEME, _FINDINGS = asset_uri(""), findings_uri("").rpartition("/")[2]
_INVALID = "statemaint-invalid"
_HANDOVER = "handover"
# The tasks of a run that leave something for the pages.
_TASKS = ("plan", "report")
# As many of a DAG's last runs are shown.
_RUNS = 15


def records(session: Session, readable: Iterable[str], dag: str | None = None) -> list[QueryRecord]:
    """Returns a record of each query whose DAG is among the readable ones, or of one DAG."""
    allowed = set(readable) if dag is None else {dag} & set(readable)
    dags = {one.dag_id: one for one in session.execute(_dags(dag)) if one.dag_id in allowed}
    invalid = {one for (one,) in session.execute(_invalid(dag)) if one in dags}
    places = {
        (one.dag_id, _group(one.task_id), one.name.removeprefix(_SCHEME))
        for one in session.execute(_outlets(dag))
        if one.dag_id in dags
    }
    last = {one.dag_id: _run(one) for one in session.execute(_last_runs(dag))}
    figures = _figures(session, {one for one, _, _ in places}, dag)
    found = [_record(dags[one], group, query, last, figures) for one, group, query in places]
    found += [_mistake(dags[one], last) for one in invalid]
    return sorted(found, key=lambda one: (one.query, one.dag, one.group))


def details(session: Session, record: QueryRecord) -> Details:
    """Returns what the page of one query shows beside its record."""
    read = read_partitions(_value(session, record, PARTITIONS)) or ((), ())
    newest = _run_columns().where(DagRun.dag_id == record.dag)
    runs = session.execute(newest.order_by(DagRun.id.desc()).limit(_RUNS))
    return Details(read[0], read[1], tuple(_run(one) for one in runs))


def handover(session: Session, record: QueryRecord) -> str | None:
    """Returns what the newest run's plan has handed to its tasks, if it handed over anything."""
    found = _value(session, record, _HANDOVER)
    return found if isinstance(found, str) else None


def _value(session: Session, record: QueryRecord, key: str) -> Any:
    if record.looked_in is None:
        return None
    asked = select(XComModel.task_id, XComModel.value).where(
        XComModel.dag_run_id == record.looked_in, XComModel.key == key
    )
    rows = session.execute(asked.order_by(XComModel.timestamp.desc()))
    return next((value for task, value in rows if _group(task) == record.group), None)


def _dags(dag: str | None) -> Any:
    asked = select(
        DagModel.dag_id,
        DagModel.is_paused,
        DagModel.next_dagrun_create_after,
        DagModel.timetable_summary,
        DagModel.description,
    ).where(DagModel.is_stale.is_(False))
    return asked.where(DagModel.dag_id == dag) if dag else asked


def _invalid(dag: str | None) -> Any:
    asked = select(DagTag.dag_id).where(DagTag.name == _INVALID)
    return asked.where(DagTag.dag_id == dag) if dag else asked


def _outlets(dag: str | None) -> Any:
    reference = TaskOutletAssetReference
    asked = (
        select(reference.dag_id, reference.task_id, AssetModel.name)
        .join(AssetModel, AssetModel.id == reference.asset_id)
        .where(AssetModel.name.startswith(_SCHEME, autoescape=True))
        .where(~AssetModel.name.endswith(f"/{_FINDINGS}", autoescape=True))
    )
    return asked.where(reference.dag_id == dag) if dag else asked


def _ours(dag: str | None) -> Any:
    """Returns the ids of the DAGs that matter, as a subquery."""
    ours = _outlets(dag).with_only_columns(TaskOutletAssetReference.dag_id)
    return ours.union(_invalid(dag)).scalar_subquery()


def _newest(dag: str | None) -> Any:
    newest = select(func.max(DagRun.id)).where(DagRun.dag_id.in_(_ours(dag)))
    return newest.group_by(DagRun.dag_id).scalar_subquery()


def _run_columns() -> Any:
    return select(
        DagRun.dag_id,
        DagRun.run_id,
        DagRun.state,
        DagRun.run_type,
        DagRun.start_date,
        DagRun.end_date,
        DagRun.conf,
    )


def _last_runs(dag: str | None) -> Any:
    return _run_columns().where(DagRun.id.in_(_newest(dag)))


def _run(row: Any) -> AirflowRun:
    dry = isinstance(row.conf, dict) and row.conf.get("dry_run") is True
    state, kind = str(getattr(row.state, "value", row.state)), str(row.run_type)
    return AirflowRun(row.run_id, state, kind, row.start_date, row.end_date, dry)


def _figures(session: Session, dags: set[str], dag: str | None) -> Mapping[tuple[str, str], Any]:
    """Returns the newest figures by DAG and group, of the last run that left any."""
    asked = select(
        XComModel.dag_id,
        XComModel.task_id,
        XComModel.dag_run_id,
        XComModel.value,
        XComModel.timestamp,
    ).where(XComModel.key == FLEET)
    found = list(session.execute(asked.where(XComModel.dag_run_id.in_(_newest(dag)))))
    if dags - {row.dag_id for row in found}:
        earlier = select(func.max(XComModel.dag_run_id)).where(XComModel.key == FLEET)
        earlier = earlier.where(XComModel.dag_id == dag) if dag else earlier
        runs = earlier.group_by(XComModel.dag_id).scalar_subquery()
        found += session.execute(asked.where(XComModel.dag_run_id.in_(runs)))
    found.sort(key=lambda row: (row.dag_run_id, row.timestamp))
    return {(row.dag_id, _group(row.task_id)): row for row in found}


def _record(
    dag: Any,
    group: str,
    query: str,
    last: Mapping[str, AirflowRun],
    figures: Mapping[tuple[str, str], Any],
) -> QueryRecord:
    row = figures.get((dag.dag_id, group))
    return QueryRecord(
        dag=dag.dag_id,
        group=group,
        query=query,
        paused=dag.is_paused,
        next_run=dag.next_dagrun_create_after,
        schedule=dag.timetable_summary,
        last=last.get(dag.dag_id),
        figures=read_figures(row.value) if row else None,
        looked=row.timestamp if row else None,
        looked_in=row.dag_run_id if row else None,
    )


def _mistake(dag: Any, last: Mapping[str, AirflowRun]) -> QueryRecord:
    return QueryRecord(
        dag=dag.dag_id,
        group="",
        query=dag.dag_id.removeprefix("statemaint__"),
        paused=dag.is_paused,
        invalid=(dag.description or "").removeprefix("NOT VALID: ") or "It is not valid.",
        last=last.get(dag.dag_id),
    )


def _group(task: str) -> str:
    """Returns the group of a run's tasks; an operator that does a whole run is its own."""
    group, _, name = task.rpartition(".")
    return group if name in _TASKS else task
