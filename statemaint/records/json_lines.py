"""Files of JSON lines, which note actions before they happen."""

import json
from collections.abc import Iterator
from typing import Any, BinaryIO

from statemaint.errors import CodecError, NotFoundError
from statemaint.storage import Storage

_LONGEST_LINE = 1 << 26  # the world of a store of a million files


def read_lines(storage: Storage, path: str) -> list[dict[str, Any]]:
    """Returns the lines of a file, without one that a crash cut short; none if it is missing."""
    try:
        with storage.open(path) as stream:
            return [fields for _, fields in stored_lines(stream, path)]
    except NotFoundError:
        return []


def stored_lines(stream: BinaryIO, path: str) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Yields each whole line of a file, as it is stored and as its fields."""
    for line in iter(lambda: stream.readline(_LONGEST_LINE), b""):
        if len(line) == _LONGEST_LINE:
            detail = f"a line has more than {_LONGEST_LINE >> 20} MiB, more than any of our lines"
            raise CodecError(detail, offset=0, path=path)
        fields = _fields(line)
        if fields is not None:
            yield line.rstrip(b"\r\n"), fields


def _fields(line: bytes) -> dict[str, Any] | None:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None
