"""The changelogs of RocksDB stores, formats 1 to 4, inside the compression.

    payload = header record* end
    header  =                               format 1
            | UTF "v2"                      format 2: column families
            | UTF "v3" UTF lineage          format 3: unique ids
            | UTF "v4" UTF lineage          format 4: both
    lineage = [{"version":4,"checkpointUniqueId":"<id>"}, ...]
    record  = bytes(key) bytes(value)                   put            formats 1 and 3
            | bytes(key) -1(>i)                         delete
            | 1 bytes(key) bytes(value)                 put            formats 2 and 4
            | 16 bytes(key) -1(>i)                      delete
            | 17 bytes(key) bytes(operand)              merge
            | 32 bytes(first key) bytes(end key)        delete range, the end is not in it (4.3+)
    end     = -1(>i)        formats 1 and 3
            | 0             formats 2 and 4
    UTF     = length(>H) text               bytes(x) = length(>i) x

A lineage names the ids of the versions since the last snapshot, without the changelog's own
version. Keys and values are those of RocksDB, with the bytes that Spark puts around its rows.
Mirrors `StateStoreChangelogWriter` and `StateStoreChangelogReader`, V1 to V4: any negative value
length deletes in formats 1 and 3, only -1 in the others; and a first key of 161,328 to 161,337
bytes in format 1 looks like the header of another format, to Spark as well. `row_checksum` has the
grammar of row checksums.
"""

import json
import re
import struct
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter, lt
from typing import Any

from statemaint.codec.compression.base import Payload
from statemaint.codec.integrity import row_checksum
from statemaint.codec.metadata.logs import are_unique_ids, check_unique_id
from statemaint.errors import CodecError

Lineage = tuple[tuple[int, str], ...]
"""Version and unique id, in ascending order of versions."""

Change = tuple[int, bytes, bytes | None]
"""Kind, key, and: the value put, the operand merged, the range's end, `None` for a delete."""


PUT, DELETE, MERGE, DELETE_RANGE = 1, 16, 17, 32
"""The effect of a change on its key, as formats 2 and 4 store it."""

_INT, _SHORT, _KEY = struct.Struct(">i"), struct.Struct(">H"), struct.Struct(">Bi")
_END, _END_TAGGED = _INT.pack(-1), b"\0"
_KINDS = frozenset((PUT, DELETE, MERGE, DELETE_RANGE))
_ADDING, _FAMILY_SIZE = (PUT, MERGE), 2
_FORMATS = (1, 2, 3, 4)
_WITH_FAMILIES, _WITH_LINEAGE = (2, 4), (3, 4)
_VERSION = re.compile(rb"\x00\x02v([0-9])", re.DOTALL)
_VERSION_SIZE = 4
_LONGEST_TEXT = 0xFFFF
_ENTRY = itemgetter("version", "checkpointUniqueId")
_BUFFER = 64 * 1024
_CHUNK = 64 * 1024


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a changelog; the lineage is empty in formats 1 and 2 and for version 1."""

    format: int
    lineage: Lineage = ()

    @property
    def column_families(self) -> bool:
        return self.format in _WITH_FAMILIES

    def must_be_like(self, zip_path: str, *, column_families: bool) -> None:
        """Raises `CodecError` unless both this and a zip of the store have families, or neither."""
        if self.column_families != column_families:
            has, zips = ("none", "some") if column_families else ("some", "none")
            text = f"it has {has} of the column families, {zip_path} has {zips}"
            raise CodecError(text, offset=0)


def read_header(chunks: Iterable[bytes]) -> Header:
    """Returns the header of a payload; takes no more pieces of it than necessary."""
    return _header(Payload(chunks))


def decode(
    chunks: Iterable[bytes], *, row_checksums: bool = False
) -> tuple[Header, Iterator[Change]]:
    """Returns the header of a payload that arrives in pieces, and an iterator of its changes.

    Row checksums are all checked; a value keeps its checksum, the key of a delete and the end of a
    range come bare. The offset of a `CodecError` counts in the uncompressed payload; the iterator
    raises it, too.
    """
    payload = Payload(chunks)
    header = _header(payload)
    batches = _batches(payload, header, row_checksums=row_checksums)
    return header, chain.from_iterable(batches)


def families_used(header: Header, changes: Iterable[Change]) -> frozenset[int]:
    """Returns the numbers of the column families that changes put or merge into; reads them all.

    Spark counts the keys of each family while it replays a changelog, and fails at the first new
    key of a family without a name. Removals of absent keys are not counted.
    """
    if not header.column_families:
        deque(changes, maxlen=0)
        return frozenset()
    prefixes = {key[:_FAMILY_SIZE] for kind, key, _ in changes if kind in _ADDING}
    return frozenset(int.from_bytes(prefix, "little", signed=True) for prefix in prefixes)


def _fill(payload: Payload, need: int, wish: int = 0) -> None:
    if (have := payload.fill(need, wish)) < need:
        text = f"changelog ends early: {have} of {need} bytes"
        raise CodecError(text, offset=payload.passed + have)


# -- header


def _header(payload: Payload) -> Header:
    _fill(payload, _VERSION_SIZE)
    match = _VERSION.match(payload.buffer)
    number = int(match[1]) if match else 1
    if number not in _FORMATS:
        raise CodecError(f"changelog format v{number} is not known", offset=0)
    if number > 1:
        payload.at = _VERSION_SIZE
    return Header(number, _lineage(payload) if number in _WITH_LINEAGE else ())


def _lineage(payload: Payload) -> Lineage:
    start = payload.offset
    _fill(payload, _SHORT.size)
    (size,) = _SHORT.unpack_from(payload.buffer)
    payload.at = _SHORT.size
    _fill(payload, size)
    text, payload.at = payload.buffer[:size], size
    try:
        items = json.loads(text.decode())
        if not isinstance(items, list):
            raise CodecError("lineage is not a list", offset=start)
        lineage = tuple(map(_ENTRY, items))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CodecError(f"lineage cannot be read: {error!r}", offset=start) from error
    _check_lineage(lineage, start)
    return lineage


def _check_lineage(lineage: tuple[tuple[Any, Any], ...], offset: int) -> None:
    """Refuses an invalid lineage; fast, as each changelog has one as long as the log itself."""
    if not lineage or _can_be(*zip(*lineage, strict=True)):
        return
    last = 0
    for version, unique_id in lineage:  # pragma: no branch -- one of them is wrong
        if type(version) is not int or not last < version < 1 << 63:
            text = f"lineage has version {str(version)[:20]} after {last}"
            raise CodecError(text, offset=offset)
        check_unique_id(unique_id, offset)
        last = version


def _can_be(versions: tuple[Any, ...], ids: tuple[Any, ...]) -> bool:
    return (
        {*map(type, versions)} == {int}
        and {*map(type, ids)} == {str}
        and versions[0] > 0
        and versions[-1] < 1 << 63
        and all(map(lt, versions, versions[1:]))
        and are_unique_ids(ids)
    )


# -- records


def _batches(
    payload: Payload, header: Header, *, row_checksums: bool
) -> Iterator[Iterable[Change]]:
    """Yields the changes of one buffer at a time: a list loop costs half as much as a generator."""
    tagged = header.column_families
    take = _take_tagged if tagged else _take_plain
    need = 1
    while need:
        _fill(payload, need, _BUFFER)
        changes: list[Change] = []
        end, need = take(payload.buffer, payload.passed, changes)
        yield _verified(changes, payload.passed, tagged=tagged) if row_checksums else changes
        payload.at = end
    if payload.has_more():
        raise CodecError("bytes follow the end of the changelog", offset=payload.offset)


def _verified(changes: list[Change], start: int, *, tagged: bool) -> Iterator[Change]:
    """Yields verified changes, as before sealing; the first of them begins at `start`."""
    for change in changes:
        kind, key, value = change
        if value is None:
            yield kind, row_checksum.bare_key(key, offset=start), None
        elif kind == DELETE_RANGE:
            yield kind, key, row_checksum.bare_row(key, value, offset=start)
        else:
            row_checksum.check_rows(key, value, offset=start)
            yield change
        start += 2 * _INT.size + tagged + len(key) + len(value or b"")


def _take_plain(buffer: bytes, start: int, changes: list[Change]) -> tuple[int, int]:
    """Adds the whole changes of a buffer, in formats 1 and 3.

    Returns the start of the first incomplete change, and the least number of bytes that it takes;
    0 after the end of the records.
    """
    at, size = 0, len(buffer)
    last = size - _INT.size  # the last place where a length can begin
    length, add = _INT.unpack_from, changes.append
    while at <= last:
        key = at + 4
        middle = key + length(buffer, at)[0]
        if middle < key:
            if middle - key != -1:
                raise CodecError(f"key size cannot be {middle - key}", offset=start + at)
            return key, 0
        if middle > last:
            return at, middle + 4 - at
        value = middle + 4
        end = value + length(buffer, middle)[0]
        if end > size:
            return at, end - at
        if end < value:
            add((DELETE, buffer[key:middle], None))
            at = value
        else:
            add((PUT, buffer[key:middle], buffer[value:end]))
            at = end
    return at, 4


def _take_tagged(buffer: bytes, start: int, changes: list[Change]) -> tuple[int, int]:
    """Adds the whole changes of a buffer, in formats 2 and 4; otherwise like `_take_plain`."""
    at, size = 0, len(buffer)
    last = size - _INT.size
    head, length, add = _KEY.unpack_from, _INT.unpack_from, changes.append
    while at < last:
        kind, count = head(buffer, at)
        key = at + 5
        middle = key + count
        if kind not in _KINDS or middle < key:
            _check_end_tagged(kind, count, start + at)
            return at + 1, 0
        if middle > last:
            return at, middle + 4 - at
        value = middle + 4
        end = value + length(buffer, middle)[0]
        if end > size:
            return at, end - at
        if kind != DELETE and end >= value:
            add((kind, buffer[key:middle], buffer[value:end]))
            at = end
        else:
            _check_delete(kind, end - value, start + middle)
            add((DELETE, buffer[key:middle], None))
            at = value
    return (at + 1, 0) if buffer[at : at + 1] == _END_TAGGED else (at, 5)


def _check_end_tagged(kind: int, length: int, offset: int) -> None:
    if kind in _KINDS:
        raise CodecError(f"key size cannot be {length}", offset=offset)
    if kind:
        raise CodecError(f"change of unknown kind {kind}", offset=offset)


def _check_delete(kind: int, length: int, offset: int) -> None:
    if kind != DELETE or length != -1:
        raise CodecError(f"value size of a change of kind {kind} cannot be {length}", offset=offset)


# -- writing


def encode(
    header: Header, changes: Iterable[Change], *, row_checksums: bool = False
) -> Iterator[bytes]:
    """Yields the payload of some changes in pieces of about 64 KiB.

    Row checksums are added here to changes without them, whose values are one row each. It is a
    `ValueError` if the format has no place for the lineage or for a change.
    """
    pending = bytearray(_encode_header(header))
    for change in map(_sealed, changes) if row_checksums else changes:
        pending += _encode_change(change, tagged=header.column_families)
        if len(pending) >= _CHUNK:
            yield bytes(pending)
            pending.clear()
    yield bytes(pending) + (_END_TAGGED if header.column_families else _END)


def _sealed(change: Change) -> Change:
    kind, key, value = change
    if value is None:
        return kind, row_checksum.seal_key(key), None
    return kind, key, row_checksum.seal_row(key, value)


def _encode_header(header: Header) -> bytes:
    if header.format not in _FORMATS or (header.lineage and header.format not in _WITH_LINEAGE):
        raise ValueError(f"no changelog can have the header {header}")
    if header.format == 1:
        return b""
    version = _utf(f"v{header.format}")
    if header.format not in _WITH_LINEAGE:
        return version
    items = [{"version": version, "checkpointUniqueId": name} for version, name in header.lineage]
    return version + _utf(json.dumps(items, separators=(",", ":")))


def _utf(text: str) -> bytes:
    content = text.encode()
    if len(content) > _LONGEST_TEXT:
        raise ValueError(f"no header can have a text of {len(content)} bytes")
    return _SHORT.pack(len(content)) + content


def _encode_change(change: Change, *, tagged: bool) -> bytes:
    kind, key, value = change
    kinds = _KINDS if tagged else (PUT, DELETE)
    if kind not in kinds or (value is None) != (kind == DELETE):
        raise ValueError(f"no changelog of this format can have a change of kind {kind}: {change}")
    head = _KEY.pack(kind, len(key)) if tagged else _INT.pack(len(key))
    return head + key + (_END if value is None else _INT.pack(len(value)) + value)
