"""The facts of a run are the same, however its partitions are shared out among tasks."""

import json
from dataclasses import replace

import pytest

from statemaint.maintain import maintain
from statemaint.maintain.work import WorkOrder
from statemaint.model.findings import FindingCode
from statemaint.model.policy import Policy
from statemaint.plan.actions import Request
from statemaint.report.facts import (
    CHAIN_BOUNDS,
    WORST,
    RunFacts,
    Spread,
    facts_of,
    total,
)
from statemaint.report.run import Report
from statemaint.report.task import BundleReport, dumped, loaded
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import write_checkpoint

TIGHT = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0)
IDLE = Policy(min_deltas_for_snapshot=1000)
NOW = 1_800_000_000.0


def neglected(partitions: int = 7) -> MemoryStorage:
    return write_checkpoint(MemoryStorage(clock=lambda: NOW), partitions=partitions)


def looked_at(storage: MemoryStorage, *partitions: int) -> Report:
    return maintain(storage, IDLE, request=Request(partitions=frozenset(partitions)), dry_run=True)


def test_the_facts_of_several_tasks_are_those_of_one() -> None:
    storage = neglected()
    parts = [facts_of(looked_at(storage, *some), every_unit=True) for some in ((0, 3), (1, 2, 5))]
    whole = facts_of(looked_at(storage, 0, 1, 2, 3, 5), every_unit=True)
    found = total(parts)
    shares = [name for name in whole.sums if name.endswith("_share_ms")]  # rounded in each
    for name in shares:
        assert found.sums[name] == pytest.approx(whole.sums[name], abs=len(parts))
    found, whole = (
        replace(of, sums={name: of.sums[name] for name in of.sums if name not in shares})
        for of in (found, whole)
    )
    for name in ("sums", "snapshot", "worst", "halted", "units", "checkpoint"):
        assert getattr(found, name) == getattr(whole, name), name
    assert found.spreads["chains"] == whole.spreads["chains"]
    assert found.spreads["tasks"].counts[0] == 2


def test_requests_of_a_bundle_are_counted_once() -> None:
    storage = neglected(4)
    report = maintain(storage, TIGHT)
    assert facts_of(report).counts["requests"] == report.requests
    assert sum(report.requests.values()) > 0


def test_a_restart_reads_every_file_of_the_chain_in_the_slowest_partition() -> None:
    storage = neglected(3)
    storage.replace("state/0/1/25.delta", [bytes(3_000_000)])
    facts = facts_of(looked_at(storage, 0, 1, 2))
    sizes = [entry.size for entry in storage.list("state/0/1") if entry.path.endswith(".delta")]
    assert facts.sums["replayed_files"] == 75
    forecast = facts.highest
    assert forecast["restart_store"] > 0.01 * sum(sizes) / 1e6
    assert facts.restart == round(forecast["restart_start"] + forecast["restart_store"], 3)
    assert facts.restart_least
    assert forecast["restart_start"] < facts.restart_least < facts.restart
    assert facts.worst[0].partition == 1
    assert facts.highest["chain"] == 25


def test_facts_of_an_earlier_build_forecast_nothing() -> None:
    known = facts_of(looked_at(neglected(1)))
    assert known.restart is not None
    earlier = {name: value for name, value in known.highest.items() if "restart_" not in name}
    old = replace(known, highest={**earlier, "restart": 1.0})
    assert (old.restart, old.restart_least) == (None, None)


def test_a_partition_that_does_not_load_is_worse_than_any_other() -> None:
    storage = neglected()
    storage.replace("state/0/1/25.delta", [bytes(3_000_000)])
    storage.delete("state/0/6/20.delta")
    facts = facts_of(maintain(storage, IDLE))
    assert [(one.partition, one.chain) for one in facts.worst][:2] == [(6, None), (1, 25)]
    assert len(facts.worst) == WORST
    assert facts.sums["unloadable"] == 1
    assert facts.halted == ((0, 6, "default"),)
    assert facts.findings[FindingCode.BROKEN_CHAIN] == 1


def test_a_finding_of_the_whole_checkpoint_is_counted_once_for_all_tasks() -> None:
    one = RunFacts(checkpoint={"FOREIGN_MAINTAINER": 1}, counts={"findings": {"BROKEN_CHAIN": 1}})
    found = total([one, one, RunFacts()])
    assert found.findings == {"BROKEN_CHAIN": 2, "FOREIGN_MAINTAINER": 1}


def test_facts_survive_their_way_from_task_to_task() -> None:
    storage = neglected()
    storage.delete("state/0/6/20.delta")
    for facts in (facts_of(maintain(storage, TIGHT), every_unit=True), RunFacts()):
        assert loaded(RunFacts, json.loads(json.dumps(dumped(facts)))) == facts


def test_the_report_of_another_build_counts_as_none_and_never_as_a_success() -> None:
    of_earlier = {
        "label": "op 0 / part 3",
        "summary": None,
        "reason": "CORRUPT_FILE",
        "retry": False,
    }
    with pytest.raises(ValueError, match=r"BundleReport without bytes, .*, failure, files"):
        loaded(BundleReport, of_earlier)


def test_an_order_of_another_build_is_refused_for_a_setting_more_or_less() -> None:
    order = dumped(WorkOrder("q", Policy(), "r", ()))
    assert loaded(WorkOrder, order) == WorkOrder("q", Policy(), "r", ())
    more = {**order, "policy": {**order["policy"], "newer": 1}}
    with pytest.raises(ValueError, match="WorkOrder with newer"):
        loaded(WorkOrder, more)
    less = {**order, "policy": {**order["policy"]}}
    del less["policy"]["trash_for"]
    with pytest.raises(ValueError, match="WorkOrder without trash_for"):
        loaded(WorkOrder, less)


def test_a_record_keeps_what_metrics_show_of_a_partition() -> None:
    facts = facts_of(maintain(neglected(), TIGHT), every_unit=True)
    stored = facts.to_json()
    kept = RunFacts.from_json(json.loads(json.dumps(stored)))
    assert kept.to_json() == stored
    assert kept.units[0].id == facts.units[0].id
    assert stored["units"][0] == [0, 0, facts.units[0].seconds, 0, 1089, 11, 171, 0, 0]


def test_without_asking_no_partition_is_kept_but_the_worst() -> None:
    facts = facts_of(looked_at(neglected(), *range(7)))
    assert facts.units == ()
    assert len(json.dumps(facts.to_json())) < 3000


def test_a_value_at_a_bound_lies_below_it_and_one_beyond_all_has_a_place() -> None:
    spread = Spread.of([0, 5, 6, 1_000_000], CHAIN_BOUNDS)
    assert spread.counts[:3] == (1, 1, 1)
    assert spread.counts[-1] == 1
    assert (spread + spread).total == 2 * 1_000_011


def test_what_is_not_committed_loads_in_no_store() -> None:
    storage = write_checkpoint(MemoryStorage(), last=1, batches=())
    storage.write("offsets/0", [b'v1\n{"conf":{}}\n-'])
    facts = facts_of(maintain(storage, TIGHT))
    assert facts.sums["unloadable"] == facts.sums["stores"]
    assert facts.sums["replayed"] == 0
