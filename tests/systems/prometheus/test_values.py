"""Every metric of a query and its partitions has the value of the run's JSON or of the files."""

import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from statemaint import __version__
from statemaint.maintain import maintain
from statemaint.metrics.catalogue import METRICS, Detail
from statemaint.metrics.options import Targets
from statemaint.metrics.publish import publish_record
from statemaint.model.checkpoint import Provider
from statemaint.model.restart_costs import costs_of
from statemaint.model.restart_time import spark_of
from statemaint.plan.actions import Request
from statemaint.planning import scan_checkpoint
from statemaint.report.facts import CHAIN_BOUNDS, SIZE_BOUNDS, TASK_BOUNDS, facts_of, total
from statemaint.report.record import Cause, LastRun, LastVerification, Record, next_record
from statemaint.report.run import Report
from statemaint.report.to_json import action_json, report_json
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import JOIN
from tests.support.metrics import TIGHT, Series, named, neglected, saved
from tests.systems.prometheus.support import part
from tools.demo.prometheus import Server, instant_query, prometheus, pushgateway

pytestmark = pytest.mark.prometheus

BUNDLES = ((0, 1, 2), (3, 4, 5), (6, 7))
LIMITED = replace(TIGHT, max_deletes_per_run=100)  # so that something is left for a later run
DAMAGED = f"state/0/7/{JOIN[0]}/20.delta"
Values = dict[tuple[str, ...], float]


@dataclass(frozen=True)
class Seen:
    """A run of three tasks: their JSON, the time, the storage after it, and what they deleted."""

    now: float
    reports: list[Report]
    storage: MemoryStorage
    series: Series

    @property
    def told(self) -> list[dict[str, Any]]:
        return [report_json(one) for one in self.reports]

    @property
    def stores(self) -> list[dict[str, Any]]:
        return [store for one in self.told for store in one["stores"]]

    def of(self, metric: str) -> Values:
        """Returns the values of one metric, each with the values of its labels."""
        found = {labels: one for (name, labels), one in self.series.items() if name == metric}
        return {tuple(value for _, value in labels): one for labels, one in found.items()}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    part("prometheus-pushgateway")
    part("prometheus")
    now = float(int(time.time()))
    storage = neglected(now, 8, JOIN)
    storage.delete(DAMAGED)
    reports = [
        maintain(storage, LIMITED, request=Request(partitions=frozenset(one))) for one in BUNDLES
    ]
    folder = tmp_path_factory.mktemp("values")
    with pushgateway(folder) as gateway:
        about = named("q", interval=3600.0, savepoint_interval=86400.0, every_unit=True)
        assert publish_record(about, record_of(reports, now), Targets(gateway.url))
        with prometheus(folder, scrape=[gateway.url]) as server:
            yield Seen(now, reports, storage, series(server))


def record_of(reports: Sequence[Report], now: float) -> Record:
    """Returns the record after a good run an hour ago, a verification, and this one."""
    hour_ago = next_record(None, LastRun("before", now - 3600, tasks=1))
    verified = LastVerification(now - 60, healthy=False)
    last = LastRun(
        run="now",
        ended=now,
        failed=(Cause.DAMAGE, Cause.TASK),
        silent=1,
        tasks=4,
        storage_errors=2,
        committed=24,
        lag=25,
        facts=total(facts_of(one, every_unit=True) for one in reports),
        trash_files=3,
        trash_bytes=4096,
    )
    return next_record(replace(hour_ago, verified=verified, savepoint=saved(now)), last)


def series(server: Server) -> Series:
    """Returns every series of the product in a Prometheus, by name and by its other labels."""
    found = instant_query(server.url, '{__name__=~"statemaint_.*", query="q"}')
    left_out = {"__name__", "query", "job", "instance", "detail", "origin", "storage"}
    return {
        (
            one.labels["__name__"].removeprefix("statemaint_"),
            tuple(sorted((key, text) for key, text in one.labels.items() if key not in left_out)),
        ): one.value
        for one in found
    }


def test_every_metric_is_there_and_no_other(seen: Seen) -> None:
    documented = {one.full for one in METRICS if one.detail not in {Detail.EXPORTER, Detail.TASK}}
    endings = ("_bucket", "_count", "_sum")
    kinds = {one.name: one.kind.value for one in METRICS}
    found = set()
    for name, _ in seen.series:
        base = next((name.removesuffix(one) for one in endings if name.endswith(one)), name)
        found.add("statemaint_" + (base if kinds.get(base) == "histogram" else name))
    assert found == documented


def test_the_run_itself(seen: Seen) -> None:
    alone = {
        "last_run_timestamp_seconds": seen.now,
        "last_success_timestamp_seconds": seen.now - 3600,
        "expected_interval_seconds": 3600,
        "last_run_storage_errors": 2,
        "lease_held_timestamp_seconds": 0,
        "last_committed_batch": seen.told[0]["last_committed_batch"],
        "snapshot_lag_versions": seen.told[0]["target_version"],  # the damaged store has none
        "last_verify_timestamp_seconds": seen.now - 60,
        "last_verify_failed": 1,
        "last_savepoint_timestamp_seconds": seen.now - 60,
        "last_savepoint_bytes": 1000,
        "last_savepoint_duration_seconds": 2.5,
        "savepoint_expected_interval_seconds": 86400,
        "trash_files": 3,
        "trash_bytes": 4096,
        "storage_errors_total": 2,
        "push_losses_total": 0,
    }
    assert {name: seen.of(name) for name in alone} == {name: {(): n} for name, n in alone.items()}
    causes = {(one.value,): float(one in (Cause.DAMAGE, Cause.TASK)) for one in Cause}
    assert seen.of("last_run_failed") == causes
    assert seen.of("last_run_tasks") == {("reported",): 3, ("silent",): 1}
    assert seen.of("runs_total") == {("succeeded",): 1, ("failed",): 1}
    assert seen.of("query_info") == {("statemaint__q",): 1}
    assert seen.of("build_info") == {(__version__,): 1}


def test_what_it_did(seen: Seen) -> None:
    done = {
        name: sum(one[name] for one in seen.told)
        for name in ("snapshots_written", "bytes_written", "bytes_deleted", "files_deleted")
    }
    deleted = [action for one in seen.reports for action in deletions(one, seen.storage)]
    assert done["files_deleted"] == len(deleted) > 100
    for metric, key in (
        ("last_run_snapshots_written", "snapshots_written"),
        ("last_run_bytes_written", "bytes_written"),
        ("last_run_bytes_deleted", "bytes_deleted"),
        ("snapshots_written_total", "snapshots_written"),
        ("written_bytes_total", "bytes_written"),
        ("reclaimed_bytes_total", "bytes_deleted"),
        ("reclaimed_files_total", "files_deleted"),
    ):
        assert seen.of(metric) == {(): done[key]}, metric
    reasons = {key: n for key, n in seen.of("last_run_files_deleted").items() if n}
    assert reasons == Counter((one["reason"],) for one in deleted)


def deletions(report: Report, storage: MemoryStorage) -> list[dict[str, Any]]:
    """Returns the deletions of a task's plan whose files are gone."""
    planned = [action_json(one) for store in report.plan.stores for one in store.actions]
    left = set(storage.files)
    return [one for one in planned if one["action"] == "delete" and one["path"] not in left]


def test_what_it_cost(seen: Seen) -> None:
    asked: Counter[tuple[str, ...]] = Counter()
    for one in seen.told:
        asked.update({(verb,): n for verb, n in one["requests"].items()})
    assert seen.of("last_run_storage_requests") == asked
    assert seen.of("storage_requests_total") == asked
    seconds = [one["seconds"] for one in seen.told]
    assert one_of(seen, "last_run_duration_seconds") == pytest.approx(max(seconds), abs=1e-3)
    assert one_of(seen, "task_seconds_sum") == pytest.approx(sum(seconds), abs=3e-3)
    assert buckets(seen, "task_seconds") == cumulated(seconds, TASK_BOUNDS)
    peaks = [one.peak_memory for one in seen.reports]
    assert one_of(seen, "last_run_peak_memory_bytes") == max(peaks) > 1e7


def test_the_stores_after_it(seen: Seen) -> None:
    proofs = [one["attestation"] for one in seen.stores if one["attestation"]]
    chains = [one["chain_length"] for one in seen.stores]
    loads = [one for one in chains if one is not None]
    assert len(chains) - len(loads) == 1
    alone = {
        "partitions": len({one["partition"] for one in seen.stores}),
        "stores_unloadable": 1,
        "stores_unproved": len(seen.stores) - len(proofs),
        "state_rows": sum(one["rows"] for one in proofs),
        "state_bytes": sum(one["bytes"] for one in proofs),
        "store_files": len(state(seen.storage)),
        "store_bytes": sum(state(seen.storage).values()),
        "chain_length_max": max(loads),
        "newest_snapshot_timestamp_seconds": 0,  # of the damaged store, which has none
        "reclaimable_bytes": sum(reclaimable(seen).values()),
        "store_chain_length_sum": sum(loads),
        "store_chain_length_count": len(loads),
        "store_size_bytes_sum": sum(state(seen.storage).values()),
        "store_size_bytes_count": 32,
    }
    assert {name: one_of(seen, name) for name in alone} == alone
    assert alone["reclaimable_bytes"] > 0
    outcomes = Counter((one["outcome"],) for one in seen.stores)
    assert {key: n for key, n in seen.of("stores").items() if n} == outcomes
    assert outcomes[("halted",)] == 1
    codes = Counter((found["code"],) for one in seen.stores for found in one["findings"])
    assert {key: n for key, n in seen.of("findings").items() if n} == codes
    assert seen.of("halted_store") == {("0", "7", JOIN[0]): 1}
    assert buckets(seen, "store_chain_length") == cumulated(loads, CHAIN_BOUNDS)
    sizes = [one["bytes"] for one in seen.stores]
    assert buckets(seen, "store_size_bytes") == cumulated(sizes, SIZE_BOUNDS)


def test_the_partitions_and_what_a_restart_reads_of_them(seen: Seen) -> None:
    files, size, read, found = (Counter[tuple[str, ...]]() for _ in range(4))
    for path, length in state(seen.storage).items():
        at = ("0", path.split("/")[2])
        files[at] += 1
        size[at] += length
        if path.endswith("/25.snapshot"):  # the target: a restart reads it, and nothing else
            read[at] += length
            found[at] += 1
    costs = costs_of(Provider.HDFS_BACKED, spark_of(scan_checkpoint(seen.storage)))
    seconds = {at: found[at] * costs.stores + read[at] * costs.snapshot_bytes for at in files}
    chains = {at: math.nan if at == ("0", "7") else 0.0 for at in files}
    assert seen.of("partition_files") == files
    assert seen.of("partition_bytes") == size
    assert seen.of("partition_restart_bytes") == read
    # The few rows take less than a thousandth of a second.
    assert seen.of("partition_restart_seconds") == pytest.approx(seconds, abs=0.002)
    assert same(seen.of("partition_chain_length"), chains)
    assert seen.of("partition_halted_stores") == {at: float(at == ("0", "7")) for at in files}
    assert seen.of("partition_reclaimable_bytes") == {at: reclaimable(seen)[at] for at in files}
    assert one_of(seen, "restart_files") == sum(found.values()) == 31
    assert one_of(seen, "restart_bytes") == sum(read.values())
    # Four slots share the stores, of which none takes as long as its share.
    takes = costs.factor * (costs.start + sum(seconds.values()) / 4)
    assert one_of(seen, "restart_seconds") == pytest.approx(takes, rel=0.01)
    worst = sorted(files, key=lambda at: (at != ("0", "7"), -round(seconds[at], 2), at))[:5]
    slowest = pytest.approx({at: seconds[at] for at in worst}, abs=0.002)
    assert seen.of("worst_partition_restart_seconds") == slowest
    assert seen.of("worst_partition_bytes") == {at: size[at] for at in worst}
    assert same(seen.of("worst_partition_chain_length"), {at: chains[at] for at in worst})


def state(storage: MemoryStorage) -> dict[str, int]:
    """Returns the sizes of the state's files."""
    files = storage.files.items()
    return {path: len(content) for path, content in files if path.startswith("state/")}


def reclaimable(seen: Seen) -> Counter[tuple[str, ...]]:
    """Returns the bytes that a run without limits deletes now, by partition."""
    report = maintain(seen.storage, TIGHT, dry_run=True)
    found: Counter[tuple[str, ...]] = Counter()
    for store in report.plan.stores:
        for action in map(action_json, store.actions):
            if action["action"] == "delete":
                found["0", str(action["partition"])] += len(seen.storage.files[action["path"]])
    return found


def one_of(seen: Seen, metric: str) -> float:
    """Returns the value of a metric without labels."""
    return seen.of(metric)[()]


def buckets(seen: Seen, metric: str) -> dict[float, float]:
    """Returns the counts of a histogram by upper bound."""
    return {float(bound): n for (bound,), n in seen.of(f"{metric}_bucket").items()}


def cumulated(values: Iterable[float], bounds: Iterable[float]) -> dict[float, float]:
    """Returns how many values are at most each bound."""
    kept = [*values]
    return {bound: sum(one <= bound for one in kept) for bound in (*map(float, bounds), math.inf)}


def same(some: Mapping[Any, float], others: Mapping[Any, float]) -> bool:
    """Returns whether two mappings are equal, one NaN being as good as another."""
    return {k: repr(v) for k, v in some.items()} == {k: repr(v) for k, v in others.items()}
