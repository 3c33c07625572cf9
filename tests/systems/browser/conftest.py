"""One real Airflow at a time, and one Chromium, for all tests of this folder."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.servers import Servers
from tests.systems.browser.scene import Scene, scene
from tools.demo.airflow import Airflow

# Five stories of minutes each, with a fleet of 300: `make test-stories` and `make screenshots`.
collect_ignore = [] if os.environ.get("STATEMAINT_STORIES") == "all" else ["test_stories.py"]

_servers = Servers(Path(__file__).parent)
_stories = Servers(Path(__file__).parent)
_browsers = Servers(Path(__file__).parent)
# To open a page, which takes a second if Chromium does not hang.
_ATTEMPTS = 4


@pytest.fixture
def airflow_scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """A real Airflow with queries in every state."""
    pytest.importorskip("airflow", reason="the extra `airflow`")
    return _servers.get("scene", lambda: scene(tmp_path_factory.mktemp("browser")))


@pytest.fixture
def stories(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """A real Airflow with a fleet of 300; it takes the place of the other."""
    pytest.importorskip("airflow", reason="the extra `airflow`")
    from tests.systems.browser.stories import stories_scene  # noqa: PLC0415 -- imports Airflow

    _servers.end()
    return _stories.get("stories", lambda: stories_scene(tmp_path_factory.mktemp("stories")))


@pytest.fixture
def log_in(airflow_scene: Scene) -> Iterator[Callable[..., object]]:
    """Opens tabs of users, who are logged in once; no page may leave an error on the console."""
    with _visitors(airflow_scene.airflow) as one:
        yield one


@pytest.fixture
def walk(stories: Scene) -> Iterator[Callable[..., object]]:
    """Does so in the Airflow of the stories."""
    with _visitors(stories.airflow) as one:
        yield one


@pytest.fixture
def chrome() -> object:
    """The Chromium of all tests: a process can have one Playwright."""
    from tests.systems.browser.pages import browser, chromium, limited  # noqa: PLC0415 -- as below

    if chromium() is None:
        pytest.skip("Chromium is not installed; Debian's package is `chromium`")
    with limited():
        return _browsers.get("browser", browser)


@contextmanager
def _visitors(at: Airflow) -> Iterator[Callable[..., object]]:
    # Tests that need Playwright are skipped without it, and this file is read all the same.
    from playwright.sync_api import Error  # noqa: PLC0415

    from tests.systems.browser.pages import (  # noqa: PLC0415
        Visit,
        browser,
        chromium,
        limited,
        logged_in,
        visit,
    )

    if chromium() is None:
        pytest.skip("Chromium is not installed; Debian's package is `chromium`")
    visits: list[Visit] = []
    with ExitStack() as stack:

        def opened(user: str, settings: Mapping[str, str]) -> Visit:
            with limited():
                running = _browsers.get("browser", browser)
                context = _browsers.get(
                    f"{at.url} {user} {settings}", lambda: logged_in(running, at, user, **settings)
                )
                return stack.enter_context(visit(context, at.url))

        def one(user: str = "admin", **settings: str) -> Visit:
            for attempt in range(_ATTEMPTS):
                try:
                    visits.append(opened(user, settings))
                    break
                except Error:  # the browser has hung, and was killed
                    if visits or attempt == _ATTEMPTS - 1:
                        raise
                    with suppress(Error):
                        _browsers.end()
            return visits[-1]

        yield one
        assert [error for one in visits for error in one.errors] == []


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Ends all with the last of the tests."""
    for shared in (_browsers, _stories, _servers):
        shared.leave(nextitem)
