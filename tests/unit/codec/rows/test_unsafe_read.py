"""Rows, as bytes and as Python values: whatever Spark can write is read, and nothing else is."""

import json
import re
import struct
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemaint.codec.rows.display import field_names, shower
from statemaint.codec.rows.types import (
    ArrayType,
    AtomicType,
    DataType,
    DecimalType,
    Field,
    MapType,
    StructType,
    UnknownTypeError,
    must_be_writable,
    parse_struct,
)
from statemaint.errors import CodecError
from tests.support import unsafe_rows
from tests.support.unsafe_rows import FORMATS, decode


def of(*types: DataType) -> StructType:
    return StructType(tuple(Field(f"c{number}", kind) for number, kind in enumerate(types)))


def atom(name: str) -> AtomicType:
    return AtomicType(name)


TEXT, LONG, INT = atom("string"), atom("long"), atom("integer")


def ints(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


def digits(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda one: Decimal((one < 0, digits_of(one), -scale)))


def digits_of(number: int) -> tuple[int, ...]:
    return tuple(int(digit) for digit in str(abs(number)))


def values_of(kind: DataType) -> st.SearchStrategy[Any]:
    match kind:
        case StructType(fields):
            return st.tuples(*(st.none() | values_of(field.type) for field in fields))
        case ArrayType(element):
            return st.lists(st.none() | values_of(element), max_size=70).map(tuple)
        case MapType(key, value):
            pair = st.tuples(values_of(key), st.none() | values_of(value))
            return st.lists(pair, max_size=5).map(tuple)
        case DecimalType(precision, scale):
            return digits(precision, scale)
        case AtomicType(name):
            return ATOMS[name]


ATOMS: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(), "byte": ints(8), "short": ints(16), "integer": ints(32),
    "long": ints(64), "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False), "date": ints(32), "timestamp": ints(64),
    "timestamp_ntz": ints(64), "year-month": ints(32), "day-time": ints(64),
    "string": st.text(), "binary": st.binary(), "void": st.none(),
    "interval": st.tuples(ints(32), ints(32), ints(64)),
}  # fmt: skip
LEAVES: st.SearchStrategy[DataType] = st.sampled_from(
    [*map(atom, ATOMS), DecimalType(18, 4), DecimalType(38, 10)]
)
TYPES: st.SearchStrategy[DataType] = st.recursive(
    LEAVES,
    lambda inner: st.builds(ArrayType, inner) | st.builds(MapType, LEAVES, inner)
    | st.lists(inner, max_size=4).map(lambda types: of(*types)),
    max_leaves=8,
)  # fmt: skip
ROWS = st.lists(TYPES, max_size=70).map(lambda types: of(*types))


@given(data=st.data())
def test_every_row_reads_back(data: st.DataObject) -> None:
    kind = data.draw(ROWS)
    row = data.draw(values_of(kind))
    assert decode(kind, unsafe_rows.row(kind, row)) == row


@given(data=st.data())
def test_whatever_is_read_can_be_shown_as_json(data: st.DataObject) -> None:
    kind = data.draw(ROWS)
    shown = shower(kind)(data.draw(values_of(kind)))
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown


@settings(max_examples=300)
@given(data=st.data(), random=st.randoms(use_true_random=False))
def test_changed_bytes_are_an_error_or_another_row(data: st.DataObject, random: Random) -> None:
    kind = data.draw(ROWS)
    row = changed(unsafe_rows.row(kind, data.draw(values_of(kind))), random)
    try:
        found = decode(kind, row)
    except CodecError as error:
        assert 0 <= error.offset <= len(row)  # noqa: PT017 -- either is fine
    else:
        json.dumps(shower(kind)(found), allow_nan=False)


def changed(row: bytes, random: Random) -> bytes:
    """Overwrites some words with what makes offsets, sizes and counts lie, or cuts the row."""
    content = bytearray(row)
    for _ in range(random.randrange(1, 4)):
        at = random.randrange(0, len(content) + 1, 4)
        word = random.choice((-1, 0, 1, 8, 16, 1 << 31, (1 << 31) - 1, random.getrandbits(32)))
        content[at : at + 4] = (word & 0xFFFFFFFF).to_bytes(4, "little")
    return bytes(content[: random.choice((len(row), random.randrange(len(row) + 1)))])


@given(data=st.data(), garbage=st.binary(max_size=200))
def test_garbage_is_an_error_or_a_row(data: st.DataObject, garbage: bytes) -> None:
    kind = data.draw(ROWS)
    try:
        decode(kind, garbage)
    except CodecError as error:
        assert 0 <= error.offset <= len(garbage)  # noqa: PT017 -- either is fine


def test_what_spark_wrote_of_a_count_and_a_maximum() -> None:
    key = bytes.fromhex("000000000000000004000000100000006b65793000000000")
    value = bytes.fromhex("000000000000000001000000000000000000000000000000")
    assert decode(of(TEXT), key) == ("key0",)
    assert decode(of(LONG, LONG), value) == (1, 0)


def test_the_65th_field_has_its_null_in_a_second_word() -> None:
    kind = of(*[LONG] * 66)
    row = tuple(None if number in (63, 64) else number for number in range(66))
    content = unsafe_rows.row(kind, row)
    assert (content[7], content[8]) == (0x80, 0x01)
    assert decode(kind, content) == row


LONGS = tuple(None if number in (0, 63, 64) else number for number in range(66))


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 66])
def test_an_array_behind_others_has_its_nulls_by_the_word(count: int) -> None:
    kind = of(TEXT, ArrayType(LONG), ArrayType(LONG))
    row = ("text", (None, 7), LONGS[:count])
    assert decode(kind, unsafe_rows.row(kind, row)) == row


@pytest.mark.parametrize("pairs", [(), (("a", None),), (("a", 1), ("b", -1))])
def test_a_map_behind_another_column(pairs: tuple[tuple[str, int | None], ...]) -> None:
    kind = of(TEXT, MapType(TEXT, LONG))
    row = ("text", pairs)
    assert decode(kind, unsafe_rows.row(kind, row)) == row


def test_decimals_and_intervals_are_read_where_they_lie() -> None:
    kind = of(TEXT, DecimalType(18, 2), DecimalType(38, 2), DecimalType(38, 0), atom("interval"))
    most = Decimal(-(10**38) + 1)
    row = ("text", Decimal("-1.25"), Decimal("-0.01"), most, (-1, 2, -3))
    assert decode(kind, unsafe_rows.row(kind, row)) == row


@pytest.mark.parametrize("size", [-1, 1])
def test_a_map_of_no_room_for_its_keys_or_values(size: int) -> None:
    keys = unsafe_rows.array(INT, [])
    content = struct.pack("<q", len(keys) * (size > 0) + size) + keys
    row = struct.pack("<qII", 0, len(content), 16) + content
    with pytest.raises(CodecError, match=r"map of \d+ bytes cannot have keys") as caught:
        decode(of(MapType(INT, INT)), row)
    assert caught.value.offset == 16


@pytest.mark.parametrize("size", [0, 8])
def test_keys_or_values_of_no_bytes_are_no_array(size: int) -> None:
    content = struct.pack("<q", size) + unsafe_rows.array(INT, [])
    row = struct.pack("<qII", 0, len(content), 16) + content
    with pytest.raises(CodecError, match="0 bytes where a number of 8 should be"):
        decode(of(MapType(INT, INT)), row)


def test_a_part_may_take_all_of_a_row() -> None:
    row = struct.pack("<qII", 0, 16, 0)
    assert decode(of(atom("binary")), row) == (row,)


def test_no_bytes_are_too_short_for_a_row() -> None:
    with pytest.raises(CodecError, match="row of 0 bytes is too short for 1 fields"):
        decode(of(LONG), b"")


def test_text_that_is_not_utf_8_is_read_all_the_same() -> None:
    content = unsafe_rows.row(of(atom("binary")), [b"a\xffb"])
    assert decode(of(TEXT), content) == ("a\N{REPLACEMENT CHARACTER}b",)


@pytest.mark.parametrize(
    ("kind", "row", "text"),
    [
        (of(LONG, LONG), bytes(16), "row of 16 bytes is too short for 2 fields"),
        (of(TEXT), struct.pack("<qII", 0, 9, 16) + bytes(8), "a part of 9 bytes at 16"),
        (of(TEXT), struct.pack("<qII", 0, 1, 1 << 31) + bytes(8), "a part of 1 bytes at 2147483"),
        (of(of(LONG)), struct.pack("<qII", 0, 8, 16) + bytes(8), "row of 8 bytes"),
        (of(ArrayType(INT)), struct.pack("<qIIq", 0, 8, 16, 1 << 40), "cannot have 1099511627776"),
        (of(ArrayType(INT)), struct.pack("<qIIq", 0, 8, 16, -1), "cannot have -1 elements"),
        (of(ArrayType(INT)), struct.pack("<qII", 0, 4, 16) + bytes(8), "4 bytes where a number"),
        (of(MapType(INT, INT)), struct.pack("<qIIq", 0, 8, 16, 9), "cannot have keys of 9"),
        (of(DecimalType(38, 2)), struct.pack("<qII", 0, 17, 16) + bytes(24), "decimal of 17 bytes"),
        (of(atom("interval")), struct.pack("<qII", 0, 8, 16) + bytes(8), "interval of 8 bytes"),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_says_why(kind: StructType, row: bytes, text: str) -> None:
    with pytest.raises(CodecError, match=text):
        decode(kind, row)


def test_a_column_of_nulls_is_null_whatever_its_word_says() -> None:
    assert decode(of(atom("void"), LONG), struct.pack("<qqq", 0, 5, 7)) == (None, 7)


def test_a_map_has_as_many_values_as_keys() -> None:
    keys, values = (unsafe_rows.array(INT, list(range(count))) for count in (2, 1))
    content = struct.pack("<q", len(keys)) + keys + values
    row = struct.pack("<qII", 0, len(content), 16) + content
    with pytest.raises(CodecError, match="map of 2 keys and 1 values"):
        decode(of(MapType(INT, INT)), row)


def test_parts_that_lie_over_one_another_do_not_multiply_the_work() -> None:
    """Each of a hundred elements claims to be the whole array of the next depth."""
    kind: DataType = LONG
    for _ in range(10):
        kind = ArrayType(kind)
    inner = struct.pack("<qqq", 100, 0, 0) + struct.pack("<II", 824, 0) * 100
    row = struct.pack("<qII", 0, len(inner), 16) + inner
    with pytest.raises(CodecError, match="does not fit"):
        decode(of(kind), row)


def test_types_come_by_the_names_that_spark_gives_them() -> None:
    names = [*sorted(FORMATS.keys() - {"year-month", "day-time"}), "string", "binary", "void"]
    fields = [{"name": name, "type": name} for name in names]
    assert parse_struct({"type": "struct", "fields": fields}) == StructType(
        tuple(Field(name, AtomicType(name)) for name in names)
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("decimal(10,2)", DecimalType(10, 2)),
        ("decimal(5,-2)", DecimalType(5, -2)),
        ("decimal", DecimalType(10, 0)),
        ("null", AtomicType("void")),
        ("varchar(20)", TEXT),
        ("char(3)", TEXT),
        ("string collate UNICODE_CI", AtomicType("string", collated=True)),
        ("interval year to month", AtomicType("year-month")),
        ("interval month", AtomicType("year-month")),
        ("interval day to second", AtomicType("day-time")),
        ("interval hour", AtomicType("day-time")),
        ("interval", AtomicType("interval")),
        ({"type": "udt", "sqlType": {"type": "array", "elementType": "double"}},
         ArrayType(AtomicType("double"))),
        ({"type": "map", "keyType": "string", "valueType": "long"}, MapType(TEXT, LONG)),
    ],
)  # fmt: skip
def test_types_with_parameters(name: object, expected: DataType) -> None:
    found = parse_struct({"type": "struct", "fields": [{"name": "a", "type": name}]})
    assert found == StructType((Field("a", expected),))


@pytest.mark.parametrize("name", ["variant", "decimal(1000,2)", {"type": "tensor"}])
def test_types_that_nobody_knows_are_said_by_name(name: object) -> None:
    known = name["type"] if isinstance(name, dict) else str(name)
    with pytest.raises(UnknownTypeError, match=f"type {re.escape(known)}") as caught:
        parse_struct({"type": "struct", "fields": [{"name": "a", "type": name}]})
    assert caught.value.offset == 0


@pytest.mark.parametrize("name", ["x" * 90, {"type": "x" * 90}, ["x" * 90]])
def test_of_an_unknown_type_80_characters_are_shown(name: object) -> None:
    with pytest.raises(CodecError) as caught:
        parse_struct({"type": "struct", "fields": [{"name": "a", "type": name}]})
    shown = str(caught.value).count("x")
    assert shown == (78 if isinstance(name, list) else 80)


@pytest.mark.parametrize(
    "kind",
    [
        "string",
        {"type": "array", "elementType": "string"},
        {"type": "map", "keyType": "string", "valueType": "long"},
        {"type": "map", "keyType": "long", "valueType": "string"},
        {"type": "udt", "sqlType": "string"},
    ],
)
def test_a_collation_of_a_field_is_one_of_the_texts_in_it(kind: object) -> None:
    def written(metadata: object) -> StructType:
        field = {"name": "a" * 90, "type": kind, "metadata": metadata}
        return must_be_writable(parse_struct({"type": "struct", "fields": [field]}))

    assert written({}) == written(None)
    with pytest.raises(UnknownTypeError, match=f"column '{'a' * 80}': collations") as caught:
        written({"__COLLATIONS": {"a": "UTF8_LCASE"}})
    assert caught.value.offset == 0


@pytest.mark.parametrize(
    "kind",
    [
        atom("interval"),
        ArrayType(atom("interval")),
        MapType(atom("interval"), LONG),
        MapType(LONG, atom("interval")),
        of(LONG, atom("interval")),
    ],
    ids=["alone", "array", "key", "value", "struct"],
)
def test_a_calendar_interval_anywhere_is_not_written(kind: DataType) -> None:
    with pytest.raises(UnknownTypeError, match="type 'interval': rows with it are not written"):
        must_be_writable(of(DecimalType(9, 2), kind))


@pytest.mark.parametrize(("given", "nullable"), [({}, True), ({"valueContainsNull": False}, False)])
def test_the_values_of_a_map_may_be_null_unless_it_says_otherwise(
    given: dict[str, bool], *, nullable: bool
) -> None:
    kind = {"type": "map", "keyType": "long", "valueType": "long", **given}
    found = parse_struct({"type": "struct", "fields": [{"name": "a", "type": kind}]})
    assert found.fields[0].type == MapType(LONG, LONG, nullable)


def test_columns_that_do_not_exist_are_shown() -> None:
    assert of(LONG, TEXT).only((1, 0)) == StructType((Field("c1", TEXT), Field("c0", LONG)))
    with pytest.raises(CodecError, match=r"columns \(0, 2\) of 2 are not valid") as caught:
        of(LONG, TEXT).only((0, 2))
    assert caught.value.offset == 0
    with pytest.raises(CodecError) as caught:
        of(LONG).only((1,) * 90)
    assert str((1,) * 90)[:80] + " of 1 are not valid" in str(caught.value)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "elementType": "long"},
        {"fields": []},
        {"type": "struct"},
        {"type": "struct", "fields": [{"name": "a"}]},
        {"type": "struct", "fields": [3]},
        {"type": "struct", "fields": [{"name": "a", "type": 3}]},
    ],
)
def test_a_schema_without_its_parts_is_damage(schema: dict[str, Any]) -> None:
    with pytest.raises(CodecError) as caught:
        parse_struct(schema)
    assert caught.value.offset == 0


def test_types_are_not_nested_for_ever() -> None:
    kind: Any = "long"
    for _ in range(5000):
        kind = {"type": "array", "elementType": kind}
    with pytest.raises(CodecError, match="nested deeper than 64") as caught:
        parse_struct({"type": "struct", "fields": [{"name": "a", "type": kind}]})
    assert caught.value.offset == 0
    kind = "long"
    for _ in range(62):
        kind = {"type": "array", "elementType": kind}
    assert (
        len(parse_struct({"type": "struct", "fields": [{"name": "a", "type": kind}]}).fields) == 1
    )


SHOWN: list[tuple[DataType, Any, Any]] = [
    (atom("date"), -719_163, "0000-12-31"),
    (atom("timestamp"), 1_767_225_600_000_000, "2026-01-01T00:00:00.000000Z"),
    (atom("timestamp"), (1 << 63) - 1, "+294247-01-10T04:00:54.775807Z"),
    (atom("timestamp_ntz"), 1, "1970-01-01T00:00:00.000001"),
    (atom("year-month"), -14, "INTERVAL '-1-2' YEAR TO MONTH"),
    (atom("day-time"), 93_784_005_000, "INTERVAL '1 02:03:04.005' DAY TO SECOND"),
    (atom("day-time"), -1_000_000, "INTERVAL '-0 00:00:01' DAY TO SECOND"),
    (atom("interval"), (14, 3, 3_723_004_000),
     "1 years 2 months 3 days 1 hours 2 minutes 3.004 seconds"),
    (atom("interval"), (-14, 0, -500_000), "-1 years -2 months -0.5 seconds"),
    (atom("float"), struct.unpack("<f", b"\xff\xff\x7f\x7f")[0], 3.4028235e38),
    (atom("float"), struct.unpack("<f", b"\0\0\0\x6b")[0], 1.54742505e26),
    (DecimalType(12, 2), Decimal("-1234567890.50"), "-1234567890.50"),
    (DecimalType(5, -2), Decimal("1E+2"), "100"),
    (MapType(TEXT, LONG), (("a", 1), ("b", None)), {"a": 1, "b": None}),
    (MapType(INT, TEXT), ((1, "a"),), [{"key": 1, "value": "a"}]),
    (ArrayType(atom("date")), (0, None), ["1970-01-01", None]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "expected"), SHOWN)
def test_values_are_shown_as_people_write_them(kind: DataType, value: Any, expected: Any) -> None:
    assert shower(kind)(value) == expected


def test_a_name_that_comes_again_loses_nothing() -> None:
    kind = StructType(tuple(Field(name, LONG) for name in ("id", "id", "at", "id")))
    assert field_names(kind) == ("id", "id (2)", "at", "id (3)")
    assert shower(kind)((1, 2, 3, 4)) == {"id": 1, "id (2)": 2, "at": 3, "id (3)": 4}
