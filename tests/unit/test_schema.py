"""State schema files, v1 and v2."""

import json
import struct

import pytest

from statemaint.codec.schema import parse_schema
from statemaint.errors import CodecError

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
        utf("v7"),
        utf("v1") + utf("{}"),
        utf("v1") + utf("{") + utf("{}"),
        utf("v1") + utf("[]") + utf("{}"),
        utf("v1") + utf(json.dumps(KEY)) + utf(json.dumps(VALUE)) + b"x",
        utf("v2") + struct.pack(">i", 2_000_000_000) + utf("{}"),
        utf("v2") + struct.pack(">i", -1) + chunked("{}"),
        utf("v1") + struct.pack(">H", 2) + b"\xff\xff" + utf("{}"),
    ],
)
def test_a_malformed_schema_is_an_error(content: bytes) -> None:
    with pytest.raises(CodecError):
        parse_schema(content)
