"""One real Airflow and one Chromium for all tests of this folder."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.support.servers import Servers
from tests.systems.browser.scene import Scene, scene

_servers = Servers(Path(__file__).parent)
_browsers = Servers(Path(__file__).parent)


@pytest.fixture
def airflow_scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """A real Airflow with queries in every state."""
    pytest.importorskip("airflow", reason="the extra `airflow`")
    return _servers.get("scene", lambda: scene(tmp_path_factory.mktemp("browser")))


@pytest.fixture
def log_in(airflow_scene: Scene) -> Iterator[Callable[..., object]]:
    """Opens tabs of users, who are logged in once; no page may leave an error on the console."""
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
    at = airflow_scene.airflow
    visits: list[Visit] = []
    with ExitStack() as stack:

        def opened(user: str, settings: Mapping[str, str]) -> Visit:
            with limited():
                running = _browsers.get("browser", browser)
                context = _browsers.get(
                    f"{user} {settings}", lambda: logged_in(running, at, user, **settings)
                )
                return stack.enter_context(visit(context, at.url))

        def one(user: str = "admin", **settings: str) -> Visit:
            try:
                visits.append(opened(user, settings))
            except Error:  # the browser has hung, and was killed
                if visits:
                    raise
                with suppress(Error):
                    _browsers.end()
                visits.append(opened(user, settings))
            return visits[-1]

        yield one
        assert [error for one in visits for error in one.errors] == []


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Ends both with the last of the tests."""
    for shared in (_browsers, _servers):
        shared.leave(nextitem)
