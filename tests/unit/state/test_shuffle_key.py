"""Every row that any Spark stored lies in the partition of its shuffle key's hash."""

from collections import Counter

import pytest

from statemaint.codec.rows.state_row import NoPrefix, RangeScan, RowLayout
from statemaint.codec.rows.types import AtomicType, Field, StructType
from statemaint.fold import Source
from statemaint.fold.state import opened_state
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Operator
from statemaint.planning import scan_checkpoint
from statemaint.state.shuffle_key import ShuffleKey, shuffle_key
from statemaint.state.versions import schemas_of
from statemaint.storage import MemoryStorage
from tests.checkpoints.archive import contents

ARCHIVES = [
    pytest.param(archive, kind, id=f"{archive} {kind}")
    for archive in ("3.3.4", "3.5.9", "4.0.5", "4.3.0", "rocks-3.5.9", "rocks-4.0.5", "rocks-4.3.0")
    for kind in sorted(contents(archive))
    if kind != "limit"  # has one partition, which no key chooses
]
LONG = AtomicType("long")


@pytest.mark.parametrize(("archive", "kind"), ARCHIVES)
def test_rows_are_in_the_partition_of_their_shuffle_key(archive: str, kind: str) -> None:
    storage = MemoryStorage(contents(archive)[kind])
    checkpoint = scan_checkpoint(storage)
    operators = {operator.id: operator for operator in checkpoint.operators}
    places: Counter[tuple[int, int]] = Counter()
    for store in checkpoint.stores:
        chain = store.versions.chain(checkpoint.target or 0)
        assert isinstance(chain, Chain)
        schemas = schemas_of(storage, checkpoint, store, chain.version)
        with opened_state(Source.of(storage, store, checkpoint), store, chain) as state:
            size = 2 if state.families else 0
            for key, _ in state.rows:
                family = state.families[int.from_bytes(key[:2], "little")] if size else None
                found = shuffle_key(
                    operators.get(store.id.operator),
                    family or store.id.store,
                    schemas[family].layout,
                    size,
                )
                assert found, f"{store.id} {family}"
                count = checkpoint.partitions[store.id.operator]
                places[found.partition(key, count), store.id.partition] += 1
    assert places
    assert all(hashed == stored for hashed, stored in places)


def key_of(fields: dict[str, StructType | AtomicType], name: str) -> ShuffleKey | None:
    """The shuffle key of a family that is in the order of its first column."""
    kind = StructType(tuple(Field(field, kind) for field, kind in fields.items()))
    operator = Operator(0, "transformWithStateExec", ("default",), 2)
    return shuffle_key(operator, name, RowLayout(kind, kind, RangeScan((0,))), 2)


def test_a_grouping_key_of_columns_named_as_a_map_key_is_not_taken_for_one() -> None:
    inner = StructType((Field("value", LONG),))
    grouping = StructType((Field("key", inner), Field("userKey", inner)))
    timers = key_of({"expiryTimestampMs": LONG, "key": grouping}, "$procTimers_timestampToKey")
    assert timers
    assert timers.kind == grouping


def test_a_family_without_a_row_of_its_own_in_the_key_has_no_shuffle_key() -> None:
    assert key_of({"expirationMs": LONG, "elementKey": LONG}, "$ttl_total") is None
    assert key_of({"expirationMs": LONG}, "$ttl_total") is None
    whole = RowLayout(StructType((Field("value", LONG),)), StructType(()), NoPrefix())
    assert shuffle_key(Operator(0, "transformWithStateExec", (), 2), "total", whole, 2)
