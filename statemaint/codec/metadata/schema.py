"""The schema files of an operator's stores: formats v1 and v2 under partition 0, and v3.

    v1      = UTF "v1"  UTF keySchema      UTF valueSchema          all schemas are JSON
    v2      = UTF "v2"  chunked keySchema  chunked valueSchema
    v3      = UTF "v3"  count(>i) family*                           one of each column family
    family  = UTF name  keySchemaId(>h) chunked keySchema  valueSchemaId(>h) chunked valueSchema
              chunked encoderSpec  chunked (userKeySchema | "{    }")
    UTF     = length(>H) bytes             as Java's DataOutput.writeUTF
    chunked = count(>i) UTF*

Format 3 is stored in `_stateSchema/<store>/<batch>_<uuid>` and written for stores with column
families. Java writes a character beyond U+FFFF as two halves of three bytes, which may be split
between two chunks. Mirrors `SchemaHelper.SchemaWriter` in Spark's
`StateSchemaCompatibilityChecker`.
"""

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from statemaint.errors import CodecError

_SHORT = struct.Struct(">H")
_ID = struct.Struct(">h")
_INT = struct.Struct(">i")
_NO_USER_KEY = "{    }"


@dataclass(frozen=True, slots=True)
class StateSchema:
    """Key and value schema of a store, as Spark's own JSON types."""

    format: int
    key: dict[str, Any]
    value: dict[str, Any]

    @property
    def has_key(self) -> bool:
        """Returns whether rows have a key: those of a global aggregation and of `limit` do not."""
        fields = self.key.get("fields")
        columns = fields if isinstance(fields, list) else [fields]
        return any(
            not isinstance(column, dict) or column.get("type") != "void" for column in columns
        )


@dataclass(frozen=True, slots=True)
class ColumnFamily:
    """Schemas of one column family, as Spark's own JSON types."""

    name: str  # not a store's, and not part of a path
    key: dict[str, Any]
    value: dict[str, Any]
    encoder: str  # the JSON text of a `KeyStateEncoderSpec`


def parse_schema(content: bytes) -> StateSchema:
    reader = _Reader(content)
    version = reader.utf()
    readers: dict[str, Callable[[], str]] = {"v1": reader.utf, "v2": reader.chunked}
    if version not in readers:
        raise CodecError(f"state schema of unknown format {version[:8]!r}", offset=0)
    key, value = readers[version](), readers[version]()
    reader.finish()
    return StateSchema(int(version[1:]), _struct(key), _struct(value))


def parse_families(content: bytes) -> tuple[ColumnFamily, ...]:
    reader = _Reader(content)
    if (version := reader.utf()) != "v3":
        text = f"state schema of unknown format {version[:8]!r}, not of column families"
        raise CodecError(text, offset=0)
    families = tuple(_family(reader) for _ in range(reader.number(_INT)))
    reader.finish()
    return families


def _family(reader: "_Reader") -> ColumnFamily:
    name = reader.utf()
    reader.number(_ID)
    key = _struct(reader.chunked())
    reader.number(_ID)
    value = _struct(reader.chunked())
    encoder, user_key = reader.chunked(), reader.chunked()
    _json(encoder)
    if user_key != _NO_USER_KEY:
        _struct(user_key)
    return ColumnFamily(name, key, value, encoder)


class _Reader:
    __slots__ = ("_content", "offset")

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.offset = 0

    def utf(self) -> str:
        return self._whole(self._part())

    def chunked(self) -> str:
        count = self.number(_INT)
        # Every chunk takes at least two bytes, so a wrong count ends at the end of the file.
        return self._whole("".join(self._part() for _ in range(count)))

    def number(self, kind: struct.Struct) -> int:
        return int(*kind.unpack(self._take(kind.size)))

    def finish(self) -> None:
        if self.offset != len(self._content):
            raise CodecError("bytes follow the state schema", offset=self.offset)

    def _part(self) -> str:
        """Returns a text that may still contain halves of characters."""
        text = self._take(self.number(_SHORT))
        try:
            return text.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise CodecError("text that is not UTF-8", offset=self.offset) from error

    def _whole(self, text: str) -> str:
        try:
            return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError as error:
            raise CodecError("text with half a character", offset=self.offset) from error

    def _take(self, count: int) -> bytes:
        taken = self._content[self.offset : self.offset + count]
        if len(taken) != count:
            raise CodecError(f"schema cut short: {len(taken)} of {count}", offset=self.offset)
        self.offset += count
        return taken


def _struct(text: str) -> dict[str, Any]:
    schema = _json(text)
    if not isinstance(schema, dict) or schema.get("type") != "struct":
        raise CodecError("schema is not a struct", offset=0)
    return schema


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CodecError(f"schema is not JSON: {error}", offset=0) from error
