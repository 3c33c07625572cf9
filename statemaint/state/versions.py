"""The requested version of the state: whether it exists, and how its rows are laid out."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from statemaint.codec.metadata import logs, schema
from statemaint.codec.metadata.logs import StateMetadata
from statemaint.codec.metadata.schema import ColumnFamily
from statemaint.codec.rows.state_row import (
    Bare,
    KeyEncoder,
    NoPrefix,
    PrefixScan,
    RowLayout,
    TimestampFirst,
    TimestampLast,
    parse_encoder,
)
from statemaint.codec.rows.types import StructType, UnknownTypeError, parse_struct
from statemaint.errors import CodecError, ConfigError, DamagedError, NotFoundError, UnsupportedError
from statemaint.listing import Entry
from statemaint.model.chain import Chain, Gap, Unnamed
from statemaint.model.checkpoint import Checkpoint, Provider, Store
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import StoreId, batch_of
from statemaint.plan.findings.health import diagnose
from statemaint.scan.query_logs import ENCODING
from statemaint.storage import Storage


def committed_version(checkpoint: Checkpoint, version: int | None = None) -> int:
    """Returns a committed version, the newest one by default; another one is a `ConfigError`."""
    for finding in checkpoint.findings:
        if finding.damage and not _leaves_rows(finding):
            raise DamagedError(checkpoint.root, finding.detail, code=finding.code.value)
    target = checkpoint.target
    if target is None:
        raise ConfigError(f"{checkpoint.root}: no batch is committed yet, so there is no state")
    if version is not None and version < 0:
        raise ConfigError(f"{checkpoint.root}: version {version} is below 0, the empty state")
    if version is not None and version > target:
        # Versions above belong to a running or failed batch (S2).
        raise ConfigError(
            f"{checkpoint.root}: version {version} is not committed; the newest is {target}"
        )
    return target if version is None else version


def _leaves_rows(finding: Finding) -> bool:
    """Returns whether rows can be read beside damage: lost metadata only tell lists from others."""
    of_operator = (finding.path or "").endswith("/_metadata")
    lost = finding.code is FindingCode.UNREADABLE_METADATA and of_operator
    return lost or finding.code is FindingCode.REFUSED_LINK


def stores_at(checkpoint: Checkpoint, version: int) -> tuple[Store, ...]:
    """Returns the stores of a version; a repartition changes them."""
    existing = checkpoint.needed(version)
    if not existing:
        text = f"version {version} has no partition {checkpoint.stores[0].id.partition}"
        raise ConfigError(f"{checkpoint.root}: {text}; the state was repartitioned")
    return existing


def chain_of(checkpoint: Checkpoint, store: Store, version: int) -> Chain:
    """Returns the chain that a store's version folds from.

    A version that does not load is damage if Spark may still need it, and else a `ConfigError`.
    """
    chain = store.versions.chain(version)
    if isinstance(chain, Chain):
        return chain
    if checkpoint.required is not None and version >= checkpoint.required:
        for finding in diagnose(store, checkpoint):
            if finding.damage:
                raise DamagedError(store.id.directory, finding.detail, code=finding.code.value)
    kind = "delta" if store.rocks is None else "changelog"
    match chain:
        case Gap():
            why = f"{store.id.directory}/{chain.first}.{kind} is missing"
        case Unnamed():
            why = chain.why
    raise ConfigError(f"{store.id}: version {chain.version} no longer loads, {why}")


Layouts = Mapping[str | None, RowLayout]
"""The layout of each column family by its name; by `None` in a store without any."""

_UNKNOWN = StateMetadata({}, None, {})
# Their encoders show which of them store several rows together. All others are state variables.
_OF_A_JOIN = re.compile(
    "(left|right)-(keyToNumValues|keyWithIndexToValue|keyWithTsToValues|tsWithKey)"
)
_UNSAFE_ROW, _SESSION_START = "unsaferow", "sessionStartTime"


@dataclass(frozen=True, slots=True)
class Stored:
    """The schema of a store or column family: its key as Spark's own JSON, and its rows."""

    key: Mapping[str, Any]
    layout: RowLayout


def layouts_of(
    storage: Storage,
    checkpoint: Checkpoint,
    store: Store,
    version: int,
    provider: Provider | None = None,
) -> Layouts:
    schemas = schemas_of(storage, checkpoint, store, version, provider)
    return {name: stored.layout for name, stored in schemas.items()}


def schemas_of(
    storage: Storage,
    checkpoint: Checkpoint,
    store: Store,
    version: int,
    provider: Provider | None = None,
) -> Mapping[str | None, Stored]:
    """Returns the schema of each column family of a store at a version, by `None` without any.

    Keys are as the given provider encodes them, by default the store's own. Schema files are found
    by their names: the paths in the operators' metadata are those of the original checkpoint.
    """
    _check_encoding(storage, checkpoint)
    metadata = _metadata(storage, store.id.operator, batch_of(version))
    path = _families_path(storage, store.id, metadata)
    if path is not None:
        with _reading(storage, path):
            families = schema.parse_families(storage.read(path))
            _check_lists(store.id, families, metadata)
            return {
                family.name: Stored(family.key, _of_family(family, metadata)) for family in families
            }
    # All partitions share the schema that is stored under the first.
    path = f"{StoreId(store.id.operator, 0, store.id.store).directory}/_metadata/schema"
    with _reading(storage, path):
        stored = schema.parse_schema(storage.read(path))
        key, value = parse_struct(stored.key), parse_struct(stored.value)
        bare = provider is Provider.HDFS_BACKED if provider else store.rocks is None
        layout = RowLayout(key, value, Bare() if bare else _encoder(store.id, key, value, metadata))
        return {None: Stored(stored.key, layout)}


def _check_encoding(storage: Storage, checkpoint: Checkpoint) -> None:
    try:
        conf = logs.parse_conf(storage.read(f"offsets/{checkpoint.committed}"))
    except NotFoundError:
        return  # purged in the meantime; Spark before 4.0 has no other encoding
    encoding = conf.get(ENCODING, _UNSAFE_ROW)
    if encoding.strip().lower() != _UNSAFE_ROW:
        raise UnsupportedError(storage.root, f"{ENCODING}={encoding}", _UNSAFE_ROW)


@contextmanager
def _reading(storage: Storage, path: str) -> Iterator[None]:
    code = FindingCode.UNREADABLE_METADATA.value
    try:
        yield
    except UnknownTypeError as error:
        raise UnsupportedError(
            storage.root, f"{path}: {error.detail}", "those of Spark's types that state can have"
        ) from error
    except CodecError as error:
        raise DamagedError(path, error.detail, code=code) from error
    except NotFoundError as error:
        text = "it has the schema of these rows, and is missing"
        raise DamagedError(path, text, code=code) from error


def _metadata(storage: Storage, operator: int, batch: int) -> StateMetadata:
    """Returns the metadata that applied at a batch; Spark before 4.0 writes none."""
    entries = list(storage.list(f"state/{operator}/_metadata"))
    newer = _by_batch(entry for entry in entries if entry.path.endswith(f"/v2/{entry.name}"))
    older = [entry.path for entry in entries if entry.name == "metadata"]
    if newer:
        # The newest up to the batch, or else the oldest above it.
        path = newer[max((number for number in newer if number <= batch), default=min(newer))]
    elif older:
        path = older[0]
    else:
        return _UNKNOWN
    with _reading(storage, path):
        return logs.parse_state_metadata(storage.read(path))


def _families_path(storage: Storage, store: StoreId, metadata: StateMetadata) -> str | None:
    folder = f"state/{store.operator}/_stateSchema/{store.store}"
    if named := metadata.schemas.get(store.store):
        return f"{folder}/{named[-1]}"
    listed = _by_batch(storage.list(folder))
    return listed[max(listed)] if listed else None


def _check_lists(store: StoreId, families: Iterable[ColumnFamily], metadata: StateMetadata) -> None:
    """Raises if it is unknown which state variables are lists: read as a row, one looks broken."""
    if metadata.lists is None and not all(_OF_A_JOIN.fullmatch(family.name) for family in families):
        path = f"state/{store.operator}/_metadata/v2"
        text = (
            "only its newest file tells which state variables are lists, and it is missing or "
            "lacks them; restore it from a copy to read the rows"
        )
        raise DamagedError(path, text, code=FindingCode.UNREADABLE_METADATA.value)


def _by_batch(entries: Iterable[Entry]) -> dict[int, str]:
    numbers = ((entry.name.partition("_")[0], entry.path) for entry in entries)
    return {int(name): path for name, path in numbers if name.isascii() and name.isdecimal()}


def _of_family(family: ColumnFamily, metadata: StateMetadata) -> RowLayout:
    encoder = parse_encoder(family.encoder)
    # Rows of a join with the same key and time are stored together, like the entries of a list.
    many = family.name in (metadata.lists or ()) or isinstance(
        encoder, TimestampFirst | TimestampLast
    )
    return RowLayout(parse_struct(family.key), parse_struct(family.value), encoder, many)


def _encoder(
    store: StoreId, key: StructType, value: StructType, metadata: StateMetadata
) -> KeyEncoder:
    columns = metadata.prefixes.get(store.store)
    if columns is None:
        # Where Spark 3.5 records no prefix, only sessions have one: all columns but their start.
        columns = len(key.fields) - 1 if are_sessions(key, value) else 0
    return PrefixScan(columns) if columns else NoPrefix()


def are_sessions(key: StructType, value: StructType) -> bool:
    """Returns whether rows are session windows, by the columns that Spark gives to these."""
    windows = (field.type for field in value.fields if isinstance(field.type, StructType))
    ends = ([field.name for field in window.fields] == ["start", "end"] for window in windows)
    return any(field.name == _SESSION_START for field in key.fields[-1:]) and any(ends)
