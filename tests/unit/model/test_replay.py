"""What a restart reads is the same for the pages and for the metrics."""

from statemaint.model.checkpoint import Store
from statemaint.model.policy import Policy
from statemaint.model.restart_costs import Replay
from statemaint.model.restart_time import RECORD_SIZE, replay_of
from statemaint.plan.planner import plan
from statemaint.report.facts import facts_of, planned_units
from statemaint.report.outcome import summarize
from statemaint.report.run import Report
from tests.support.checkpoints import NOW
from tests.support.rocks import rocks_checkpoint, rocks_store

# A zip of version 5 with two tables of ten bytes, and changelogs above it; the others have 100.
ZIP = rocks_store("sa sb 5z:a+b 6c 7c 8c")
TORN = rocks_store("sa sb 5z:a+b 6c 8c")


def looked_at(store: Store) -> Report:
    found = plan(rocks_checkpoint(store, batches=range(5, 8)), Policy(), NOW)
    stores = tuple(summarize(one, (), found.target) for one in found.stores)
    return Report(run="", plan=found, stores=stores, started=NOW, seconds=0.0)


def test_the_tables_that_a_zip_refers_to_are_read_with_it() -> None:
    (store,) = looked_at(ZIP).stores
    assert replay_of(store.after, store.target, RECORD_SIZE) == Replay(1, 3, 120, 3, 3, 300, 8)


def test_pages_and_metrics_count_the_same_files_and_bytes() -> None:
    report = looked_at(ZIP)
    (page,) = planned_units(report.plan)
    facts = facts_of(report, every_unit=True)
    (metric,) = facts.units
    assert (page.chain, page.replay_files, page.replay_bytes) == (3, 6, 420)
    assert (metric.chain, facts.sums["replayed_files"], metric.replay_bytes) == (3, 6, 420)
    assert page.seconds == metric.seconds > 0


def test_what_does_not_load_reads_nothing() -> None:
    report = looked_at(TORN)
    (page,), facts = planned_units(report.plan), facts_of(report)
    assert [replay_of(one.after, one.target) for one in report.stores] == [None]
    assert (page.chain, page.replay_files, page.replay_bytes) == (None, 0, 0)
    assert (facts.sums["unloadable"], facts.sums["replayed_files"]) == (1, 0)
