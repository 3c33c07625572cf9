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
State = dict[bytes, bytes]
Item = tuple[int, str]
"""A version and the unique id of an attempt at it."""

_INT = struct.Struct(">i")
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
    head = b"" if lineage is None else _head(lineage)
    return pack(head + b"".join(_record(*row) for row in rows) + _INT.pack(-1), codec)


def _head(lineage: Iterable[Item]) -> bytes:
    items = [{"version": version, "checkpointUniqueId": unique} for version, unique in lineage]
    text = json.dumps(items, separators=(",", ":")).encode()
    return b"\0\2v3" + struct.pack(">H", len(text)) + text


def _record(key: bytes, value: bytes | None) -> bytes:
    head = _INT.pack(len(key)) + key
    return head + (_INT.pack(-1) if value is None else _INT.pack(len(value)) + value)


@lru_cache(maxsize=1 << 15)
def decode(content: bytes, codec: str = "lz4") -> tuple[Row, ...]:
    """Returns the records of a file.

    Raises:
        UnreadableError: when it is cut or garbled.
    """
    try:
        payload = unpack(content, codec)
        return tuple(_rows(payload, _size_of_head(payload)))
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


def _size_of_head(payload: bytes) -> int:
    if payload[:4] != b"\0\2v3":
        return 0
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


def applied(state: State, rows: Iterable[Row]) -> State:
    """Returns what changes make of a state."""
    changed = dict(state)
    for key, value in rows:
        if value is None:
            changed.pop(key, None)
        else:
            changed[key] = value
    return changed
