"""Facts about the real Pushgateway that the metrics are built on."""

from urllib.request import ProxyHandler, build_opener

import pytest

from statemaint.demo.prometheus import Server
from tests.systems.prometheus.support import push

pytestmark = pytest.mark.prometheus

GROUP = {"query": "q", "operator": "0", "partition": "0"}


def exposed(gateway: Server, metric: str) -> list[str]:
    with build_opener(ProxyHandler({})).open(f"{gateway.url}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    return [line for line in lines if line.startswith(f"statemaint_{metric}")]


def test_a_failing_run_keeps_the_time_of_the_last_success(gateway: Server) -> None:
    push(gateway.url, [("last_success_timestamp_seconds", GROUP, 1000)], GROUP)
    push(gateway.url, [("last_run_timestamp_seconds", GROUP, 2000)], GROUP)
    [success] = exposed(gateway, "last_success_timestamp_seconds")
    assert success.endswith(" 1000")


def test_a_metric_that_is_not_pushed_again_keeps_all_its_series(gateway: Server) -> None:
    # So a finding that is gone must be pushed as 0: nothing else takes it away.
    push(gateway.url, [("findings", {**GROUP, "code": "BROKEN_CHAIN"}, 1)], GROUP)
    push(gateway.url, [("halted", GROUP, 0)], GROUP)
    [finding] = exposed(gateway, "findings")
    assert finding.endswith(" 1")


def test_a_metric_that_is_pushed_again_loses_the_series_that_are_not(gateway: Server) -> None:
    # So every store of a partition, and every code of a finding, goes into one push.
    push(gateway.url, [("chain_length", {**GROUP, "store": "left"}, 1)], GROUP)
    push(gateway.url, [("chain_length", {**GROUP, "store": "right"}, 2)], GROUP)
    [chain] = exposed(gateway, "chain_length")
    assert 'store="right"' in chain
