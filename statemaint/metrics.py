"""Metrics of a report for Prometheus: pushed to a Pushgateway, or written as a textfile.

Gauges have the prefix `statemaint_` and base units. The metrics of one partition are one group of
the Pushgateway: `job="statemaint"`, query, operator, partition. The metrics of the whole query are
the group without the last two.

A push adds to its group: a metric replaces the metric of the same name and nothing else. That
keeps `last_success_timestamp_seconds` when a run fails. It is also why every metric that a healthy
run must be able to reset is always pushed, as 0 or NaN where there is no value.
"""

import math
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, pushadd_to_gateway, write_to_textfile
from prometheus_client.exposition import basic_auth_handler, default_handler
from prometheus_client.parser import text_string_to_metric_families

from statemaint import __version__
from statemaint.model.checkpoint import Store
from statemaint.model.findings import FindingCode
from statemaint.model.ids import UnitId
from statemaint.plan import DeleteReason
from statemaint.report import Report, StoreOutcome, StoreReport
from statemaint.report.outcome import Deleted, SnapshotWritten
from statemaint.report.query_state import QueryState
from statemaint.report.to_json import chain_length

JOB = "statemaint"
# Credentials for a Pushgateway that requires them: never in its address, which is shown.
USER_VARIABLE = "STATEMAINT_PUSHGATEWAY_USER"
PASSWORD_VARIABLE = "STATEMAINT_PUSHGATEWAY_PASSWORD"  # noqa: S105 -- its name
_PREFIX = "statemaint_"
_TIMEOUT = 10.0
_UNIT = ("query", "operator", "partition")
_STORE = (*_UNIT, "store")

HELP = {
    "chain_length": "Deltas that a restart replays for this store.",
    "newest_snapshot_timestamp_seconds": "When the newest snapshot was stored; 0 without one.",
    "state_rows": "Keys in the state, as last attested.",
    "state_bytes": "Key and value bytes in the state, as last attested.",
    "store_files": "Files in the store's directory.",
    "store_bytes": "Bytes in the store's directory.",
    "reclaimable_bytes": "Bytes that a later run will delete.",
    "halted": "1 while damage keeps the store from being maintained.",
    "findings": "What is wrong with the store, by code.",
    "last_run_timestamp_seconds": "When this partition was last maintained, with any result.",
    "last_success_timestamp_seconds": "When this partition was last maintained without damage.",
    "last_run_duration_seconds": "How long that run took.",
    "last_run_snapshots_written": "Snapshots that the last run wrote.",
    "last_run_files_deleted": "Files that the last run deleted, by reason.",
    "last_run_bytes_written": "Bytes of the snapshots that the last run wrote.",
    "last_run_bytes_deleted": "Bytes of the files that the last run deleted.",
    "last_run_peak_memory_bytes": "Most memory that the process held until the last run ended.",
    "last_run_storage_requests": "Requests that the last run made of the storage, by verb.",
    "last_committed_batch": "The newest batch in the commit log.",
    "snapshot_lag_versions": "Versions between the newest snapshot and the target, at worst.",
    "build_info": "The version that last ran, as a label; always 1.",
}


class _Gauges:
    """The gauges of one group, each made when it is first set."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self.registry = CollectorRegistry()
        self._labels = dict(labels)
        self._gauges: dict[str, Gauge] = {}

    def set(self, name: str, value: float | None, **labels: str) -> None:
        values = {**self._labels, **labels}
        if name not in self._gauges:
            full = _PREFIX + name
            self._gauges[name] = Gauge(full, HELP[name], tuple(values), registry=self.registry)
        self._gauges[name].labels(**values).set(math.nan if value is None else value)


def push(report: Report, *, query: str, gateway: str) -> None:
    """Pushes a run's gauges, a group for each partition of the report.

    Raises:
        OSError: when the Pushgateway cannot be reached or refuses.
    """
    for unit, stores in _by_unit(report).items():
        gauges = _Gauges(_unit_labels(query, unit))
        _fill(gauges, report, stores)
        _push(gauges, gateway, _unit_labels(query, unit))


def push_query(state: QueryState, *, query: str, gateway: str) -> None:
    """Pushes the gauges of the whole query: its newest batch, and how far its snapshots lag.

    Raises:
        OSError: when the Pushgateway cannot be reached or refuses.
    """
    gauges = _Gauges({"query": query})
    _fill_query(gauges, state)
    _push(gauges, gateway, {"query": query})


def write_textfile(report: Report, *, query: str, folder: Path) -> None:
    """Writes a run's gauges for node_exporter's textfile collector.

    Each query and partition has its own file, so that concurrent tasks do not collide. The time of
    the last success stays in it when a run fails, as it does in a Pushgateway.

    Raises:
        OSError: when the folder cannot be written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for unit, stores in _by_unit(report).items():
        file = folder / f"statemaint_{query}_{unit.operator}_{unit.partition}.prom"
        gauges = _Gauges(_unit_labels(query, unit))
        if before := _last_success(file):
            gauges.set("last_success_timestamp_seconds", before)
        _fill(gauges, report, stores)
        write_to_textfile(str(file), gauges.registry)


def write_query_textfile(state: QueryState, *, query: str, folder: Path) -> None:
    """Writes the gauges of the whole query, which `push_query` pushes.

    Raises:
        OSError: when the folder cannot be written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    gauges = _Gauges({"query": query})
    _fill_query(gauges, state)
    write_to_textfile(str(folder / f"statemaint_{query}.prom"), gauges.registry)


def _last_success(file: Path) -> float | None:
    name = f"{_PREFIX}last_success_timestamp_seconds"
    try:
        families = list(text_string_to_metric_families(file.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):
        return None
    samples = (sample for one in families if one.name == name for sample in one.samples)
    return next((sample.value for sample in samples), None)


def _by_unit(report: Report) -> dict[UnitId, list[StoreReport]]:
    units: dict[UnitId, list[StoreReport]] = {}
    for store in report.stores:
        units.setdefault(store.before.id.unit, []).append(store)
    return units


def _unit_labels(query: str, unit: UnitId) -> dict[str, str]:
    return {"query": query, "operator": str(unit.operator), "partition": str(unit.partition)}


def _push(gauges: _Gauges, gateway: str, grouping: dict[str, str]) -> None:
    pushadd_to_gateway(
        gateway,
        job=JOB,
        registry=gauges.registry,
        grouping_key=grouping,
        timeout=_TIMEOUT,
        handler=_authenticated if os.environ.get(USER_VARIABLE) else default_handler,
    )


def _authenticated(
    url: str, method: str, timeout: float | None, headers: list[tuple[str, str]], data: bytes
) -> Callable[[], None]:
    user, password = os.environ[USER_VARIABLE], os.environ.get(PASSWORD_VARIABLE, "")
    return basic_auth_handler(url, method, timeout, headers, data, user, password)


def _fill(gauges: _Gauges, report: Report, stores: Sequence[StoreReport]) -> None:
    for store in stores:
        _fill_store(gauges, store)
    ended = report.started + report.seconds
    outcomes = [one for store in stores for one in store.outcomes]
    written = [one for one in outcomes if isinstance(one, SnapshotWritten) and one.bytes]
    deleted = [one.action for one in outcomes if isinstance(one, Deleted)]
    reasons = Counter(one.reason for one in deleted)
    gauges.set("last_run_timestamp_seconds", ended)
    if not report.plan.halted and all(one.state is StoreOutcome.DONE for one in stores):
        gauges.set("last_success_timestamp_seconds", ended)
    gauges.set("last_run_duration_seconds", report.seconds)
    gauges.set("last_run_peak_memory_bytes", report.peak_memory)
    # One verb is always present, so that a run without requests replaces the metric.
    for verb in {"list", *report.requests}:
        gauges.set("last_run_storage_requests", report.requests.get(verb, 0), verb=verb)
    gauges.set("last_run_snapshots_written", len(written))
    gauges.set("last_run_bytes_written", sum(one.bytes for one in written))
    gauges.set("last_run_bytes_deleted", sum(one.entry.size for one in deleted))
    for reason in DeleteReason:
        gauges.set("last_run_files_deleted", reasons[reason], reason=reason.value)


def _fill_store(gauges: _Gauges, store: StoreReport) -> None:
    name = store.after.id.store
    proof = store.attestation
    gauges.set("chain_length", chain_length(store.after, store.target), store=name)
    gauges.set("newest_snapshot_timestamp_seconds", _newest(store.after), store=name)
    gauges.set("state_rows", proof.rows if proof else None, store=name)
    gauges.set("state_bytes", proof.bytes if proof else None, store=name)
    gauges.set("store_files", len(store.after.files), store=name)
    sizes = sum(file.entry.size for file in store.after.files)
    gauges.set("store_bytes", sizes, store=name)
    gauges.set("reclaimable_bytes", store.reclaimable, store=name)
    gauges.set("halted", store.state is StoreOutcome.HALTED, store=name)
    counts = Counter(finding.code for finding in store.findings)
    # One code is always present, so that the last finding's disappearance replaces the metric.
    for code in {FindingCode.BROKEN_CHAIN, *counts}:
        gauges.set("findings", counts[code], store=name, code=code.value)


def _newest(store: Store) -> float:
    snapshots = store.versions.snapshots
    return snapshots[max(snapshots)].entry.modified or 0.0 if snapshots else 0.0


def _fill_query(gauges: _Gauges, state: QueryState) -> None:
    gauges.set("last_committed_batch", state.committed)
    gauges.set("snapshot_lag_versions", state.lag)
    gauges.set("build_info", 1, version=__version__)
