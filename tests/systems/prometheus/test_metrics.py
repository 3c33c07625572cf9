"""From real runs to a real Pushgateway, and what is left there of queries that are gone."""

import math
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

import pytest

from statemaint.maintain import maintain
from statemaint.metrics.catalogue import METRICS, Detail, MetricType
from statemaint.metrics.families import families
from statemaint.metrics.options import Targets
from statemaint.metrics.publish import Gateway, publish_record, publish_waiting, write_textfile
from statemaint.report.record import Cause, LastRun, LastVerification, Record, next_record
from statemaint.storage import MemoryStorage
from tests.support.metrics import (
    TIGHT,
    Series,
    ended,
    labelled,
    maintained,
    named,
    neglected,
    plain,
    saved,
    series_of,
)
from tests.systems.prometheus.support import push_tasks, soon
from tools.demo.prometheus import Server

pytestmark = pytest.mark.prometheus

NOW = 1_800_000_000.0


@pytest.fixture
def storage() -> MemoryStorage:
    return neglected(NOW)


def served(gateway: Server) -> str:
    with build_opener(ProxyHandler({})).open(f"{gateway.url}/metrics", timeout=5) as answer:
        return str(answer.read().decode())


def pushed(gateway: Server, record: Record, query: str = "q") -> Series:
    assert publish_record(named(query), record, Targets(gateway.url))
    return series_of(served(gateway), query)


def test_every_metric_arrives_with_its_type(storage: MemoryStorage, gateway: Server) -> None:
    last = ended(maintain(storage, TIGHT), NOW, every_unit=True)
    verified = LastVerification(NOW, healthy=True)
    record = next_record(Record(last, verified=verified, savepoint=saved(NOW)), last)
    about = named(interval=3600, savepoint_interval=86400, every_unit=True)
    publish_waiting(about, NOW, Targets(gateway.url))
    assert publish_record(about, record, Targets(gateway.url))
    push_tasks(gateway.url, about.query, now=NOW)
    lines = served(gateway).splitlines()
    for one in METRICS:
        if one.detail is not Detail.EXPORTER:
            name = one.full
            assert f"# TYPE {name} {one.kind}" in lines, name
            suffix = "_bucket" if one.kind is MetricType.HISTOGRAM else ""
            assert any(line.startswith(f"{name}{suffix}{{") for line in lines), name


def test_the_same_series_are_pushed_written_and_made(
    storage: MemoryStorage, gateway: Server, tmp_path: Path
) -> None:
    record = maintained(storage, NOW)
    write_textfile(families(named(), record), named=named(), folder=tmp_path)
    text = (tmp_path / "statemaint_q@an%20installation.prom").read_text()
    assert series_of(text) == pushed(gateway, record)


def test_a_bundle_reports_its_requests_once(gateway: Server) -> None:
    report = maintain(neglected(NOW, 8), TIGHT)
    found = pushed(gateway, next_record(None, ended(report, NOW)))
    requests = {verb: count for (verb,), count in labelled(found, "last_run_storage_requests")}
    assert requests == report.requests


def test_a_failing_run_keeps_the_last_success_and_a_failed_plan_the_picture(
    storage: MemoryStorage, gateway: Server
) -> None:
    record = maintained(storage, NOW)
    before = pushed(gateway, record)
    content = storage.read("state/0/0/20.delta")
    storage.delete("state/0/0/20.delta")
    record = maintained(storage, NOW + 60, record)
    broken = pushed(gateway, record)
    assert dict(labelled(broken, "stores"))["halted",] == 1
    assert plain(broken)["last_success_timestamp_seconds"] == NOW
    assert plain(broken)["last_run_timestamp_seconds"] == NOW + 60
    record = next_record(record, LastRun("unplanned", NOW + 90, (Cause.STORAGE,)))
    unplanned = pushed(gateway, record)
    assert plain(unplanned)["store_bytes"] == plain(broken)["store_bytes"]
    assert dict(labelled(unplanned, "last_run_failed"))["storage",] == 1
    storage.write("state/0/0/20.delta", [content])
    repaired = pushed(gateway, maintained(storage, NOW + 120, record))
    assert dict(labelled(repaired, "stores"))["halted",] == 0
    assert dict(labelled(repaired, "last_run_failed"))["storage",] == 0
    assert plain(repaired)["reclaimed_bytes_total"] >= plain(before)["reclaimed_bytes_total"] > 0


def test_what_is_gone_is_taken_back(storage: MemoryStorage, gateway: Server) -> None:
    storage.write("state/0/0/foo.bar", [b""])
    found = pushed(gateway, maintained(storage, NOW))
    assert dict(labelled(found, "findings"))["UNKNOWN_FILE",] == 1
    storage.delete("state/0/0/foo.bar")
    publish_waiting(named(), NOW, Targets(gateway.url))
    assert plain(series_of(served(gateway)))["lease_held_timestamp_seconds"] == NOW
    again = pushed(gateway, maintained(storage, NOW + 60))
    assert ("UNKNOWN_FILE",) not in dict(labelled(again, "findings"))
    assert plain(again)["lease_held_timestamp_seconds"] == 0


def test_a_query_without_a_commit_has_no_numbers(gateway: Server) -> None:
    report = maintain(neglected(NOW), TIGHT)
    last = ended(report, NOW)
    empty = LastRun("r", NOW, facts=last.facts)
    assert math.isnan(plain(pushed(gateway, next_record(None, empty)))["last_committed_batch"])


def test_a_query_that_is_gone_leaves_no_series_and_others_stay(
    storage: MemoryStorage, gateway: Server
) -> None:
    record = maintained(storage, NOW)
    detailed = next_record(None, ended(maintain(storage, TIGHT), NOW, every_unit=True))
    theirs = named("theirs", origin="another installation")
    for about in (named("gone"), named("kept"), named("a"), theirs, named("dag", origin="")):
        several = detailed if about.query in ("gone", "kept") else record
        about = named(about.query, origin=about.origin, every_unit=several is detailed)  # noqa: PLW2901
        assert publish_record(about, several, Targets(gateway.url))
    known = frozenset({"a", "kept"})
    assert publish_record(named("a"), record, Targets(gateway.url, known=known))
    assert soon(lambda: 'query="gone"' not in served(gateway))
    # It has no series of partitions any more either, as nothing asks for them now.
    assert soon(lambda: not has_partitions(gateway, "kept"))
    text = served(gateway)
    assert all(f'query="{one}"' in text for one in ("a", "kept", "theirs", "dag"))
    assert Gateway(gateway.url).prune(named(), known, frozenset()) == []


def has_partitions(gateway: Server, query: str) -> bool:
    found = series_of(served(gateway), query)
    return any(name.startswith("partition_") for name, _ in found)
