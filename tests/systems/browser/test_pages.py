"""The pages as a browser shows them, inside a real Airflow."""

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("playwright", reason="of the group `dev`")

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Frame, expect

from tests.systems.browser import many
from tests.systems.browser.pages import Visit
from tests.systems.browser.scene import Scene

pytestmark = [pytest.mark.airflow, pytest.mark.slow]

LogIn = Callable[..., Visit]
LONG = 120_000
# Airflow's own pages load what they show, which takes a while where both cores are busy.
expect.set_options(timeout=30_000)


def names(frame: Frame) -> list[str]:
    heads = frame.locator("#fleet tbody tr:not([hidden]) th")
    return [text.strip() for text in heads.all_inner_texts()]  # behind a box to select the row


def column(frame: Frame, number: int) -> list[float]:
    cells = frame.locator(f"#fleet tbody tr:not([hidden]) td:nth-child({number})")
    return [float(one) for one in cells.evaluate_all("all => all.map(one => one.dataset.v)")]


def lengths(frame: Frame) -> set[str]:
    return set(frame.locator(".cell b").all_inner_texts())


def serious(frame: Frame) -> list[tuple[str, Any]]:
    found = Axe().run(frame).response["violations"]
    bad = [one for one in found if one["impact"] in ("serious", "critical")]
    return [(one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in bad]


# -- all queries


def test_the_navigation_leads_to_all_queries_mistakes_and_the_worst_first(log_in: LogIn) -> None:
    visit = log_in()
    visit.page.goto(visit.url)
    visit.page.get_by_role("button", name="Browse").click()
    visit.page.get_by_role("menuitem", name="Streaming state").click()
    frame = visit.frame("Streaming state")
    shown = names(frame)
    assert shown[:3] == ["misspelt", "clicks", "never"]
    assert sorted(shown[3:]) == [
        "good",
        "grouped_query",
        "joined_orders",
        "kept_query",
        "own_query",
        "revenue_hourly",
        "sessions",
    ]
    for name, text in {
        "clicks": "1 of 4 partitions does not load: BROKEN_CHAIN",
        "never": "No run has looked at it yet.",
        "misspelt": "no such key",
    }.items():
        link = frame.get_by_role("link", name=name, exact=True)
        expect(frame.get_by_role("row").filter(has=link)).to_contain_text(text)


def test_a_header_sorts_by_mouse_and_by_keyboard(log_in: LogIn) -> None:
    frame = log_in().fleet()
    sizes = frame.get_by_role("button", name="Size", exact=True)
    header = frame.get_by_role("columnheader", name="Size")
    sizes.click()
    expect(header).to_have_attribute("aria-sort", "ascending")
    found = column(frame, 6)
    assert found == sorted(found)
    sizes.focus()
    sizes.press("Enter")
    expect(header).to_have_attribute("aria-sort", "descending")
    assert column(frame, 6) == found[::-1]
    assert frame.locator('th[aria-sort="ascending"]').count() == 0


def test_the_filter_leaves_what_fits(log_in: LogIn) -> None:
    frame = log_in().fleet()
    frame.get_by_role("searchbox").fill("broken_chain")
    assert names(frame) == ["clicks"]
    expect(frame.locator("#shown")).to_have_text("1 of 10 match, 1 shown")
    frame.get_by_role("searchbox").fill("")
    frame.get_by_label("needs attention only").check()
    assert names(frame) == ["misspelt", "clicks", "never"]


# A page of a thousand rows, of 52 pixels each, is more than anybody scrolls through.
TALL = 12_000


def served(visit: Visit, address: str, page: str) -> None:
    """Lets the server answer with a page that it would need many checkpoints for."""
    visit.page.route(
        address, lambda route: route.fulfill(body=page, content_type="text/html; charset=utf-8")
    )


def height(frame: Frame) -> int:
    found: int = frame.evaluate("document.body.scrollHeight")
    return found


def test_of_a_thousand_queries_a_hundred_are_shown_and_every_one_is_found(log_in: LogIn) -> None:
    visit = log_in()
    served(visit, "**/statemaint/queries", many.fleet_page(1000))
    frame = visit.fleet()
    expect(frame.locator("#shown")).to_have_text("1000 of 1000 match, 100 shown")
    assert names(frame) == [f"q{number}" for number in range(999, 899, -1)]
    assert height(frame) < TALL
    frame.get_by_role("button", name="To replay").click()
    assert names(frame) == [f"q{number}" for number in range(100)]
    frame.get_by_role("searchbox").fill("q77")
    assert names(frame) == ["q77", *(f"q77{number}" for number in range(10))]
    frame.get_by_role("searchbox").fill("")
    frame.get_by_role("button", name="Show all 1000").click()
    assert len(names(frame)) == 1000


def test_a_thousand_partitions_are_cells_the_worst_in_a_table(log_in: LogIn) -> None:
    visit = log_in()
    served(visit, "**/statemaint/dags/statemaint__good?*", many.query_page(1000))
    visit.fleet().get_by_role("link", name="good", exact=True).click()
    frame = visit.frame("Streaming state")
    frame.get_by_role("heading", name="q0", level=1).wait_for()
    assert frame.locator(".cell").count() == 1000
    worst = frame.get_by_role("region", name="The worst partitions").locator("tbody th")
    assert worst.all_inner_texts() == [f"op 0 / part {one}" for one in range(999, 979, -1)]
    assert height(frame) < TALL
    frame.get_by_role("button", name="Bytes").click()
    expect(frame.locator(".cell b").last).to_have_text("10.0 kB")


# -- one query


def test_compact_shortens_the_chains_of_the_heat_map(log_in: LogIn) -> None:
    frame = log_in().query("joined_orders")
    assert lengths(frame) == {"300"}
    assert frame.locator('.cell[data-level="4"]').count() == 24
    frame.get_by_role("button", name="Compact").click()
    frame.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(frame.locator("#done")).to_be_empty()
    frame.get_by_role("button", name="Compact").click()
    frame.get_by_role("dialog").get_by_role("button", name="Start").click()
    expect(frame.locator("#done")).to_contain_text("Compact: success.", timeout=LONG)
    expect(frame.locator(".cell").first).to_have_attribute("data-level", "0")
    assert lengths(frame) == {"0"}
    frame.get_by_text("Runs in the ledger").click()
    expect(frame.locator("#ledger table")).to_contain_text("can be undone")


def test_the_heat_map_shows_bytes_and_findings_in_words_too(log_in: LogIn) -> None:
    frame = log_in().query("clicks")
    assert lengths(frame) == {"0", "no"}
    frame.get_by_role("button", name="Bytes").click()
    assert all(one.endswith("B") for one in lengths(frame))
    findings = frame.get_by_role("button", name="Findings")
    findings.click()
    expect(findings).to_have_attribute("aria-pressed", "true")
    assert lengths(frame) == {"none", "1"}
    assert frame.locator('.cell[data-level="x"]').count() == 1


def test_a_finding_has_its_runbook_and_the_next_command(log_in: LogIn) -> None:
    frame = log_in().query("clicks")
    finding = frame.locator(".finding")
    expect(finding).to_contain_text("state/0/2/7.delta is missing")
    expect(finding).to_contain_text("statemaint doctor")
    finding.get_by_text("What it means").click()
    expect(finding.locator(".runbook")).to_contain_text("Look for the file in a backup")


def test_a_dry_run_leads_to_the_plan_with_its_reasons(log_in: LogIn, airflow_scene: Scene) -> None:
    visit = log_in()
    frame = visit.query("never")
    frame.get_by_role("button", name="Dry run").click()
    expect(frame.locator("#done")).to_contain_text("Dry run: success.", timeout=LONG)
    frame.get_by_role("link", name="Show the run").click()
    visit.page.wait_for_url("**/dags/statemaint__never/runs/**")
    run = visit.page.url.partition("/runs/")[2].partition("/")[0]
    expect(visit.page.get_by_text("would be written").first).to_be_visible()
    visit.page.goto(f"{visit.url}/dags/statemaint__never/runs/{run}/tasks/plan")
    reason = "the chain has more deltas than min_deltas_for_snapshot"
    expect(visit.page.get_by_text(reason).first).to_be_visible()
    assert not (airflow_scene.folder / "never/_statemaint/ledger").exists()


def test_a_partition_shows_why_each_file_is_kept_or_goes(log_in: LogIn) -> None:
    frame = log_in().query("never")
    frame.get_by_role("link", name="Scan it now").click()
    frame.get_by_role("link", name="op 0 / part 3", exact=True).click()
    rows = frame.locator("table.timeline tbody tr")
    expect(rows.filter(has_text="Is written because").first).to_be_visible()
    kept = rows.filter(has_text="Kept because").first
    kept.locator("summary").click()
    expect(kept.locator("li").first).to_contain_text(".delta")


def test_verify_is_started_for_the_query(log_in: LogIn, airflow_scene: Scene) -> None:
    frame = log_in().query("good")
    frame.get_by_role("button", name="Verify").click()
    expect(frame.locator("#done")).to_contain_text("Verify: success.", timeout=LONG)
    runs = airflow_scene.admin.get("/api/v2/dags/statemaint_verify/dagRuns")["dag_runs"]
    assert {"query": "good"} in [one["conf"] for one in runs]


def test_repair_asks_first_and_is_started_for_the_query(
    log_in: LogIn, airflow_scene: Scene
) -> None:
    frame = log_in().query("clicks")
    frame.get_by_role("button", name="Repair").click()
    asks = frame.get_by_role("dialog")
    expect(asks).to_contain_text("Stop the query first.")
    asks.get_by_role("button", name="Start").click()
    expect(frame.locator("#done")).to_contain_text("Repair: failed.", timeout=LONG)
    runs = airflow_scene.admin.get("/api/v2/dags/statemaint_repair/dagRuns")["dag_runs"]
    assert [one["conf"] for one in runs] == [{"query": "clicks"}]


def test_a_dag_in_python_has_its_page_in_its_own_tab(log_in: LogIn) -> None:
    frame = log_in().state_tab("own_dag")
    expect(frame.get_by_role("heading", level=1)).to_contain_text("own_query healthy")
    expect(frame.get_by_role("button", name="Compact")).to_be_enabled()
    expect(frame.get_by_role("button", name="Verify")).to_be_disabled()
    frame.locator("a.cell").nth(1).click()
    expect(frame.locator("table.timeline")).to_contain_text("Kept because")


def test_a_dag_with_other_tasks_is_not_run_from_here(log_in: LogIn) -> None:
    frame = log_in().query("grouped_query")
    expect(frame.locator("body")).to_contain_text("The DAG has tasks other than maintenance")
    for name in ("Dry run", "Compact"):
        expect(frame.get_by_role("button", name=name)).to_be_disabled()
    frame.locator("a.cell").nth(1).click()
    expect(frame.locator("table.timeline")).to_contain_text("Kept because")
    frame.get_by_role("link", name="grouped_query").click()
    frame.get_by_role("link", name="kept_query").click()
    expect(frame.get_by_role("heading", level=1)).to_contain_text("kept_query healthy")
    expect(frame.get_by_role("button", name="Compact")).to_be_disabled()


def test_an_entry_that_is_not_valid_shows_its_mistake(log_in: LogIn) -> None:
    frame = log_in().query("misspelt")
    expect(frame.locator("body")).to_contain_text("queries.misspelt.cron: no such key")
    expect(frame.get_by_role("button", name="Compact")).to_be_disabled()


def test_a_dag_without_a_query_says_so(log_in: LogIn) -> None:
    visit = log_in()
    frame = visit.state_tab("statemaint_verify")
    expect(frame.locator("body")).to_contain_text("maintains no query")
    visit.errors[:] = [one for one in visit.errors if "404" not in one]


# -- who may do what


def test_a_viewer_looks_and_cannot_act(log_in: LogIn) -> None:
    visit = log_in("viewer")
    frame = visit.query("good")
    expect(frame.get_by_role("button", name="Compact")).to_be_disabled()
    expect(frame.locator("body")).to_contain_text("no right to run the DAG statemaint__good")
    refused = """() => fetch('/api/v2/dags/statemaint__good/dagRuns', {method: 'POST',
        headers: {'Content-Type': 'application/json'},
        body: JSON.stringify({logical_date: null, conf: {}})}).then(one => one.status)"""
    assert frame.evaluate(refused) == 403
    visit.errors[:] = [one for one in visit.errors if "403" not in one]


def test_what_a_user_may_not_read_is_not_there(log_in: LogIn) -> None:
    frame = log_in("paula").fleet()
    assert names(frame) == ["good"]
    expect(frame.locator("#shown")).to_have_text("1 of 1 match, 1 shown")


# -- colours and assistive technology


def background(frame: Frame) -> str:
    found: str = frame.locator("body").evaluate("one => getComputedStyle(one).backgroundColor")
    return found


@pytest.mark.parametrize("system", ["light", "dark"])
def test_the_colours_are_airflows_whatever_the_system_says(log_in: LogIn, system: str) -> None:
    visit = log_in(color_scheme=system)
    seen = {}
    for theme in ("light", "dark"):
        visit.theme(theme)
        frame = visit.fleet()
        theirs = visit.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        seen[theme] = background(frame)
        assert frame.locator("html").get_attribute("class") == theme
        assert theirs in (seen[theme], "rgba(0, 0, 0, 0)")
    assert seen["light"] == "rgb(255, 255, 255)"
    assert seen["dark"] != seen["light"]
    text = frame.locator("body").evaluate("one => getComputedStyle(one).color")
    assert text != seen["dark"]


def test_the_theme_follows_airflows_switch(log_in: LogIn) -> None:
    visit = log_in()
    visit.theme("light")
    frame = visit.fleet()
    before = background(frame)
    visit.page.evaluate("document.documentElement.className = 'dark'")
    expect(frame.locator("html")).to_have_class("dark")
    assert background(frame) != before


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(log_in: LogIn, theme: str) -> None:
    visit = log_in()
    visit.theme(theme)
    assert serious(visit.fleet()) == []
    frame = visit.query("clicks")
    for summary in frame.locator("summary").all():
        summary.click()
    expect(frame.locator("#ledger table")).to_be_visible()
    assert serious(frame) == []
    frame.locator("a.cell").first.click()
    frame.locator("table.timeline").wait_for()
    assert serious(frame) == []
