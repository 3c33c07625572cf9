"""Changes to valid files that keep most of their structure, and repairs that make checksums fit."""

import re
import struct
from collections.abc import Callable
from random import Random

import google_crc32c
import lz4.block
import xxhash

Edit = Callable[[bytearray, Random], None]

_INTS = (0, 1, 2, 255, 0x7FFF, 0xFFFF, 1 << 20, 1 << 27, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1)
_LZ4_HEADER = struct.Struct("<8sBiii")
_LENGTH = struct.Struct(">i")
_LOG_HEADER = struct.Struct("<IHB")
_LOG_BLOCK = 32 * 1024


def mutated(content: bytes, random: Random) -> bytes:
    """Returns the content after one to four edits."""
    changed = bytearray(content)
    for _ in range(random.randint(1, 4)):
        random.choice(_EDITS)(changed, random)
    return bytes(changed)


def _place(content: bytearray, random: Random) -> int:
    return random.randint(0, len(content))


def _span(content: bytearray, random: Random) -> slice:
    start = _place(content, random)
    return slice(start, min(len(content), start + random.choice((1, 2, 4, 16, 100, 1000))))


def _flip(content: bytearray, random: Random) -> None:
    if content:
        content[random.randrange(len(content))] ^= 1 << random.randint(0, 7)


def _set(content: bytearray, random: Random) -> None:
    if content:
        content[random.randrange(len(content))] = random.choice((0, 1, 0x7F, 0x80, 0xFF))


def _number(content: bytearray, random: Random) -> None:
    """Overwrites what may be a length with one that is extreme, of four bytes or two."""
    at, size = _place(content, random), random.choice((2, 4))
    value = random.choice((*_INTS, len(content), len(content) - 1)) & ((1 << 8 * size) - 1)
    content[at : at + size] = value.to_bytes(size, random.choice(("big", "little")))


def _delete(content: bytearray, random: Random) -> None:
    del content[_span(content, random)]


def _repeat(content: bytearray, random: Random) -> None:
    part = bytes(content[_span(content, random)])
    at = _place(content, random)
    content[at:at] = part * random.choice((1, 1, 2, 8))


def _replace(content: bytearray, random: Random) -> None:
    part = bytes(content[_span(content, random)])
    at = _place(content, random)
    content[at : at + len(part)] = part


def _insert(content: bytearray, random: Random) -> None:
    at = _place(content, random)
    content[at:at] = random.randbytes(random.choice((1, 2, 4, 9)))


def _cut(content: bytearray, random: Random) -> None:
    del content[_place(content, random) :]


_EDITS: tuple[Edit, ...] = (
    _flip,
    _set,
    _number,
    _number,
    _delete,
    _repeat,
    _replace,
    _insert,
    _cut,
)


_VALUES = re.compile(rb'"(?:[^"\\\\]|\\\\.)*"|-?[0-9.]+|true|false|null|[][{}]')
_STRANGE = (
    *(b"null", b"true", b"0", b"-1", b"1.5", b"2147483648", b"9" * 400, b"9" * 5000),
    *(b"NaN", b"Infinity", b"-Infinity", b"1e999", b"[]", b"{}", b"[" * 3000, b'{"a":' * 3000),
    *(
        b'""',
        b'"a/../../b"',
        b'"\\ud800"',
        b'"\\u0000"',
        b'"\xff"',
        b'"\xc3\xa9"',
        b'"' + b"x" * 300 + b'"',
    ),
)


def mutated_json(content: bytes, random: Random) -> bytes:
    """Returns text after its values were exchanged for others of any type; sometimes any bytes."""
    if random.random() < 0.3:
        return mutated(content, random)
    places = [found.span() for found in _VALUES.finditer(content)]
    for start, end in sorted(random.sample(places, min(len(places), 2)), reverse=True):
        words = (*_STRANGE, *(content[slice(*place)] for place in places))
        content = content[:start] + random.choice(words) + content[end:]
    return content


def seal_lz4_blocks(content: bytes) -> bytes:
    """Returns a stream of LZ4 blocks with the checksum that each body asks for."""
    sealed, at = bytearray(content), 0
    while at + _LZ4_HEADER.size <= len(sealed):
        magic, token, packed, original, _ = _LZ4_HEADER.unpack_from(sealed, at)
        body_at = at + _LZ4_HEADER.size
        body = bytes(sealed[body_at : body_at + max(0, packed)])
        payload = _lz4_payload(body, token, original)
        if payload is not None:
            checksum = xxhash.xxh32_intdigest(payload, 0x9747B28C) & 0x0FFFFFFF
            _LZ4_HEADER.pack_into(sealed, at, magic, token, packed, original, checksum)
        at = body_at + max(0, packed)
    return bytes(sealed)


def _lz4_payload(body: bytes, token: int, original: int) -> bytes | None:
    if token & 0xF0 == 0x10:
        return body
    if not 0 < original <= 1 << 20:
        return None
    try:
        payload: bytes = lz4.block.decompress(body, uncompressed_size=original)
    except lz4.block.LZ4BlockError:
        return None
    return payload


def seal_rows(payload: bytes) -> bytes:
    """Returns records with the row checksums that their bytes ask for."""
    sealed, at = bytearray(payload), 0
    while (key_size := _length(sealed, at)) >= 0:
        key_at = at + 4
        value_at = key_at + key_size + 4
        value_size = _length(sealed, value_at - 4)
        key, value = sealed[key_at : value_at - 4], sealed[value_at : value_at + max(0, value_size)]
        if value_size < 0 and key_size >= 4:
            _seal(sealed, key_at, bytes(key[4:]))
        elif value_size >= 4:
            _seal(sealed, value_at, bytes(key + value[4:]))
        at = value_at + max(0, value_size)
    return bytes(sealed)


def _length(payload: bytearray, at: int) -> int:
    found: int = _LENGTH.unpack_from(payload, at)[0] if at + 4 <= len(payload) else -1
    return found


def _seal(payload: bytearray, at: int, covered: bytes) -> None:
    if at + 4 <= len(payload):
        struct.pack_into("<I", payload, at, google_crc32c.value(covered))


def log_record(kind: int, body: bytes) -> bytes:
    """Returns a record of RocksDB's log with the checksum that it has to have."""
    value = google_crc32c.value(bytes([kind]) + body)
    masked = ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return _LOG_HEADER.pack(masked, len(body), kind) + body


def seal_log(content: bytes) -> bytes:
    """Returns the content with checksums that fit, as far as it can be taken for records."""
    sealed, at = bytearray(content), 0
    while at + _LOG_HEADER.size <= len(content):
        left = _LOG_BLOCK - at % _LOG_BLOCK
        if left < _LOG_HEADER.size:
            at += left
            continue
        _, length, kind = _LOG_HEADER.unpack_from(content, at)
        end = at + _LOG_HEADER.size + length
        if end > len(content):
            break
        sealed[at:end] = log_record(kind, content[at + _LOG_HEADER.size : end])
        at = end
    return bytes(sealed)
