"""The pages' scripts in a browser, against answers of an Airflow that is not there."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

pytest.importorskip("playwright", reason="of the group `dev`")
pytest.importorskip("airflow", reason="the extra `airflow`")

from playwright.sync_api import Browser, Page, Route, expect

from statemaint.airflow.figures import QueryFigures
from statemaint.airflow.pages.fleet import fleet, totals
from statemaint.airflow.pages.query import AirflowRun, QueryRecord
from statemaint.airflow.pages.render import FOLDER, render
from tests.systems.browser import many

pytestmark = [pytest.mark.slow]

HOST = "http://airflow.test"
FLEET = "/statemaint/queries"
TIME = datetime(2026, 11, 24, 12, 0, tzinfo=UTC)


@dataclass
class Server:
    """The answers of Airflow and of the pages' routes, and the requests that change something."""

    pages: dict[str, str]
    activity: list[dict[str, Any]] = field(default_factory=list)
    refused: frozenset[str] = frozenset()
    notes: dict[str, str] = field(default_factory=dict)
    checks: int = 0
    loads: int = 0
    sent: list[tuple[str, str, Any]] = field(default_factory=list)

    def answer(self, route: Route) -> None:
        request, parts = route.request, urlsplit(route.request.url)
        path = unquote(parts.path)
        if path.startswith("/statemaint/static/"):
            kind = "text/css" if path.endswith("css") else "text/javascript"
            name = path.rpartition("/")[2]
            text = (FOLDER / "static" / name).read_text(encoding="utf-8")
            route.fulfill(body=text, content_type=kind)
        elif path.endswith("/activity"):
            self.checks += 1
            route.fulfill(json=self.activity)
        elif path.startswith("/api/"):
            self.api(route, request.method, path)
        else:
            self.loads += 1
            found = self.pages.get(f"{path}?{parts.query}", self.pages.get(path, ""))
            route.fulfill(body=found, content_type="text/html; charset=utf-8")

    def api(self, route: Route, method: str, path: str) -> None:
        dag = path.split("/")[4]
        if method == "GET":
            route.fulfill(json={"note": self.notes.get(dag), "state": "running"})
        elif dag in self.refused:
            route.fulfill(status=403, json={"detail": "Forbidden"})
        else:
            self.sent.append((method, dag, json.loads(route.request.post_data or "{}")))
            route.fulfill(json={"dag_run_id": "manual__1"})


def record(name: str, **changed: Any) -> QueryRecord:
    figures = QueryFigures(
        query=name, checkpoint=f"s3://lake-{name[-1]}/{name}", target=25, partitions=1, bytes=1000
    )
    run = AirflowRun("scheduled", "success", "scheduled", TIME, TIME)
    made = QueryRecord(
        f"statemaint__{name}", "", name, last=run, figures=figures, looked=TIME, owner="streaming"
    )
    return replace(made, **changed)


RECORDS = [
    record("clicks_0"),
    record("clicks_1", owner="web", tags=("eu",)),
    record("orders_0", paused=True),
    record("orders_1", group="maintain"),
]


def page_of(records: list[QueryRecord], rest: int = 0) -> str:
    rows = fleet(records, TIME)
    dags = frozenset(row.record.dag for row in rows)
    values = {"rows": rows, "rest": rest, "totals": totals(rows), "editable": dags}
    return render(
        "queries.html", **values, verify="statemaint_verify", root="", pages="/statemaint"
    )


Open = Callable[..., tuple[Page, Server]]


@pytest.fixture
def visit(chrome: Browser) -> Iterator[Open]:
    """Opens a page of a server; no script may leave an error on the console."""
    context, errors = chrome.new_context(), []

    def opened(path: str = FLEET, **changed: Any) -> tuple[Page, Server]:
        server = Server(**{"pages": {FLEET: page_of(RECORDS)}, **changed})
        page = context.new_page()
        page.clock.install(time=TIME)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.route("**/*", server.answer)
        page.goto(HOST + path)
        return page, server

    yield opened
    context.close()
    assert errors == []


def must_show(page: Page, *queries: str) -> None:
    """Waits until a page shows the rows of these queries, in this order."""
    expect(page.locator("#fleet tbody tr:not([hidden]) th a")).to_have_text(queries)


def test_the_number_of_rows_that_match_is_beside_that_of_all(visit: Open) -> None:
    page, _ = visit(pages={FLEET: many.fleet_page(299)})
    page.get_by_role("searchbox").fill("q1")
    expect(page.locator("#shown")).to_have_text("111 of 299 match, 100 shown")
    page.get_by_role("searchbox").fill("q29")
    expect(page.locator("#shown")).to_have_text("10 of 299 match, 10 shown")


def test_filter_order_and_group_are_in_the_address_and_come_back(visit: Open) -> None:
    query = many.query_page(3)
    page, _ = visit(pages={FLEET: page_of(RECORDS), "/statemaint/dags/statemaint__clicks_1": query})
    page.get_by_role("searchbox").fill("clicks")
    page.get_by_role("button", name="Query").click()
    page.get_by_role("button", name="Query").click()
    page.get_by_label("Group by").select_option("owner")
    page.get_by_role("button", name="web").click()
    must_show(page, "clicks_1")
    expect(page).to_have_url(f"{HOST}{FLEET}?filter=clicks&sort=Query&down=yes&by=owner&member=web")
    page.get_by_role("link", name="clicks_1", exact=True).click()
    page.get_by_role("link", name="All queries").click()
    expect(page.get_by_role("searchbox")).to_have_value("clicks")
    must_show(page, "clicks_1")
    page.get_by_role("button", name="web").click()
    must_show(page, "clicks_1", "clicks_0")
    page.get_by_role("link", name="clicks_1", exact=True).click()
    page.wait_for_url("**/dags/statemaint__clicks_1*")
    page.go_back()
    expect(page.get_by_role("searchbox")).to_have_value("clicks")
    must_show(page, "clicks_1", "clicks_0")


def test_a_group_has_the_sums_of_its_queries(visit: Open) -> None:
    page, _ = visit()
    page.get_by_label("Group by").select_option("storage")
    rows = page.locator("#groups tbody tr").all_inner_texts()
    assert [row.split() for row in rows] == [
        ["s3://lake-0", "2", "0", "0", "B", "2.0", "kB"],
        ["s3://lake-1", "2", "0", "0", "B", "2.0", "kB"],
    ]
    page.get_by_label("Group by").select_option("tag")
    assert page.locator("#groups tbody th").all_inner_texts() == ["no tag", "eu"]


def test_the_export_asks_for_the_rows_that_match(visit: Open) -> None:
    page, _ = visit()
    page.get_by_role("searchbox").fill("clicks")
    page.get_by_label("needs attention only").check()
    exported = f"{HOST}/statemaint/export?filter=clicks&attention=true&format=csv"
    expect(page.get_by_role("link", name="CSV")).to_have_attribute("href", exported)


def act(page: Page, name: str, *queries: str) -> list[str]:
    """Lets a button act on some queries, and returns the outcomes."""
    for query in queries:
        page.get_by_label(f"Select {query}", exact=True).check()
    page.get_by_role("button", name=name).click()
    page.locator("#ask").get_by_role("button", name="Start").click()
    expect(page.locator("#outcomes li")).not_to_have_count(0)
    expect(page.locator("#outcomes")).not_to_contain_text("waiting")
    return page.locator("#outcomes li").all_inner_texts()


def test_several_queries_are_compacted_and_each_has_its_outcome(visit: Open) -> None:
    page, server = visit(refused=frozenset({"statemaint__clicks_1"}))
    outcomes = act(page, "Compact", "clicks_0", "clicks_1", "orders_0", "orders_1")
    assert outcomes == [
        "clicks_0: started Show the run",
        "clicks_1: Airflow refused it (403): Forbidden",
        "orders_0: started, but the DAG is paused: unpause it Show the run",
        "orders_1: its DAG has other tasks, or is not valid: run it on its own page",
    ]
    conf = {"logical_date": None, "conf": {"force_snapshot": True}}
    assert sorted(server.sent, key=str) == [
        ("POST", "statemaint__clicks_0", conf),
        ("POST", "statemaint__orders_0", conf),
    ]


def test_queries_of_one_dag_are_compacted_by_one_run(visit: Open) -> None:
    dag = "statemaint_together_hourly"
    both = [record("a", dag=dag), record("b", dag=dag)]
    page, server = visit(pages={FLEET: page_of(both)})
    assert act(page, "Compact", "a", "b") == ["a, b: started Show the run"]
    ((_, sent_to, body),) = server.sent
    assert (sent_to, body["conf"]) == (dag, {"force_snapshot": True, "queries": ["a", "b"]})


def test_only_paused_dags_are_unpaused(visit: Open) -> None:
    page, server = visit()
    assert act(page, "Unpause", "clicks_0", "orders_0") == [
        "clicks_0: was not paused",
        "orders_0: unpaused",
    ]
    assert server.sent == [("PATCH", "statemaint__orders_0", {"is_paused": False})]


def test_verify_names_each_query(visit: Open) -> None:
    page, server = visit()
    act(page, "Verify", "clicks_0", "orders_0")
    assert [(dag, body["conf"]) for _, dag, body in server.sent] == [
        ("statemaint_verify", {"query": "clicks_0"}),
        ("statemaint_verify", {"query": "orders_0"}),
    ]


def test_rows_that_no_longer_match_are_no_longer_selected(visit: Open) -> None:
    page, _ = visit()
    page.get_by_label("select all that match").check()
    expect(page.locator("#picked")).to_have_text("4 selected")
    page.get_by_role("searchbox").fill("clicks")
    expect(page.locator("#picked")).to_have_text("2 selected")
    page.get_by_role("searchbox").fill("")
    expect(page.locator("#picked")).to_have_text("2 selected")


def test_an_acknowledgement_is_the_first_line_of_the_note_and_replaces_the_last(
    visit: Open,
) -> None:
    before = "ack until 2026-11-24T13:00Z: old\n3 snapshots written"
    page, server = visit(notes={"statemaint__clicks_0": before})
    page.get_by_label("Select clicks_0").check()
    page.get_by_role("button", name="Acknowledge").first.click()
    dialog = page.locator("#acknowledge")
    dialog.get_by_label("Note").fill("on it")
    dialog.get_by_label("for").select_option("8")
    dialog.get_by_role("button", name="Acknowledge").click()
    expect(page.locator("#outcomes")).to_have_text("clicks_0: acknowledged")
    until = f"{TIME + timedelta(hours=8):%Y-%m-%dT%H:%M}Z"
    note = f"ack until {until}: on it\n3 snapshots written"
    assert server.sent == [("PATCH", "statemaint__clicks_0", {"note": note})]


def test_the_rows_of_thousands_follow_the_worst(visit: Open) -> None:
    first, whole = page_of(RECORDS[:1], rest=3), page_of(RECORDS)
    page, _ = visit(pages={FLEET: first, f"{FLEET}?whole=true": whole})
    expect(page.locator("#shown")).to_have_text("4 of 4 match, 4 shown")
    must_show(page, "clicks_0", "clicks_1", "orders_0", "orders_1")


# -- live


def run(dag: str, **changed: Any) -> dict[str, Any]:
    about = {"dag": dag, "run": "manual__1", "state": "running", "done": 0, "total": 0}
    return {**about, "queries": [], "left": None, **changed}


def test_a_run_under_way_shows_its_progress_and_then_its_figures(visit: Open) -> None:
    page, server = visit(activity=[run("statemaint__clicks_0", done=4, total=12, left=90)])
    cell = page.locator("tr[data-dag=statemaint__clicks_0] td.run")
    expect(cell).to_have_text("running, 4 of 12 tasks, about 1 min left")
    server.activity = [run("statemaint__clicks_0", done=9, total=12, left=20)]
    page.clock.run_for(3_100)
    expect(cell).to_have_text("running, 9 of 12 tasks, about 20 s left")
    figures = QueryFigures(query="clicks_0", checkpoint="", target=25, partitions=1, bytes=5)
    server.pages = {FLEET: page_of([replace(RECORDS[0], figures=figures), *RECORDS[1:]])}
    server.activity = []
    page.clock.run_for(3_100)
    expect(page.locator("tr[data-dag=statemaint__clicks_0]")).to_contain_text("5 B")
    expect(cell).to_contain_text("success")
    assert server.loads == 2


def test_an_idle_page_is_checked_once_a_minute(visit: Open) -> None:
    page, server = visit()
    expect(page.locator("#shown")).to_contain_text("match")
    while not server.checks:  # it asks as it opens
        page.wait_for_timeout(10)
    page.clock.run_for(59_000)
    assert server.checks == 1
    for _ in range(90):  # from the answer on, which the page may have had only now
        if server.checks == 1:
            page.clock.run_for(1_000)
    assert server.checks == 2


def test_a_server_that_is_away_for_a_moment_does_not_end_the_checks(visit: Open) -> None:
    page, _ = visit()
    expect(page.locator("#shown")).to_contain_text("match")
    page.route("**/activity", lambda route: route.fulfill(status=503))
    for _ in range(2):
        with page.expect_response("**/activity", timeout=5_000):
            page.clock.run_for(61_000)


QUERY = "/statemaint/dags/statemaint__q0"


def test_rows_are_renewed_after_an_action_once_the_server_is_back(visit: Open) -> None:
    page, server = visit()
    page.route(f"**{FLEET}?*", lambda route: route.abort())
    act(page, "Unpause", "orders_0")
    page.unroute(f"**{FLEET}?*")
    server.pages[FLEET] = page_of([replace(one, paused=False) for one in RECORDS])
    page.clock.run_for(4_000)
    expect(page.locator("tr[data-paused]")).to_have_count(0)


def test_the_page_of_a_query_loads_its_figures_once_at_the_end_of_a_run(visit: Open) -> None:
    busy = [run("statemaint__q0", done=1, total=3, left=20)]
    page, server = visit(QUERY, pages={QUERY: many.query_page(3)}, activity=busy)
    expect(page.locator("#running")).to_have_text(
        "Run manual__1: running, 1 of 3 tasks, about 20 s left."
    )
    assert server.loads == 1
    server.activity = []
    with page.expect_navigation():
        page.clock.run_for(3_100)
    expect(page.locator("#running")).to_be_empty()
    page.clock.run_for(61_000)
    assert server.loads == 2


def test_a_hidden_tab_asks_nothing_of_the_run_that_it_has_started(visit: Open) -> None:
    page, _ = visit(QUERY, pages={QUERY: many.query_page(3)})
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.get_by_role("button", name="Verify").click()
    expect(page.locator("#done")).to_contain_text("Verify: running")
    page.evaluate("Object.defineProperty(document, 'hidden', { value: true, writable: true })")
    before = len(asked)
    page.clock.run_for(30_000)
    page.wait_for_timeout(500)
    assert asked[before:] == []
    page.evaluate("document.hidden = false")
    with page.expect_response("**/dagRuns/manual__1", timeout=5_000):
        page.clock.run_for(4_000)


# -- the tab State


def test_a_partition_has_an_address_in_the_tab_state(visit: Open) -> None:
    outer = f'<iframe title="State" src="{QUERY}"></iframe>'
    tab = "/dags/statemaint__q0/plugin/statemaint-state"
    partition = f"{QUERY}/partitions/0/2"
    crumbs = (
        '<main><p data-partition="0/2?query=q0"><a class="query" '
        f'href="{QUERY}?query=q0">q0</a></p><h1>op 0 / part 2</h1></main>'
        '<script src="/statemaint/static/pages.js"></script>'
    )
    pages = {tab: outer, QUERY: many.query_page(3), partition: crumbs}
    page, _ = visit(tab, pages=pages)
    frame = page.frame_locator("iframe")
    frame.get_by_role("link", name="op 0 / part 2", exact=True).click()
    expect(frame.get_by_role("heading", name="op 0 / part 2")).to_be_visible()
    expect(page).to_have_url(f"{HOST}{tab}#partition=0/2?query=q0")
    page.reload()
    expect(frame.get_by_role("heading", name="op 0 / part 2")).to_be_visible()
    frame.get_by_role("link", name="q0").click()
    expect(frame.get_by_role("heading", name="q0", level=1)).to_be_visible()
    expect(page).to_have_url(HOST + tab)


def test_the_address_of_a_partition_is_of_its_query_in_a_dag_of_several(visit: Open) -> None:
    tab = "/dags/statemaint__q0/plugin/statemaint-state"
    partition, head = f"{QUERY}/partitions/0/2", "<h1>op 0 / part 2 of {}</h1>"
    pages = {
        tab: f'<iframe title="State" src="{QUERY}"></iframe>',
        QUERY: many.query_page(3),
        **{f"{partition}?query={name}": head.format(name) for name in ("q0", "q1")},
    }
    page, _ = visit(f"{tab}#partition=0/2?query=q1", pages=pages)
    frame = page.frame_locator("iframe")
    expect(frame.get_by_role("heading", name="op 0 / part 2")).to_have_text("op 0 / part 2 of q1")


def test_a_ledger_that_could_not_be_read_is_read_when_it_is_opened_again(visit: Open) -> None:
    script = '<script src="/statemaint/static/pages.js"></script>'
    place = '<details id="ledger" data-from="/runs"><summary>Runs</summary><div></div></details>'
    page, _ = visit("/query", pages={"/query": script + place, "/runs": "<p>all of them</p>"})
    page.route("**/runs", lambda route: route.abort())
    page.get_by_text("Runs").click()
    expect(page.locator("#ledger div")).to_contain_text("The ledger cannot be read: Failed to")
    page.unroute("**/runs")
    for _ in range(2):
        page.get_by_text("Runs").click()
    expect(page.locator("#ledger div")).to_have_text("all of them")
