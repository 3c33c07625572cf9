"""A dry run counts what the savepoint then has, partition by partition."""

from collections import Counter

import pytest

from statemaint.fold import Source
from statemaint.fold.state import opened_state
from statemaint.fold.table import SPILL_HELD, taken_by
from statemaint.model.chain import Chain
from statemaint.planning import scan_checkpoint
from statemaint.records.savepoints import Shape
from statemaint.savepoint import savepoint
from statemaint.savepoint.report import PartitionSizes
from statemaint.storage import Storage
from tests.support.archived import archived
from tests.support.reshaped import At

KINDS = [
    ("4.3.0", "join2"),
    ("4.3.0", "limit"),
    ("rocks-4.3.0", "rocks-aggregation-ids"),
    ("3.5.9", "session-window"),
]


def sizes(storage: Storage) -> dict[int, Counter[int]]:
    """The bytes of rows in each partition of each operator."""
    checkpoint = scan_checkpoint(storage)
    found: dict[int, Counter[int]] = {}
    for store in checkpoint.stores:
        chain = store.versions.chain(checkpoint.target or 0)
        assert isinstance(chain, Chain)
        with opened_state(Source.of(storage, store, checkpoint), store, chain) as state:
            size = sum(len(key) + len(value) for key, value in state.rows)
        found.setdefault(store.id.operator, Counter())[store.id.partition] += size
    return found


@pytest.mark.parametrize("kind", KINDS, ids=map(" ".join, KINDS))
def test_the_partitions_of_a_dry_run_are_those_of_the_savepoint(kind: tuple[str, str]) -> None:
    source, dest, shape = At(archived(kind).files, "source"), At({}, "dest"), Shape(partitions=5)
    report = savepoint(source, dest, shape=shape, dry_run=True)
    assert dest.files == {}
    savepoint(source, dest, shape=shape)
    before, after = sizes(source), sizes(dest)
    assert {one.operator for one in report.operators} == before.keys()
    for one in report.operators:
        assert one.before == PartitionSizes.of(before[one.operator].values())
        assert one.after == PartitionSizes.of(after[one.operator].values())
        assert one.bytes == before[one.operator].total()
    assert sum(one.stores for one in report.operators) == report.stores


def test_rows_are_counted_only_for_another_shape_or_if_they_are_asked_for() -> None:
    source = At(archived(("4.3.0", "join2")).files, "source")
    assert savepoint(source, At({}, "dest"), dry_run=True).operators == ()
    (one,) = savepoint(source, At({}, "dest"), dry_run=True, count_rows=True).operators
    assert one.before == one.after
    assert (one.memory, one.spill) == (0, 0)


def test_the_largest_operator_decides_how_many_partitions_are_suggested() -> None:
    source = At(archived(("4.3.0", "join2")).files, "source")
    report = savepoint(source, At({}, "dest"), dry_run=True, count_rows=True)
    (one,) = report.operators
    suggested = [report.partitions_of(size) for size in (1, one.bytes - 1, one.bytes)]
    assert suggested == [one.bytes, 2, 1]


def test_a_skew_has_the_largest_and_the_median_partition() -> None:
    assert PartitionSizes.of([5, 1, 9, 3]) == PartitionSizes(4, largest=9, median=3)


def test_rows_spill_once_memory_has_no_room_for_them() -> None:
    assert taken_by(10, 1000)[1] == 0
    assert taken_by(1000, SPILL_HELD) == (3 * SPILL_HELD, SPILL_HELD + 16_000)
