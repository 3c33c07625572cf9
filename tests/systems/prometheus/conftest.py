"""A Pushgateway and a Prometheus, started once, that hold the example of everything pushed."""

import time
from collections.abc import Iterator
from functools import partial

import pytest

from tests.support.metrics import ORIGIN
from tests.systems.prometheus.support import ALERTS, part, write_example
from tools.demo.processes import wait_until
from tools.demo.prometheus import Server, exporter, instant_query, prometheus, pushgateway


@pytest.fixture
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """An empty Pushgateway."""
    part("prometheus-pushgateway")
    with pushgateway(tmp_path_factory.mktemp("pushgateway")) as server:
        yield server


@pytest.fixture(scope="session")
def monitored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Prometheus with the alerts, which has scraped a Pushgateway and an exporter of the example.

    Whatever fires has done so.
    """
    part("prometheus-pushgateway")
    part("prometheus")
    folder = tmp_path_factory.mktemp("monitored")
    with pytest.MonkeyPatch.context() as environment, pushgateway(folder) as gateway:
        environment.setenv("STATEMAINT_ORIGIN", ORIGIN)
        environment.setenv("STATEMAINT_NAMESPACE", "streams")
        queries = write_example(folder, gateway.url, now=time.time())
        with (
            exporter(folder, queries) as ours,
            prometheus(
                folder, scrape=[gateway.url], rules=[ALERTS], exporters=[ours.url]
            ) as server,
        ):
            fires = 'ALERTS_FOR_STATE{alertname="StatemaintBroken"}'
            read = "statemaint_exporter_read_timestamp_seconds"
            for expr in (fires, read):
                assert wait_until(partial(_has, server, expr), seconds=30)
            yield server


def _has(server: Server, expr: str) -> bool:
    return bool(instant_query(server.url, expr))
