"""The records of RocksDB's MANIFEST files and write-ahead logs.

    file     = block*                                          of 32 KiB each, the last as it is
    block    = record* zero{0,6}
    record   = checksum(<I) length(<H) kind bytes(length)
    kind     = 1 whole | 2 first | 3 middle | 4 last           a part of what was written at once
    checksum = the CRC-32C of kind and bytes, rotated right by 15 bits, + a282ead8

RocksDB has more kinds, which Spark never turns on. It takes a file that is cut within its last
record for one that ends before that record, and hangs on some kinds of damage. So a file is checked
before RocksDB reads it. Mirrors `log::Reader` of RocksDB.
"""

import struct
from collections.abc import Iterator

import google_crc32c

from statemaint.errors import CodecError

_BLOCK = 32 * 1024
_HEADER = struct.Struct("<IHB")
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_ALONE = {False: (_WHOLE, _FIRST), True: (_MIDDLE, _LAST)}
_ROTATED, _ADDED, _WORD = 15, 0xA282EAD8, 0xFFFFFFFF


def check(content: bytes) -> None:
    within = False
    for offset, kind in _records(content):
        if kind not in _ALONE[within]:
            raise CodecError(f"record of kind {kind} is out of place", offset=offset)
        within = kind in (_FIRST, _MIDDLE)
    if within:
        raise CodecError("records end within one", offset=len(content))


def _records(content: bytes) -> Iterator[tuple[int, int]]:
    at = 0
    while at < len(content):
        room = _BLOCK - at % _BLOCK
        if room < _HEADER.size:
            if any(content[at : at + room]):
                raise CodecError("bytes after the last record of a block", offset=at)
            at += room
            continue
        kind, end = _record(content, at, at + room)
        yield at, kind
        at = end


def _record(content: bytes, at: int, most: int) -> tuple[int, int]:
    """Returns a record's kind and its end, which is at most the end of its block."""
    body = at + _HEADER.size
    if body > len(content):
        raise CodecError("record header cut short", offset=at)
    stored, length, kind = _HEADER.unpack_from(content, at)
    end = body + length
    if end > min(most, len(content)):
        raise CodecError(f"record of {length} bytes is cut short", offset=at)
    checksum = google_crc32c.value(content[body - 1 : end])
    rotated = checksum >> _ROTATED | checksum << (32 - _ROTATED) & _WORD
    if rotated + _ADDED & _WORD != stored:
        raise CodecError("record does not match its checksum", offset=at)
    return kind, end
