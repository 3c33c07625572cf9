"""What providers put around the rows of state, as Spark 4.3 wrote it."""

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.codec.integrity.row_checksum import seal_row
from statemaint.codec.rows.state_row import (
    Bare,
    KeyEncoder,
    NoPrefix,
    PrefixScan,
    RangeScan,
    RowLayout,
    TimestampFirst,
    TimestampLast,
    Wrapping,
    key_reader,
    parse_encoder,
    value_reader,
)
from statemaint.codec.rows.types import AtomicType, Field, StructType
from statemaint.errors import CodecError
from tests.support import unsafe_rows


def of(**types: str | StructType) -> StructType:
    return StructType(
        tuple(
            Field(name, AtomicType(kind) if isinstance(kind, str) else kind)
            for name, kind in types.items()
        )
    )


TEXT, COUNT = of(key="string"), of(count="long")
PLAIN, FAMILIES = Wrapping(), Wrapping(families=2)
EXPIRY = of(expirationMs="long", elementKey=TEXT)
MAP = of(key=TEXT, userKey=of(hour="string"))
JOIN = of(field0="string", __event_time="long")
K0 = "000000000000000002000000100000006b30000000000000"
K3 = "000000000000000002000000100000006b33000000000000"
WRAPPED_K0 = "00000000000000001800000010000000" + K0
WRAPPED_001 = (
    "0000000000000000" "1800000010000000"
    "0000000000000000" "0300000010000000" "3030310000000000"
)  # fmt: skip
ORDERED = "000000000000000000090000001000000001000001a1ff1ed71400000000000000"
MOMENT = 1_767_263_040_000_000
SPARK_S_KEYS: list[tuple[StructType, KeyEncoder, Wrapping, str, tuple[Any, ...]]] = [
    (TEXT, Bare(), PLAIN, K0, ("k0",)),
    (TEXT, NoPrefix(), PLAIN, f"00{K3}", ("k3",)),
    (TEXT, NoPrefix(), FAMILIES, f"020000{K0}", ("k0",)),
    (
        of(key="string", sessionStartTime="timestamp"), PrefixScan(1), PLAIN,
        f"1900000000{K0}0000000000000000000076ed9351470600",
        ("k0", 1_767_265_560_000_000),
    ),
    (
        MAP, PrefixScan(1), FAMILIES,
        f"09002900000000{WRAPPED_K0}00{WRAPPED_001}",
        (("k0",), ("001",)),
    ),
    (
        EXPIRY, RangeScan((0,)), FAMILIES,
        f"0a0021000000{ORDERED}00{WRAPPED_K0}",
        (1_795_281_573_652, ("k0",)),
    ),
    (JOIN, TimestampLast(), FAMILIES, f"020000{K3}80064750fdb95000", ("k3", MOMENT)),
    (JOIN, TimestampFirst(), FAMILIES, f"030080064750fdb9500000{K3}", ("k3", MOMENT)),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "encoder", "wrapping", "key", "expected"), SPARK_S_KEYS)
def test_keys_that_spark_wrote(
    kind: StructType, encoder: KeyEncoder, wrapping: Wrapping, key: str, expected: tuple[Any, ...]
) -> None:
    reader = key_reader(RowLayout(kind, COUNT, encoder), wrapping)
    assert reader(bytes.fromhex(key)) == expected


NUMBERS = [
    ("byte", ">b", -128), ("byte", ">b", 127), ("short", ">h", -2), ("integer", ">i", -3),
    ("integer", ">i", 0), ("long", ">q", -(1 << 63)), ("long", ">q", 7),
    ("float", ">f", 1.5), ("double", ">d", 0.0),
]  # fmt: skip


@pytest.mark.parametrize(("name", "form", "number"), NUMBERS)
def test_numbers_that_lie_in_order(name: str, form: str, number: float) -> None:
    sign = b"\0" if number < 0 else b"\1"
    assert ordered(name, sign + struct.pack(form, number)) == (number,)


@pytest.mark.parametrize(("name", "form"), [("float", ">f"), ("double", ">d")])
def test_negative_floating_numbers_have_all_bits_flipped(name: str, form: str) -> None:
    flipped = bytes(0xFF - byte for byte in struct.pack(form, -2.5))
    assert ordered(name, b"\0" + flipped) == (-2.5,)


@pytest.mark.parametrize("column", [b"\2" + bytes(8), None])
def test_nulls_lie_in_order_too(column: bytes | None) -> None:
    assert ordered("long", column) == (None,)


@pytest.mark.parametrize("column", [b"", b"\1" + bytes(7), b"\3" + bytes(8)])
def test_other_bytes_are_no_number(column: bytes) -> None:
    with pytest.raises(CodecError, match="is not an ordered long"):
        ordered("long", column)


def ordered(name: str, column: bytes | None) -> tuple[Any, ...]:
    row = b"\0" + unsafe_rows.row(of(a="binary"), [column])
    reader = key_reader(RowLayout(of(a=name), COUNT, RangeScan((0,))), PLAIN)
    return reader(struct.pack("<i", len(row)) + row)


def test_columns_in_order_come_back_to_their_places() -> None:
    kind = of(a="string", b="long", c="string", d="integer")
    ordered = unsafe_rows.row(of(d="binary", b="binary"), [b"\1\0\0\0\x07", b"\2" + bytes(8)])
    others = unsafe_rows.row(of(a="string", c="string"), ["first", None])
    key = struct.pack("<i", 1 + len(ordered)) + b"\0" + ordered + b"\0" + others
    reader = key_reader(RowLayout(kind, COUNT, RangeScan((3, 1))), PLAIN)
    assert reader(key) == ("first", None, None, 7)


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_timestamps_sort_as_their_bytes(moment: int) -> None:
    key = struct.pack(">Q", moment + (1 << 63)) + bytes.fromhex(f"00{K0}")
    reader = key_reader(RowLayout(JOIN, COUNT, TimestampFirst()), PLAIN)
    assert reader(key) == ("k0", moment)


@pytest.mark.parametrize("encoder", [TimestampFirst(), TimestampLast()])
def test_all_columns_but_the_last_are_beside_a_timestamp(encoder: KeyEncoder) -> None:
    kind = of(a="long", b="long", at="long")
    row = b"\0" + unsafe_rows.row(of(a="long", b="long"), [1, 2])
    moment = struct.pack(">Q", 1 << 63)
    key = moment + row if encoder == TimestampFirst() else row + moment
    assert key_reader(RowLayout(kind, COUNT, encoder), PLAIN)(key) == (1, 2, 0)


def test_a_key_that_is_shorter_than_its_timestamp_is_damage() -> None:
    reader = key_reader(RowLayout(of(at="long"), COUNT, TimestampLast()), PLAIN)
    with pytest.raises(CodecError, match="no row where a row should be"):
        reader(b"\0")


def test_a_column_that_ends_beyond_its_row_is_damage() -> None:
    row = bytearray(unsafe_rows.row(TEXT, ["k0"]))
    struct.pack_into("<I", row, 8, 9)
    for wrapping in (PLAIN, FAMILIES):
        reader = key_reader(RowLayout(TEXT, COUNT, NoPrefix()), wrapping)
        with pytest.raises(CodecError):
            reader(b"\2\0"[: wrapping.families] + b"\0" + row)


def test_columns_in_front_that_end_beyond_their_key_are_damage() -> None:
    reader = key_reader(RowLayout(JOIN, COUNT, PrefixScan(1)), FAMILIES)
    with pytest.raises(CodecError, match="4 bytes do not fit into 9"):
        reader(b"\2\0" + struct.pack("<i", 4) + bytes(3))


def test_a_value_alone_is_one_row() -> None:
    row = unsafe_rows.row(COUNT, [3])
    assert value_reader(RowLayout(TEXT, COUNT, Bare()), PLAIN)(b"", row) == ((3,),)
    assert value_reader(RowLayout(TEXT, COUNT, NoPrefix()), PLAIN)(b"", b"\0" + row) == ((3,),)


def test_a_value_alone_behind_its_checksum() -> None:
    row, sealed = unsafe_rows.row(COUNT, [3]), Wrapping(checksums=True)
    # Whoever reads the file has compared it by then.
    bare = value_reader(RowLayout(TEXT, COUNT, Bare()), sealed)
    assert bare(b"key", b"sum!" + row) == ((3,),)
    in_rocks = value_reader(RowLayout(TEXT, COUNT, NoPrefix()), sealed)
    assert in_rocks(b"key", seal_row(b"key", b"\0" + row)) == ((3,),)
    with pytest.raises(CodecError, match="row checksum") as caught:
        in_rocks(b"kez", seal_row(b"key", b"\0" + row))
    assert caught.value.offset == 0


@pytest.mark.parametrize("delimiter", [b"", b","])
@pytest.mark.parametrize("checksums", [False, True])
@pytest.mark.parametrize("numbers", [(), (1,), (1, 2, 44)])
def test_a_list_has_an_entry_each(
    delimiter: bytes,
    checksums: bool,  # noqa: FBT001
    numbers: tuple[int, ...],
) -> None:
    if checksums and not numbers:
        return
    rows = (b"\0" + unsafe_rows.row(COUNT, [number]) for number in numbers)
    value = delimiter.join(entry(row, b"key" if checksums else None) for row in rows)
    reader = value_reader(
        RowLayout(TEXT, COUNT, NoPrefix(), many=True),
        Wrapping(checksums=checksums, delimiter=delimiter),
    )
    assert reader(b"key", value) == tuple((number,) for number in numbers)


def entry(row: bytes, key: bytes | None) -> bytes:
    sized = struct.pack("<i", len(row)) + row
    if key is None:
        return sized
    return seal_row(key, sized)


LIST = RowLayout(TEXT, COUNT, NoPrefix(), many=True)


def test_a_list_whose_checksum_is_right_and_the_size_in_it_is_not() -> None:
    """Spark seals each entry with its size; what is sealed without one is no entry."""
    value = seal_row(b"key", struct.pack("<i", 16) + bytes(17))
    with pytest.raises(CodecError, match="the row of an entry has another size"):
        value_reader(LIST, Wrapping(checksums=True))(b"key", value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"\x11\0\0", "3 bytes are too few for a size"),
        (struct.pack("<i", 18) + bytes(17), "18 bytes do not fit into 21"),
        (struct.pack("<i", -1) + bytes(17), "-1 bytes do not fit"),
        (struct.pack("<i", 17) + bytes(17) + b";", "not all separated in the same way"),
        (struct.pack("<i", 17) + b"\1" + bytes(16), "encoding of version 1"),
        (struct.pack("<i", 0), "no row where a row should be"),
    ],
)
def test_a_list_that_cannot_be_says_why(value: bytes, text: str) -> None:
    with pytest.raises(CodecError, match=text):
        value_reader(LIST, Wrapping(delimiter=b","))(b"key", value)


ENCODERS: list[KeyEncoder] = [
    Bare(), NoPrefix(), PrefixScan(1), RangeScan((1,)), TimestampFirst(), TimestampLast(),
]  # fmt: skip


@pytest.mark.parametrize("encoder", ENCODERS)
@given(key=st.binary(max_size=80))
def test_garbage_is_an_error_or_a_key(encoder: KeyEncoder, key: bytes) -> None:
    try:
        found = key_reader(RowLayout(JOIN, COUNT, encoder), FAMILIES)(key)
    except CodecError as error:
        assert error.offset <= len(key)  # noqa: PT017 -- either is fine
    else:
        assert len(found) == 2


@given(value=st.binary(max_size=80), checksums=st.booleans())
def test_garbage_is_an_error_or_a_value(value: bytes, checksums: bool) -> None:  # noqa: FBT001
    for encoder in (Bare(), NoPrefix()):
        layout = RowLayout(TEXT, COUNT, encoder, many=encoder == NoPrefix())
        try:
            value_reader(layout, Wrapping(checksums=checksums))(b"key", value)
        except CodecError as error:
            assert error.offset <= len(value)  # noqa: PT017 -- either is fine


@pytest.mark.parametrize(
    ("encoder", "kind"),
    [
        (PrefixScan(3), JOIN),
        (PrefixScan(1 << 40), JOIN),
        (RangeScan((2,)), JOIN),
        (RangeScan((1, 1)), JOIN),
        (RangeScan((0,)), JOIN),
        (TimestampFirst(), of()),
    ],
)
def test_an_encoder_of_other_columns_is_damage(encoder: KeyEncoder, kind: StructType) -> None:
    with pytest.raises(CodecError) as caught:
        key_reader(RowLayout(kind, COUNT, encoder), PLAIN)
    assert caught.value.offset == 0


def spec(name: str, **more: object) -> str:
    return json.dumps({"keyStateEncoderType": name, **more})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (spec("NoPrefixKeyStateEncoderSpec"), NoPrefix()),
        (spec("PrefixKeyScanStateEncoderSpec", numColsPrefixKey=2), PrefixScan(2)),
        (spec("RangeKeyScanStateEncoderSpec", orderingOrdinals=[0, 2]), RangeScan((0, 2))),
        (spec("TimestampAsPrefixKeyStateEncoderSpec"), TimestampFirst()),
        (spec("TimestampAsPostfixKeyStateEncoderSpec"), TimestampLast()),
    ],
)
def test_encoders_come_by_the_names_that_spark_gives_them(text: str, expected: KeyEncoder) -> None:
    assert parse_encoder(text) == expected


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", spec("Other"), spec("PrefixKeyScanStateEncoderSpec"), "[" * 9999]
)
def test_other_encoders_are_damage(text: str) -> None:
    with pytest.raises(CodecError) as caught:
        parse_encoder(text)
    assert caught.value.offset == 0


@pytest.mark.parametrize("text", ["x" * 90, spec("x" * 90)])
def test_of_another_encoder_80_characters_are_shown(text: str) -> None:
    with pytest.raises(CodecError, match=f" {text[:80]!r}"):
        parse_encoder(text)
