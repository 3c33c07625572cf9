"""The series of a query: those of the catalogue, with the run's values, within the bound."""

import math
from collections.abc import Iterable
from dataclasses import replace

import pytest
from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric as Family

from statemaint.maintain import maintain
from statemaint.metrics.catalogue import (
    BY_NAME,
    METRICS,
    MOST_VERBS,
    Detail,
    MetricType,
    most_series,
)
from statemaint.metrics.exporter import page_text, rows_of
from statemaint.metrics.families import families, registry_of, waiting
from statemaint.metrics.options import Named
from statemaint.model.findings import FindingCode
from statemaint.model.policy import Policy
from statemaint.model.verdict import Looked, Verdict
from statemaint.plan.reasons import DeleteReason, WithheldReason
from statemaint.plan.recovery.recovery_plan import RemoveReason
from statemaint.report.facts import (
    CHAIN_BOUNDS,
    SIZE_BOUNDS,
    TASK_BOUNDS,
    RunFacts,
    Spread,
    Unit,
)
from statemaint.report.record import (
    Cause,
    LastRun,
    LastVerification,
    Record,
    next_record,
)
from statemaint.report.to_json import report_json
from tests.support.checkpoints import JOIN
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
from tests.support.paths import ROOT
from tools.metrics_document import document

NOW = 1_800_000_000.0
SAVED = saved(NOW)


def text_of(made: Iterable[Family]) -> str:
    return generate_latest(registry_of(made)).decode()


def shown(record: Record, about: Named | None = None) -> Series:
    return series_of(text_of(families(about or named(), record)))


def test_the_values_are_those_of_the_runs_json() -> None:
    storage = neglected(NOW, 3)
    report = maintain(storage, TIGHT)
    found = shown(next_record(None, ended(report, NOW)))
    told, one = report_json(report), plain(found)
    assert {name: one[name] for name in (
        "last_run_snapshots_written", "last_run_bytes_written", "last_run_bytes_deleted",
        "last_committed_batch", "store_files", "store_bytes", "reclaimed_bytes_total",
        "reclaimed_files_total", "state_rows", "partitions", "restart_files",
    )} == {
        "last_run_snapshots_written": told["snapshots_written"],
        "last_run_bytes_written": told["bytes_written"],
        "last_run_bytes_deleted": told["bytes_deleted"],
        "last_committed_batch": told["last_committed_batch"],
        "store_files": sum(store["files"] for store in told["stores"]),
        "store_bytes": sum(store["bytes"] for store in told["stores"]),
        "reclaimed_bytes_total": told["bytes_deleted"],
        "reclaimed_files_total": told["files_deleted"],
        "state_rows": sum(store["attestation"]["rows"] for store in told["stores"]),
        "partitions": 3,
        "restart_files": 3,
    }  # fmt: skip
    requests = {verb: n for (verb,), n in labelled(found, "last_run_storage_requests")}
    assert requests == told["requests"]
    assert sum(n for _, n in labelled(found, "last_run_files_deleted")) == told["files_deleted"]


def test_snapshots_that_were_not_written_are_counted_by_reason_and_zero_once_they_are() -> None:
    storage = neglected(NOW, 3)
    late = ended(maintain(storage, TIGHT.override(max_seconds_per_run=0)), NOW)
    found = dict(labelled(shown(Record(late, None)), "snapshots_withheld"))
    assert found.pop(("max_seconds_per_run",)) == 6
    assert set(found.values()) == {0}
    whole = ended(maintain(storage, TIGHT), NOW)
    assert {n for _, n in labelled(shown(Record(whole, NOW)), "snapshots_withheld")} == {0}


def test_every_metric_of_the_catalogue_has_its_series_and_its_type() -> None:
    record = maintained(neglected(NOW), NOW)
    last = ended(maintain(neglected(NOW), TIGHT), NOW, every_unit=True)
    verified = LastVerification(NOW, healthy=True)
    record = replace(next_record(record, last), verified=verified, savepoint=SAVED)
    about = named(interval=3600, savepoint_interval=86400, every_unit=True)
    made = [*families(about, record)]
    types = {one.name: one.type for one in [*made, waiting(named(), NOW)]}
    apart = (Detail.EXPORTER, Detail.TASK)
    of_queries = [one for one in METRICS if one.detail not in apart]
    for metric in of_queries:
        assert types[metric.full.removesuffix("_total")] == metric.kind
    assert len(types) == len(of_queries)


def test_each_series_of_a_query_has_the_labels_of_its_installation_and_its_entry() -> None:
    routing = {"owner": "ann", "team": "payments"}
    about = named(origin="blue", namespace="streams", storage="s3://lake", routing=routing)
    common = {"query": "q", "origin": "blue", "namespace": "streams", **routing}
    made = [*families(about, maintained(neglected(NOW), NOW)), waiting(about, NOW)]
    samples = [sample for one in made for sample in one.samples]
    assert all(one.labels.items() >= common.items() for one in samples)
    [storage] = {s.labels["storage"] for s in samples if s.name == "statemaint_last_run_failed"}
    assert storage == "s3://lake"


def test_no_query_has_more_series_than_the_bound() -> None:
    counts = {
        "outcomes": {"done": 1, "skipped": 1, "halted": 5},
        "findings": {code.value: 1 for code in FindingCode},
        "deleted": {reason.value: 1 for reason in (*DeleteReason, *RemoveReason)},
        "requests": {f"verb{number}": 1 for number in range(40)},
        "withheld": {reason.value: 1 for reason in WithheldReason},
    }
    unit = Unit(0, 0, 1, 1, 1, 1, 1, 1, 0, 0, seconds=1.0, halted=1)
    spreads = {
        "chains": Spread.of([1], CHAIN_BOUNDS),
        "sizes": Spread.of([1], SIZE_BOUNDS),
        "tasks": Spread.of([1], TASK_BOUNDS),
    }
    facts = RunFacts(
        counts=counts, spreads=spreads, snapshot=1.0,
        worst=tuple(unit._replace(partition=part) for part in range(5)),
        halted=tuple((0, part, "default") for part in range(5)),
    )  # fmt: skip
    last = LastRun("r", NOW, tuple(Cause), 1, 2, 3, 4, 5, facts, 6, 7)
    verified = LastVerification(NOW, healthy=False)
    looks = dict.fromkeys(Looked, Verdict.BROKEN)
    before = Record(last, NOW, verified=verified, savepoint=SAVED, verdicts=looks)
    record = next_record(before, last)
    exporter = sum(one.detail is Detail.EXPORTER for one in METRICS)
    assert len(shown(record, named(interval=1, savepoint_interval=1))) == most_series() - exporter
    assert f"at most {most_series()} series" in document()


def test_fifty_queries_of_two_hundred_join_partitions_have_fewer_than_20_000_series(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = maintain(neglected(NOW, 200, JOIN), Policy(min_deltas_for_snapshot=1000))
    record = next_record(None, ended(report, NOW))
    assert record.known
    assert record.known.facts
    assert record.known.facts.sums["stores"] == 800
    several = [rows_of(families(named(f"q{number}"), record)) for number in range(50)]
    text = "".join(page_text(several))
    series = sum(not line.startswith("#") for line in text.splitlines())
    with capsys.disabled():
        print(  # noqa: T201 -- the figure is the result
            f"\n50 queries of 200 join partitions: {series} series, {len(text)} bytes; "
            f"at most {50 * most_series()} with every label"
        )
    assert series <= 50 * most_series() <= 20_000


def test_a_query_whose_plan_failed_has_that_and_no_false_zeroes() -> None:
    found = shown(next_record(None, LastRun("r", NOW, (Cause.PLAN,))))
    assert dict(labelled(found, "last_run_failed")) == {
        (cause.value,): float(cause is Cause.PLAN) for cause in Cause
    }
    assert plain(found)["last_run_timestamp_seconds"] == NOW
    names = {name for name, _ in found}
    assert not names & {"stores", "store_bytes", "last_success_timestamp_seconds", "findings"}


def test_a_failed_plan_leaves_the_figures_of_the_stores_and_did_nothing_itself() -> None:
    good = maintained(neglected(NOW), NOW)
    found = shown(next_record(good, LastRun("later", NOW + 60, (Cause.LEASE,))))
    before, after = plain(shown(good)), plain(found)
    assert after["store_bytes"] == before["store_bytes"] > 0
    assert after["last_committed_batch"] == 24
    assert found["figures_timestamp_seconds", (("figures", "stores"),)] == NOW
    assert (after["last_run_timestamp_seconds"], after["last_run_snapshots_written"]) == (
        NOW + 60,
        0,
    )
    assert math.isnan(after["last_run_duration_seconds"])


def test_a_query_that_was_only_verified_shows_that_and_no_run() -> None:
    found = plain(shown(Record(None, verified=LastVerification(NOW, healthy=True))))
    assert (found["last_verify_timestamp_seconds"], found["last_verify_failed"]) == (NOW, 0)
    assert "last_run_timestamp_seconds" not in found


def test_a_savepoint_shows_its_age_size_and_duration_and_the_interval_of_the_next() -> None:
    found = plain(shown(Record(None, savepoint=SAVED), named(savepoint_interval=86400)))
    assert {name: found[name] for name in found if "savepoint" in name} == {
        "last_savepoint_timestamp_seconds": NOW - 60,
        "last_savepoint_bytes": 1000,
        "last_savepoint_duration_seconds": 2.5,
        "savepoint_expected_interval_seconds": 86400,
    }


def test_totals_that_cannot_be_read_are_left_out_and_do_not_begin_again() -> None:
    found = shown(Record(LastRun("r", NOW, (Cause.STORAGE,), storage_errors=1)))
    assert not any(name.endswith("_total") for name, _ in found)


def test_a_halted_store_is_named_and_the_first_good_run_takes_it_back() -> None:
    storage = neglected(NOW)
    content = storage.read("state/0/1/20.delta")
    storage.delete("state/0/1/20.delta")
    broken = shown(maintained(storage, NOW))
    assert dict(labelled(broken, "halted_store")) == {("0", "1", "default"): 1.0}
    assert dict(labelled(broken, "findings")) == {("BROKEN_CHAIN",): 1.0}
    assert plain(broken)["stores_unloadable"] == 1
    worst = dict(labelled(broken, "worst_partition_chain_length"))
    assert math.isnan(worst["0", "1"])
    storage.write("state/0/1/20.delta", [content])
    good = shown(maintained(storage, NOW + 60))
    assert dict(labelled(good, "halted_store")) == {(): 0.0}
    assert dict(labelled(good, "findings")) == {("BROKEN_CHAIN",): 0.0}


def test_a_histogram_counts_every_store_once() -> None:
    found = shown(maintained(neglected(NOW, 2, JOIN), NOW))
    assert found["store_chain_length_count", ()] == 8
    assert found["store_chain_length_bucket", (("le", "inf"),)] == 8
    assert found["store_chain_length_bucket", (("le", "0.0"),)] == 8
    assert found["task_seconds_count", ()] == 1


def test_verbs_beyond_the_bound_are_counted_together() -> None:
    requests = {f"verb{number:02}": 1 for number in range(40)}
    last = LastRun("r", NOW, facts=RunFacts(counts={"requests": requests}))
    verbs = dict(labelled(shown(next_record(None, last)), "storage_requests_total"))
    assert len(verbs) == MOST_VERBS
    assert sum(verbs.values()) == 40


def test_the_verdict_of_each_depth_is_a_series() -> None:
    looks = {Looked.NAMES: Verdict.HEALTHY, Looked.ROWS: Verdict.BROKEN}
    found = dict(labelled(shown(Record(None, verdicts=looks)), "verdict"))
    assert found == {("names", "healthy"): 1.0, ("rows", "broken"): 1.0}


def test_the_document_is_made_from_the_catalogue() -> None:
    assert (ROOT / "docs/metrics.md").read_text() == document(), "run `make generated`"
    assert len(BY_NAME) == len(METRICS)
    assert all(one.name.endswith("_total") == (one.kind is MetricType.COUNTER) for one in METRICS)
