"""The read-only pages inside Airflow's UI, each behind Airflow's own authorisation.

    /statemaint/queries               the queries whose DAG the user may read
    /statemaint/dags/{dag_id}         one query's state, scanned while you wait
    /statemaint/dags/{dag_id}/state   the same as JSON: the output of `statemaint scan --json`

Airflow mounts such an app without any authorisation; a test checks that every route has one.
Endpoints are plain functions, so that a slow storage blocks a thread and not the server.
"""

import os
from functools import cache
from pathlib import Path
from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import GetUserDep, get_user, requires_access_dag
from airflow.configuration import conf
from fastapi import Depends, FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from statemaint.airflow import view
from statemaint.airflow.connections import open_checkpoint
from statemaint.airflow.names import QUERIES_FILE, QUERIES_VARIABLE, dag_id, query_of
from statemaint.errors import ConfigError, StatemaintError, StorageError
from statemaint.model.checkpoint import Checkpoint
from statemaint.planning import scan_checkpoint
from statemaint.queries import QueriesFile, load_queries
from statemaint.report.to_json import scan_json

_HEADERS = {
    # The page is self-contained: no scripts, nothing from elsewhere, framed by Airflow only.
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'; base-uri 'none'"
    ),
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_MAY_READ_RUNS = Depends(requires_access_dag("GET", DagAccessEntity.RUN))


class UnknownQueryError(ConfigError):
    """A DAG that is not ours, or whose query was removed from the file."""

    code = "UNKNOWN_QUERY"


@cache
def app() -> FastAPI:
    """Returns the app, always the same instance."""
    # Every route requires a user, even one that declares no check of its own. The routes of
    # FastAPI's documentation would not, and are off.
    made = FastAPI(
        title="statemaint",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        dependencies=[Depends(get_user)],
    )
    made.get("/queries", response_class=HTMLResponse)(_queries)
    made.get("/dags/{dag_id}", dependencies=[_MAY_READ_RUNS], response_class=HTMLResponse)(_state)
    made.get("/dags/{dag_id}/state", dependencies=[_MAY_READ_RUNS])(_state_json)
    made.add_exception_handler(StatemaintError, _explain)
    return made


def _queries(user: GetUserDep) -> Response:
    readable = get_auth_manager().get_authorized_dag_ids(user=user, method="GET")
    names = [name for name in sorted(_file().queries) if dag_id(name) in readable]
    return _html(view.queries_page({name: dag_id(name) for name in names}))


def _state(dag_id: str) -> Response:
    name, file = _query(dag_id)
    checkpoint = _scan(file, name)
    return _html(view.state_page(name, checkpoint, file.policy_of(name)))


def _state_json(dag_id: str) -> Response:
    name, file = _query(dag_id)
    return JSONResponse(scan_json(_scan(file, name)), headers=_HEADERS)


def _query(dag: str) -> tuple[str, QueriesFile]:
    file = _file()
    name = query_of(dag)
    if name is None or name not in file.queries:
        raise UnknownQueryError(f"the queries file has no query for the DAG {dag}")
    return name, file


def _scan(file: QueriesFile, name: str) -> Checkpoint:
    query = file.queries[name]
    return scan_checkpoint(open_checkpoint(query.checkpoint, query.connection))


def _file() -> QueriesFile:
    beside = Path(conf.get_mandatory_value("core", "dags_folder")) / QUERIES_FILE
    return load_queries(os.environ.get(QUERIES_VARIABLE) or beside)


def _explain(request: Request, error: Exception) -> Response:
    """Returns an error in one line, in the requested form."""
    code = error.code if isinstance(error, StatemaintError) else "FAULT"
    status = _status(error)
    if request.url.path.endswith("/state"):
        content: dict[str, Any] = {"error": {"code": code, "detail": str(error)}}
        return JSONResponse(content, status_code=status, headers=_HEADERS)
    return _html(view.error_page(code, str(error)), status=status)


def _status(error: Exception) -> int:
    if isinstance(error, UnknownQueryError):
        return 404
    # 409: the checkpoint or the queries file is not in a state that can be shown.
    return 503 if isinstance(error, StorageError) else 409


def _html(content: str, *, status: int = 200) -> Response:
    return HTMLResponse(content, status_code=status, headers=_HEADERS)
