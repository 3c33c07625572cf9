"""A Pushgateway and a Prometheus, started once, that hold the example of everything pushed."""

import time
from collections.abc import Iterator

import pytest

from statemaint.demo.prometheus import Server, prometheus, pushgateway
from tests.systems.prometheus.support import ALERTS, part, push_example


@pytest.fixture
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """An empty Pushgateway."""
    part("prometheus-pushgateway")
    with pushgateway(tmp_path_factory.mktemp("pushgateway")) as server:
        yield server


@pytest.fixture(scope="session")
def monitored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Prometheus that has scraped a Pushgateway holding the example, with the alerts loaded."""
    part("prometheus-pushgateway")
    part("prometheus")
    folder = tmp_path_factory.mktemp("monitored")
    with pushgateway(folder) as gateway:
        push_example(gateway.url, now=time.time())
        with prometheus(folder, scrape=[gateway.url], rules=[ALERTS]) as server:
            yield server
