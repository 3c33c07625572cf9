"""One real Airflow and one Chromium for all tests of this folder."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.servers import Servers

_servers = Servers(Path(__file__).parent)

for _needed in ("airflow", "playwright", "axe_playwright_python"):
    if find_spec(_needed) is None:
        collect_ignore_glob = ["*.py"]
if "collect_ignore_glob" not in globals():
    from playwright.sync_api import Browser

    from tests.systems.browser.pages import Visit, browser, chromium, visit
    from tests.systems.browser.scene import Scene, scene


@pytest.fixture
def airflow_scene(tmp_path_factory: pytest.TempPathFactory) -> "Scene":
    """A real Airflow with queries in every state."""
    return _servers.get("scene", lambda: scene(tmp_path_factory.mktemp("browser")))


@pytest.fixture
def running_browser() -> "Browser":
    """A Chromium."""
    if chromium() is None:
        pytest.skip("Chromium is not installed; Debian's package is `chromium`")
    return _servers.get("browser", browser)


@pytest.fixture
def log_in(airflow_scene: "Scene", running_browser: "Browser") -> Iterator[Callable[..., "Visit"]]:
    """Logs users in; no page may leave an error on the console."""
    visits: list[Visit] = []
    with ExitStack() as stack:

        def one(user: str = "admin", **settings: str) -> Visit:
            opened = visit(running_browser, airflow_scene.airflow, user, **settings)
            visits.append(stack.enter_context(opened))
            return visits[-1]

        yield one
        assert [error for one in visits for error in one.errors] == []


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Ends both with the last of the tests."""
    _servers.leave(nextitem)
