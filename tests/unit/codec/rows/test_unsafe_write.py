"""Rows as bytes, and the hash of their columns; `systems/spark/test_provider` asks Spark itself."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.codec.rows.murmur3 import (
    hash_bytes,
    hash_row,
    hash_values,
    partition_of,
    partition_of_row,
    pmod,
)
from statemaint.codec.rows.types import parse_struct
from statemaint.codec.rows.unsafe_write import RowWriter, encode_row, prefix_of
from statemaint.errors import CodecError, ConfigError


def schema(*types: Any, nullable: bool = True) -> dict[str, Any]:
    fields = [
        {"name": f"c{number}", "type": one, "nullable": nullable, "metadata": {}}
        for number, one in enumerate(types)
    ]
    return {"type": "struct", "fields": fields}


def array(element: Any, *, nulls: bool = True) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": nulls}


def mapping(key: Any, value: Any) -> dict[str, Any]:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


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
    (array("string"), st.lists(st.none() | st.text(max_size=9), max_size=5)),
    (mapping("long", "string"), st.dictionaries(st.integers(0, 9), st.none() | st.text())),
    (schema("integer", "string"), st.tuples(st.integers(0, 9), st.none() | st.text())),
    ("void", st.none()),
    (array("void"), st.lists(st.none(), max_size=3)),
    (array("double"), st.lists(st.none() | st.floats(), max_size=5)),
    (array("decimal(20,0)"), st.lists(st.integers(-(10**20) + 1, 10**20 - 1), max_size=3)),
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


def test_a_grouping_key_has_one_zero_and_one_nan() -> None:
    writer = RowWriter(schema("double"), normalize=True)
    assert writer.write((-0.0,)) == writer.write((0.0,))
    assert encode_row((-0.0,), schema("double")) != encode_row((0.0,), schema("double"))
    assert writer.write((math.nan,)).hex() == "00" * 8 + "000000000000f87f"


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
        (array("integer", nulls=False), [None], "null, where the schema allows none"),
        (mapping("string", "long"), {None: 1}, "null, where the schema allows none"),
        (schema("integer"), "x", "1 values for the columns c0"),
    ],
)
def test_what_does_not_fit_its_column_is_named(kind: Any, value: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        encode_row((value,), schema(kind))


def test_null_is_refused_where_the_schema_has_none() -> None:
    with pytest.raises(ConfigError, match="column 'c0': null, where the schema allows none"):
        encode_row((None,), schema("long", nullable=False))


@pytest.mark.parametrize("kind", ["variant", "interval", "interval week", "time(6)", {"type": 1}])
def test_types_that_are_not_written_are_refused(kind: Any) -> None:
    with pytest.raises(CodecError, match="type "):
        encode_row((None,), schema(kind))


def test_a_collation_is_refused() -> None:
    kind = schema("string")
    kind["fields"][0]["metadata"] = {"__COLLATIONS": {"c0": "icu.UNICODE_CI"}}
    with pytest.raises(CodecError, match="collations: rows with it are not written here"):
        encode_row(("x",), kind)


@pytest.mark.parametrize(
    ("kind", "same"),
    [
        ("varchar(9)", "string"),
        ("char(9)", "string"),
        ({"type": "udt", "class": "org.example.Point", "sqlType": "string"}, "string"),
    ],
)
def test_what_is_a_string_underneath_is_written_as_one(kind: Any, same: str) -> None:
    assert encode_row(("x",), schema(kind)) == encode_row(("x",), schema(same))


@pytest.mark.parametrize(
    ("interval", "same"),
    [("interval day to second", "long"), ("interval year", "integer")],
)
def test_an_interval_is_its_number(interval: str, same: str) -> None:
    assert encode_row((-5,), schema(interval)) == encode_row((-5,), schema(same))
    assert hash_values((-5,), schema(interval)) == hash_values((-5,), schema(same))


@pytest.mark.parametrize(
    ("json", "text"),
    [
        ({"type": "array", "elementType": "long", "containsNull": True}, "not a struct"),
        ({"fields": []}, "a type without its parts"),
        (schema({"type": "array"}), "a type without its parts"),
        (schema(7), "a type cannot be '7'"),
    ],
)
def test_what_is_no_schema_is_refused(json: dict[str, Any], text: str) -> None:
    with pytest.raises(CodecError, match=text):
        parse_struct(json)


# -- hashes


def test_the_hash_is_that_of_sparks_documentation() -> None:
    kind = schema("string", array("integer"), "integer")
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


def test_the_last_bytes_are_mixed_in_as_signed_words() -> None:
    assert hash_bytes(b"\xff", 42) != hash_bytes(b"\xff\0\0\0", 42)
    assert hash_bytes(b"", 42) == 142593372


def test_a_partition_is_never_negative() -> None:
    kind = schema("string")
    for name in ("a", "b", "Spark", ""):
        partition = partition_of((name,), kind, 7)
        assert partition == pmod(hash_values((name,), kind), 7)
        assert partition == partition_of_row(encode_row((name,), kind), kind, 7)
        assert 0 <= partition < 7
    assert pmod(-1, 7) == 6


@pytest.mark.parametrize("size", [-9, 1 << 40])
def test_a_map_that_points_beyond_its_row_is_refused(size: int) -> None:
    kind = schema(mapping("long", "long"))
    row = bytearray(encode_row(({1: 2},), kind))
    row[16:24] = size.to_bytes(8, "little", signed=True)
    with pytest.raises(CodecError, match="map points beyond"):
        hash_row(bytes(row), parse_struct(kind))


def test_an_array_of_more_than_its_bytes_is_refused() -> None:
    kind = schema(array("long"))
    row = bytearray(encode_row(([1],), kind))
    row[16:24] = (1 << 62).to_bytes(8, "little")
    with pytest.raises(CodecError, match="array of 4611686018427387904 elements in 24 bytes"):
        hash_row(bytes(row), parse_struct(kind))


def test_types_are_not_nested_for_ever() -> None:
    kind: Any = "long"
    for _ in range(5000):
        kind = {"type": "array", "elementType": kind, "containsNull": True}
    fields = [{"name": "a", "type": kind, "nullable": True}]
    with pytest.raises(CodecError, match="nested deeper than 64"):
        parse_struct({"type": "struct", "fields": fields})
