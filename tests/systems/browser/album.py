"""The steps of a story: each judged by axe as it looks in both themes, narrow and wide.

STATEMAINT_SCREENSHOTS names a folder for a picture of each look; without it none are taken.
"""

import os
from itertools import product
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Frame, Page, expect

from tests.systems.browser.pages import Visit

LOOKS = tuple(product(("light", "dark"), (800, 1600)))
_HEIGHT = 900


class Album:
    """The pictures of a story.

    Attributes:
        visit: the user in front of Airflow.
        name: the story's.
        steps: how many there were.
    """

    def __init__(self, visit: Visit, name: str) -> None:
        self.visit, self.name, self.steps = visit, name, 0
        folder = os.environ.get("STATEMAINT_SCREENSHOTS")
        self._folder = Path(folder) if folder else None

    def step(self, frame: Frame, what: str) -> None:
        """Looks at one of our pages in every way; axe must find nothing."""
        self.steps += 1
        for theme, width in LOOKS:
            self.visit.page.set_viewport_size({"width": width, "height": _HEIGHT})
            self.visit.page.evaluate("it => { document.documentElement.className = it }", theme)
            expect(frame.locator("html")).to_have_class(theme)
            assert violations(frame) == [], f"{what}, {theme}, {width} px"
            self._take(self.visit.page, f"{what}-{theme}-{width}")

    def theirs(self, what: str) -> None:
        """Takes a picture of one of Airflow's own pages."""
        self.steps += 1
        self._take(self.visit.page, what)

    def _take(self, page: Page, what: str) -> None:
        if self._folder:
            self._folder.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=self._folder / f"{self.name}-{self.steps}-{what}.png")


def violations(frame: Frame) -> list[tuple[str, Any]]:
    """Returns what axe finds, with the beginning of each element."""
    found = Axe().run(frame).response["violations"]
    return [(one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in found]
