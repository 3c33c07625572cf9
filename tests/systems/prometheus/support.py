"""What the tests of alerts and dashboard share: an example of everything that is ever pushed."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pytest
from prometheus_client import CollectorRegistry, Gauge, pushadd_to_gateway

from statemaint.demo.prometheus import MissingPart, find
from tests.support.paths import ROOT

CHART = ROOT / "helm" / "statemaint"
ALERTS = CHART / "files" / "alerts.yaml"

PER_STORE = {
    "chain_length",
    "newest_snapshot_timestamp_seconds",
    "state_rows",
    "state_bytes",
    "store_files",
    "store_bytes",
    "reclaimable_bytes",
    "halted",
    "findings",
}
PER_PARTITION = {
    "last_run_timestamp_seconds",
    "last_success_timestamp_seconds",
    "last_run_duration_seconds",
    "last_run_peak_memory_bytes",
    "last_run_storage_requests",
    "last_run_snapshots_written",
    "last_run_files_deleted",
    "last_run_bytes_written",
    "last_run_bytes_deleted",
}
PER_QUERY = {"last_committed_batch", "snapshot_lag_versions", "build_info"}

_JOIN = (
    "left-keyToNumValues",
    "left-keyWithIndexToValue",
    "right-keyToNumValues",
    "right-keyWithIndexToValue",
)

QUERIES = ("click_join", "hourly_revenue")
HALTED = {
    "query": "click_join",
    "operator": "0",
    "partition": "1",
    "store": "right-keyWithIndexToValue",
}


Sample = tuple[str, dict[str, str], float]


@dataclass(frozen=True, slots=True)
class _Group:
    query: str
    operator: int
    partition: int
    stores: tuple[str, ...]

    @property
    def labels(self) -> dict[str, str]:
        return {
            "query": self.query,
            "operator": str(self.operator),
            "partition": str(self.partition),
        }


_GROUPS = (
    *(_Group("hourly_revenue", 0, partition, ("default",)) for partition in range(4)),
    *(_Group("click_join", 0, partition, _JOIN) for partition in range(2)),
)


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
    """Pushes two queries as they look an hour after a good run, one store of them halted."""
    for group in _GROUPS:
        push(url, _partition(group, now), group.labels)
    for query in QUERIES:
        push(url, _query(query), {"query": query})


def push(url: str, samples: Iterable[Sample], group: Mapping[str, str]) -> None:
    """Adds samples to a group of the Pushgateway, in the way that tasks do."""
    registry = CollectorRegistry()
    gauges: dict[str, Gauge] = {}
    for name, labels, value in samples:
        if name not in gauges:
            gauges[name] = Gauge(f"statemaint_{name}", name, list(labels), registry=registry)
        gauges[name].labels(**labels).set(value)
    pushadd_to_gateway(url, "statemaint", registry, grouping_key=dict(group))


def _partition(group: _Group, now: float) -> Iterator[Sample]:
    labels = group.labels
    halted = any(HALTED == {**labels, "store": store} for store in group.stores)
    yield "last_run_timestamp_seconds", labels, now - 3600
    # A run that halts a store has not succeeded; the time of the last good one stays.
    yield "last_success_timestamp_seconds", labels, now - (90_000 if halted else 3600)
    yield "last_run_duration_seconds", labels, 4.25 + group.partition
    yield "last_run_peak_memory_bytes", labels, 180_000_000
    yield "last_run_storage_requests", {**labels, "verb": "list"}, 6
    yield "last_run_storage_requests", {**labels, "verb": "read"}, 140
    yield "last_run_snapshots_written", labels, len(group.stores)
    yield "last_run_bytes_written", labels, 1_500_000
    yield "last_run_bytes_deleted", labels, 22_000_000
    yield "last_run_files_deleted", {**labels, "reason": "below_base"}, 90
    yield "last_run_files_deleted", {**labels, "reason": "orphan_temp_file"}, 0
    for store in group.stores:
        yield from _store({**labels, "store": store}, now)


def _store(labels: dict[str, str], now: float) -> Iterator[Sample]:
    halted = labels == HALTED
    yield "chain_length", labels, 412 if halted else 7
    # A halted store has no snapshot here (0), and how much is in it is not known (NaN).
    yield "newest_snapshot_timestamp_seconds", labels, 0 if halted else now - 3600
    yield "state_rows", labels, math.nan if halted else 125_000
    yield "state_bytes", labels, math.nan if halted else 9_800_000
    yield "store_files", labels, 214
    yield "store_bytes", labels, 31_000_000
    yield "reclaimable_bytes", labels, 0 if halted else 1_200_000
    yield "halted", labels, int(halted)
    yield "findings", {**labels, "code": "BROKEN_CHAIN"}, int(halted)
    yield "findings", {**labels, "code": "CORRUPT_FILE"}, 0


def _query(query: str) -> Iterator[Sample]:
    yield "last_committed_batch", {"query": query}, 8759
    yield "snapshot_lag_versions", {"query": query}, 7
    yield "build_info", {"query": query, "version": "0.1.0"}, 1
