"""Which stores a query must have, from all that the checkpoint says."""

import json
from collections.abc import Iterable
from dataclasses import replace

import pytest

from statemaint.audit import doctor, verify
from statemaint.maintain import maintain
from statemaint.model.checkpoint import Operator
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from statemaint.planning import scan_checkpoint
from statemaint.records.attestations import store_of
from statemaint.scan.required import (
    Evidence,
    Undeclared,
    expected_stores,
    findings_of_unused,
    required_operators,
    required_partitions,
    store_names,
)
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import drop, write_checkpoint
from tests.support.long_rows import schema
from tests.support.rocks import write_rocks_checkpoint

TIGHT = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0)
AGGREGATION = Operator(0, "stateStoreSave", ("default",), 4)


def stores(*numbers: tuple[int, int]) -> frozenset[StoreId]:
    return frozenset(StoreId(*one) for one in numbers)


def partitions(known: Evidence, operator: int = 0) -> int:
    return len([*required_partitions(known, operator)])


def test_an_operator_below_a_listed_one_is_there_as_well() -> None:
    assert required_operators(Evidence(stores((2, 0)))) == {0, 1, 2}
    assert required_operators(Evidence(stores())) == set()


def test_a_stray_number_invents_nothing() -> None:
    """Whoever counted up to it would not end, and name a hundred million stores as missing."""
    far = 99_999_999
    assert required_operators(Evidence(stores((0, 0), (far, 0)))) == {0, far}
    found = required_partitions(Evidence(stores((0, 0), (0, 1), (0, far))), 0)
    assert set(found) == {0, 1, far}


def test_the_newest_commit_names_exactly_the_operators() -> None:
    known = Evidence(stores((0, 0), (5, 0)), named={0: (1, 1), 1: (1, 1)})
    assert required_operators(known) == {0, 1}
    assert known.listed - set(expected_stores(known)) == {StoreId(5, 0)}


def test_the_ledger_knows_what_was_maintained_once() -> None:
    known = Evidence(stores((0, 0)), noted=stores((1, 1)))
    assert required_operators(known) == {0, 1}
    assert partitions(known, 1) == 2


def test_a_copy_of_another_operators_folder_is_none() -> None:
    known = Evidence(
        stores((0, 0), (1, 0)), {0: AGGREGATION, 1: AGGREGATION}, copied=frozenset({1})
    )
    assert required_operators(known) == {0}


def test_metadata_of_an_operator_that_no_commit_names_are_foreign() -> None:
    both = {0: AGGREGATION, 2: replace(AGGREGATION, id=2)}

    def foreign(evidence: Evidence) -> list[str | None]:
        findings = findings_of_unused(evidence, (), Undeclared())
        return [finding.path for finding in findings]

    assert foreign(Evidence(stores(), both, named={0: (1,)})) == ["state/2"]
    assert foreign(Evidence(stores(), both)) == [], "nothing says which there are"
    copied = Evidence(stores(), both, named={0: (1,)}, copied=frozenset({2}))
    assert foreign(copied) == [], "Spark takes it for operator 0 once more"


@pytest.mark.parametrize(
    ("known", "count"),
    [
        (Evidence(stores((0, 0), (0, 1)), pinned=3), 3),
        (Evidence(stores((0, 0), (0, 1)), {0: AGGREGATION}), 4),
        (Evidence(stores((0, 0), (0, 1)), {0: AGGREGATION}, pinned=3), 3),
        (Evidence(stores((0, 0), (0, 6))), 7),
        # Without a key everything is in one partition, whatever is declared.
        (Evidence(stores((0, 0)), {0: AGGREGATION}, pinned=3), 1),
        (Evidence(stores((0, 0)), {0: AGGREGATION}, pinned=3, keyed=frozenset({0})), 3),
        (Evidence(stores((0, 0)), pinned=3, named={0: (1, 1, 1)}), 3),
        # Batches before a repartition had more.
        (Evidence(stores((0, 0), (0, 1)), pinned=2, counts={4: 3, 5: 2}), 3),
    ],
)
def test_an_operator_has_as_many_partitions_as_anything_says(known: Evidence, count: int) -> None:
    assert partitions(known) == count


def test_what_a_repartition_left_is_expected_and_a_stray_partition_is_not() -> None:
    stray = Evidence(stores((0, 0), (0, 1), (0, 7)), pinned=2)
    assert expected_stores(stray) == tuple(sorted(stores((0, 0), (0, 1))))
    left = Evidence(stores((0, 0), (0, 1), (0, 7)), pinned=2, counts={4: 2})
    assert StoreId(0, 7) in expected_stores(left)


@pytest.mark.parametrize(
    ("names", "named", "found"),
    [
        (["default"], {}, 1),
        ([], {}, 1),
        (["left-keyToNumValues"], {}, 4),
        ([], {0: (4, 4)}, 4),
        (["one", "other"], {}, 2),
    ],
)
def test_a_join_has_four_stores(
    names: Iterable[str], named: dict[int, tuple[int, ...]], found: int
) -> None:
    known = Evidence(frozenset(StoreId(0, 0, one) for one in names), named=named)
    assert len(store_names(known, 0)) == found


@pytest.mark.parametrize(
    ("path", "store"),
    [
        ("_statemaint/attestations/1/0/default.json", StoreId(1, 0)),
        ("_statemaint/attestations/1/0/../x.json", None),
        ("_statemaint/attestations/01/0/default.json", None),
        ("_statemaint/attestations/readme", None),
    ],
)
def test_the_ledgers_files_name_stores(path: str, store: StoreId | None) -> None:
    assert store_of(path) == store


# -- what it comes to


def test_a_partition_whose_folder_is_missing_is_damage() -> None:
    storage = write_checkpoint(MemoryStorage(), partitions=3)
    drop(storage, "state/0/1")
    (found,) = [one for one in verify(storage).findings if one.damage]
    assert (found.code, found.path) == ("BROKEN_CHAIN", "state/0/1")
    assert found.batches == tuple(range(16, 25))
    assert found.detail == (
        "state/0/1 is missing or empty, and the query reads it (operator 0 has 3 partitions): no "
        "batch loads; put the folder back from a copy, nothing is deleted until then"
    )
    assert not doctor(storage).restarts
    assert maintain(storage, TIGHT).exit_code == 3


def test_an_operator_that_the_ledger_knows_and_that_is_missing_is_damage() -> None:
    storage = write_checkpoint(MemoryStorage())
    for path, content in list(storage.files.items()):
        if path.startswith("state/0/"):
            storage.write(path.replace("state/0/", "state/1/"), [content])
    assert maintain(storage, TIGHT).exit_code == 0
    drop(storage, "state/1")
    assert not doctor(storage).restarts
    assert maintain(storage, TIGHT).exit_code == 3


def test_an_operator_whose_schema_alone_is_left_has_lost_its_state() -> None:
    storage = write_checkpoint(MemoryStorage())
    drop(storage, "state")
    assert doctor(storage).restarts  # as a query without stateful operators does
    storage.write("state/0/0/_metadata/schema", [schema("hour", "host")])
    assert [(one.code, one.path) for one in doctor(storage).findings] == [
        ("BROKEN_CHAIN", "state/0/0"),
        ("BROKEN_CHAIN", "state/0/1"),
    ]
    assert not doctor(storage).restarts
    assert maintain(storage, TIGHT).exit_code == 3


def test_schemas_show_the_stores_of_a_join_and_no_others() -> None:
    side, stray = StoreId(0, 0, "left-keyToNumValues"), StoreId(0, 0, "copy")
    assert len(store_names(Evidence(frozenset(), described=frozenset({side})), 0)) == 4
    assert store_names(Evidence(frozenset(), described=frozenset({stray})), 0) == {"default"}


def test_where_no_ids_name_the_operators_doctor_says_what_it_cannot_see() -> None:
    storage = write_checkpoint(MemoryStorage())
    assert "operators that left no trace, and operators of another query" in (
        doctor(storage, deep=True).unseen
    )
    named = write_rocks_checkpoint(MemoryStorage(), with_ids=True)
    assert doctor(named, deep=True).unseen == ()


def test_another_querys_operator_stops_a_restart() -> None:
    storage = write_rocks_checkpoint(MemoryStorage(), with_ids=True)
    metadata = {
        "operatorInfo": {"operatorId": 3, "operatorName": "dedupe"},
        "stateStoreInfo": [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 2}],
    }
    content = f"v1\n{json.dumps(metadata)}".encode()
    storage.write("state/3/_metadata/metadata", [content])
    found = doctor(storage)
    assert (found.restarts, found.goes_back_to) == (False, None)
    assert [one.path for one in found.blockers] == ["state/3"]
    assert "move the folders of foreign operators out of `state`" in found.next


def test_a_lost_partition_with_unique_ids_is_damage_of_its_lineage() -> None:
    storage = write_rocks_checkpoint(MemoryStorage(), with_ids=True)
    drop(storage, "state/0/1")
    found = [one for one in verify(storage).findings if one.damage]
    assert {(one.code.value, one.path) for one in found} == {
        ("LINEAGE_BROKEN", "commits/24"),
        ("LINEAGE_BROKEN", "state/0/1"),
    }


def test_what_belongs_to_no_partition_is_kept_and_said() -> None:
    storage = write_checkpoint(MemoryStorage())
    storage.write("state/0/7/1.delta", [b"anything"])
    found = scan_checkpoint(storage)
    assert [(one.code, one.damage) for one in found.findings] == [("UNUSED_STORE", False)]
    maintain(storage, TIGHT)
    assert "state/0/7/1.delta" in storage.files
