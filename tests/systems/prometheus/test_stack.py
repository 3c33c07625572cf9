"""From runs to Prometheus and Alertmanager: every metric, and exactly the alerts expected."""

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

import pytest

from statemaint.maintain import maintain
from statemaint.metrics.catalogue import METRICS
from statemaint.metrics.options import Targets
from statemaint.metrics.publish import publish_record
from statemaint.plan.actions import Request
from statemaint.report.facts import facts_of, total
from statemaint.report.record import LastRun, next_record
from statemaint.report.run import Report
from statemaint.report.to_json import report_json
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import JOIN
from tests.support.metrics import TIGHT, maintained, named, neglected
from tests.systems.prometheus.support import ALERTS, part
from tools.demo.processes import wait_until
from tools.demo.prometheus import (
    Server,
    alertmanager,
    alerts_of,
    instant_query,
    prometheus,
    pushgateway,
    stop,
)

pytestmark = pytest.mark.prometheus

Check = Callable[[], bool]
HALTED = [("StatemaintBroken", "broken")]


def within_a_minute(holds: Check) -> bool:
    return wait_until(holds, seconds=60)


def value(server: Server, expr: str) -> float:
    [sample] = instant_query(server.url, expr)
    return sample.value


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stack")


@pytest.fixture
def now_firing(folder: Path) -> Path:
    """The rules, none of which waits before it fires."""
    rules = folder / "rules.yaml"
    rules.write_text(re.sub(r"for: \d+[mh]", "for: 0m", ALERTS.read_text()))
    return rules


@pytest.fixture
def gateway(folder: Path) -> Iterator[Server]:
    part("prometheus-pushgateway")
    part("prometheus")
    with pushgateway(folder) as server:
        yield server


def test_each_incident_is_one_alert_and_ends_with_its_cause(
    folder: Path, gateway: Server, now_firing: Path
) -> None:
    part("prometheus-alertmanager")
    targets, now = Targets(gateway.url), time.time()
    broken = neglected(now, 4, JOIN)
    lost = {name: broken.read(name) for name in files(broken, "20.delta")}
    for name in lost:
        broken.delete(name)
    record = maintained(broken, now)
    assert publish_record(named("broken"), record, targets)
    assert publish_record(named("healthy"), maintained(neglected(now), now), targets)
    with (
        alertmanager(folder) as manager,
        prometheus(
            folder, scrape=[gateway.url], rules=[now_firing], alertmanagers=[manager.url]
        ) as server,
    ):
        # Sixteen stores are halted, and that is one alert.
        assert within_a_minute(lambda: fires(manager) == HALTED)
        assert value(server, 'statemaint_stores{query="broken",outcome="halted"}') == 16
        for name, content in lost.items():
            broken.write(name, [content])
        assert publish_record(named("broken"), maintained(broken, now + 1, record), targets)
        assert within_a_minute(lambda: fires(manager) == [])
        # The other query's report removes it; nothing of it is left.
        known = frozenset({"healthy"})
        healthy = maintained(neglected(now), now + 1)
        assert publish_record(named("healthy"), healthy, Targets(gateway.url, known=known))
        left = '{query="broken",__name__!~"ALERTS.*"}'
        assert within_a_minute(lambda: instant_query(server.url, left) == [])
        assert instant_query(server.url, left.replace("broken", "healthy"))
        assert fires(manager) == []
        stop(gateway)
        assert within_a_minute(lambda: fires(manager) == [("StatemaintSourceDown", "")])
        assert within_a_minute(lambda: instant_query(server.url, "statemaint_stores") == [])
        assert fires(manager) == [("StatemaintSourceDown", "")]


def files(storage: MemoryStorage, name: str) -> list[str]:
    stores = [f"state/0/{part}/{store}" for part in range(4) for store in JOIN]
    return [f"{store}/{name}" for store in stores if storage.read(f"{store}/{name}")]


def fires(manager: Server) -> list[tuple[str, str]]:
    return [(one["alertname"], one.get("query", "")) for one in alerts_of(manager.url)]


def test_the_values_in_prometheus_are_those_of_the_bundles_json(
    folder: Path, gateway: Server
) -> None:
    now = time.time()
    storage = neglected(now, 8, JOIN)
    reports = [
        maintain(storage, TIGHT, request=Request(partitions=frozenset(bundle)))
        for bundle in ((0, 1, 2), (3, 4, 5), (6, 7))
    ]
    facts = total(facts_of(one, every_unit=True) for one in reports)
    last = LastRun("run", now, tasks=3, committed=24, lag=0, facts=facts)
    about = named("q", every_unit=True)
    assert publish_record(about, next_record(None, last), Targets(gateway.url))
    expected = of_json(reports)
    with prometheus(folder, scrape=[gateway.url]) as server:
        found = {expr: value(server, expr) for expr in expected}
        assert found == expected
        requests = by(server, "last_run_storage_requests", "verb")
        assert requests == summed(told["requests"] for told in map(report_json, reports))
        totals = by(server, "storage_requests_total", "verb")
        assert totals == requests
        bytes_of = by(server, "partition_bytes", "partition")
    stores = [store for told in map(report_json, reports) for store in told["stores"]]
    assert bytes_of == summed({str(one["partition"]): one["bytes"]} for one in stores)
    assert len(bytes_of) == 8


def of_json(reports: Sequence[Report]) -> dict[str, float]:
    """Returns what the JSON of a run's tasks says, by the expression that must say the same."""
    told = [report_json(one) for one in reports]
    stores = [store for one in told for store in one["stores"]]
    sums = {
        "last_run_snapshots_written": sum(one["snapshots_written"] for one in told),
        "last_run_bytes_written": sum(one["bytes_written"] for one in told),
        "last_run_bytes_deleted": sum(one["bytes_deleted"] for one in told),
        "sum(statemaint_last_run_files_deleted)": sum(one["files_deleted"] for one in told),
        "reclaimed_files_total": sum(one["files_deleted"] for one in told),
        "reclaimed_bytes_total": sum(one["bytes_deleted"] for one in told),
        "snapshots_written_total": sum(one["snapshots_written"] for one in told),
        "written_bytes_total": sum(one["bytes_written"] for one in told),
        "last_run_duration_seconds": max(one["seconds"] for one in told),
        "last_committed_batch": told[0]["last_committed_batch"],
        "store_files": sum(store["files"] for store in stores),
        "store_bytes": sum(store["bytes"] for store in stores),
        "state_rows": sum(store["attestation"]["rows"] for store in stores),
        "chain_length_max": max(store["chain_length"] for store in stores),
        'stores{outcome="done"}': sum(store["outcome"] == "done" for store in stores),
        "store_chain_length_count": len(stores),
        "task_seconds_count": 3,
        "partitions": 8,
        "stores_unloadable": 0,
    }
    return {name if "(" in name else f"statemaint_{name}": float(one) for name, one in sums.items()}


def by(server: Server, metric: str, label: str) -> dict[str, float]:
    found = instant_query(server.url, f"statemaint_{metric}")
    return {one.labels[label]: one.value for one in found}


def summed(several: Any) -> dict[str, float]:
    found: dict[str, float] = {}
    for one in several:
        for key, count in one.items():
            found[key] = found.get(key, 0) + count
    return found


def test_prometheus_has_every_metric_of_the_documents_with_its_type(monitored: Server) -> None:
    with build_opener(ProxyHandler({})).open(f"{monitored.url}/api/v1/metadata") as answer:
        types = {name: one[0]["type"] for name, one in json.load(answer)["data"].items()}
    for metric in METRICS:
        if metric.name == "configuration_problem":  # there is none in a file without a mistake
            continue
        # The parser of Prometheus 2 keeps the name of a counter with its suffix.
        assert types[metric.full] == metric.kind, metric.full
        name = f"{metric.full}_bucket" if metric.kind == "histogram" else metric.full
        assert instant_query(monitored.url, f"count({name})"), name
