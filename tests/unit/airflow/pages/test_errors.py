"""How the pages show errors."""

from typing import Any

import pytest

pytest.importorskip("airflow", reason="the extra `airflow`")

from fastapi import Request

from statemaint.airflow.pages import app
from statemaint.airflow.pages.sources import UnknownQueryError


@pytest.mark.parametrize(
    ("route", "path", "kind", "page"),
    [
        (app._query, "/dags/state", "text/html", True),
        (app._query, "/dags/runs", "text/html", True),
        (app._runs, "/dags/state/runs", "text/html", False),
        (app._state, "/dags/runs/state", "application/json", False),
    ],
)
def test_an_error_is_shown_as_its_route_answers_whatever_the_name_of_the_dag(
    route: Any, path: str, kind: str, *, page: bool
) -> None:
    scope = {"type": "http", "path": path, "headers": [], "query_string": b"", "endpoint": route}
    answer = app._explain(Request(scope), UnknownQueryError("no such query"))
    assert answer.headers["content-type"].partition(";")[0] == kind
    assert (b"<html" in bytes(answer.body)) is page
