"""State schema files, v1 to v3."""

import json
import struct

import pytest

from statemaint.codec.metadata.schema import ColumnFamily, parse_families, parse_schema
from statemaint.errors import CodecError
from tests.support.checkpoints import JOIN
from tests.support.rocks_files import SCHEMA_3

KEY = {"type": "struct", "fields": [{"name": "key", "type": "string"}]}
VALUE = {"type": "struct", "fields": []}


def utf(text: str) -> bytes:
    return struct.pack(">H", len(text.encode())) + text.encode()


def chunked(*parts: str) -> bytes:
    return struct.pack(">i", len(parts)) + b"".join(utf(part) for part in parts)


def test_reads_version_1() -> None:
    found = parse_schema(utf("v1") + utf(json.dumps(KEY)) + utf(json.dumps(VALUE)))
    assert (found.format, found.key, found.value) == (1, KEY, VALUE)


def test_reads_version_2_in_chunks() -> None:
    text = json.dumps(KEY)
    found = parse_schema(utf("v2") + chunked(text[:9], text[9:]) + chunked(json.dumps(VALUE)))
    assert (found.format, found.key, found.value) == (2, KEY, VALUE)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        utf("v1") + utf("{}"),
        utf("v1") + utf("[]") + utf("{}"),
        utf("v2") + struct.pack(">i", 2_000_000_000) + utf("{}"),
        utf("v2") + struct.pack(">i", -1) + chunked("{}"),
        utf("v1") + struct.pack(">H", 2) + b"\xff\xff" + utf("{}"),
        utf("v1") + struct.pack(">H", 3) + b"\xed\xa0\xbd" + utf("{}"),
        SCHEMA_3,
    ],
)
def test_a_malformed_schema_is_an_error(content: bytes) -> None:
    with pytest.raises(CodecError):
        parse_schema(content)


@pytest.mark.parametrize(
    ("content", "offset", "text"),
    [
        (utf("v" * 9), 0, "unknown format 'vvvvvvvv'$"),
        (utf("v1") + utf("{") + utf("{}"), 0, "not JSON"),
        (utf("v1") + utf("{}") + utf("{}"), 0, "not a struct"),
        (utf("v1") + utf("{"), 7, "cut short: 0 of 2"),
        (utf("v1") + utf(json.dumps(VALUE)) * 2 + b"x", 72, "bytes follow"),
    ],
)
def test_damage_of_a_schema_is_named_with_its_place(content: bytes, offset: int, text: str) -> None:
    with pytest.raises(CodecError) as caught:
        parse_schema(content)
    assert caught.value.offset == offset
    assert text.rstrip("$") in str(caught.value)


def java_utf(text: str) -> bytes:
    """Returns what Java writes: characters beyond U+FFFF in halves of three bytes."""
    units = struct.unpack(f"<{len(text.encode('utf-16-le')) // 2}H", text.encode("utf-16-le"))
    halves = "".join(map(chr, units)).encode("utf-8", "surrogatepass")
    return struct.pack(">H", len(halves)) + halves


STRANGE = {"type": "struct", "fields": [{"name": "k\U0001f600ä", "type": "string"}]}


def test_reads_javas_form_of_characters() -> None:
    text = json.dumps(STRANGE, ensure_ascii=False)
    assert (
        java_utf("k\U0001f600ä")[2:] == b"k\xed\xa0\xbd\xed\xb8\x80\xc3\xa4"
    )  # as Spark 4.3 wrote it
    content = utf("v1") + java_utf(text) * 2
    assert parse_schema(content).key == STRANGE


def test_a_character_may_be_cut_between_chunks() -> None:
    first, second = json.dumps(STRANGE, ensure_ascii=False).split("\U0001f600")
    halves = [b"\xed\xa0\xbd", b"\xed\xb8\x80"]
    parts = [first.encode() + halves[0], halves[1] + second.encode()]
    key = struct.pack(">i", 2) + b"".join(struct.pack(">H", len(part)) + part for part in parts)
    assert parse_schema(utf("v2") + key + chunked(json.dumps(VALUE))).key == STRANGE


# -- column families


def family(
    name: str = "list",
    *,
    key: str = json.dumps(KEY),
    value: str = json.dumps(VALUE),
    encoder: str = '{"keyStateEncoderType":"NoPrefixKeyStateEncoderSpec"}',
    user_key: str = "{    }",
    ids: tuple[int, int] = (0, 0),
) -> bytes:
    return (
        utf(name)
        + struct.pack(">h", ids[0])
        + chunked(key)
        + struct.pack(">h", ids[1])
        + b"".join(chunked(part) for part in (value, encoder, user_key))
    )


def families(*found: bytes) -> bytes:
    return utf("v3") + struct.pack(">i", len(found)) + b"".join(found)


def test_reads_the_column_families_that_spark_wrote() -> None:
    found = parse_families(SCHEMA_3)
    assert tuple(family.name for family in found) == JOIN
    assert [[field["name"] for field in family.key["fields"]] for family in found] == [
        ["field0"],
        ["field0", "index"],
    ] * 2
    assert [[field["name"] for field in family.value["fields"]] for family in found] == [
        ["value"],
        ["k", "v", "ts", "matched"],
        ["value"],
        ["k2", "v2", "ts2", "matched"],
    ]
    assert {family.encoder for family in found} == {
        '{"keyStateEncoderType":"NoPrefixKeyStateEncoderSpec"}'
    }


def test_a_map_has_the_schema_of_its_users_keys_behind_its_encoder() -> None:
    encoder = '{"keyStateEncoderType":"PrefixKeyScanStateEncoderSpec","numColsPrefixKey":1}'
    content = families(
        family(), family("map", encoder=encoder, user_key=json.dumps(KEY), ids=(3, -1))
    )
    assert parse_families(content)[1] == ColumnFamily("map", KEY, VALUE, encoder)


def test_a_store_may_have_no_column_families() -> None:
    assert parse_families(families()) == ()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        utf("v1") + utf(json.dumps(KEY)) + utf(json.dumps(VALUE)),
        utf("v3"),
        utf("v3") + struct.pack(">i", 2_000_000_000) + family(),
        families(family()) + b"x",
        families(family())[:-1],
        families(family(key="[]")),
        families(family(value="{}")),
        families(family(encoder="NoPrefix")),
        families(family(user_key="{}")),
        families(family(user_key="")),
        families(struct.pack(">H", 3) + b"\xed\xa0\xbd"),
    ],
)
def test_malformed_column_families_are_an_error(content: bytes) -> None:
    with pytest.raises(CodecError):
        parse_families(content)


def test_families_of_another_format_are_refused_at_its_name() -> None:
    with pytest.raises(CodecError, match="unknown format 'vvvvvvvv', not of column") as caught:
        parse_families(utf("v" * 9))
    assert caught.value.offset == 0


@pytest.mark.parametrize(
    ("fields", "has_key"),
    [
        ([{"name": "key", "type": "string"}], True),
        ([{"name": "a", "type": "void"}, {"name": "b", "type": "long"}], True),
        ([{"name": "_", "type": "void"}], False),  # `limit`
        ([], False),  # a global aggregation
        (None, True),  # unknown: it may have one
    ],
)
def test_a_key_tells_rows_apart(fields: object, *, has_key: bool) -> None:
    key = json.dumps({"type": "struct", "fields": fields})
    found = parse_schema(utf("v1") + utf(key) + utf(json.dumps(VALUE)))
    assert found.has_key is has_key
