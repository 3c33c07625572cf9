"""The pages inside a real Airflow, behind its own authorisation."""

import json
import re
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.systems.airflow.conftest import Scene
from tests.systems.airflow.forking import Pythons
from tests.systems.airflow.support import TARGET
from tools.demo.airflow_client import Client

pytestmark = [pytest.mark.airflow, pytest.mark.slow]

STATE = "/statemaint/dags/statemaint__dry"
UNSEEN = "/statemaint/dags/statemaint__unseen"  # no test runs it
OF_DAG = [
    STATE,
    f"{STATE}?live=true",
    f"{STATE}/runs",
    f"{STATE}/activity",
    f"{STATE}/state",
    f"{STATE}/partitions/0/1",
]
STATIC = ["/statemaint/static/pages.css", "/statemaint/static/pages.js"]
LIVE = "/statemaint/static/live.js"
OF_ALL = [f"/statemaint/{name}" for name in ("queries", "export", "activity")]
PAGES = [*OF_ALL, *STATIC, LIVE, "/statemaint/static/fleet.js", *OF_DAG]
_ROUTES = """
import json
from statemaint.airflow.pages.app import app
print("\\n" + json.dumps([[route.path, sorted(route.methods)] for route in app().routes]))
"""


def test_the_app_has_these_routes_and_no_other(pythons: Pythons, tmp_path: Path) -> None:
    environ = {"AIRFLOW_HOME": str(tmp_path), "PATH": ""}
    done = pythons.run(["-c", _ROUTES], cwd=ROOT, environ=environ)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [
        ["/queries", ["GET"]],
        ["/queries/{query}", ["GET"]],
        ["/export", ["GET"]],
        ["/activity", ["GET"]],
        ["/static/{name}", ["GET"]],
        ["/dags/{dag_id}", ["GET"]],
        ["/dags/{dag_id}/runs", ["GET"]],
        ["/dags/{dag_id}/plans/{run_id}", ["GET"]],
        ["/dags/{dag_id}/plans/{run_id}/diff/{other}", ["GET"]],
        ["/dags/{dag_id}/activity", ["GET"]],
        ["/dags/{dag_id}/state", ["GET"]],
        ["/dags/{dag_id}/partitions/{operator}/{partition}", ["GET"]],
    ]


@pytest.mark.parametrize("path", PAGES)
def test_nobody_is_anonymous(scene: Scene, path: str) -> None:
    assert Client(scene.airflow.url).page(path).status == 401
    assert Client(scene.airflow.url, "a.forged.token").page(path).status == 403


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("user", ["admin", "viewer"])
def test_who_may_read_the_dag_may_read_its_state(scene: Scene, path: str, user: str) -> None:
    assert scene.airflow.client(user).page(path).status == 200


def test_a_browser_is_known_by_its_cookie(scene: Scene) -> None:
    assert scene.airflow.client("viewer").page(STATE, cookie=True).status == 200


@pytest.mark.parametrize("path", [*OF_DAG, "/statemaint/dags/statemaint__none"])
def test_who_may_read_no_dag_may_read_no_state(scene: Scene, path: str) -> None:
    assert scene.airflow.client("nobody").page(path).status == 403


def test_permissions_hold_dag_by_dag(scene: Scene) -> None:
    paula = scene.airflow.client("paula")
    assert paula.page("/statemaint/dags/statemaint__good").status == 200
    assert paula.page("/statemaint/dags/statemaint__dry").status == 403
    assert paula.page("/statemaint/dags/~").status == 403


def test_the_list_shows_readable_dags_only(scene: Scene) -> None:
    whole = scene.airflow.client("viewer").page("/statemaint/queries").body
    hers = scene.airflow.client("paula").page("/statemaint/queries").body
    nothing = scene.airflow.client("nobody").page("/statemaint/queries").body
    assert "statemaint__good" in whole
    assert "statemaint__dry" in whole
    assert "statemaint__good" in hers
    assert "statemaint__dry" not in hers
    assert "No queries:" in nothing


@pytest.mark.parametrize("path", ["docs", "redoc", "openapi.json"])
def test_the_app_does_not_describe_itself(scene: Scene, path: str) -> None:
    assert scene.admin.page(f"/statemaint/{path}").status == 404


def test_a_page_loads_only_its_own_style_and_script(scene: Scene) -> None:
    answer = scene.admin.page(STATE)
    headers = {name.lower(): value for name, value in answer.headers.items()}
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    assert "frame-ancestors 'self'" in policy
    assert headers["cache-control"] == "no-store"
    assert re.findall(r'(?:src|rel="stylesheet" href)="([^"]*)"', answer.body) == [*STATIC, LIVE]


def test_a_query_without_figures_says_so_until_it_is_scanned(scene: Scene) -> None:
    assert "No run has looked at it yet." in scene.admin.page(UNSEEN).body
    looked = scene.admin.page(f"{UNSEEN}?live=true").body
    assert "Every partition loads at version 25." in looked
    assert "Scanned just now." in looked
    assert f'href="{UNSEEN}/partitions/0/3?query=unseen"' in looked


def test_a_partition_shows_the_fate_of_each_file(scene: Scene) -> None:
    body = scene.admin.page(f"{STATE}/partitions/0/3").body
    assert "Kept because" in body
    assert "Is written because" in body
    assert [f"{number}.delta" in body for number in (1, TARGET)] == [True, True]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"{STATE}/partitions/0/99", 409),
        (f"{STATE}/partitions/0/-1", 422),
        (f"{STATE}/partitions/0/x", 422),
        (f"{STATE}/partitions/0/99999999999", 422),
        (f"{STATE}/partitions/..%2f..%2fetc/1", 404),
        (f"{STATE}?query=another", 404),
        (f"{STATE}?query={'x' * 300}", 422),
        (f"{STATE}?live=%3Cscript%3E", 422),
        (f"{STATE}/runs?query=good", 404),
        ("/statemaint/static/app.py", 404),
        ("/statemaint/static/..%2fapp.py", 404),
    ],
)
def test_nothing_in_an_address_is_trusted(scene: Scene, path: str, status: int) -> None:
    answer = scene.admin.page(path)
    assert answer.status == status
    assert "<script>" not in answer.body
    assert "Traceback" not in answer.body


def test_a_viewer_has_no_button_to_press(scene: Scene) -> None:
    enabled = r'<button type="button" class="act"(?![^>]* disabled)'
    assert len(re.findall(enabled, scene.admin.page(STATE).body)) == 5
    page = scene.airflow.client("viewer").page(STATE).body
    assert re.findall(enabled, page) == []
    assert "You have no right to run the DAG statemaint__dry." in page


def test_a_dag_that_is_paused_says_so_beside_the_buttons(scene: Scene) -> None:
    said = r"The DAG <a[^>]*>(\w+)</a> is paused"
    assert re.findall(said, scene.admin.page(STATE).body) == []  # nor are those of manual work
    never = scene.admin.page("/statemaint/dags/statemaint__gone").body
    assert re.findall(said, never) == ["statemaint__gone"]
    assert 'class="unpause" data-dag="statemaint__gone" aria-label' in never
    viewer = scene.airflow.client("viewer").page(STATE).body
    assert re.findall(said, viewer) == []


def test_the_json_is_that_of_scan(scene: Scene) -> None:
    found = scene.admin.get(f"{STATE}/state")
    assert found["target_version"] == TARGET
    assert [store["chain_length"] for store in found["stores"]] == [TARGET] * 4


def test_a_checkpoint_out_of_reach_is_one_escaped_line(scene: Scene) -> None:
    answer = scene.admin.page("/statemaint/dags/statemaint__gone?live=true")
    assert answer.status == 409
    assert "NOT_A_CHECKPOINT" in answer.body
    assert "/&lt;gone&gt;: not a streaming checkpoint" in answer.body
    assert "Traceback" not in answer.body
    as_json = scene.admin.page("/statemaint/dags/statemaint__gone/state")
    assert as_json.status == 409
    assert json.loads(as_json.body)["error"]["code"] == "NOT_A_CHECKPOINT"


@pytest.mark.parametrize("dag", ["statemaint__none", "another_dag", "~"])
def test_a_dag_without_a_query_is_not_found(scene: Scene, dag: str) -> None:
    answer = scene.admin.page(f"/statemaint/dags/{dag}")
    assert answer.status == 404
    assert "UNKNOWN_QUERY" in answer.body


def test_the_ui_is_told_where_the_pages_go(scene: Scene) -> None:
    plugins = {one["name"]: one for one in scene.admin.get("/api/v2/plugins")["plugins"]}
    assert sorted(plugins) == ["statemaint", "statemaint_listener"]
    plugin = plugins["statemaint"]
    views = {view["destination"]: view["href"] for view in plugin["external_views"]}
    assert views == {"dag": "/statemaint/dags/{DAG_ID}", "nav": "/statemaint/queries"}
