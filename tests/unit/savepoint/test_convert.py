"""Rows that one provider has stored become, byte for byte, those that the other has stored.

The archives of one Spark have queries that ran on the same input with either provider.
"""

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.codec.integrity.row_checksum import seal
from statemaint.codec.rows.state_row import (
    Bare,
    NoPrefix,
    PrefixScan,
    RowLayout,
    TimestampFirst,
    Wrapping,
    key_reader,
    value_reader,
)
from statemaint.codec.rows.types import StructType, parse_struct
from statemaint.errors import CodecError
from statemaint.fold import Source
from statemaint.fold.state import opened_state
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Provider
from statemaint.planning import scan_checkpoint
from statemaint.records.savepoints import Shape
from statemaint.savepoint.shuffle import Row, converter
from statemaint.state.versions import layouts_of
from statemaint.storage import MemoryStorage
from tests.checkpoints.archive import contents
from tests.support.encoded import encoded_rows, schema

PAIRS = [
    ("4.3.0", "aggregation2", "rocks-aggregation"),
    ("4.3.0", "aggregation2-rowchecksum", "rocks-rowchecksum"),
    ("4.3.0", "dedup", "rocks-dedup"),
    ("4.3.0", "session-window", "rocks-session-window"),
    ("4.0.5", "session-window", "rocks-session-window"),
    ("3.5.9", "session-window", "rocks-session-window"),
]
Rows = dict[tuple[int, str], set[Row]]


def rows_of(archive: str, kind: str) -> tuple[Checkpoint, MemoryStorage, Rows]:
    storage = MemoryStorage(contents(archive)[kind])
    checkpoint = scan_checkpoint(storage)
    found: Rows = {}
    for store in checkpoint.stores:
        chain = store.versions.chain(checkpoint.target or 0)
        assert isinstance(chain, Chain)
        with opened_state(Source.of(storage, store, checkpoint), store, chain) as state:
            found[store.id.partition, store.id.store] = {*state.rows}
    return checkpoint, storage, found


@pytest.mark.parametrize(("version", "hdfs", "rocks"), PAIRS, ids=lambda one: one)
def test_rows_of_each_provider_are_those_of_the_other(version: str, hdfs: str, rocks: str) -> None:
    _, _, bare = rows_of(version, hdfs)
    checkpoint, storage, stored = rows_of(f"rocks-{version}", rocks)
    assert bare.keys() == stored.keys()
    other = Shape.of(checkpoint)
    one = replace(other, provider=Provider.HDFS_BACKED)
    for store in checkpoint.stores:
        layout = layouts_of(storage, checkpoint, store, checkpoint.target or 0)[None]
        place = store.id.partition, store.id.store
        there, back = converter(one, other, layout), converter(other, one, layout)
        assert {there(row) for row in bare[place]} == stored[place]
        assert {back(row) for row in stored[place]} == bare[place]


def test_checksums_are_added_and_taken_away() -> None:
    checkpoint, storage, plain = rows_of("4.3.0", "aggregation2")
    _, _, sealed = rows_of("4.3.0", "aggregation2-rowchecksum")
    forms = [replace(Shape.of(checkpoint), row_checksums=checksums) for checksums in (False, True)]
    layout = layouts_of(storage, checkpoint, checkpoint.stores[0], checkpoint.target or 0)[None]
    for one, other, to in ((plain, sealed, 1), (sealed, plain, 0)):
        change = converter(forms[1 - to], forms[to], layout)
        for place, rows in one.items():
            assert {change(row) for row in rows} == other[place]


@given(encoded_rows(), st.data())
def test_any_row_reads_the_same_in_the_other_provider(
    made: tuple[list[str], list[bytes]], data: st.DataObject
) -> None:
    sealed, wanted = data.draw(st.booleans()), data.draw(st.booleans())
    kind = parse_struct(schema(made[0]))
    columns = data.draw(st.integers(0, len(made[0]) - 1))
    layout = RowLayout(kind, kind, PrefixScan(columns) if columns else NoPrefix())
    bare = replace(layout, encoder=Bare())
    old = Shape(provider=Provider.HDFS_BACKED, row_checksums=sealed)
    new = Shape(provider=Provider.ROCKSDB, row_checksums=wanted)
    for encoded in made[1]:
        row = seal((encoded, encoded)) if sealed else (encoded, encoded)
        assert row[1] is not None
        stored = converter(old, new, layout)((row[0], row[1]))
        assert converter(new, old, layout)(stored) == row
        around = Wrapping(checksums=wanted)
        key = key_reader(layout, around)(stored[0])
        (value,) = value_reader(layout, around)(*stored)
        assert repr(key) == repr(value) == repr(key_reader(bare, Wrapping())(encoded))


@given(encoded_rows(), st.sampled_from([b"", b","]))
def test_each_row_of_a_value_has_a_checksum_of_its_own(
    made: tuple[list[str], list[bytes]], delimiter: bytes
) -> None:
    kind = parse_struct(schema(made[0]))
    layout = RowLayout(kind, kind, TimestampFirst(), many=True)
    old, new = (Shape(provider=Provider.ROCKSDB, row_checksums=one) for one in (False, True))
    key = b"any key"
    value = delimiter.join(struct.pack("<i", len(one) + 1) + b"\0" + one for one in made[1])
    stored = converter(old, new, layout, delimiter)((key, value))
    read = [
        value_reader(layout, Wrapping(0, one is stored[1], delimiter))(key, one)
        for one in (value, stored[1])
    ]
    assert repr(read[0]) == repr(read[1])
    assert converter(new, old, layout, delimiter)(stored) == (key, value)


def test_a_key_that_only_rocksdb_has_is_refused() -> None:
    layout = RowLayout(StructType(()), StructType(()), TimestampFirst())
    old, new = (Shape(provider=one) for one in (Provider.ROCKSDB, Provider.HDFS_BACKED))
    with pytest.raises(ValueError, match="only RocksDB has keys in TimestampFirst"):
        converter(old, new, layout)
    key = parse_struct(schema(["string", "long"]))
    prefixed = replace(layout, key=key, encoder=PrefixScan(1))
    with pytest.raises(CodecError, match="3 bytes are too few for a key"):
        converter(old, new, prefixed)((b"key", b"value"))
