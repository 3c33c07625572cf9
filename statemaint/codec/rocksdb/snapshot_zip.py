"""The `<version>.zip` of a RocksDB store: its small files, and a list of the large ones.

    zip       = CURRENT, IDENTITY, MANIFEST-<n>, OPTIONS-<n>, <n>.log, metadata   each once at most
    metadata  = format newline {"sstFiles":[file, ..], "logFiles":[log, ..], "numKeys":n, families}
    format    = "v1"; Spark 4.0 also writes "v2", and then reads no other
    file      = {"localFileName":"000008.sst","dfsSstFileName":"000008-<uuid>.sst","sizeBytes":n}
    log       = {"localFileName":"000009.log","dfsLogFileName":"000009-<uuid>.log","sizeBytes":n}
    families  = "numInternalKeys":n, "columnFamilyMapping":{name: number},
                "columnFamilyTypeMap":{name: is internal}, "maxColumnFamilyId":n     Spark 4.0+

The SST files are in `SSTs/` and archived logs in `logs/` beside the zip; many zips often name the
same file. An empty list of logs is left out. Mirrors `RocksDBCheckpointMetadata` and
`RocksDBFileManager.zipToDfsFile`. Spark ignores unknown fields; here an unknown field with a list
or a map is refused, because it may name files that the snapshot needs.
"""

import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any, TypeVar

from statemaint.errors import CodecError

METADATA = "metadata"
"""The member that lists the files outside the zip."""

_Value = TypeVar("_Value")

_MEMBER = re.compile(r"CURRENT|IDENTITY|metadata|(?:MANIFEST|OPTIONS)-[0-9]{1,20}|[0-9]{1,20}\.log")
_LARGE = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,200}\.(?:sst|log)")
PLAIN_FORMAT = "v1"
"""The format that every Spark reads, but for Spark 4.0 with unique ids: that one has "v2"."""
_FORMATS = (PLAIN_FORMAT, "v2")
_FIELDS = ("sstFiles", "logFiles", "numKeys")
_FAMILY_FIELDS = (
    "numInternalKeys",
    "columnFamilyMapping",
    "columnFamilyTypeMap",
    "maxColumnFamilyId",
)
_MARK = b"made by statemaint"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_MOST_MEMBERS = 1000
_MOST_BYTES = 64 * 1024 * 1024
_MOST_METADATA = 4 * 1024 * 1024  # 30,000 files
_MOST_PER_BYTE = 1032  # what DEFLATE can expand to
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 1
_SUMS_FOLLOW = 8
# After the signature: version, flags, method, time and date, CRC, two sizes, two lengths.
_LOCAL = struct.Struct("<HHHIIIIHH")
_LOCAL_SIZE = 4 + _LOCAL.size
_SUMS = struct.Struct("<4sIII")
_SUMS_SIGNATURE = b"PK\x07\x08"
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    ValueError,
    RuntimeError,
    OSError,
    EOFError,
    LookupError,
    OverflowError,
)


class ZipShape(Enum):
    """The set of fields in the metadata."""

    PLAIN = "3.5"
    FAMILIES = "4.0"


@dataclass(frozen=True, slots=True)
class ImmutableFile:
    """A file beside the zip that belongs to the snapshot; Spark refuses one of another size."""

    local: str
    stored: str
    size: int


@dataclass(frozen=True, slots=True)
class ZipMetadata:
    """The `metadata` of a zip.

    Attributes:
        keys: the number of keys outside internal families; Spark counts them when it is negative.
        families: the number of each column family, by name.
        internal: whether each column family is internal, by name.
        last_family: the highest number that a column family ever had.
        shape: the set of fields that are written.
        format: the word in its first line. Spark 4.0 reads only that of the sessions'
            `checkpointFormatVersion` when its JVM first needed it; the others read "v1".
    """

    ssts: tuple[ImmutableFile, ...]
    logs: tuple[ImmutableFile, ...] = ()
    keys: int = 0
    internal_keys: int = 0
    families: Mapping[str, int] = field(default_factory=dict)
    internal: Mapping[str, bool] = field(default_factory=dict)
    last_family: int = 0
    shape: ZipShape = ZipShape.FAMILIES
    format: str = PLAIN_FORMAT


def parse_metadata(content: bytes) -> ZipMetadata:
    """Unpacks nothing else of the zip."""
    return metadata_of(_unpack(content, only=METADATA))


def metadata_of(members: Mapping[str, bytes]) -> ZipMetadata:
    content = members.get(METADATA)
    if content is None:
        raise CodecError("no metadata in the zip", offset=0)
    word, _, rest = content.partition(b"\n")
    formats = [name for name in _FORMATS if name.encode() == word]
    if not formats:
        raise CodecError(f"zip metadata of unknown format {word[:8]!r}", offset=0)
    try:
        fields = json.loads(rest.decode())
    except (ValueError, RecursionError) as error:
        raise CodecError(f"zip metadata is not JSON: {error}", offset=0) from error
    if not isinstance(fields, dict):
        raise CodecError("zip metadata is not a JSON object", offset=0)
    for name, value in fields.items():
        if name not in _FIELDS + _FAMILY_FIELDS and isinstance(value, list | dict) and value:
            raise CodecError(f"zip metadata has an unknown field {name[:80]!r}", offset=0)
    return _metadata(fields, formats[0])


def members(content: bytes) -> Mapping[str, bytes]:
    """Returns every member of a zip by its name, including `metadata`."""
    return MappingProxyType(_unpack(content))


def render(members: Mapping[str, bytes], metadata: ZipMetadata, *, mark: bool = False) -> bytes:
    """Returns the zip of some members, with the given metadata in place of any among them.

    The same arguments give the same bytes. With the mark, `marked` tells it from Spark's own zips.
    """
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in sorted(members.items()):
            if name != METADATA:
                archive.writestr(_entry(name), content)
        archive.writestr(_entry(METADATA), _render(metadata))
        if mark:
            archive.comment = _MARK
    return target.getvalue()


def marked(content: bytes) -> bool:
    """Returns whether we made a zip; Spark reads the entries and never the comment."""
    return content.endswith(_MARK)


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(_member(name), _EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 0  # the value that Java writes, on every machine
    return entry


# -- the archive


def _unpack(content: bytes, only: str | None = None) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = _checked(archive.infolist())
            wanted = (entry for entry in entries if only in (None, entry.filename))
            unpacked = {entry.filename: _content(archive, entry) for entry in wanted}
            for entry in entries:
                _check_local(content, entry)
            return unpacked
    except _BROKEN as error:
        raise CodecError(f"not a sound zip: {error!r}"[:300], offset=0) from error


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    content = archive.read(entry)
    if len(content) != entry.file_size:
        text = f"member of {len(content)} bytes instead of {entry.file_size}"
        raise CodecError(text, offset=entry.header_offset)
    return content


def _checked(entries: list[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
    names = {_member(entry.filename) for entry in entries}
    if len(names) != len(entries) or len(entries) > _MOST_MEMBERS:
        raise CodecError(f"zip of {len(entries)} members, {len(names)} of them distinct", offset=0)
    for entry in entries:
        _check_entry(entry)
    if sum(entry.file_size for entry in entries) > _MOST_BYTES:
        raise CodecError("zip expands to more than a snapshot's small files", offset=0)
    return entries


def _check_entry(entry: zipfile.ZipInfo) -> None:
    where = entry.header_offset
    if entry.compress_type not in _METHODS or entry.flag_bits & _ENCRYPTED:
        raise CodecError(f"member {entry.filename} is packed in an unknown way", offset=where)
    most = _MOST_METADATA if entry.filename == METADATA else _MOST_BYTES
    if entry.file_size > min(most, entry.compress_size * _MOST_PER_BYTE):
        text = f"member of {entry.compress_size} bytes cannot hold {entry.file_size}"
        raise CodecError(text, offset=where)


def _check_local(content: bytes, entry: zipfile.ZipInfo) -> None:
    """Compares a member's own header with the zip's directory.

    Java reads a zip from its beginning, by these headers; Python reads the directory at its end.
    """
    where = entry.header_offset
    _, flags, method, _, *sums, length, extra = _LOCAL.unpack_from(content, where + 4)
    body = where + _LOCAL_SIZE + length + extra
    wanted = [entry.CRC, entry.compress_size, entry.file_size]
    if flags & _SUMS_FOLLOW and sums == [0, 0, 0]:
        signature, *sums = _SUMS.unpack_from(content, body + entry.compress_size)
        sums = sums if signature == _SUMS_SIGNATURE else []
    name = content[where + _LOCAL_SIZE : where + _LOCAL_SIZE + length]
    listed = (entry.filename.encode(), entry.compress_type, entry.flag_bits, wanted)
    if (name, method, flags, sums) != listed:
        raise CodecError(f"header of {entry.filename} differs from the zip's list", offset=where)


def _member(name: str) -> str:
    if not _MEMBER.fullmatch(name):
        raise CodecError(f"member {name[:80]!r} is not one of RocksDB's files", offset=0)
    return name


# -- metadata


def _metadata(fields: dict[str, Any], word: str) -> ZipMetadata:
    with_families = any(name in fields for name in _FAMILY_FIELDS)
    try:
        return ZipMetadata(
            ssts=_files(fields["sstFiles"], "dfsSstFileName"),
            logs=_files(fields.get("logFiles") or [], "dfsLogFileName"),
            keys=_number(fields["numKeys"]),
            internal_keys=_number(fields.get("numInternalKeys", 0)),
            families=_map(fields.get("columnFamilyMapping"), _number),
            internal=_map(fields.get("columnFamilyTypeMap"), _flag),
            last_family=_number(fields.get("maxColumnFamilyId", 0)),
            shape=ZipShape.FAMILIES if with_families else ZipShape.PLAIN,
            format=word,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CodecError(f"zip metadata is not valid: {error!r}"[:300], offset=0) from error


def _files(rows: list[dict[str, Any]], stored: str) -> tuple[ImmutableFile, ...]:
    files = tuple(
        ImmutableFile(_large(row["localFileName"]), _large(row[stored]), _size(row["sizeBytes"]))
        for row in rows
    )
    if len({file.local for file in files}) != len(files):
        raise ValueError(rows)
    return files


def _large(name: str) -> str:
    if not _LARGE.fullmatch(name):
        raise ValueError(name)
    return name


def _number(value: object) -> int:
    if type(value) is not int or abs(value) >= 1 << 63:
        raise ValueError(value)
    return value


def _size(value: object) -> int:
    if (size := _number(value)) < 0:
        raise ValueError(value)
    return size


def _flag(value: object) -> bool:
    if type(value) is not bool:
        raise ValueError(value)
    return value


def _map(fields: dict[str, Any] | None, value: Callable[[object], _Value]) -> Mapping[str, _Value]:
    for name in fields or {}:
        name.encode()  # JSON can contain half a surrogate pair, which cannot be encoded
    return MappingProxyType({name: value(number) for name, number in (fields or {}).items()})


def _render(metadata: ZipMetadata) -> bytes:
    fields: dict[str, Any] = {"sstFiles": _listed(metadata.ssts, "dfsSstFileName")}
    if metadata.logs:
        fields["logFiles"] = _listed(metadata.logs, "dfsLogFileName")
    fields["numKeys"] = metadata.keys
    if metadata.shape is ZipShape.FAMILIES:
        fields["numInternalKeys"] = metadata.internal_keys
        fields["columnFamilyMapping"] = dict(metadata.families)
        fields["columnFamilyTypeMap"] = dict(metadata.internal)
        fields["maxColumnFamilyId"] = metadata.last_family
    text = json.dumps(fields, separators=(",", ":"), ensure_ascii=False)
    return f"{metadata.format}\n{text}".encode()


def _listed(files: tuple[ImmutableFile, ...], stored: str) -> list[dict[str, Any]]:
    return [
        {"localFileName": file.local, stored: file.stored, "sizeBytes": file.size} for file in files
    ]
