"""The pages inside Airflow's UI, each behind Airflow's own authorisation. They only read.

`app` has their addresses, below `/statemaint`. Of queries a user sees those whose DAG they may
read. The page of a query shows it as its last run left it; with `?live=1` its checkpoint is
scanned. The query's runs in the ledger are a part of that page, and `state` is the output of
`statemaint scan --json`.

Buttons call Airflow's own API, under the rights of the user. Airflow mounts such an app without any
authorisation; a test checks that every route has one. Endpoints are plain functions, so a slow
storage blocks a thread and not the server.
"""

from collections.abc import Sequence
from functools import cache, partial
from typing import Annotated, Any, Literal
from urllib.parse import quote

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep, get_user, requires_access_dag
from airflow.models.dag import DagModel
from fastapi import Depends, FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from sqlalchemy.orm import Session

from statemaint.airflow.names import (
    REPAIR_DAG,
    ROLLBACK_DAG,
    UNDO_DAG,
    VERIFY_DAG,
    query_of,
    savepoint_id,
)
from statemaint.airflow.names import dag_id as dag_of
from statemaint.airflow.pages import contents, records
from statemaint.airflow.pages.activity import acknowledgements, activity
from statemaint.airflow.pages.fleet import Wanted, documents, export_csv, fleet, matching
from statemaint.airflow.pages.query import QueryRecord, undo_button
from statemaint.airflow.pages.render import FOLDER, render
from statemaint.airflow.pages.sources import NoPlanError, UnknownQueryError, is_disabled, source_of
from statemaint.airflow.pages.timeline import timelines
from statemaint.airflow.plans import plan_csv, plan_json
from statemaint.errors import ConfigError, StatemaintError, StorageError
from statemaint.maintain import list_runs
from statemaint.model.ids import UnitId
from statemaint.planning import scan_with_logs
from statemaint.report.to_json import scan_json
from statemaint.wording import command

_HEADERS = {
    # Scripts and styles are our own files, nothing is from elsewhere, and only Airflow frames them.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "frame-ancestors 'self'; base-uri 'none'; form-action 'none'"
    ),
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_STYLES = ("pages.css", "trend.css", "uPlot.min.css")
_SCRIPTS = ("pages.js", "fleet.js", "live.js", "trend.js", "uPlot.iife.min.js")
_STATIC = dict.fromkeys(_STYLES, "text/css") | dict.fromkeys(_SCRIPTS, "text/javascript")
_MAY_READ_RUNS = Depends(requires_access_dag("GET", DagAccessEntity.RUN))
_MOST_RUNS = 25

Name = Annotated[str | None, Query(max_length=250)]
Number = Annotated[int, Path(ge=0, lt=2**31)]


@cache
def app() -> FastAPI:
    # Every route requires a user, even one that declares no check of its own. The routes of
    # FastAPI's documentation would not, and are off.
    off: dict[str, Any] = dict.fromkeys(("docs_url", "redoc_url", "openapi_url"))
    made = FastAPI(title="statemaint", dependencies=[Depends(get_user)], **off)
    made.get("/queries", response_class=HTMLResponse)(_queries)
    made.get("/queries/{query}")(_find)
    made.get("/export")(_export)
    made.get("/activity")(_activity)
    made.get("/static/{name}")(_static)
    of_dag: dict[str, Any] = {"dependencies": [_MAY_READ_RUNS]}
    made.get("/dags/{dag_id}", **of_dag, response_class=HTMLResponse)(_query)
    made.get("/dags/{dag_id}/runs", **of_dag, response_class=HTMLResponse)(_runs)
    plan = "/dags/{dag_id}/plans/{run_id}"
    made.get(plan, **of_dag, response_class=HTMLResponse)(_plan)
    made.get(f"{plan}/diff/{{other}}", **of_dag, response_class=HTMLResponse)(_difference)
    made.get("/dags/{dag_id}/activity", **of_dag)(_activity_of_dag)
    made.get("/dags/{dag_id}/state", **of_dag)(_state)
    partition = "/dags/{dag_id}/partitions/{operator}/{partition}"
    made.get(partition, **of_dag, response_class=HTMLResponse)(_partition)
    made.add_exception_handler(StatemaintError, _explain)
    made.add_exception_handler(RequestValidationError, _refuse)
    return made


def _queries(
    user: GetUserDep,
    session: SessionDep,
    whole: bool = False,  # noqa: FBT001, FBT002 -- FastAPI names it
) -> Response:
    editable = _authorized(user, "PUT")
    values = contents.of_fleet(_listed(user, session), session, editable, whole=whole)
    return _html("queries.html", **values)


def _export(user: GetUserDep, session: SessionDep, wanted: Annotated[Wanted, Query()]) -> Response:
    shown = matching(fleet(_listed(user, session), contents.now()), wanted)
    content = documents(shown) if wanted.format == "json" else export_csv(shown)
    return _download("queries", wanted.format, content)


def _listed(user: Any, session: Session) -> list[QueryRecord]:
    # A query that is not enabled needs no DAG.
    return [
        record
        for record in records.records(session, _authorized(user))
        if not (record.stale and is_disabled(record.query))
    ]


def _authorized(user: Any, method: Any = "GET") -> set[str]:
    return get_auth_manager().get_authorized_dag_ids(user=user, method=method)


def _activity(user: GetUserDep, session: SessionDep) -> Response:
    return _json(activity(session, _authorized(user), contents.now()))


def _activity_of_dag(dag_id: str, session: SessionDep) -> Response:
    return _json(activity(session, {dag_id}, contents.now(), dag_id))


def _find(query: str, user: GetUserDep, session: SessionDep) -> Response:
    readable = _authorized(user)
    # Most queries have a DAG of their own; the whole fleet is read for the others only.
    places = (dag_of(query), None)
    for record in (each for dag in places for each in records.records(session, readable, dag)):
        if record.query == query and record.invalid is None:
            of_dag, only = quote(record.dag, safe=""), quote(query, safe="")
            address = f"{contents.root()}/statemaint/dags/{of_dag}?query={only}"
            return RedirectResponse(address, status_code=302, headers=_HEADERS)
    raise UnknownQueryError(f"no DAG that you may read maintains the query {query}")


def _static(name: str) -> Response:
    if name not in _STATIC:
        return Response(status_code=404, headers=_HEADERS)
    # Never cached: it changes with the package, and Airflow's cookie guards it.
    headers = {**_HEADERS, "Cache-Control": "no-cache"}
    return FileResponse(FOLDER / "static" / name, media_type=_STATIC[name], headers=headers)


def _query(
    dag_id: str,
    user: GetUserDep,
    session: SessionDep,
    query: Name = None,
    live: bool = False,  # noqa: FBT001, FBT002 -- FastAPI names it
) -> Response:
    record, others = _record(dag_id, query, session)
    try:
        source, unknown = source_of(dag_id, record.query, session), ""
    except ConfigError as error:
        if live:
            raise
        source, unknown = None, str(error)
    content = records.details(session, record)
    if live and source:
        storage = source.open()
        record, content = contents.looked_at_now(storage, source.policy, record, content)
    # Those that the page's buttons start.
    dags = (dag_id, VERIFY_DAG, savepoint_id(record.query), REPAIR_DAG, ROLLBACK_DAG, UNDO_DAG)
    refused = _refused(dags, user, session, in_file=bool(source and source.in_file))
    acknowledged = acknowledgements(session, [dag_id], contents.now()).get(dag_id)
    values = contents.of_query(
        record, content, source=source, refused=refused, acknowledged=acknowledged
    )
    names = sorted({other.query for other in others} - {record.query})
    usable = [session.get(DagModel, dag) for dag in dags if dag not in refused]
    paused = {dag.dag_id: _may("PUT", dag.dag_id, user) for dag in usable if dag and dag.is_paused}
    planned = records.runs_with_plans(session, dag_id)
    return _html(
        "query.html",
        **values,
        unknown=unknown,
        live=live,
        others=names,
        paused=paused,
        planned=planned,
        may_note=_may("PUT", dag_id, user, DagAccessEntity.RUN),
    )


def _runs(dag_id: str, user: GetUserDep, session: SessionDep, query: Name = None) -> Response:
    name = _record(dag_id, query, session)[0].query
    source = source_of(dag_id, name, session)
    refused = _refused((dag_id, UNDO_DAG), user, session, in_file=source.in_file).get(UNDO_DAG)
    runs, undo = list_runs(source.open(), most=_MOST_RUNS), partial(undo_button, name, refused)
    commands = {run.run: command("undo", source.checkpoint, run.run) for run in runs}
    return _html("runs.html", runs=runs, now=contents.now(), undo=undo, commands=commands)


def _plan(
    dag_id: str,
    run_id: str,
    session: SessionDep,
    query: Name = None,
    format: Literal["html", "json", "csv"] = "html",  # noqa: A002 -- FastAPI names it
) -> Response:
    if format == "html":
        return _html("plan.html", **records.plan_page(session, dag_id, run_id, query))
    plan = records.plan_of(session, dag_id, run_id, query)
    content = plan_json(plan) if format == "json" else plan_csv(plan)
    return _download(records.file_name(run_id, plan), format, content)


def _difference(
    dag_id: str, run_id: str, other: str, session: SessionDep, query: Name = None
) -> Response:
    return _html("plan.html", **records.plan_page(session, dag_id, run_id, query, other))


def _partition(
    dag_id: str, operator: Number, partition: Number, session: SessionDep, query: Name = None
) -> Response:
    record, _ = _record(dag_id, query, session)
    source, shared = source_of(dag_id, record.query, session), records.handover(session, record)
    unit = UnitId(operator, partition)
    plan = contents.plan_of_partition(source.open(), source.policy, unit, shared)
    suffix, stores = f"?query={quote(record.query, safe='')}", timelines(plan)
    return _html(
        "partition.html", record=record, unit=unit, plan=plan, stores=stores, suffix=suffix
    )


def _state(dag_id: str, session: SessionDep, query: Name = None) -> Response:
    source = source_of(dag_id, _record(dag_id, query, session)[0].query, session)
    return _json(scan_json(scan_with_logs(source.open())))


def _record(dag_id: str, query: Name, session: Session) -> tuple[QueryRecord, list[QueryRecord]]:
    of_dag = records.records(session, {dag_id}, dag_id)
    requested = [record for record in of_dag if query in (None, record.query)]
    if not requested:
        what = f"maintains no query {query!r}" if of_dag else "maintains no query"
        raise UnknownQueryError(
            f"the DAG {dag_id} {what}: this page is for DAGs with the tasks of statemaint"
        )
    return fleet(requested, contents.now())[0].record, of_dag


def _refused(dags: Sequence[str], user: Any, session: Session, *, in_file: bool) -> dict[str, str]:
    """Returns why the user cannot run DAGs, by their ids; others can be run."""
    refused, (own, *_) = {}, dags
    for dag in dags:
        stored = session.get(DagModel, dag)
        if stored is None or stored.is_stale:
            refused[dag] = f"There is no DAG {dag}."
        elif not _may("POST", dag, user, DagAccessEntity.RUN):
            refused[dag] = f"You have no right to run the DAG {dag}."
        elif dag != own and not in_file:
            refused[dag] = f"{dag} only takes queries of the queries file."
    return refused


def _may(method: Any, dag: str, user: Any, what: DagAccessEntity | None = None) -> bool:
    details = DagDetails(id=dag, team_name=DagModel.get_team_name(dag))
    return get_auth_manager().is_authorized_dag(
        method=method, access_entity=what, details=details, user=user
    )


def _explain(request: Request, error: Exception) -> Response:
    code = error.code if isinstance(error, StatemaintError) else "FAULT"
    # 409: the checkpoint or the queries file is not in a state that can be shown.
    status = 503 if isinstance(error, StorageError) else 409
    status = 404 if isinstance(error, UnknownQueryError) else status
    route = request.scope.get("endpoint")
    if route is _state:
        return _json({"error": {"code": code, "detail": str(error)}}, status)
    if route is _runs:
        return _html("problem.html", code=code, detail=str(error), status=status)
    # The user may read the DAG: its authorisation comes before any error of ours.
    unknown = status == 404 and not isinstance(error, NoPlanError)  # noqa: PLR2004
    dag = "" if unknown else request.path_params.get("dag_id", "")
    query = request.query_params.get("query") or query_of(dag) or ""
    return _html("error.html", code=code, detail=str(error), status=status, dag=dag, query=query)


def _refuse(_request: Request, _error: Exception) -> Response:
    # Nothing of the address is repeated.
    detail = "There is no such page."
    return _html("error.html", code="ADDRESS", detail=detail, status=422, dag="", query="")


def _json(content: Any, status: int = 200) -> Response:
    return JSONResponse(content, status_code=status, headers=_HEADERS)


def _download(name: str, kind: str, content: Any) -> Response:
    """Returns JSON, or the text of a CSV file, for the browser to save under a name."""
    headers = {**_HEADERS, "Content-Disposition": f'attachment; filename="{name}.{kind}"'}
    if kind == "json":
        return JSONResponse(content, headers=headers)
    return Response(content, media_type="text/csv; charset=utf-8", headers=headers)


def _html(template: str, *, status: int = 200, **values: Any) -> Response:
    root = contents.root()
    content = render(template, **values, root=root, pages=f"{root}/statemaint")
    return HTMLResponse(content, status_code=status, headers=_HEADERS)
