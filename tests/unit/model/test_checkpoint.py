"""What a store and a checkpoint say of their versions, by what was listed."""

import pytest

from statemaint.model.checkpoint import Checkpoint, Store, target_of
from statemaint.model.ids import StoreId
from statemaint.model.rocks import Rocks
from tests.support.checkpoints import STORE, store
from tests.support.rocks import rocks_store

A, B = f"{STORE.directory}/1.zip", f"{STORE.directory}/2.zip"


def test_one_more_zip_is_known_beside_the_others() -> None:
    rocks = Rocks(plain=3, parts={A: {"a.sst": 1}}).with_parts(B, {"b.sst": 2})
    assert (rocks.plain, dict(rocks.parts)) == (3, {A: {"a.sst": 1}, B: {"b.sst": 2}})


# -- the oldest version that must load


@pytest.mark.parametrize(
    ("found", "oldest"),
    [
        (store("6s 7d"), 5),  # Spark cleans HDFS-backed stores up to what its log requires
        (rocks_store("5c 6c"), 5),
        (rocks_store("4z 6c"), 5),
        (rocks_store("5z 6c"), 5),
        (rocks_store("6z 7c"), 6),
        (rocks_store("9z"), 9),
        (rocks_store("10z"), 5),
        (rocks_store("5c@50 6z@60 7c"), 6),  # of a late task
        (rocks_store("5c@70 6z@60 7c"), 5),
    ],
)
def test_only_a_clean_up_of_rocksdb_may_have_taken_the_oldest_version(
    found: Store, oldest: int
) -> None:
    assert found.oldest(5, 9) == oldest


# -- the file that shows who reads a store


@pytest.mark.parametrize(
    ("notation", "version", "name"),
    [
        ("3d 5d 7d", 5, "5.delta"),
        ("3d 5d 7d", 6, "5.delta"),
        ("3d 5d 7d", 9, "7.delta"),
        ("3d 5d 7d", 2, "3.delta"),
        ("3d 5d 5s 9s", 9, "5.delta"),
        ("4s 6s", 5, "4.snapshot"),
        ("4s 6s", 3, "4.snapshot"),
    ],
)
def test_readers_are_those_of_the_nearest_change(notation: str, version: int, name: str) -> None:
    found = store(notation).beside(version)
    assert found is not None
    assert found.name == name


def test_nothing_shows_who_reads_a_store_without_files() -> None:
    assert store("").beside(3) is None


# -- partitions of each batch


def counted(counts: dict[int, int]) -> Checkpoint:
    return Checkpoint("memory:", counts=counts)


@pytest.mark.parametrize(
    ("partition", "version", "asked"),
    [(1, 3, True), (2, 3, False), (3, 4, True), (4, 4, False), (3, 9, True), (9, None, True)],
)
def test_a_batch_asks_for_its_own_partitions(
    partition: int, version: int | None, *, asked: bool
) -> None:
    store_id, counts = StoreId(0, partition), {2: 2, 3: 4}
    assert counted(counts).asks(store_id, version) is asked
    assert target_of(counts, store_id, version) == (version if asked else 0)


def test_a_version_needs_the_stores_of_its_own_partitions() -> None:
    old, new = (Store(StoreId(0, partition)) for partition in (1, 3))
    found = Checkpoint("memory:", stores=(old, new), counts={2: 2, 3: 4})
    assert (found.needed(3), found.needed(4)) == ((old,), (old, new))


def test_every_batch_asks_for_all_where_no_repartition_is_known() -> None:
    assert counted({}).asks(StoreId(0, 9), 3)


@pytest.mark.parametrize(
    ("counts", "partition", "number"),
    [
        ({}, 9, 8),
        ({2: 2, 3: 4}, 1, 8),
        ({2: 2, 3: 4}, 3, 7),  # of version 3 there are two partitions
        ({2: 2, 3: 4}, 4, 0),
        ({0: 1, 2: 2, 99: 4}, 1, 8),  # the others are outside the range
        ({1: 2, 3: 4}, 3, 7),  # both ends of the range are in it
        ({3: 4, 8: 2}, 3, 7),
    ],
)
def test_the_versions_that_need_a_partition_are_counted(
    counts: dict[int, int], partition: int, number: int
) -> None:
    store_id = StoreId(0, partition)
    assert counted(counts).retained(store_id, 2, 9) == number
    asked = [counted(counts).asks(store_id, one) for one in range(2, 10)]
    assert sum(asked) == number


def test_a_wide_range_of_versions_is_not_walked() -> None:
    assert counted({2: 2}).retained(StoreId(0, 0), 1, 10**18) == 10**18
    assert counted({2: 2}).retained(StoreId(0, 0), 5, 4) == 0


@pytest.mark.parametrize(
    ("older", "newer", "moved"),
    [(3, 4, True), (4, 5, False), (3, 3, False), (0, 3, False), (4, 9, True), (9, 9, True)],
)
def test_rows_move_where_the_number_of_partitions_changed_or_is_unknown(
    older: int, newer: int, *, moved: bool
) -> None:
    assert counted({2: 2, 3: 4, 4: 4}).moved(older, newer) is moved


def test_rows_stay_where_no_repartition_is_known() -> None:
    assert not counted({}).moved(3, 9)
