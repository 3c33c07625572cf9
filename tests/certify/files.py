"""State files as Spark writes and loads them, written anew: nothing here is of `statemaint`.

A certificate that loaded with the code under test would believe its mistakes.
"""

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import google_crc32c
import lz4.block
import xxhash

Row = tuple[bytes, bytes | None]
State = dict[bytes, bytes]

_HEADER = struct.Struct("<8sBiii")
_INT = struct.Struct(">i")
_SEED, _MASK = 0x9747B28C, 0x0FFFFFFF
_RAW, _LZ4 = 0x15, 0x25
_END = _HEADER.pack(b"LZ4Block", _RAW, 0, 0, 0)


class UnreadableError(Exception):
    """Spark could not load this file."""


def encode(rows: Iterable[Row]) -> bytes:
    """Returns a delta (`None` removes) or a snapshot, as lz4-java would write it."""
    payload = b"".join(_record(key, value) for key, value in rows) + _INT.pack(-1)
    packed = lz4.block.compress(payload, store_size=False)
    method, body = (_LZ4, packed) if len(packed) < len(payload) else (_RAW, payload)
    check = xxhash.xxh32_intdigest(payload, _SEED) & _MASK
    return _HEADER.pack(b"LZ4Block", method, len(body), len(payload), check) + body + _END


def _record(key: bytes, value: bytes | None) -> bytes:
    head = _INT.pack(len(key)) + key
    return head + (_INT.pack(-1) if value is None else _INT.pack(len(value)) + value)


@lru_cache(maxsize=4096)
def decode(content: bytes) -> tuple[Row, ...]:
    """Returns the records of a file.

    Raises:
        UnreadableError: when it is cut or garbled.
    """
    try:
        return tuple(_rows(b"".join(_blocks(content))))
    except (struct.error, ValueError, lz4.block.LZ4BlockError) as error:
        raise UnreadableError(str(error)) from error


def _blocks(content: bytes) -> Iterator[bytes]:
    at = 0
    while True:
        magic, method, stored, size, check = _HEADER.unpack_from(content, at)
        if magic != b"LZ4Block":
            raise ValueError("no block")
        if not size:
            return
        at += _HEADER.size
        body = content[at : at + stored]
        raw = method & 0xF0 == _RAW & 0xF0
        payload: bytes = body if raw else lz4.block.decompress(body, uncompressed_size=size)
        if xxhash.xxh32_intdigest(payload, _SEED) & _MASK != check:
            raise ValueError("checksum")
        yield payload
        at += stored


def _rows(payload: bytes) -> Iterator[Row]:
    at = 0
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
    """Tells whether Spark would accept a file with this checksum beside it."""
    found: dict[str, Any] = json.loads(checksum)
    return (found["value"], found["mainFileSize"]) == (_crc32c(content), len(content))


def split(name: str) -> tuple[int, str] | None:
    """Returns version and kind of a file as `fetchFiles` sees it; `None` for all that it skips."""
    stem, dot, kind = name.partition(".")
    if dot and kind in ("delta", "snapshot") and stem.isdecimal():
        return int(stem), kind
    return None


def load_all(store: Mapping[str, bytes]) -> dict[int, State]:
    """Returns every version that Spark could load from a store's files, by name.

    Version v: the newest snapshot at or below it, then each delta up to it. One pass gives all of
    them, since v begins where v - 1 does unless it has a snapshot.
    """
    return _pass(store, frozenset())


def load_without(store: Mapping[str, bytes], untrue: frozenset[str]) -> dict[int, State]:
    """Returns every version that could be rebuilt if some snapshots were moved away."""
    return _pass(store, untrue)


def _pass(store: Mapping[str, bytes], without: frozenset[str]) -> dict[int, State]:
    kinds: dict[int, set[str]] = {}
    for name in store:
        if name not in without and (found := split(name)):
            kinds.setdefault(found[0], set()).add(found[1])
    loaded: dict[int, State] = {}
    state: State | None = {}
    before = 0
    for version in sorted(kinds):
        state = state if version == before + 1 else None
        if "snapshot" in kinds[version]:
            state = _applied(store, f"{version}.snapshot", {})
        elif state is not None:
            state = _applied(store, f"{version}.delta", state)
        if state is not None:
            loaded[version] = state
        before = version
    return loaded


def _applied(store: Mapping[str, bytes], name: str, state: State) -> State | None:
    beside = store.get(f"{name}.crc")
    if beside is not None and not fits(beside, store[name]):
        return None
    try:
        rows = decode(store[name])
    except UnreadableError:
        return None
    changed = dict(state)
    for key, value in rows:
        if value is None:
            changed.pop(key, None)
        else:
            changed[key] = value
    return changed
