"""The hash of a row's columns: the numbers that Spark 4.3 gives, and rows that cannot be."""

import math
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from statemaint.codec.rows.murmur3 import hash_row, hash_values
from statemaint.codec.rows.types import parse_struct
from statemaint.codec.rows.unsafe_write import encode_row
from statemaint.errors import CodecError
from tests.support.unsafe_rows import array_type, map_type, schema

THIRDS = [None if number % 3 == 0 else number for number in range(70)]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("integer", 1, -559580957),
        ("integer", -1, -1604776387),
        ("long", 1, -1712319331),
        ("long", -(1 << 40), 652760627),
        ("short", -3, -1573329414),
        ("byte", 7, 1079293707),
        ("boolean", True, -559580957),
        ("boolean", False, 933211791),
        ("float", 1.5, -221251528),
        ("float", 0.0, 933211791),
        ("float", -0.0, 933211791),
        ("float", math.nan, -349261430),
        ("float", -math.inf, 427440766),
        ("double", 1.5, 1290763749),
        ("double", 0.0, -1670924195),
        ("double", -0.0, -1670924195),
        ("double", math.nan, -1281358385),
        ("date", date(2024, 2, 29), 653915859),
        ("string", "", 142593372),
        ("string", "ab", -97053317),
        ("string", "Spark", 228093765),
        ("string", "é", 2119106806),
        ("binary", b"\x7f", 1185089389),
        ("binary", b"\x80", 775851899),
        ("binary", b"\x81", -1851360937),
        ("binary", b"\xff", 1398487324),
        ("binary", b"\1\2\3\4\x7f\x80\xff", -1362383310),
        ("decimal(10,2)", Decimal("12.34"), -1028144669),
        ("decimal(22,2)", Decimal("-12345678901234567890.12"), 333635401),
        (array_type("integer"), [], 42),
        (array_type("integer"), [1, None, 3], 1066699649),
        (array_type("integer"), THIRDS, 1496493492),
        (array_type("integer"), list(range(1, 65)), 1642382991),
        (array_type("string"), ["a", None, "bc"], 204370463),
        (array_type(array_type("long")), [[1, 2], [3]], 1045631400),
        (map_type("integer", "string"), {}, 42),
        (map_type("string", "integer"), {"a": 1, "b": None}, -286578612),
        (map_type("integer", "string"), {1: "x", 2: "yz"}, -1955765135),
        (schema("integer", "integer", "string"), (1, None, "x"), -1305545736),
    ],
)
def test_a_value_has_sparks_hash(kind: Any, value: Any, expected: int) -> None:
    assert hash_values((value,), schema(kind)) == expected


def test_nulls_are_found_among_any_number_of_columns() -> None:
    assert hash_values(THIRDS, schema(*["integer"] * 70)) == 1496493492
    assert hash_values(range(64), schema(*["integer"] * 64)) == -1581234115


def test_the_first_columns_can_be_hashed_alone() -> None:
    kind = parse_struct(schema("integer", "string"))
    row = encode_row((1, "x"), schema("integer", "string"))
    assert hash_row(row, kind, columns=1) == -559580957
    assert hash_row(row, kind) == hash_row(row, kind, columns=2) != -559580957


def test_a_decimal_of_18_digits_is_hashed_where_it_lies() -> None:
    kind = parse_struct(schema("integer", "decimal(18,0)"))
    row = encode_row((None, Decimal(1)), schema("integer", "decimal(18,0)"))
    assert hash_row(row, kind) == -1712319331


def changed(row: bytes, at: int, word: int) -> bytes:
    return row[:at] + word.to_bytes(8, "little", signed=True) + row[at + 8 :]


def test_every_nan_has_the_same_hash() -> None:
    kind = parse_struct(schema("double"))
    row = encode_row((math.nan,), schema("double"))
    assert hash_row(changed(row, 8, 0x7FF8000000000001), kind) == -1281358385


@pytest.mark.parametrize("count", [-1, 2, 1 << 31])
def test_an_array_holds_what_fits_in_its_bytes(count: int) -> None:
    row = encode_row(([7],), schema(array_type("long")))
    with pytest.raises(CodecError, match=f"array of {count} elements in 24 bytes") as caught:
        hash_row(changed(row, 16, count), parse_struct(schema(array_type("long"))))
    assert caught.value.offset == 0


@pytest.mark.parametrize("size", [-1, 57])
def test_the_keys_of_a_map_end_within_it(size: int) -> None:
    row = encode_row(({1: 2},), schema(map_type("long", "long")))
    with pytest.raises(CodecError, match="map points beyond its row") as caught:
        hash_row(changed(row, 16, size), parse_struct(schema(map_type("long", "long"))))
    assert caught.value.offset == 0


@pytest.mark.parametrize("size", [0, 48])
def test_keys_or_values_of_no_bytes_are_cut_short(size: int) -> None:
    row = encode_row(({1: 2},), schema(map_type("long", "long")))
    with pytest.raises(CodecError, match="row of 72 bytes is cut short"):
        hash_row(changed(row, 16, size), parse_struct(schema(map_type("long", "long"))))


def test_a_key_without_a_value_is_left_out() -> None:
    row = encode_row(({1: 2},), schema(map_type("long", "long")))
    assert hash_row(changed(row, 48, 0), parse_struct(schema(map_type("long", "long")))) == 42
