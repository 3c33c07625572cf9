"""Five stories of people on call, walked in a real Airflow by a real browser."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

pytest.importorskip("playwright", reason="of the group `dev`")

from playwright.sync_api import Frame, Locator, expect

from statemaint.execute.lease import acquire
from statemaint.records.claims import Holder
from statemaint.storage import LocalStorage
from tests.systems.airflow.support import snapshots
from tests.systems.browser.album import Album
from tests.systems.browser.pages import Visit
from tests.systems.browser.scene import Scene
from tests.systems.browser.spark_query import counted_by_spark, counts
from tests.systems.browser.stories import FRESH, HOURLY, NIGHTLY, REVENUE, REVENUE_FILES

pytestmark = [pytest.mark.airflow, pytest.mark.slow]

Walk = Callable[..., Visit]
LONG = 180_000
CLICKS, ORDERS = FRESH
# Airflow's own pages load what they show, which takes a while where both cores are busy.
expect.set_options(timeout=30_000)


def shown(frame: Frame) -> list[str]:
    names: list[str] = frame.locator("#fleet tbody tr:not([hidden]) th a").all_inner_texts()
    return names


def row(frame: Frame, name: str) -> Locator:
    link = frame.get_by_role("link", name=name, exact=True)
    return frame.get_by_role("row").filter(has=link)


def filtered(frame: Frame, text: str) -> None:
    frame.get_by_role("searchbox").fill(text)


def opened(visit: Visit, name: str) -> Frame:
    """Opens the page of a query, which may not be among the first hundred."""
    frame = visit.fleet()
    filtered(frame, name)
    frame.get_by_role("link", name=name, exact=True).click()
    frame.get_by_role("heading", name=name, level=1).wait_for()
    return frame


def runs_of(scene: Scene, dag: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = scene.admin.get(f"/api/v2/dags/{dag}/dagRuns")["dag_runs"]
    return found


def wait(condition: Callable[[], Any], seconds: float = 180.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    return found


def states(scene: Scene, dag: str, run: str) -> dict[str, str | None]:
    return {each.task: each.state for each in scene.admin.task_instances(dag, run)}


# -- a healthy fleet


def test_a_healthy_fleet_of_300_is_one_look(walk: Walk) -> None:
    visit = walk()
    visit.page.goto(visit.url)
    visit.page.get_by_role("button", name="Browse").click()
    visit.page.get_by_role("menuitem", name="Streaming state").click()
    frame = visit.frame("Streaming state")
    album = Album(visit, "fleet")
    filtered(frame, "ly_")  # of hourly and nightly
    expect(frame.locator("#shown")).to_contain_text("300")
    assert set(shown(frame)) <= {*HOURLY, *NIGHTLY}
    verdicts = frame.locator("#fleet tbody tr:not([hidden]) td:nth-of-type(1) .badge")
    assert set(verdicts.all_inner_texts()) <= {"healthy", ""}
    album.step(frame, "all-queries")
    frame.get_by_role("button", name="Longest chain").click()
    frame.get_by_role("button", name="Longest chain").click()
    assert set(shown(frame)[: len(NIGHTLY)]) == {*NIGHTLY}
    filtered(frame, "hourly_007")
    assert shown(frame) == ["hourly_007"]
    frame.get_by_role("link", name="hourly_007", exact=True).click()
    expect(frame.get_by_role("heading", level=1)).to_contain_text("hourly_007 healthy")
    album.step(frame, "one-query")


# -- three in the morning


def lose_a_delta(scene: Scene) -> None:
    lost = scene.folder / REVENUE / "checkpoint/state/0/0/6.delta"
    lost.unlink()
    lost.with_name(".6.delta.crc").unlink(missing_ok=True)
    dag = f"statemaint__{REVENUE}"
    assert scene.admin.wait_for_run(dag, scene.admin.trigger(dag)) == "failed"


def asked(scene: Scene, dag: str) -> str:
    """Waits until a run of a DAG asks for an approval; returns its id."""
    run = wait(lambda: runs_of(scene, dag))[0]["dag_run_id"]
    # The question is there before its task waits for the answer; see `test_own_dags.manual`.
    seen = 0
    while seen < 6:
        wait(lambda: states(scene, dag, run).get("approve") == "awaiting_input")
        seen += 1
        time.sleep(0.5)
    return str(run)


def roll_back(scene: Scene, album: Album, frame: Frame) -> str:
    """Starts a rollback to batch 4; returns the run that then asks for an approval."""
    frame.get_by_role("button", name="Roll back").click()
    asks = frame.get_by_role("dialog")
    expect(asks).to_contain_text("Stop the query first.")
    asks.get_by_role("spinbutton").fill("4")
    album.step(frame, "roll-back-to")
    asks.get_by_role("button", name="Start").click()
    run = asked(scene, "statemaint_rollback")
    assert runs_of(scene, "statemaint_rollback")[0]["conf"] == {"query": REVENUE, "batch": 4}
    return run


def approve(scene: Scene, album: Album, run: str) -> None:
    """Approves a rollback in Airflow's own page, and waits for its end."""
    page, url = album.visit.page, album.visit.url
    page.set_viewport_size({"width": 1600, "height": 900})
    task = f"/dags/statemaint_rollback/runs/{quote(run)}/tasks/approve/required_actions"
    page.goto(url + task)
    button = page.get_by_role("button", name="Approve", exact=True)
    expect(button).to_be_enabled()
    expect(page.locator("body")).to_contain_text("state/0/1/8.delta")
    album.theirs("approval")
    button.click()
    assert scene.admin.wait_for_run("statemaint_rollback", run) == "success"


def compact(scene: Scene, frame: Frame, dag: str) -> None:
    """Presses *Compact* on the page of a query, and waits for the run."""
    before = {run["dag_run_id"] for run in runs_of(scene, dag)}
    frame.get_by_role("button", name="Compact", exact=True).click()
    frame.get_by_role("dialog").get_by_role("button", name="Start").click()
    (run,) = wait(lambda: {one["dag_run_id"] for one in runs_of(scene, dag)} - before)
    assert scene.admin.wait_for_run(dag, run) == "success"


def test_a_lost_delta_at_three_in_the_morning_ends_with_a_query_that_spark_restarts(
    walk: Walk, stories: Scene
) -> None:
    lose_a_delta(stories)
    visit = walk()
    album = Album(visit, "lost-delta")
    visit.page.goto(f"{visit.url}/dags/statemaint__{REVENUE}")  # the alert's `dag_url`
    visit.page.get_by_role("link", name="State", exact=True).click()
    frame = visit.frame("State")
    expect(frame.get_by_role("heading", level=1)).to_contain_text(f"{REVENUE} broken")
    expect(frame.locator("body")).to_contain_text("state/0/0/6.delta is missing")
    album.step(frame, "broken")
    frame.get_by_text("What it means").first.click()
    album.step(frame, "runbook")
    approve(stories, album, roll_back(stories, album, frame))
    root = stories.folder / REVENUE
    assert counted_by_spark(root, REVENUE_FILES + 1) == counts(REVENUE_FILES + 1)
    frame = visit.state_tab(f"statemaint__{REVENUE}")
    frame.get_by_role("link", name="Scan it now").click()
    expect(frame.get_by_role("heading", level=1)).to_contain_text(f"{REVENUE} healthy")
    album.step(frame, "scanned")
    compact(stories, frame, f"statemaint__{REVENUE}")
    frame = visit.state_tab(f"statemaint__{REVENUE}")
    expect(frame.get_by_role("heading", level=1)).to_contain_text(f"{REVENUE} healthy")
    expect(frame.locator(".finding")).to_have_count(0)
    album.step(frame, "healthy-again")


# -- twelve at once, by keyboard


def focus(visit: Visit, target: Locator, most: int = 200) -> None:
    """Presses the tabulator key until an element has the focus."""
    for _ in range(most):
        if target.evaluate("it => it === document.activeElement"):
            return
        visit.page.keyboard.press("Tab")
    raise AssertionError(f"{target} is not reached by keyboard")


def press(visit: Visit, target: Locator, key: str = "Enter") -> None:
    focus(visit, target)
    visit.page.keyboard.press(key)


def test_twelve_queries_are_compacted_at_once_by_keyboard_alone(walk: Walk, stories: Scene) -> None:
    visit = walk()
    frame = visit.fleet()
    album = Album(visit, "twelve")
    focus(visit, frame.get_by_role("searchbox"))
    visit.page.keyboard.type("nightly_")
    assert sorted(shown(frame)) == NIGHTLY
    for name in shown(frame):
        press(visit, row(frame, name).get_by_role("checkbox"), "Space")
    album.step(frame, "selected")
    selected = frame.get_by_role("group", name="Selected queries")
    press(visit, selected.get_by_role("button", name="Compact"))
    asks = frame.get_by_role("dialog")
    expect(asks).to_contain_text("12")
    album.step(frame, "asked")
    press(visit, asks.get_by_role("button", name="Start"))
    outcomes = frame.get_by_role("listitem").filter(has_text="nightly_")
    expect(outcomes).to_have_count(len(NIGHTLY))
    expect(outcomes.filter(has_text="waiting")).to_have_count(0, timeout=LONG)
    assert [one for one in outcomes.all_inner_texts() if "started" not in one] == []
    for name in NIGHTLY:
        wait(partial(has_succeeded, stories, f"statemaint__{name}"), seconds=600.0)
        assert set(snapshots(stories.folder / name)) == {0}
    frame = visit.fleet()
    filtered(frame, "nightly_")
    expect(row(frame, NIGHTLY[0])).to_contain_text("healthy")
    album.step(frame, "compacted")


def has_succeeded(scene: Scene, dag: str) -> bool:
    started = [run["state"] for run in runs_of(scene, dag) if run["run_type"] == "manual"]
    assert "failed" not in started
    return started == ["success"]


# -- a first installation


def test_a_first_installation_with_everything_paused_says_what_to_do(
    walk: Walk, stories: Scene
) -> None:
    visit = walk()
    frame = visit.fleet()
    album = Album(visit, "first")
    filtered(frame, "fresh_")
    assert sorted(shown(frame)) == FRESH
    expect(row(frame, ORDERS)).to_contain_text("No run has looked at it yet.")
    album.step(frame, "not-looked-at")
    frame.get_by_role("link", name=ORDERS, exact=True).click()
    dag = f"statemaint__{ORDERS}"
    unpause = frame.get_by_role("button", name=f"Unpause {dag}")
    expect(unpause).to_be_enabled()
    album.step(frame, "paused")
    unpause.click()
    wait(lambda: not stories.admin.get(f"/api/v2/dags/{dag}")["is_paused"])
    frame = opened(visit, ORDERS)
    expect(frame.get_by_role("button", name=f"Unpause {dag}")).to_have_count(0)
    frame.get_by_role("button", name="Dry run").click()
    wait(partial(has_succeeded, stories, dag))
    assert snapshots(stories.folder / ORDERS) == {}
    # The DAGs for manual work have no schedule, and are not paused.
    frame.get_by_role("button", name="Verify").click()
    wait(partial(has_succeeded, stories, "statemaint_verify"))
    frame = opened(visit, ORDERS)
    expect(frame.get_by_role("heading", level=1)).to_contain_text(f"{ORDERS} healthy")
    album.step(frame, "planned")


# -- a viewer


def test_a_viewer_sees_everything_and_changes_nothing(walk: Walk, stories: Scene) -> None:
    visit = walk("viewer")
    frame = visit.fleet()
    album = Album(visit, "viewer")
    filtered(frame, "hourly_00")
    assert len(shown(frame)) == 10
    for name in ("Compact", "Verify", "Unpause"):
        assert frame.get_by_role("button", name=name, disabled=False).count() == 0
    album.step(frame, "all-queries")
    frame.get_by_role("link", name="hourly_000", exact=True).click()
    for name in ("Dry run", "Compact", "Verify", "Repair", "Roll back"):
        expect(frame.get_by_role("button", name=name, exact=True)).to_be_disabled()
    expect(frame.locator("body")).to_contain_text("no right to run the DAG statemaint__hourly_000")
    album.step(frame, "one-query")
    refused = """([path, method, body]) => fetch(path, {method,
        headers: {'Content-Type': 'application/json'},
        body: JSON.stringify(body)}).then(one => one.status)"""
    dag = "/api/v2/dags/statemaint__hourly_000"
    started: dict[str, Any] = {"logical_date": None, "conf": {}}
    assert frame.evaluate(refused, [f"{dag}/dagRuns", "POST", started]) == 403
    assert frame.evaluate(refused, [dag, "PATCH", {"is_paused": False}]) == 403
    assert stories.admin.get(dag)["is_paused"]
    visit.errors[:] = [one for one in visit.errors if "403" not in one]


# -- the triggerer, which this Airflow has


def test_a_plan_is_deferred_while_another_run_holds_the_lease(stories: Scene) -> None:
    dag = f"statemaint__{CLICKS}"
    lease = acquire(LocalStorage(stories.folder / CLICKS), Holder("another"), seconds=600.0)
    stories.admin.unpause(dag)
    run = stories.admin.trigger(dag)
    wait(lambda: states(stories, dag, run).get("plan") == "deferred")
    lease.release()
    assert stories.admin.wait_for_run(dag, run) == "success"
    assert len(snapshots(Path(stories.folder / CLICKS))) == 4
    (plan,) = (one for one in stories.admin.task_instances(dag, run) if one.task == "plan")
    assert plan.tries == 1
    assert "the triggerer looks at it until" in stories.admin.log(dag, run, plan)
