"""Facts about the real Pushgateway that the metrics are built on."""

import re
from urllib.request import ProxyHandler, build_opener

import pytest

from statemaint.metrics.families import about
from statemaint.metrics.options import Targets
from statemaint.metrics.publish import Gateway, publish_record
from statemaint.report.record import LastRun, Record
from tests.support.metrics import named
from tests.systems.prometheus.support import push, soon
from tools.demo.prometheus import Server

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


def test_two_installations_with_a_query_of_one_name_leave_each_others_groups_alone(
    gateway: Server,
) -> None:
    for origin, ended in (("blue", 1.0), ("green", 2.0)):
        about = named("q", origin=origin, namespace="streams", routing={"owner": origin})
        record = Record(LastRun("r", ended))
        known = frozenset({"q"})
        assert publish_record(about, record, Targets(gateway.url, known=known))
    found = exposed(gateway, "last_run_timestamp_seconds")
    assert [line.rsplit(" ", 1)[1] for line in found] == ["1", "2"]
    assert 'namespace="streams",origin="blue",owner="blue",query="q"' in found[0]
    publisher = Gateway(gateway.url)
    assert publisher.prune(named(origin="green"), frozenset(), frozenset()) == ["q"]
    assert soon(lambda: exposed(gateway, "last_run_timestamp_seconds") == found[:1])


def test_the_group_of_an_earlier_build_is_deleted_once_there_is_one_with_the_origin(
    gateway: Server,
) -> None:
    # Until then it is all that is known of the query.
    groups = [("q", "blue", {}), ("q", "blue", {"detail": "partition"}), ("other", "green", {})]
    for query, origin, more in groups:
        push(gateway.url, [("query_info", {"query": query, "origin": origin}, 1)],
             {"query": query, **more})  # fmt: skip
    publisher, blue = Gateway(gateway.url), named("q", origin="blue")
    assert publisher.prune(blue, frozenset({"q"}), frozenset({"q"})) == []
    assert len(exposed(gateway, "query_info")) == 3
    publisher.add(blue.group, [*about(blue)])
    publisher.prune(blue, frozenset({"q"}), frozenset({"q"}))
    assert soon(lambda: len(exposed(gateway, "query_info")) == 2)
    found = sorted('query="other"' in line for line in exposed(gateway, "query_info"))
    assert found == [False, True]
    assert 'dag="statemaint__q"' in "".join(exposed(gateway, "query_info"))


def test_an_installation_that_gets_a_name_takes_its_groups_with_it(gateway: Server) -> None:
    publisher, before = Gateway(gateway.url), named("q", origin="digest")
    after = named("q", origin="blue", former="digest")
    for one in (before, after, named("q", origin=""), named("q", origin="green")):
        publisher.add(one.group, [*about(one)])
    assert publisher.prune(after, frozenset({"q"}), frozenset()) == []
    assert soon(lambda: len(exposed(gateway, "query_info")) == 3)
    origins = sorted(re.findall(r'origin="(.*?)"', "".join(exposed(gateway, "query_info"))))
    assert origins == ["blue", "green"]


def test_the_name_of_an_installation_may_have_any_character(gateway: Server) -> None:
    publisher = Gateway(gateway.url)
    for origin in ("lake/prod", "/lake", "lake/", "lake%2Fprod", "a lake", "ä"):
        about_it = named("q", origin=origin)
        publisher.add(about_it.group, [*about(about_it)])
        [info] = exposed(gateway, "query_info")
        assert f'origin="{origin}"' in info
        assert publisher.prune(about_it, frozenset(), frozenset()) == ["q"]
        assert soon(lambda: not exposed(gateway, "query_info"))
