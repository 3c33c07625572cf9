"""The charts of a query's history in a browser, under the pages' own policy and without Airflow."""

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("playwright", reason="of the group `dev`")
pytest.importorskip("airflow", reason="the extra `airflow`")

from http.server import BaseHTTPRequestHandler

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from statemaint.airflow.pages.app import _HEADERS, _STATIC
from statemaint.airflow.pages.render import FOLDER
from statemaint.model.verdict import Verdict
from statemaint.report.trend import Point
from tests.support.serving import served
from tests.systems.browser import many

pytestmark = [pytest.mark.airflow, pytest.mark.slow]
POINTS = [
    Point(1_700_000_000 + hour * 3600, Verdict.HEALTHY, hour % 9, hour, hour, 0, 0, 1.5, 12, 0, 0)
    for hour in range(100)
]
# Of the shown chart: the number of its pixels of a colour that the page names.
_PIXELS = """name => {
  const canvas = document.querySelector("#trend canvas"), probe = document.createElement("canvas");
  const colour = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const drawn = probe.getContext("2d");
  drawn.fillStyle = colour;
  drawn.fillRect(0, 0, 1, 1);
  const want = drawn.getImageData(0, 0, 1, 1).data.join();
  const all = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  let found = 0;
  for (let at = 0; at < all.length; at += 4) found += all.slice(at, at + 4).join() === want;
  return found;
}"""


class Pages(BaseHTTPRequestHandler):
    """Answers as the plugin does: one query's page, and the static files."""

    def do_GET(self) -> None:
        name = self.path.rpartition("/")[2]
        static = "/static/" in self.path
        self.send_response(200 if name in _STATIC or not static else 404)
        kind = _STATIC.get(name, "text/html; charset=utf-8")
        for key, value in {**_HEADERS, "Content-Type": kind}.items():
            self.send_header(key, value)
        self.end_headers()
        page = many.query_page(2, POINTS).encode()
        self.wfile.write((FOLDER / "static" / name).read_bytes() if static else page)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served(Pages) as url:
        yield f"{url}/statemaint/dags/statemaint__q0"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [800, 1600])
def test_charts_are_drawn_in_the_colours_of_the_page_and_axe_finds_nothing(
    chrome: Browser, address: str, scheme: Any, width: int
) -> None:
    page = chrome.new_page(color_scheme=scheme, viewport={"width": width, "height": 900})
    errors: list[str] = []
    page.on("console", lambda message: errors.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(address)
    page.locator("#trend canvas").nth(5).wait_for()
    page.wait_for_function(f"name => ({_PIXELS})(name) > 50", arg="--link")
    page.get_by_text("The numbers of these charts, as a table").click()
    assert page.locator("table").first.locator("tbody tr").count() > 0
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert Axe().run(page).response["violations"] == []
    # Airflow's theme changes the class.
    page.evaluate("document.documentElement.classList.toggle('dark')")
    page.wait_for_function(f"name => ({_PIXELS})(name) > 50", arg="--link")
    assert [error for error in errors if not error.startswith("warning: Canvas2D")] == []
    page.close()
