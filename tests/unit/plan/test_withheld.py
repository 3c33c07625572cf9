"""Each due snapshot is written, or the plan says why it is not, until when, and what to do."""

import re
from dataclasses import replace

import pytest

from statemaint.model.checkpoint import Checkpoint
from statemaint.model.findings import FindingCode
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from statemaint.model.restart_time import LONG_CHAIN
from statemaint.model.rocks import Upload, Uploads
from statemaint.plan.actions import Plan, Request, Wait, Window, Withheld, WriteSnapshot
from statemaint.plan.facts import gather
from statemaint.plan.planner import plan
from statemaint.plan.reasons import SnapshotReason, WithheldReason
from statemaint.plan.snapshots import snapshots_due
from statemaint.plan.staleness import Judgement
from statemaint.plan.withheld import Waiting, by_reason, long_waits, together
from statemaint.report.task import dumped, loaded
from statemaint.report.to_json import plan_json
from tests.support.checkpoints import NOW, STORE, checkpoint, store, versions
from tests.support.paths import ROOT
from tests.support.rocks import rocks_checkpoint, rocks_store

POLICY = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=2, grace=0, orphan_age=60)
EVERY_TEN = Uploads((Upload(30, "state/0/0/30.zip"), Upload(40, "state/0/0/40.zip")), 10)


def planned(seen: Checkpoint, policy: Policy = POLICY, **request: object) -> Plan:
    return plan(seen, policy, NOW, request=Request(**request))  # type: ignore[arg-type]


def waits(found: Plan) -> dict[int, tuple[SnapshotReason, Wait]]:
    return {one.version: (one.due, one.wait) for one in found.withheld}


def written(found: Plan) -> set[int]:
    return {one.version for one in found.actions if isinstance(one, WriteSnapshot)}


def beside_executors(last: int) -> Checkpoint:
    zips = f"40z:a 50z:b 57z:c {versions('c', 41, last)} sa sb sc"
    uploads = replace(rocks_store(zips, since=20), uploads=EVERY_TEN)
    return rocks_checkpoint(uploads, batches=range(last - 5, last))


def test_executors_that_may_upload_delay_a_snapshot_until_the_end_of_their_quiet_window() -> None:
    found = planned(beside_executors(65))
    assert written(found) == set()
    executors = Wait(WithheldReason.EXECUTORS, version=77)
    assert waits(found) == {65: (SnapshotReason.CHAIN_TOO_LONG, executors)}
    assert waits(planned(beside_executors(76)))[76] == (SnapshotReason.CHAIN_TOO_LONG, executors)
    over = planned(beside_executors(77))
    assert (77 in written(over), waits(over)) == (True, {})


def test_the_floor_of_a_neglected_store_says_why_it_gets_no_rebase() -> None:
    changes = versions("c", 1, 60)
    once = replace(rocks_store(f"50z:a {changes} sa", since=20), uploads=EVERY_TEN)
    found = planned(rocks_checkpoint(once, batches=range(44, 60)))
    executors = Wait(WithheldReason.EXECUTORS, version=70)
    assert waits(found)[45] == (SnapshotReason.REBASE, executors)
    without = replace(POLICY, rebase=False)
    assert waits(planned(rocks_checkpoint(once, batches=range(44, 60)), without)) == {}


def test_a_chain_below_the_limit_waits_for_nothing() -> None:
    found = planned(checkpoint(store(versions("d", 1, 5)), batches=range(3, 5)))
    assert (found.withheld, found.actions) == ((), ())


def test_a_snapshot_that_the_run_requests_is_withheld_with_a_reason_too() -> None:
    found = planned(beside_executors(61), force_snapshot=True)
    assert waits(found)[61][0] is SnapshotReason.FORCED


@pytest.mark.parametrize(
    ("policy", "skew", "wait"),
    [
        (POLICY, 0, Wait(WithheldReason.YOUNG_CHECKSUM, time=NOW + 50)),
        (replace(POLICY, verify=False), 0, Wait(WithheldReason.VERIFY_OFF)),
        (POLICY, 1000, Wait(WithheldReason.CLOCK_SKEW)),
    ],
)
def test_a_checksum_that_outlived_its_snapshot_delays_the_next_one(
    policy: Policy, skew: float, wait: Wait
) -> None:
    seen = checkpoint(store(f"{versions('d', 1, 8)} 8k@10"), batches=range(5, 8))
    found = plan(seen, policy, NOW, skew=skew)
    assert waits(found)[8] == (SnapshotReason.CHAIN_TOO_LONG, wait)
    assert 8 in written(planned(seen, replace(POLICY, orphan_age=5)))


def test_without_a_time_no_time_ends_the_wait_for_a_checksum() -> None:
    one = store(f"{versions('d', 1, 8)} 8k")
    files = tuple(
        replace(file, entry=replace(file.entry, modified=None))
        if file.entry.name.endswith(".crc")
        else file
        for file in one.files
    )
    found = planned(checkpoint(replace(one, files=files), batches=range(5, 8)))
    assert waits(found)[8][1] == Wait(WithheldReason.YOUNG_CHECKSUM)


def test_a_kept_file_with_the_name_of_a_snapshot_is_in_its_way() -> None:
    """The zip of version 5 lacks a table, and no committed batch asks for version 5 any more."""
    seen = rocks_store(f"{versions('c', 1, 12)} 5z:lost 11z:a sa", written=["5.zip"], since=1)
    policy = replace(POLICY, min_batches_to_retain=7)
    found = planned(rocks_checkpoint(seen, batches=range(10, 12)), policy)
    taken = Wait(WithheldReason.NAME_TAKEN)
    assert waits(found) == {5: (SnapshotReason.REBASE, taken)}


def test_a_partition_without_rows_whose_families_no_zip_names_gets_no_zip() -> None:
    seen = rocks_store(versions("c", 1, 8), since=1)
    assert seen.rocks is not None
    used: dict[str, frozenset[int]] = {file.entry.path: frozenset() for file in seen.files}
    unnamed = replace(seen, rocks=replace(seen.rocks, used=used))
    found = planned(rocks_checkpoint(unnamed, batches=range(7, 8)))
    assert waits(found)[8] == (SnapshotReason.CHAIN_TOO_LONG, Wait(WithheldReason.UNNAMED))
    assert 8 in written(planned(rocks_checkpoint(seen, batches=range(7, 8))))


def test_damage_withholds_what_is_due_in_its_store_only() -> None:
    torn = checkpoint(
        store(f"{versions('d', 1, 12)} x:foo.snapshot", StoreId(0, 0)),
        store(versions("d", 1, 12), StoreId(0, 1)),
        batches=range(8, 12),
    )
    found = planned(torn)
    assert {(one.store.partition, one.wait.reason) for one in found.withheld} == {
        (0, WithheldReason.HALTED)
    }
    assert {one.store.partition for one in found.actions} == {1}


def test_a_store_whose_target_does_not_load_has_no_snapshot_to_wait_for() -> None:
    found = planned(checkpoint(store("1d 2d 4d 5d 6d 7d 8d 9d"), batches=range(8, 9)))
    assert found.stores[0].halted
    assert found.withheld == ()


def test_a_partition_that_later_batches_lack_gets_no_snapshot_at_the_floor() -> None:
    seen = checkpoint(
        store(versions("d", 1, 12), StoreId(0, 0)),
        store(versions("d", 1, 10), StoreId(0, 1)),
        batches=range(8, 12),
    )
    counts = {8: 2, 9: 2, 10: 1, 11: 1}
    found = planned(replace(seen, counts=counts, partitions={0: 1}))
    old = [one for one in found.withheld if one.store.partition == 1]
    assert [(one.version, one.wait.reason) for one in old] == [(9, WithheldReason.OLD_PARTITION)]
    counts = {7: 2, 8: 1, 9: 1, 10: 1, 11: 1}
    assert planned(replace(seen, counts=counts, partitions={0: 1})).withheld == ()


def test_the_runbook_has_each_reason_to_withhold() -> None:
    runbook = (ROOT / "docs/runbook.md").read_text()
    entry = runbook.partition("### SNAPSHOT_WITHHELD\n")[2].partition("\n### ")[0]
    assert set(re.findall("(?m)^. `([a-z_]+)`", entry)) == set(WithheldReason)


def test_the_sentence_says_how_many_why_until_when_and_what_to_do() -> None:
    (one,) = by_reason(planned(beside_executors(65)).withheld)
    assert str(one) == (
        "1 due snapshot is not written, chains of up to 8 deltas: executors may still upload a "
        "snapshot, and with a newer one of ours in place Spark's clean-up could delete files that "
        "theirs needs, until version 77 is committed at the latest, unless one is uploaded before; "
        "lower the query's spark.sql.streaming.stateStore.minDeltasForSnapshot to have executors "
        "write snapshots in time; see FOREIGN_MAINTAINER in the runbook to have them write none"
    )
    two = str(Waiting(WithheldReason.YOUNG_CHECKSUM, 2, 1, 8, 8, 8, 0.1, time=1_800_000_000.0))
    assert two.startswith("2 due snapshots (1 at the floor) are not written, ")
    assert "until 2027-01-15 08:00:00 UTC; lower orphan_age" in two


def test_a_snapshot_due_at_the_floor_makes_no_restart_longer() -> None:
    reason = WithheldReason.YOUNG_CHECKSUM
    target = Withheld(
        STORE, 40, SnapshotReason.CHAIN_TOO_LONG, 30, 0.5, Wait(reason, time=NOW + 50)
    )
    assert by_reason([target]) == (Waiting(reason, 1, 0, 30, 30, 30, 0.5, time=NOW + 50),)
    floor = replace(target, due=SnapshotReason.REBASE)
    assert by_reason([floor]) == (Waiting(reason, 1, 1, 30, 0, 0, 0.0, time=NOW + 50),)


def test_the_parts_of_a_run_add_up_by_reason() -> None:
    first = Waiting(WithheldReason.EXECUTORS, 2, 1, 30, 20, 60, 0.5, version=80)
    second = Waiting(WithheldReason.EXECUTORS, 1, 1, 25, 25, 50, 0.7, version=90)
    other = Waiting(WithheldReason.HALTED, 1, 0, 9, 9, 9, 0.1)
    whole = Waiting(WithheldReason.EXECUTORS, 3, 2, 30, 25, 60, 0.7, version=90)
    assert together([other, first, second]) == (whole, other)
    ends = [replace(other, time=time) for time in (NOW, None, NOW + 5, NOW + 1)]
    assert [one.time for one in together(ends)] == [NOW + 5]
    assert loaded(Waiting, dumped(whole)) == whole


def test_a_wait_that_keeps_a_restart_long_is_a_notice_with_its_forecast() -> None:
    slow = replace(
        rocks_store(
            f"600z:a 620z:a 710z:a {versions('c', 601, 740)} sa",
            written=["620.zip", "710.zip"],
            since=605,
        ),
        uploads=Uploads((Upload(300, "state/0/0/300.zip"), Upload(600, "state/0/0/600.zip")), 300),
    )
    found = planned(rocks_checkpoint(slow, batches=range(639, 740)))
    assert waits(found)[740] == (
        SnapshotReason.CHAIN_TOO_LONG,
        Wait(WithheldReason.EXECUTORS, version=1200),
    )
    (notice,) = found.findings
    assert (notice.code, notice.damage) == (FindingCode.SNAPSHOT_WITHHELD, False)
    assert "until version 1200 is committed" in notice.detail
    restart = r"A restart replays up to 30 deltas in a store now, in about [\d.]+ s, and up to 490"
    assert re.search(f"{restart} by then$", notice.detail)


@pytest.mark.parametrize(("deltas", "notices"), [(LONG_CHAIN, 0), (LONG_CHAIN + 1, 1)])
def test_a_short_wait_is_no_notice(deltas: int, notices: int) -> None:
    seen = checkpoint(store(f"{versions('d', 1, deltas)} {deltas}k@0"), batches=[deltas - 1])
    found = [*long_waits(planned(seen).withheld)]
    assert len(found) == notices
    assert all(re.search(r"in about [\d.]+ s$", one.detail) for one in found)


def test_damage_has_findings_of_its_own_and_needs_no_notice() -> None:
    seen = checkpoint(store(f"{versions('d', 1, 300)} x:foo.snapshot"), batches=range(290, 300))
    found = planned(seen)
    assert [one.wait.reason for one in found.withheld][:1] == [WithheldReason.HALTED]
    assert [*long_waits(found.withheld)] == []


def test_the_json_of_a_plan_has_each_withheld_snapshot() -> None:
    seen = beside_executors(65)
    assert plan_json(seen, planned(seen))["withheld"] == [
        {
            "operator": 0,
            "partition": 0,
            "store": "default",
            "version": 65,
            "due": "chain_too_long",
            "chain_length": 8,
            "reason": "executors_may_upload",
            "until_version": 77,
            "until": None,
        }
    ]


def test_a_log_in_doubt_delays_a_snapshot_until_the_target_or_the_floor_is_above_the_doubt() -> (
    None
):
    one = store(versions("d", 1, 12))
    window = Window(9, 9, 12, 12, NOW, replace(POLICY, min_deltas_for_snapshot=2))
    seen = gather(one, window, judgement=Judgement(), versions=one.versions, floor=9)
    decided = snapshots_due(replace(seen, doubted=frozenset({8, 9, 10, 12})))
    assert [(found.version, found.wait) for found in decided if isinstance(found, Withheld)] == [
        (12, Wait(WithheldReason.LOG_IN_DOUBT, version=13)),
        (9, Wait(WithheldReason.LOG_IN_DOUBT, version=14)),  # the floor is 11 then
    ]
