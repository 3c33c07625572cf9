"""Airflow's UI in Debian's Chromium: logged in, with one of our pages in its frame."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Timer
from typing import Any

import psutil
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Frame,
    Page,
    sync_playwright,
)

from tools.demo.airflow import Airflow

FLEET = "/plugin/statemaint-queries"
# Of Airflow's own: a login page asks whether somebody is logged in, and its frames may run scripts.
_NOT_OURS = ("401 (Unauthorized)", "sandbox attribute can escape", "[DOM]")


def chromium() -> str | None:
    """Returns the path of Chromium; `None` where it is not installed."""
    return shutil.which("chromium")


@contextmanager
def browser() -> Iterator[Browser]:
    """Runs a Chromium for the length of a `with` block."""
    with sync_playwright() as running:
        arguments = ["--no-sandbox"]  # tests run as root
        found = running.chromium.launch(executable_path=chromium(), args=arguments)
        yield found
        found.close()


@contextmanager
def limited(seconds: float = 90.0) -> Iterator[None]:
    """Kills a Chromium that opens no page; Playwright waits for one without a limit."""
    timer = Timer(seconds, _kill_chromium)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _kill_chromium() -> None:
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if "chrom" in process.name():
                process.kill()


@dataclass  # without slots: Playwright adds an attribute to whoever listens
class Visit:
    """A user in front of Airflow.

    Attributes:
        page: the tab.
        url: Airflow's address.
        errors: what the browser complained about.
    """

    page: Page
    url: str
    errors: list[str] = field(default_factory=list)

    def fleet(self) -> Frame:
        """Opens the page with all queries, and returns its frame."""
        self.page.goto(self.url + FLEET)
        return self.frame("Streaming state")

    def query(self, name: str) -> Frame:
        """Opens the page of one query from there."""
        frame = self.fleet()
        frame.get_by_role("link", name=name, exact=True).click()
        frame.get_by_role("heading", name=name, level=1).wait_for()
        return frame

    def state_tab(self, dag: str) -> Frame:
        """Opens the tab `State` of a DAG."""
        self.page.goto(f"{self.url}/dags/{dag}/plugin/statemaint-state")
        return self.frame("State")

    def frame(self, title: str) -> Frame:
        """Returns the frame with one of our pages."""
        handle = self.page.wait_for_selector(f'iframe[title="{title}"]', state="attached")
        assert handle is not None
        frame = handle.content_frame()
        assert frame is not None
        frame.wait_for_url("**/statemaint/**")
        frame.locator("h1").wait_for()
        return frame

    def theme(self, name: str) -> None:
        """Chooses a theme, as Airflow's own switch does, for the pages that are opened next."""
        self.page.goto(f"{self.url}/statemaint/static/pages.css")
        self.page.evaluate("name => localStorage.setItem('theme', name)", name)

    def note(self, message: ConsoleMessage) -> None:
        """Notes an error on the console."""
        if message.type in ("error", "warning") and not any(x in message.text for x in _NOT_OURS):
            self.errors.append(f"{message.type}: {message.text}")


@contextmanager
def logged_in(
    running: Browser, airflow: Airflow, user: str, **settings: Any
) -> Iterator[BrowserContext]:
    """Logs a user in, by the form; all pages of this context are that user's."""
    context = running.new_context(**{"viewport": {"width": 1400, "height": 900}, **settings})
    context.set_default_timeout(60_000)
    page = context.new_page()
    page.goto(f"{airflow.url}/auth/login")
    page.fill('input[name="username"]', user)
    page.fill('input[name="password"]', airflow.passwords[user])
    page.click('button[type="submit"]')
    page.wait_for_url(f"{airflow.url}/", wait_until="commit")
    page.close()
    yield context
    context.close()


@contextmanager
def visit(context: BrowserContext, url: str) -> Iterator[Visit]:
    """Opens a tab for the length of a `with` block; the choice of a theme ends with it."""
    page = context.new_page()
    found = Visit(page, url)
    page.on("console", found.note)
    page.on("pageerror", lambda error: found.errors.append(str(error)))
    yield found
    if page.url.startswith(url):
        page.evaluate("localStorage.removeItem('theme')")
    page.close()
