"""The state schema file under partition 0 of an operator, formats v1 and v2.

    v1 = UTF "v1"  UTF keySchemaJson      UTF valueSchemaJson
    v2 = UTF "v2"  chunked keySchemaJson  chunked valueSchemaJson
    UTF = length(>H) bytes         as Java's DataOutput.writeUTF
    chunked = count(>i) UTF*

Mirrors `SchemaHelper.SchemaWriter` in Spark's `StateSchemaCompatibilityChecker`.
"""

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from statemaint.errors import CodecError

_SHORT = struct.Struct(">H")
_INT = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class StateSchema:
    """Key and value schema of a store, as Spark's own JSON types."""

    format: int
    key: dict[str, Any]
    value: dict[str, Any]


def parse_schema(content: bytes) -> StateSchema:
    """Returns the schema of a store.

    Raises:
        CodecError: on an unknown format, a length beyond the file, bytes left over, or no JSON.
    """
    reader = _Reader(content)
    version = reader.utf()
    readers: dict[str, Callable[[], str]] = {"v1": reader.utf, "v2": reader.chunked}
    if version not in readers:
        raise CodecError(f"state schema of unknown format {version[:8]!r}", offset=0)
    key, value = readers[version](), readers[version]()
    if reader.offset != len(content):
        raise CodecError("bytes follow the state schema", offset=reader.offset)
    return StateSchema(int(version[1:]), _struct(key), _struct(value))


class _Reader:
    __slots__ = ("_content", "offset")

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.offset = 0

    def utf(self) -> str:
        text = self._take(_SHORT.unpack(self._take(_SHORT.size))[0])
        try:
            return text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise CodecError("text that is not UTF-8", offset=self.offset) from error

    def chunked(self) -> str:
        count = _INT.unpack(self._take(_INT.size))[0]
        # Every chunk takes two bytes at least, so a wild count ends at the end of the file.
        return "".join(self.utf() for _ in range(count))

    def _take(self, count: int) -> bytes:
        taken = self._content[self.offset : self.offset + count]
        if len(taken) != count:
            raise CodecError(f"schema cut short: {len(taken)} of {count}", offset=self.offset)
        self.offset += count
        return taken


def _struct(text: str) -> dict[str, Any]:
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CodecError(f"schema is not JSON: {error}", offset=0) from error
    if not isinstance(schema, dict) or schema.get("type") != "struct":
        raise CodecError("schema is not a struct", offset=0)
    return schema
