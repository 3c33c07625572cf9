"""State files as Spark writes and reads them, written anew: nothing here is of `statemaint`.

A certificate that loaded with the code under test would believe its mistakes.
"""

import json
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import google_crc32c

from tests.certify.codecs import BROKEN, pack, unpack

Row = tuple[bytes, bytes | None]
Tagged = tuple[int, bytes, bytes | None]
"""A change in a store with column families: its kind, its key, and its value or a range's end."""
State = dict[bytes, bytes]
Item = tuple[int, str]
"""A version and the unique id of an attempt at it."""

PUT, DELETE, MERGE, DELETE_RANGE = 1, 16, 17, 32
_INT, _FAMILY = struct.Struct(">i"), struct.Struct("<h")
_HEAD = re.compile(rb"\x00\x02v([234])", re.DOTALL)
_TAGGED = (2, 4)
_ID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_SPOT = re.compile(
    rf"(?P<trash>_statemaint/trash/[^/]+/)?(?P<store>state/\d+/\d+(?:/[a-z][a-z-]*)?)/"
    rf"(?P<version>\d+)(?:_(?P<id>{_ID}))?\.(?P<kind>delta|snapshot|changelog|zip)"
)
_KINDS = {"changelog": "delta", "zip": "snapshot"}


class UnreadableError(Exception):
    """Spark could not load this file."""


@dataclass(frozen=True, slots=True)
class Spot:
    """What a state file's path says.

    Attributes:
        store: the store's directory.
        version: which.
        id: of the attempt, where versions have unique ids.
        kind: `delta` for changes, `snapshot` for whole states, whatever the provider calls them.
        trashed: whether it lies in a run's trash.
    """

    store: str
    version: int
    id: str | None
    kind: str
    trashed: bool


@lru_cache(maxsize=1 << 16)
def spot(path: str) -> Spot | None:
    """Returns what a path says; `None` for all that is neither changes nor a state."""
    found = _SPOT.fullmatch(path)
    if found is None:
        return None
    kind = _KINDS.get(found["kind"], found["kind"])
    return Spot(found["store"], int(found["version"]), found["id"], kind, bool(found["trash"]))


def split(name: str) -> tuple[int, str] | None:
    """Returns version and kind of a file as `fetchFiles` sees it; `None` for all that it skips."""
    stem, dot, kind = name.partition(".")
    if dot and kind in ("delta", "snapshot") and stem.isdecimal():
        return int(stem), kind
    return None


def encode(rows: Iterable[Row], codec: str = "lz4", lineage: Iterable[Item] | None = None) -> bytes:
    """Returns changes (`None` removes) or a whole state, as Spark would write them.

    Args:
        rows: in their order.
        codec: the query's.
        lineage: what comes before, in a changelog of a store with unique ids.
    """
    head = b"" if lineage is None else b"\0\2v3" + _lineage(lineage)
    return pack(head + b"".join(_record(*row) for row in rows) + _INT.pack(-1), codec)


def encode_tagged(
    rows: Iterable[Tagged], codec: str = "lz4", lineage: Iterable[Item] | None = None
) -> bytes:
    """Returns the changelog of a store with column families; arguments as of `encode`."""
    head = b"\0\2v2" if lineage is None else b"\0\2v4" + _lineage(lineage)
    records = (bytes((kind,)) + _record(key, value) for kind, key, value in rows)
    return pack(head + b"".join(records) + b"\0", codec)


def _lineage(lineage: Iterable[Item]) -> bytes:
    items = [{"version": version, "checkpointUniqueId": unique} for version, unique in lineage]
    text = json.dumps(items, separators=(",", ":")).encode()
    return struct.pack(">H", len(text)) + text


def _record(key: bytes, value: bytes | None) -> bytes:
    head = _INT.pack(len(key)) + key
    return head + (_INT.pack(-1) if value is None else _INT.pack(len(value)) + value)


@lru_cache(maxsize=1 << 15)
def decode(content: bytes, codec: str = "lz4") -> tuple[Row | Tagged, ...]:
    """Returns the records of a file.

    Raises:
        UnreadableError: when it is cut or garbled.
    """
    try:
        payload = unpack(content, codec)
        tagged = _format(payload) in _TAGGED
        return tuple((_tagged if tagged else _rows)(payload, _size_of_head(payload)))
    except BROKEN as error:
        raise UnreadableError(str(error)) from error


@lru_cache(maxsize=1 << 15)
def lineage_of(content: bytes, codec: str = "lz4") -> tuple[Item, ...]:
    """Returns what a changelog says comes before it.

    Raises:
        UnreadableError: when it is cut or garbled.
    """
    try:
        payload = unpack(content, codec)
        text = payload[6 : _size_of_head(payload)] or b"[]"
        return tuple((one["version"], one["checkpointUniqueId"]) for one in json.loads(text))
    except BROKEN as error:
        raise UnreadableError(str(error)) from error


def _format(payload: bytes) -> int:
    found = _HEAD.match(payload)
    return int(found[1]) if found else 1


def _size_of_head(payload: bytes) -> int:
    number = _format(payload)
    if number <= 2:
        return 4 * (number - 1)
    size: int = struct.unpack_from(">H", payload, 4)[0]
    return 6 + size


def _rows(payload: bytes, at: int) -> Iterator[Row]:
    while (length := _INT.unpack_from(payload, at)[0]) != -1:
        at += 4
        key = payload[at : at + length]
        at += length
        size = _INT.unpack_from(payload, at)[0]
        at += 4
        yield key, (None if size < 0 else payload[at : at + size])
        at += max(0, size)


def _tagged(payload: bytes, at: int) -> Iterator[Tagged]:
    while kind := payload[at]:
        if kind not in (PUT, DELETE, MERGE, DELETE_RANGE):
            raise ValueError(kind)
        at += 1
        length = _INT.unpack_from(payload, at)[0]
        at += 4
        key = payload[at : at + length]
        at += length
        size = _INT.unpack_from(payload, at)[0]
        at += 4
        yield kind, key, (None if size < 0 else payload[at : at + size])
        at += max(0, size)


def spark_checksum(content: bytes) -> bytes:
    """Returns the `NAME.crc` that Spark 4.1 writes beside a file."""
    value = _crc32c(content)
    fields = {"algorithm": "CRC32C", "value": value, "mainFileSize": len(content), "timestampMs": 0}
    return json.dumps(fields, separators=(",", ":")).encode()


def _crc32c(content: bytes) -> int:
    value: int = google_crc32c.value(content)
    return value - (1 << 32) if value >= 1 << 31 else value


@lru_cache(maxsize=4096)
def fits(checksum: bytes, content: bytes) -> bool:
    """Returns whether Spark would accept a file with this checksum beside it."""
    try:
        found: dict[str, Any] = json.loads(checksum)
        return (found["value"], found["mainFileSize"]) == (_crc32c(content), len(content))
    except (ValueError, KeyError):
        return False


def applied(state: State, rows: Iterable[Row | Tagged]) -> State:
    """Returns what changes make of a state."""
    changed = dict(state)
    for row in rows:
        _apply(changed, *_kind(row))
    return changed


def replayed(state: State, rows: Iterable[Row | Tagged], families: frozenset[int]) -> State | None:
    """Returns what Spark makes of a state with column families; `None` where its load fails.

    It counts rows by family: `RocksDB.handleMetricsUpdate` looks up the family of each row that
    appears or disappears, and a number that no zip has named is a NullPointerException there. A
    row that is replaced, the removal of an absent row, and a range are never looked up.
    """
    changed = dict(state)
    for row in rows:
        kind, key, value = _kind(row)
        counted = kind != DELETE_RANGE and (key in changed) == (kind == DELETE)
        if counted and family_of(key) not in families:
            return None
        _apply(changed, kind, key, value)
    return changed


def _kind(row: Row | Tagged) -> Tagged:
    if len(row) == 3:
        return row
    return DELETE if row[1] is None else PUT, *row


def _apply(state: State, kind: int, key: bytes, value: bytes | None) -> None:
    if kind == DELETE_RANGE and value is not None:
        for one in [one for one in state if key <= one < value]:
            del state[one]
    elif kind == MERGE and value is not None:
        state[key] = state.get(key, b"") + value
    elif value is None:
        state.pop(key, None)
    else:
        state[key] = value


def family_of(key: bytes) -> int | None:
    """Returns the number of the column family that a key begins with."""
    found: int | None = _FAMILY.unpack_from(key)[0] if len(key) >= _FAMILY.size else None
    return found


def with_family(number: int, key: bytes) -> bytes:
    """Returns a key of a column family, as RocksDB has it: the rest is one byte and the row."""
    return _FAMILY.pack(number) + b"\0" + key
