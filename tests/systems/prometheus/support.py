"""What the tests of alerts and dashboard share: an example of everything that is ever pushed."""

from collections.abc import Iterable, Mapping

import pytest
from prometheus_client import CollectorRegistry, Gauge, pushadd_to_gateway

from statemaint.demo.prometheus import MissingPart, find
from statemaint.metrics.options import Targets
from statemaint.metrics.publish import publish_record
from tests.support.metrics import JOIN, maintained, named, neglected
from tests.support.paths import ROOT

CHART = ROOT / "helm" / "statemaint"
ALERTS = CHART / "files" / "alerts.yaml"

QUERIES = ("click_join", "hourly_revenue")


Sample = tuple[str, dict[str, str], float]


def promtool() -> str:
    """Returns the path of promtool, or skips the test and says which package has it."""
    return part("promtool")


def part(program: str) -> str:
    """Returns the path of a program, or skips the test and says which package has it."""
    try:
        return find(program)
    except MissingPart as missing:
        pytest.skip(str(missing))


def push_example(url: str, *, now: float) -> None:
    """Publishes two queries an hour after a run of each; the join has a halted store."""
    join = neglected(now - 3600, partitions=2, stores=JOIN)
    join.delete(f"state/0/1/{JOIN[0]}/20.delta")
    revenue = neglected(now - 3600, partitions=4)
    for query, storage in (("click_join", join), ("hourly_revenue", revenue)):
        record = maintained(storage, now - 3600)
        about = named(query, interval=3600.0)
        assert publish_record(about, record, Targets(gateway=url))


def push(url: str, samples: Iterable[Sample], group: Mapping[str, str]) -> None:
    """Adds samples to a group of the Pushgateway, in the way that tasks do."""
    registry = CollectorRegistry()
    gauges: dict[str, Gauge] = {}
    for name, labels, value in samples:
        if name not in gauges:
            gauges[name] = Gauge(f"statemaint_{name}", name, list(labels), registry=registry)
        gauges[name].labels(**labels).set(value)
    pushadd_to_gateway(url, "statemaint", registry, grouping_key=dict(group))
