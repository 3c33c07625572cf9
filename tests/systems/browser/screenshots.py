"""The pictures in docs/images, of a real Airflow: `make screenshots`."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page

from tests.support.paths import ROOT
from tests.systems.browser.pages import Visit, browser, chromium, logged_in, visit
from tests.systems.browser.scene import Scene, scene

FOLDER = ROOT / "docs/images"
_SIZE = {"width": 1280, "height": 720}
_SETTLES = 1_500  # milliseconds until Airflow's own pages stand still


def main() -> int:
    """Makes all pictures; returns the exit code."""
    if chromium() is None:
        print("screenshots: Debian's package `chromium` is needed", file=sys.stderr)  # noqa: T201
        return 2
    FOLDER.mkdir(exist_ok=True)
    with (
        _folder() as folder,
        scene(folder) as running,
        browser() as found,
        logged_in(found, running.airflow, "admin", viewport=_SIZE) as context,
        visit(context, running.airflow.url) as seen,
    ):
        seen.theme("light")
        _ours(seen)
        _airflows(seen, running)
    return 0


@contextmanager
def _folder() -> Iterator[Path]:
    # A short path, as it is seen in the pictures.
    with tempfile.TemporaryDirectory(prefix="lake-", dir="/tmp") as folder:
        yield Path(folder)


def _ours(seen: Visit) -> None:
    seen.fleet()
    _take(seen.page, "fleet")
    frame = seen.query("joined_orders")
    _take(seen.page, "query")
    frame.locator("a.cell").first.click()
    frame.locator("table.timeline").wait_for()
    _take(seen.page, "timeline")


def _airflows(seen: Visit, running: Scene) -> None:
    page = seen.page
    page.goto(f"{seen.url}/dags/statemaint__good")
    page.get_by_role("button", name="Trigger").first.click()
    page.get_by_text("Dry run").first.wait_for()
    page.wait_for_timeout(_SETTLES)
    _take(page, "form")
    (run, *_) = running.admin.get("/api/v2/dags/statemaint__good/dagRuns")["dag_runs"]
    page.goto(f"{seen.url}/dags/statemaint__good/runs/{run['dag_run_id']}")
    page.get_by_text("report").first.wait_for()
    page.wait_for_timeout(_SETTLES)
    _take(page, "grid")


def _take(page: Page, name: str) -> None:
    page.screenshot(path=FOLDER / f"{name}.png")


if __name__ == "__main__":
    sys.exit(main())
