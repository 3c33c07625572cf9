"""The number of partitions is a fact of each batch, once Spark has repartitioned the state.

The listings are those that Spark 4.3 leaves (`tests/systems/spark/test_repartition.py` has real
ones): the version of a repartition is a zip without a changelog, in each partition that there is
from then on.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest

from statemaint.airflow.hooks import longest_chain
from statemaint.errors import CodecError
from statemaint.listing import Entry
from statemaint.maintain import maintain
from statemaint.maintain.work import prepare
from statemaint.model.checkpoint import Checkpoint
from statemaint.model.files import StateFile, UnknownFile
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from statemaint.plan.actions import Delete, Plan
from statemaint.plan.findings.health import diagnose
from statemaint.plan.planner import plan
from statemaint.plan.reasons import KeepReason
from statemaint.planning import scan_checkpoint
from statemaint.report.to_json import scan_json
from statemaint.scan.query_logs import count_in, may_have_changed, partition_counts
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import NOW, offsets_bytes
from tests.support.rocks import (
    PROVIDER,
    commit_bytes,
    rocks_checkpoint,
    rocks_store,
    unique_id,
    write_rocks_checkpoint,
)

SETTING = "spark.sql.shuffle.partitions"
POLICY = Policy(min_deltas_for_snapshot=50, min_batches_to_retain=2, grace=0, orphan_age=100)
# Batch 6 goes from three partitions to two, batch 10 from two to four.
COUNTS = {4: 3, 5: 3, 6: 2, 7: 2, 8: 2, 9: 2, 10: 4, 11: 4}
STAYS = "3c 4z:a 5c 6c 7z:b 8c 9c 10c 11z:c 12c sa sb sc"
LEFT = "3c 4z:a 5c 6c sa"
AGAIN = "3c 4z:a 5c 6c 11z:c 12c sa sc"
NEW = "11z:c 12c sc"


def checkpoint(
    stores: Mapping[int, str], counts: Mapping[int, int] = COUNTS, first: int = 4, last: int = 11
) -> Checkpoint:
    """Returns a checkpoint whose commit log has a closed range of batches."""
    found = [rocks_store(files, StoreId(0, number)) for number, files in stores.items()]
    batches = range(first, last + 1)
    kept = {batch: count for batch, count in counts.items() if batch in batches}
    changed = kept if len({*kept.values(), max(stores) + 1}) > 1 else {}
    return replace(rocks_checkpoint(*found, batches=batches), counts=changed)


WHOLE = {0: STAYS, 1: STAYS, 2: AGAIN, 3: NEW}


def broken(found: Checkpoint) -> dict[int, tuple[int, ...]]:
    findings = (one for store in found.stores for one in diagnose(store, found) if one.damage)
    return {one.store.partition: one.batches for one in findings if one.store}


def planned(found: Checkpoint, policy: Policy = POLICY) -> Plan:
    return plan(found, policy, NOW)


def gone(found: Plan, partition: int) -> set[str]:
    deletes = (one for one in found.actions if isinstance(one, Delete))
    mine = (one for one in deletes if one.store.partition == partition)
    return {one.path.rpartition("/")[2] for one in mine if one.reason.value == "old_partition"}


def test_each_batch_asks_for_its_own_partitions() -> None:
    found = checkpoint(WHOLE)
    asked = {
        number: [version for version in range(5, 13) if found.asks(StoreId(0, number), version)]
        for number in WHOLE
    }
    assert asked == {
        0: [*range(5, 13)], 1: [*range(5, 13)], 2: [5, 6, 11, 12], 3: [11, 12],
    }  # fmt: skip
    assert found.repartitioned == {7, 11}


def test_a_batch_whose_offsets_are_gone_asks_for_every_partition() -> None:
    found = replace(checkpoint(WHOLE), counts={6: 2, 11: 4})
    assert found.asks(StoreId(0, 3), 6)
    assert not found.asks(StoreId(0, 2), 7)


def test_what_a_batch_does_without_is_not_missing() -> None:
    assert broken(checkpoint(WHOLE)) == {}
    assert set(broken(replace(checkpoint(WHOLE), counts={}))) == {2}
    holes = "3c 4z:a 5c 7z:b 8c 9c 11z:c 12c sa sb sc"
    assert broken(checkpoint({**WHOLE, 1: holes})) == {1: (5, 9)}
    assert broken(checkpoint({**WHOLE, 3: "12c sc"})) == {3: (10, 11)}


SHRUNK = {0: STAYS, 1: STAYS, 2: LEFT}
FEWER = {4: 3, 5: 3, **dict.fromkeys(range(6, 30), 2)}


def test_a_partition_that_was_left_stays_while_a_batch_has_it() -> None:
    found = planned(checkpoint(SHRUNK, FEWER, last=11))
    assert [one.code for one in found.all_findings] == []
    assert gone(found, 2) == set()
    (store,) = [one for one in found.stores if one.store.id.partition == 2]
    assert {one.reason.value for one in store.kept} == {"partition_of_older_batches"}


def test_after_that_all_of_it_goes_and_nothing_else() -> None:
    found = planned(replace(checkpoint(SHRUNK, FEWER, first=6), counts={11: 2, 10: 2}))
    assert gone(found, 2) == {"3.changelog", "4.zip", "5.changelog", "6.changelog", "a.sst"}
    assert gone(found, 0) == gone(found, 1) == set()
    order = [one.path for one in found.actions if isinstance(one, Delete)]
    assert order.index("state/0/2/4.zip") < order.index("state/0/2/SSTs/a.sst")


@pytest.mark.parametrize(
    "policy",
    [
        replace(POLICY, min_batches_to_retain=20),  # the policy asks for its versions
        replace(POLICY, verify=False),
    ],
)
def test_a_removed_partition_does_not_go_before_the_policy_lets_it(policy: Policy) -> None:
    found = replace(checkpoint(SHRUNK, FEWER, first=6), counts={11: 2, 10: 2})
    assert gone(planned(found, policy), 2) == set()


def test_what_is_young_or_unknown_in_it_stays() -> None:
    young = {**SHRUNK, 2: "3c 4z:a 5c 6c@50 sa@50"}
    found = planned(replace(checkpoint(young, FEWER, first=6), counts={11: 2, 10: 2}))
    assert gone(found, 2) == {"3.changelog", "4.zip", "5.changelog"}


SINCE_LEFT = replace(checkpoint(SHRUNK, FEWER, first=6), counts={11: 2, 10: 2})


def test_what_is_no_file_of_spark_s_in_it_stays() -> None:
    *others, left = SINCE_LEFT.stores
    strange = UnknownFile(Entry("state/0/2/notes.txt", 3, NOW - 9e6))
    stores = (*others, replace(left, files=(*left.files, strange)))
    found = planned(replace(SINCE_LEFT, stores=stores))
    assert len(gone(found, 2)) == len(left.files)
    assert {one.reason for one in found.stores[2].kept} == {KeepReason.UNKNOWN}


def test_nothing_of_it_goes_while_clocks_disagree() -> None:
    found = plan(SINCE_LEFT, POLICY, NOW, skew=400.0)
    assert gone(found, 2) == set()
    assert {one.reason for one in found.stores[2].kept} == {KeepReason.CLOCK_SKEW}


def test_nothing_of_it_goes_while_it_is_damaged() -> None:
    *others, left = SINCE_LEFT.stores
    damage = Finding(FindingCode.CORRUPT_FILE, "a changelog does not decode", left.id)
    found = planned(replace(SINCE_LEFT, stores=(*others, replace(left, findings=(damage,)))))
    assert gone(found, 2) == set()
    assert {one.reason for one in found.stores[2].kept} == {KeepReason.HALTED}


def test_the_zips_of_a_repartition_are_no_executors() -> None:
    stores = [
        replace(store, since=4, written=("state/0/0/4.zip",)) for store in checkpoint(WHOLE).stores
    ]
    found = replace(checkpoint(WHOLE), stores=tuple(stores))
    codes = {one.code for one in planned(found).all_findings}
    assert FindingCode.FOREIGN_MAINTAINER not in codes
    unknown = replace(found, counts={**COUNTS, 10: 2, 9: 4})
    assert unknown.repartitioned != found.repartitioned


def test_rows_have_moved_where_the_numbers_differ() -> None:
    found = checkpoint(WHOLE)
    assert found.moved(6, 7)
    assert not found.moved(7, 10)
    assert found.moved(10, 11)
    assert not found.moved(0, 5)
    assert found.moved(3, 5), "nobody knows how many version 3 had"
    assert not replace(found, counts={}).moved(3, 12)


# -- what says that there was one


def listed(stores: Mapping[int, str]) -> dict[StoreId, tuple[StateFile, ...]]:
    ids = {StoreId(0, number): files for number, files in stores.items()}
    return {store: rocks_store(files, store).files for store, files in ids.items()}


@pytest.mark.parametrize(
    ("stores", "newest", "changed"),
    [
        ({0: STAYS, 1: STAYS}, 2, False),
        ({0: STAYS, 1: STAYS, 2: LEFT}, 2, True),
        (WHOLE, 4, True),
        ({0: STAYS, 1: STAYS, 2: AGAIN}, 3, True),
        ({0: STAYS}, 1, False),
        ({0: "9c"}, 1, False),  # one partition alone never is one too many
        (WHOLE, None, False),
        ({0: STAYS, 1: "6z 7z:b 8c 9c 10c 11z:c 12c"}, 2, False),  # Spark cleaned the oldest up
    ],
)
def test_the_highest_partition_tells(
    stores: Mapping[int, str],
    newest: int | None,
    changed: bool,  # noqa: FBT001 -- a parameter of the table
) -> None:
    files = listed(stores)
    assert may_have_changed(files, {batch: {} for batch in range(4, 12)}, newest) is changed


def test_unique_ids_tell_how_many_partitions_there_are() -> None:
    one, two = {0: (("a",),)}, {0: (("a",), ("b",))}
    files = listed({0: STAYS, 1: STAYS})
    assert may_have_changed(files, {4: two, 5: one, 6: two}, 2)
    assert not may_have_changed(files, {4: two, 5: {}, 6: two}, 2)


def test_the_number_is_what_the_offsets_pin() -> None:
    storage = MemoryStorage()
    for batch, count in ((3, "2"), (4, "3"), (5, "many")):
        storage.write(f"offsets/{batch}", [offsets_bytes({SETTING: count})])
    storage.write("offsets/6", [b"cut"])
    assert partition_counts(storage, range(3, 9)) == {3: 2, 4: 3}
    assert count_in({}) is None
    for value in ("0", "x", "1e9"):
        with pytest.raises(CodecError):
            count_in({SETTING: value})


@pytest.mark.parametrize("with_ids", [False, True])
def test_no_figure_of_a_restart_counts_a_partition_that_was_left(*, with_ids: bool) -> None:
    storage = write_rocks_checkpoint(
        MemoryStorage(clock=lambda: NOW), partitions=3, with_ids=with_ids
    )
    for batch in range(16, 25):
        count = 3 if batch < 20 else 2
        conf = {"providerClass": PROVIDER, "shuffle.partitions": str(count)}
        storage.replace(f"offsets/{batch}", [offsets_bytes(conf)])
        ids = [[unique_id(StoreId(0, number), batch + 1)] for number in range(count)]
        storage.replace(f"commits/{batch}", [commit_bytes({"0": ids} if with_ids else None)])
    newer = [f"state/0/2/{version}" for version in range(21, 26)]
    storage.delete_all([path for path in storage.files if re.split("[._]", path)[0] in newer])
    assert maintain(storage, Policy(min_deltas_for_snapshot=5, grace=0)).exit_code == 0
    summary = prepare(storage, Policy(min_deltas_for_snapshot=5, grace=0)).summary(every_unit=True)
    assert summary.facts
    assert summary.facts.sums["unloadable"] == summary.lag == 0
    assert summary.facts.snapshot
    assert [unit.chain for unit in summary.facts.units] == [0, 0, 0]
    seen = scan_checkpoint(storage)
    assert [store["chain_length"] for store in scan_json(seen)["stores"]] == [0, 0, 0]
    assert longest_chain(storage) == 0
    assert "broken" not in str(seen)
