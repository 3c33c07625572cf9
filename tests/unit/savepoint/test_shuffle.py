"""Any rows, in any number of partitions and stored in any way, are all there, each in its place."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.codec.rows.state_row import NoPrefix, PrefixScan, RowLayout
from statemaint.codec.rows.types import StructType, parse_struct
from statemaint.errors import UnsupportedError
from statemaint.fold.state import State
from statemaint.fold.table import Spill
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Provider, Store
from statemaint.model.ids import StoreId
from statemaint.plan.actions import WriteSnapshot
from statemaint.plan.reasons import SnapshotReason
from statemaint.records.savepoints import Shape
from statemaint.savepoint.shuffle import Change, Shuffle, converter, routed
from statemaint.state.shuffle_key import ShuffleKey
from tests.support.encoded import encoded_rows, schema

CHAIN = Chain(1, None, ())
LAYOUT = RowLayout(StructType(()), StructType(()), NoPrefix())
HDFS = Shape(provider=Provider.HDFS_BACKED, row_checksums=False)


def store(partition: int) -> Store:
    return Store(StoreId(0, partition))


def target(partition: int) -> WriteSnapshot:
    return WriteSnapshot(StoreId(0, partition), "1.zip", CHAIN, SnapshotReason.FORCED)


def shuffle(old: int, new: int, key: ShuffleKey, change: Change | None) -> Shuffle:
    sources = tuple((store(number), CHAIN) for number in range(old))
    return Shuffle(sources, tuple(map(target, range(new))), {None: key}, change)


@given(encoded_rows(), st.data())
def test_rows_are_all_there_each_in_its_place(
    made: tuple[list[str], list[bytes]], data: st.DataObject
) -> None:
    names, encoded = made
    kind = parse_struct(schema(names))
    key = ShuffleKey(kind, data.draw(st.integers(1, len(names))))
    prefix = data.draw(st.integers(0, len(names) - 1))
    layout = RowLayout(kind, kind, PrefixScan(prefix) if prefix else NoPrefix())
    shape = Shape(provider=data.draw(st.sampled_from([Provider.HDFS_BACKED, Provider.ROCKSDB])))
    shape = replace(shape, row_checksums=data.draw(st.booleans()))
    old, new = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))
    rows = {one: one for one in encoded}
    work = shuffle(old, new, key, Change(HDFS, shape, {None: layout}))
    with Spill(new, bytes(16)) as spill:
        for number in range(old):
            placed = [row for row in rows.items() if key.partition(row[0], old) == number]
            for targets, some in routed(work, store(number), State(iter(placed), {})):
                spill.add(targets, some)
        spill.end()
        found = [[*spill.rows(number)] for number in range(new)]
    back = converter(shape, HDFS, layout)
    for number, some in enumerate(found):
        assert some == sorted(some)
        assert all(key.partition(back(row)[0], new) == number for row in some)
    assert sorted(back(row) for some in found for row in some) == sorted(rows.items())


@pytest.mark.parametrize("families", [{5: "another"}, {4: "default"}])
def test_rows_of_an_unknown_family_are_refused(families: dict[int, str]) -> None:
    key = ShuffleKey(LAYOUT.key, len(LAYOUT.key.fields))
    work = Shuffle(((store(0), CHAIN),), (target(0),), {"default": key})
    state = State(iter([(b"\5\0key", b"value")]), families)
    with pytest.raises(UnsupportedError, match="column family 0500"):
        next(routed(work, store(0), state))
