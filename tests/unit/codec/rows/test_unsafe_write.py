"""Rows as bytes, and the hash of their columns; `systems/spark/test_provider` asks Spark itself."""

import math
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.codec.rows.murmur3 import (
    hash_row,
    hash_values,
    partition_of,
    partition_of_row,
    pmod,
)
from statemaint.codec.rows.types import parse_struct
from statemaint.codec.rows.unsafe_write import RowWriter, encode_row, pointed, prefix_of
from statemaint.errors import CodecError, ConfigError
from tests.support.unsafe_rows import array_type, decode, map_type, schema

# Types, and a strategy of values of each.
VALUES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("boolean", st.booleans()),
    ("byte", st.integers(-128, 127)),
    ("integer", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("double", st.floats()),
    ("float", st.floats(width=32)),
    ("string", st.text(max_size=20)),
    ("binary", st.binary(max_size=20)),
    ("date", st.dates()),
    ("timestamp", st.datetimes(timezones=st.just(UTC))),
    ("decimal(10,2)", st.integers(-(10**10) + 1, 10**10 - 1).map(lambda n: Decimal(n).scaleb(-2))),
    ("decimal(38,0)", st.integers(-(10**38) + 1, 10**38 - 1)),
    (array_type("string"), st.lists(st.none() | st.text(max_size=9), max_size=5)),
    (map_type("long", "string"), st.dictionaries(st.integers(0, 9), st.none() | st.text())),
    (schema("integer", "string"), st.tuples(st.integers(0, 9), st.none() | st.text())),
    ("void", st.none()),
    (array_type("void"), st.lists(st.none(), max_size=3)),
    (array_type("double"), st.lists(st.none() | st.floats(), max_size=5)),
    (array_type("decimal(20,0)"), st.lists(st.integers(-(10**20) + 1, 10**20 - 1), max_size=3)),
]
COLUMNS = st.lists(st.sampled_from(range(len(VALUES))), min_size=1, max_size=70)


@st.composite
def rows(draw: st.DrawFn) -> tuple[dict[str, Any], tuple[Any, ...]]:
    kinds = [VALUES[number] for number in draw(COLUMNS)]
    row = tuple(draw(st.none() | values) for _, values in kinds)
    return schema(*(kind for kind, _ in kinds)), row


def test_the_bytes_are_sparks() -> None:
    key = encode_row(("key0",), schema("string"))
    assert key.hex() == "000000000000000004000000100000006b65793000000000"
    value = encode_row((1, 0), schema("long", "long"))
    assert value.hex() == "000000000000000001000000000000000000000000000000"
    assert encode_row((None,), schema("string")).hex() == "01000000000000000000000000000000"


@given(rows())
def test_the_prefix_of_all_columns_is_the_row_itself(
    found: tuple[dict[str, Any], tuple[Any, ...]],
) -> None:
    kind, row = found
    encoded = encode_row(row, kind)
    assert len(encoded) % 8 == 0
    assert prefix_of(encoded, parse_struct(kind), len(row)) == encoded


@given(rows(), st.data())
def test_a_prefix_is_written_and_hashed_like_a_row_of_those_columns(
    found: tuple[dict[str, Any], tuple[Any, ...]], data: st.DataObject
) -> None:
    kind, row = found
    count = data.draw(st.integers(1, len(row)))
    first = {**kind, "fields": kind["fields"][:count]}
    encoded, struct = encode_row(row, kind), parse_struct(kind)
    assert prefix_of(encoded, struct, count) == encode_row(row[:count], first)
    assert hash_row(encoded, struct, columns=count) == hash_values(row[:count], first)


@given(rows(), st.data())
def test_a_row_that_is_broken_has_a_hash_or_one_typed_error(
    found: tuple[dict[str, Any], tuple[Any, ...]], data: st.DataObject
) -> None:
    kind, row = found
    encoded = bytearray(encode_row(row, kind))
    for _ in range(data.draw(st.integers(1, 3))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(encoded[: data.draw(st.integers(0, len(encoded)))])
    for read in (hash_row, lambda cut, struct: prefix_of(cut, struct, 1)):
        try:
            read(cut, parse_struct(kind))
        except CodecError:
            continue


def test_columns_may_be_given_by_name() -> None:
    kind = schema("integer", "string")
    assert encode_row({"c1": "x", "c0": 1}, kind) == encode_row((1, "x"), kind)
    with pytest.raises(ConfigError, match=r"columns \['c0', 'c2'\] are not \['c0', 'c1'\]"):
        encode_row({"c0": 1, "c2": "x"}, kind)


def test_times_may_be_given_as_spark_keeps_them() -> None:
    kind = schema("date", "timestamp")
    noon = datetime(1970, 1, 2, 12, tzinfo=UTC)
    assert encode_row((date(1970, 1, 3), noon), kind) == encode_row((2, 129_600_000_000), kind)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("integer", 2**31, "column 'c0'"),
        ("integer", True, "True is not of its type"),
        ("integer", "1", "'1' is not of its type"),
        ("boolean", 1, "1 is not of its type"),
        ("string", b"x", "not of its type"),
        ("decimal(4,2)", Decimal("100.00"), r"does not fit decimal\(4,2\)"),
        ("decimal(4,2)", Decimal("1.001"), r"does not fit decimal\(4,2\)"),
        ("decimal(4,2)", Decimal("1E+999999"), "not a decimal number"),
        ("decimal(4,2)", Decimal("NaN"), "not a decimal number"),
        ("timestamp", datetime(2026, 1, 1), "column 'c0'"),  # noqa: DTZ001
        ("void", 1, "void has no value"),
        (array_type("integer", nulls=False), [None], "null, where the schema allows none"),
        (map_type("string", "long"), {None: 1}, "null, where the schema allows none"),
        (schema("integer"), "x", "1 values for the columns c0"),
    ],
)
def test_what_does_not_fit_its_column_is_named(kind: Any, value: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        encode_row((value,), schema(kind))


def test_a_timestamp_without_a_zone_counts_from_the_epoch_as_well() -> None:
    naive, aware = datetime(1970, 1, 2), datetime(1970, 1, 2, tzinfo=UTC)  # noqa: DTZ001
    stored = encode_row((aware,), schema("timestamp"))
    assert encode_row((naive,), schema("timestamp_ntz")) == stored


def test_a_decimal_may_have_an_exponent_of_1000() -> None:
    kind = schema("decimal(4,2)")
    assert encode_row((Decimal("0E+1000"),), kind) == encode_row((Decimal(0),), kind)


def test_null_is_refused_where_the_schema_has_none() -> None:
    with pytest.raises(ConfigError, match="column 'c0': null, where the schema allows none"):
        encode_row((None,), schema("long", nullable=False))


@pytest.mark.parametrize("kind", ["variant", "interval", "interval week", "time(6)", {"type": 1}])
def test_types_that_are_not_written_are_refused(kind: Any) -> None:
    with pytest.raises(CodecError, match="type "):
        encode_row((None,), schema(kind))


@pytest.mark.parametrize(
    ("interval", "same"),
    [("interval day to second", "long"), ("interval year", "integer")],
)
def test_an_interval_is_its_number(interval: str, same: str) -> None:
    assert encode_row((-5,), schema(interval)) == encode_row((-5,), schema(same))
    assert hash_values((-5,), schema(interval)) == hash_values((-5,), schema(same))


EVERY: list[tuple[Any, Any, Any]] = [
    ("boolean", True, True),
    ("byte", -7, -7),
    ("long", -(2**63), -(2**63)),
    ("double", -1.5, -1.5),
    ("float", 0.25, 0.25),
    ("string", "é€", "é€"),
    ("binary", b"\0\xff", b"\0\xff"),
    ("date", date(1970, 1, 3), 2),
    ("timestamp", datetime(1970, 1, 2, tzinfo=UTC), 86_400_000_000),
    ("timestamp_ntz", datetime(1970, 1, 2), 86_400_000_000),  # noqa: DTZ001
    ("interval hour to second", timedelta(hours=-1), -3_600_000_000),
    ("decimal(10,2)", Decimal("-1.25"), Decimal("-1.25")),
    ("decimal(38,0)", -(1 << 70), Decimal(-(1 << 70))),
    ("decimal(22,2)", Decimal("1.5"), Decimal("1.50")),
    (array_type("integer"), [1, None, 3], (1, None, 3)),
    (array_type("string"), ["a", None, "bc"], ("a", None, "bc")),
    (array_type("decimal(10,2)"), [Decimal(7)], (Decimal("7.00"),)),
    (array_type("decimal(20,0)"), [-1, 200], (Decimal(-1), Decimal(200))),
    (map_type("long", "string"), [(1, "x"), (2, None)], ((1, "x"), (2, None))),
    (map_type("string", "long"), {"a": 1}, (("a", 1),)),
    (schema("integer", "string"), (None, "y"), (None, "y")),
    ("void", None, None),
]
MANY = [one if number % 3 else (one[0], None, None) for number, one in enumerate(EVERY * 4)]
MANY_KINDS = schema(*(kind for kind, _, _ in MANY))
MANY_VALUES = tuple(value for _, value, _ in MANY)


def test_values_of_every_kind_read_back() -> None:
    row = encode_row(MANY_VALUES, MANY_KINDS)
    assert decode(parse_struct(MANY_KINDS), row) == tuple(one for *_, one in MANY)


@pytest.mark.parametrize("columns", [1, 21, 63, 64, 65, 84])
def test_a_prefix_of_values_of_every_kind_is_their_row(columns: int) -> None:
    row = encode_row(MANY_VALUES, MANY_KINDS)
    first = {**MANY_KINDS, "fields": MANY_KINDS["fields"][:columns]}
    expected = encode_row(MANY_VALUES[:columns], first)
    assert prefix_of(row, parse_struct(MANY_KINDS), columns) == expected


@pytest.mark.parametrize(
    ("number", "digits"),
    [
        (0, "00"), (1, "01"), (127, "7f"), (128, "0080"), (-1, "ff"), (-128, "80"),
        (-129, "ff7f"), (1 << 70, "400000000000000000"),
    ],
)  # fmt: skip
def test_a_large_decimal_has_javas_bytes_in_room_for_16(number: int, digits: str) -> None:
    row = encode_row((number,), schema("decimal(38,0)"))
    size = len(digits) // 2
    assert row[:16] == bytes(8) + (16 << 32 | size).to_bytes(8, "little")
    assert row[16:] == bytes.fromhex(digits).ljust(16, b"\0")


def test_a_large_decimal_keeps_its_room_where_it_is_null() -> None:
    row = encode_row((None,), schema("decimal(38,0)"))
    assert row == b"\1" + bytes(7) + (16 << 32).to_bytes(8, "little") + bytes(16)


@pytest.mark.parametrize("value", [Decimal("0.001"), Decimal("1e17"), Decimal("NaN")])
def test_a_decimal_is_never_rounded(value: Decimal) -> None:
    with pytest.raises(ConfigError, match="column 'c0'"):
        encode_row((value,), schema("decimal(18,2)"))
    assert encode_row((Decimal("1e3"),), schema("decimal(18,2)"))[8:] == (10**5).to_bytes(
        8, "little"
    )


def test_floats_are_normalized_where_asked() -> None:
    kind = schema("double")
    strange = struct.unpack("<d", b"\1\0\0\0\0\0\xf8\xff")[0]
    assert [RowWriter(kind, normalize=True).write((one,))[8:] for one in (-0.0, strange, 1.5)] == [
        bytes(8),
        struct.pack("<d", math.nan),
        struct.pack("<d", 1.5),
    ]
    assert RowWriter(kind).write((-0.0,))[8:] == struct.pack("<d", -0.0)
    assert RowWriter(kind).write((strange,))[8:] == b"\1\0\0\0\0\0\xf8\xff"


@pytest.mark.parametrize("size", [0, 15])
def test_a_row_that_is_too_short_has_no_prefix(size: int) -> None:
    with pytest.raises(CodecError, match=f"row of {size} bytes is too short") as caught:
        prefix_of(bytes(size), parse_struct(schema("long")), 1)
    assert caught.value.offset == 0


@pytest.mark.parametrize("at", [-1, 9, 16])
def test_a_word_lies_in_its_row(at: int) -> None:
    with pytest.raises(CodecError, match="row cut short") as caught:
        pointed(bytes(16), 0, at)
    assert caught.value.offset == at


@pytest.mark.parametrize(("offset", "size"), [(-1, 0), (16, 9), (25, 0), (1 << 30, 0)])
def test_content_lies_in_its_row(offset: int, size: int) -> None:
    word = struct.pack("<q", offset << 32 | size)
    with pytest.raises(CodecError, match=f"column points to {size} bytes beyond its row") as caught:
        prefix_of(bytes(8) + word + bytes(8), parse_struct(schema("string")), 1)
    assert caught.value.offset == 8


def test_content_may_be_all_of_its_row() -> None:
    row = struct.pack("<qq", 0, 16)
    again = prefix_of(row, parse_struct(schema("binary")), 1)
    assert decode(parse_struct(schema("binary")), again) == (row,)


# -- hashes


def test_the_hash_is_that_of_sparks_documentation() -> None:
    kind = schema("string", array_type("integer"), "integer")
    assert hash_values(("Spark", [123], 2), kind) == -1321691492


def test_nulls_leave_the_hash_as_it_is() -> None:
    assert hash_values((None, 7, None), schema("string", "long", "double")) == hash_values(
        (7,), schema("long")
    )
    assert hash_values((None,), schema("void")) == 42
    # Nobody writes one that is not null; it would change nothing either.
    assert hash_row(bytes(16), parse_struct(schema("void"))) == 42


def test_a_struct_is_hashed_like_its_columns() -> None:
    nested = schema(schema("integer", "string"), "long")
    flat = schema("integer", "string", "long")
    assert hash_values(((1, "x"), 2), nested) == hash_values((1, "x", 2), flat)


def test_a_partition_is_never_negative() -> None:
    kind = schema("string")
    for name in ("a", "b", "Spark", ""):
        partition = partition_of((name,), kind, 7)
        assert partition == pmod(hash_values((name,), kind), 7)
        assert partition == partition_of_row(encode_row((name,), kind), kind, 7)
        assert 0 <= partition < 7
    assert pmod(-1, 7) == 6
