"""The compiled hashes of keys are those of the reference."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.codec.rows.types import parse_struct
from statemaint.errors import CodecError
from statemaint.savepoint.hashes import hasher
from statemaint.state.shuffle_key import ShuffleKey
from tests.support.encoded import encoded_rows, schema

LONG = struct.Struct("<q")


@given(encoded_rows(), st.data())
def test_rows_of_any_columns(made: tuple[list[str], list[bytes]], data: st.DataObject) -> None:
    names, encoded = made
    kind = parse_struct(schema(names))
    columns = data.draw(st.integers(0, len(names)))
    before, after = data.draw(st.integers(0, 9)), data.draw(st.integers(0, 9))
    key = ShuffleKey(kind, columns, before, after)
    keys = [b"\xff" * before + one + b"\xfe" * after for one in encoded]
    assert [*hasher(key)(keys)] == [key.hash_of(one) for one in keys]


@given(encoded_rows(), st.booleans(), st.binary(max_size=12))
def test_rows_behind_a_size(
    made: tuple[list[str], list[bytes]],
    passes: bool,  # noqa: FBT001 -- drawn
    other: bytes,
) -> None:
    names, encoded = made
    kind = parse_struct(schema(names))
    key = ShuffleKey(kind, len(names), 7, size_at=2, passes=passes)
    keys = []
    for row in encoded:
        if passes:
            size = struct.pack("<i", len(other))
            keys.append(b"\1\0" + size + other + b"\0" + row)
        else:
            keys.append(b"\1\0" + struct.pack("<i", len(row) + 1) + b"\0" + row + other)
    if not passes or other:
        assert [*hasher(key)(keys)] == [key.hash_of(one) for one in keys]


@given(encoded_rows())
def test_rows_that_are_columns_of_rows(made: tuple[list[str], list[bytes]]) -> None:
    names, encoded = made
    inner = parse_struct(schema(names))
    key = ShuffleKey(inner, len(names), path=((2, 1), (1, 0)))
    keys = [nested([None, nested([one])]) for one in encoded]
    assert [*hasher(key)(keys)] == [key.hash_of(one) for one in keys]


def nested(columns: list[bytes | None]) -> bytes:
    """A row whose columns are rows."""
    nulls = sum(1 << number for number, one in enumerate(columns) if one is None)
    head, tail = LONG.pack(nulls), b""
    for one in columns:
        at = 8 + 8 * len(columns) + len(tail)
        head += LONG.pack(0 if one is None else at << 32 | len(one))
        tail += one or b""
    return head + tail


@given(encoded_rows(), st.data())
def test_a_key_that_is_cut_is_refused_as_the_reference_refuses_it(
    made: tuple[list[str], list[bytes]], data: st.DataObject
) -> None:
    names, encoded = made
    key = ShuffleKey(parse_struct(schema(names)), len(names), 3)
    cut = (b"\0\0\0" + encoded[0])[: data.draw(st.integers(0, len(encoded[0]) + 2))]
    try:
        expected = key.hash_of(cut)
    except CodecError:
        with pytest.raises(CodecError):
            hasher(key)([cut])
    else:
        assert [*hasher(key)([cut])] == [expected]
