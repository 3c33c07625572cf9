"""The text files of a checkpoint: metadata, commit log, offset log, operator metadata.

    metadata            {"id":"<query id>"}
    commits/<b>         v1 | v2 | v3, newline, {"nextBatchWatermarkMs":0, ...}
    offsets/<b>         v1 | v2, newline, {"batchWatermarkMs":..,"conf":{..}}, then a line a source,
                        in v2 with the source's id and a colon in front
    state/<op>/_metadata/metadata     v1, newline, {"operatorInfo":{..},"stateStoreInfo":[..]}
    state/<op>/_metadata/v2/<b>       v2, the same and "operatorPropertiesJson":"{..}"

Mirrors `HDFSMetadataLog` and its subclasses `CommitLog`, `OffsetSeqLog`, `OperatorStateMetadata`.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from statemaint.errors import CodecError

_MOST_PARTITIONS = 1_000_000
_UNIQUE_IDS = "stateUniqueIds"
# Of a version in checkpoint structure V2, `<version>_<id>.changelog`: it becomes a part of paths.
_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}")
_IDS = re.compile(rf"(?:{_ID.pattern}\n)*")
_NUMBER = re.compile("0|[1-9][0-9]{0,8}")

_T = TypeVar("_T")

UniqueIds = Mapping[int, tuple[tuple[str, ...], ...]]
"""For each operator, for each of its partitions, the unique id of each store."""


@dataclass(frozen=True, slots=True)
class OperatorMetadata:
    """An operator's metadata."""

    id: int
    name: str
    stores: tuple[str, ...]  # the names of its stores in each partition
    partitions: int
    virtual_column_families: bool = False  # whether one store holds several as column families


@dataclass(frozen=True, slots=True)
class StateMetadata:
    """An operator's metadata about the rows in its stores."""

    prefixes: Mapping[str, int]  # how many key columns each store encodes separately, in front
    lists: frozenset[str] | None  # the state variables that are lists; `None` if none are named
    schemas: Mapping[str, tuple[str, ...]]  # the names of each store's schema files, oldest first


def parse_query_id(content: bytes) -> str:
    query_id = _object(_text(content), 0).get("id")
    if not isinstance(query_id, str):
        raise CodecError("no query id in it", offset=0)
    return query_id


def check_commit(content: bytes) -> None:
    _body(content, formats=(1, 2, 3))


def parse_commit(content: bytes) -> UniqueIds:
    """Returns the unique ids of the versions that a batch wrote; none in structure V1."""
    stored = _body(content, formats=(1, 2, 3)).get(_UNIQUE_IDS)
    ids: dict[int, tuple[tuple[str, ...], ...]] = {}
    for operator, partitions in ({} if stored is None else _typed(stored, dict)).items():
        if not _NUMBER.fullmatch(operator):
            raise CodecError(f"operator {operator[:80]!r} is not valid", offset=0)
        ids[int(operator)] = tuple(
            tuple(check_unique_id(unique_id, 0) for unique_id in _typed(stores, list))
            for stores in _typed(partitions, list)
        )
    return MappingProxyType(ids)


def _typed(value: object, kind: type[_T]) -> _T:
    if not isinstance(value, kind):
        raise CodecError(f"unique ids cannot be {str(value)[:80]!r}", offset=0)
    return value


def with_unique_ids(content: bytes, ids: UniqueIds) -> bytes:
    """Returns a commit log entry with other unique ids, or without any, all else as it was."""
    stored = {str(operator): partitions for operator, partitions in sorted(ids.items())}
    if ids and parse_commit(content):
        return _with_fields(content, (1, 2, 3), lambda fields: {**fields, _UNIQUE_IDS: stored})

    def change(fields: dict[str, Any]) -> dict[str, Any]:
        others = {name: value for name, value in fields.items() if name != _UNIQUE_IDS}
        return {**others, _UNIQUE_IDS: stored} if ids else others

    _, _, changed = _with_fields(content, (1, 2), change).partition(b"\n")
    return (b"v2\n" if ids else b"v1\n") + changed


@dataclass(frozen=True, slots=True)
class Offsets:
    """An entry of the offset log."""

    conf: Mapping[str, str]  # the settings that it pins for the life of the query
    watermark: int  # in milliseconds; 0 if the query has none, or had not read any event
    sources: Mapping[str, str]  # each source's offset as text, by its place, or in format 2 its id
    format: int = 1  # or 2, which Spark 4.2 and later can be set to write

    @property
    def file_sources(self) -> Mapping[str, int]:
        """Returns the newest entry of each file source's own log, by the source's id."""
        offsets = {source: self.file_offset(source) for source in self.sources if is_source(source)}
        return {source: entry for source, entry in offsets.items() if entry is not None}

    def file_offset(self, source: str) -> int | None:
        """The newest entry of a file source's own log, if it is one (`FileStreamSourceOffset`)."""
        text = self.sources.get(source, "")
        match = re.fullmatch(r'\{"logOffset":(\d{1,18})\}', text)
        return int(match[1]) if match else None


def is_source(name: str) -> bool:
    """Returns whether an id of a source is the name of its folder below `sources/`."""
    return _NUMBER.fullmatch(name) is not None


def parse_offsets(content: bytes) -> Offsets:
    fields = _body(content, formats=(1, 2))
    conf, watermark = fields.get("conf", {}), fields.get("batchWatermarkMs", 0)
    if not isinstance(conf, dict):
        raise CodecError("its conf is not a map", offset=0)
    settings = MappingProxyType({str(key): str(value) for key, value in conf.items()})
    version, _, *lines = _text(content).rstrip("\n").split("\n")
    pairs = enumerate(lines) if version == "v1" else (line.partition(":")[::2] for line in lines)
    sources = MappingProxyType({str(source): text for source, text in pairs})
    milliseconds = watermark if isinstance(watermark, int) else 0
    return Offsets(settings, milliseconds, sources, int(version[1:]))


def parse_conf(content: bytes) -> Mapping[str, str]:
    return parse_offsets(content).conf


def with_conf(content: bytes, changed: Mapping[str, str]) -> bytes:
    """Returns an offset log entry that pins other values of some settings, all else as it was."""
    return _with_fields(
        content, (1, 2), lambda fields: {**fields, "conf": {**fields["conf"], **changed}}
    )


def parse_operator(content: bytes) -> OperatorMetadata:
    fields = _body(content, formats=(1, 2))
    try:
        info, stores = fields["operatorInfo"], fields["stateStoreInfo"]
        names = tuple(_store_name(store["storeName"]) for store in stores)
        partitions = max(int(store["numPartitions"]) for store in stores)
        number, name = int(info["operatorId"]), str(info["operatorName"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise CodecError(f"not an operator's metadata: {error!r}", offset=0) from error
    virtual = _properties(fields).get("useVirtualColumnFamilies") is True
    return OperatorMetadata(number, name, names, check_partitions(partitions), virtual)


def parse_state_metadata(content: bytes) -> StateMetadata:
    fields = _body(content, formats=(1, 2))
    variables = _properties(fields).get("stateVariables")
    try:
        stores = {_store_name(store["storeName"]): store for store in fields["stateStoreInfo"]}
        prefixes = {name: int(store["numColsPrefixKey"]) for name, store in stores.items()}
        schemas = {name: _file_names(store) for name, store in stores.items()}
        named = () if variables is None else variables
        lists = [variable for variable in named if variable["stateVariableType"] == "ListState"]
        names = frozenset(str(variable["stateName"]) for variable in lists)
        return StateMetadata(prefixes, None if variables is None else names, schemas)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise CodecError(f"not an operator's metadata: {error!r}", offset=0) from error


def with_stores(
    content: bytes, *, moved: Callable[[str], str] | None = None, partitions: int | None = None
) -> bytes:
    """Returns an operator's metadata with `moved` paths of schema files, all else as it was."""

    def of_store(store: Any) -> Any:
        changed: dict[str, Any] = {} if partitions is None else {"numPartitions": partitions}
        if moved and (paths := store.get("stateSchemaFilePaths")):
            changed["stateSchemaFilePaths"] = [moved(str(path)) for path in paths]
        return {**store, **changed}

    def change(fields: dict[str, Any]) -> dict[str, Any]:
        return {**fields, "stateStoreInfo": [*map(of_store, fields["stateStoreInfo"])]}

    try:
        return _with_fields(content, (1, 2), change)
    except (KeyError, TypeError, AttributeError) as error:
        raise CodecError(f"not an operator's metadata: {error!r}", offset=0) from error


def _file_names(store: Mapping[str, Any]) -> tuple[str, ...]:
    # Only the names in the paths count: the paths are those of the original checkpoint, which may
    # have been copied since. The names become parts of paths.
    names = [str(path).rpartition("/")[2] for path in store.get("stateSchemaFilePaths") or []]
    for name in names:
        if not re.fullmatch(r"\d{1,18}_[A-Za-z0-9-]{1,80}", name):
            raise CodecError(f"schema file {name[:80]!r} is not valid", offset=0)
    return tuple(names)


def _properties(fields: dict[str, Any]) -> dict[str, Any]:
    properties = fields.get("operatorPropertiesJson")
    return _object(properties, 0) if isinstance(properties, str) and properties else {}


def _store_name(name: object) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", str(name)):
        raise CodecError(f"store name {name!r} is not valid", offset=0)
    return str(name)


def check_partitions(count: int) -> int:
    if not 1 <= count <= _MOST_PARTITIONS:
        raise CodecError(f"{count} is not a valid number of partitions", offset=0)
    return count


def _with_fields(
    content: bytes, formats: tuple[int, ...], change: Callable[[dict[str, Any]], dict[str, Any]]
) -> bytes:
    """Writes the fields that stay as Spark writes them."""
    fields = change(_body(content, formats=formats))
    version, _, rest = content.partition(b"\n")
    after = rest.partition(b"\n")[1:]
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    return b"".join((version, b"\n", text.encode(), *after))


def _body(content: bytes, *, formats: tuple[int, ...]) -> dict[str, Any]:
    version, _, rest = _text(content).partition("\n")
    match = re.fullmatch(r"v(\d{1,4})", version)
    if not match:
        raise CodecError("the version line is missing or cut", offset=0)
    if int(match[1]) not in formats:
        raise CodecError(f"log format {version} is newer than this version knows", offset=0)
    return _object(rest.partition("\n")[0], len(version) + 1)


def _object(text: str, offset: int) -> dict[str, Any]:
    try:
        fields = json.loads(text)
        # JSON can contain half a surrogate pair, which can be neither printed nor encoded.
        json.dumps(fields, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise CodecError(f"not JSON: {error}", offset=offset) from error
    if not isinstance(fields, dict):
        raise CodecError("not a JSON object", offset=offset)
    return fields


def _text(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CodecError("not UTF-8 text", offset=error.start) from error


def are_unique_ids(texts: Sequence[str]) -> bool:
    """Returns whether each text can be part of a file name; checks them all together."""
    lines = "\n".join((*texts, ""))
    return lines.count("\n") == len(texts) and _IDS.fullmatch(lines) is not None


def check_unique_id(value: object, offset: int) -> str:
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise CodecError(f"unique id {str(value)[:80]!r} is not valid", offset=offset)
    return value
