"""One version of a RocksDB store, open for reading or for the changes that make the next one.

Mirrors `RocksDBStateStoreProvider.RocksDBStateStore` of Spark 4.3, with the error texts of the
Spark version with the shortest ones. Rows are `UnsafeRow` bytes; scans yield them in the order of
their encoded keys.
"""

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, replace

from statemaint.codec.rocksdb.changelog import DELETE, MERGE, PUT, Change
from statemaint.codec.rows.rocks_row import KeyCodec, key_codec, rows_in, value_of
from statemaint.codec.rows.state_row import (
    NUMBERS,
    KeyEncoder,
    NoPrefix,
    PrefixScan,
    RangeScan,
    TimestampFirst,
    TimestampLast,
)
from statemaint.codec.rows.types import AtomicType, Json, StructType, must_be_writable, parse_struct
from statemaint.errors import ConfigError, UnsupportedError
from statemaint.provider.files import Row, StateStoreMetrics, StoreState, Updating, must_be_rows
from statemaint.provider.rocks_files import DEFAULT, LoadedVersion, RocksFiles, front, with_family

_NO_FAMILIES = "multiple column families is disabled in RocksDBStateStoreProvider"
_PREFIX = (
    "Incorrect number of prefix columns={} for prefix scan encoder. Prefix columns cannot be zero "
    "or greater than or equal to num of schema columns."
)
_RANGE = (
    "Incorrect number of ordering ordinals={} for range scan encoder. The number of ordering "
    "ordinals cannot be zero or greater than number of schema columns."
)
_VARIABLE = (
    "Variable size ordering column with name={} at index={} is not supported for range scan "
    "encoder."
)
_MANY = "multiple values for a single key"


@dataclass(frozen=True, slots=True)
class StateStoreCheckpointInfo:
    """The attempt that a commit wrote. Mirrors Spark's class; `rows` is an addition.

    Attributes:
        state_store_ckpt_id: its unique id, which the commit log has to name if it is to count.
        base_state_store_ckpt_id: that of the version before.
        rows: the number of its keys outside internal column families.
    """

    partition_id: int
    batch_version: int
    state_store_ckpt_id: str | None
    base_state_store_ckpt_id: str | None
    rows: int


@dataclass(frozen=True, slots=True)
class FamilyCodec:
    """The encoding of a column family; with `many`, a key has any number of values.

    In a version, `front` is the family's number, with which its keys begin.
    """

    keys: KeyCodec
    many: bool = False
    front: bytes = b""

    def key(self, row: bytes) -> bytes:
        return self.front + self.keys.encode(row)


def family_codec(key_schema: Json | None, encoder: KeyEncoder, *, many: bool) -> FamilyCodec:
    """Returns the encoding of a family; only keys in `NoPrefix` need no schema."""
    if key_schema is None and not isinstance(encoder, NoPrefix):
        raise ConfigError(f"keys in {encoder} need the schema of the key")
    kind = must_be_writable(parse_struct(key_schema)) if key_schema else StructType(())
    if isinstance(encoder, TimestampFirst | TimestampLast):
        known = "NoPrefix, PrefixScan and RangeScan"
        raise UnsupportedError("the state store", f"keys in {encoder}", known)
    if isinstance(encoder, PrefixScan) and not 0 < encoder.columns < len(kind.fields):
        raise ConfigError(_PREFIX.format(encoder.columns))
    if isinstance(encoder, RangeScan):
        _check_ordinals(kind, encoder.ordinals)
    return FamilyCodec(key_codec(kind, encoder), many)


def _check_ordinals(kind: StructType, ordinals: tuple[int, ...]) -> None:
    if not 0 < len(ordinals) <= len(kind.fields):
        raise ConfigError(_RANGE.format(len(ordinals)))
    for at, field in zip(ordinals, kind.only(ordinals).fields, strict=True):
        if not isinstance(field.type, AtomicType) or field.type.name not in NUMBERS:
            raise ConfigError(_VARIABLE.format(field.name, at))


class RocksDBReadStateStore:
    """One version, for reading."""

    def __init__(
        self, files: RocksFiles, loaded: LoadedVersion, codecs: MutableMapping[str, FamilyCodec]
    ) -> None:
        self._files, self._loaded, self._codecs = files, loaded, codecs
        self._wrapping = files.wrapping

    @property
    def version(self) -> int:
        return self._loaded.version

    def register_col_family(
        self,
        name: str,
        key_schema: Json | None = None,
        key_encoder: KeyEncoder | None = None,
        *,
        use_multiple_values_per_key: bool = False,
    ) -> None:
        """Gives the provider the encoding of an existing column family, which no state file has."""
        many = use_multiple_values_per_key
        codec = family_codec(key_schema, key_encoder or NoPrefix(), many=many)
        self._codecs.setdefault(name, codec)

    def get(self, key: bytes, col_family: str = DEFAULT) -> bytes | None:
        """Returns a key's value, the first one of a list; `None` if it has none."""
        return next(self._values("get", key, col_family), None)

    def values_iterator(self, key: bytes, col_family: str = DEFAULT) -> Iterator[bytes]:
        """Returns all values of a key, in the order in which they were added."""
        if not self._family("valuesIterator", col_family).many:
            raise ConfigError(f"valuesIterator requires a encoder that supports {_MANY}.")
        return self._values("valuesIterator", key, col_family)

    def iterator(self, col_family: str = DEFAULT) -> Iterator[Row]:
        """Yields every key with its value, the first one of a list; rows may change meanwhile."""
        family = self._family("iterator", col_family)
        return self._scan(family, family.front)

    def prefix_scan(self, prefix_key: bytes, col_family: str = DEFAULT) -> Iterator[Row]:
        """Yields the rows whose keys have these columns in front, given as a row of their own."""
        family = self._family("prefixScan", col_family)
        if family.keys.prefix is None:
            raise ConfigError("Prefix scan requires setting prefix key!")
        return self._scan(family, family.front + family.keys.prefix(prefix_key))

    def range_scan(
        self,
        start_key: bytes | None = None,
        end_key: bytes | None = None,
        col_family: str = DEFAULT,
    ) -> Iterator[Row]:
        """Yields the rows from a key, which is included, up to another, which is not.

        It needs keys in `RangeScan`; `None` begins or ends with the column family.
        """
        family = self._family("rangeScan", col_family)
        if not family.keys.ranged:
            raise ConfigError("Range scan requires an encoder that supports range scanning!")
        start = family.front if start_key is None else family.key(start_key)
        end = None if end_key is None else family.key(end_key)
        return self._scan(family, family.front, start=start, end=end)

    def abort(self) -> None:
        """Does nothing."""

    def __str__(self) -> str:
        return f"RocksDBStateStore[{self._files.place}]"

    def _values(self, operation: str, key: bytes, col_family: str) -> Iterator[bytes]:
        family = self._family(operation, col_family)
        encoded = family.key(key)
        value = self._loaded.rows.get(encoded)
        return iter(() if value is None else self._rows_in(family, encoded, value))

    def _scan(
        self, family: FamilyCodec, prefix: bytes, *, start: bytes = b"", end: bytes | None = None
    ) -> Iterator[Row]:
        rows = sorted(row for row in self._loaded.rows.items() if row[0].startswith(prefix))
        for key, value in rows:
            if key >= start and (end is None or key < end):
                found = family.keys.decode(key[len(family.front) :])
                yield found, self._rows_in(family, key, value)[0]

    def _rows_in(self, family: FamilyCodec, key: bytes, value: bytes) -> list[bytes]:
        return rows_in(key, value, self._wrapping, many=family.many)

    def _family(self, operation: str, name: str) -> FamilyCodec:
        numbers = self._loaded.families.families
        if not self._files.has_families:
            if name != DEFAULT:
                raise ConfigError(f"{operation} operation not supported with {_NO_FAMILIES}")
            return self._codecs[name]
        _check_name(operation, name)
        if name not in numbers:
            text = f"State store operation={operation} not supported on missing column family"
            raise ConfigError(f"{text}={name}.")
        if name not in self._codecs:
            raise ConfigError(f"column family {name!r} needs register_col_family first")
        return replace(self._codecs[name], front=front(numbers[name]))


def _check_name(operation: str, name: str, *, reserved: str | None = None) -> None:
    if not name or name.strip() != name or name == reserved:
        raise ConfigError(
            f"Failed to perform column family operation={operation} with invalid name={name}. "
            "Column family name cannot be empty or include leading/trailing spaces or use the "
            "reserved keyword=default"
        )


Commit = Callable[[LoadedVersion, Sequence[Change]], StateStoreCheckpointInfo]


class RocksDBStateStore(RocksDBReadStateStore, Updating):
    """One version and the changes that make the next.

    Changes are held in memory until `commit`; a crash before it leaves no trace. After commit or
    abort, changes and `commit` raise `ConfigError`.
    """

    def __init__(
        self,
        files: RocksFiles,
        loaded: LoadedVersion,
        codecs: MutableMapping[str, FamilyCodec],
        *,
        commit: Commit,
        metrics: Callable[[], StateStoreMetrics],
    ) -> None:
        super().__init__(files, loaded, codecs)
        Updating.__init__(self, metrics)
        self._commit = commit
        self._changes: list[Change] = []
        self._info: StateStoreCheckpointInfo | None = None

    def create_col_family_if_absent(
        self,
        name: str,
        key_schema: Json | None = None,
        key_encoder: KeyEncoder | None = None,
        *,
        use_multiple_values_per_key: bool = False,
        is_internal: bool = False,
    ) -> None:
        """Adds a column family, or only registers the encoding of one that exists.

        The next commit then writes a snapshot beside its changelog: only zips name families.
        """
        self.must_update("update")
        self._check_change("create_col_family", name, internal=is_internal)
        self.register_col_family(
            name, key_schema, key_encoder, use_multiple_values_per_key=use_multiple_values_per_key
        )
        families = self._loaded.families
        if name not in families.families:
            self._loaded.families = with_family(families, name, internal=is_internal)
            self._loaded.renamed = True

    def remove_col_family_if_exists(self, name: str) -> bool:
        """Removes a column family with its rows; returns whether it was there."""
        self.must_update("update")
        self._check_change("remove_col_family", name)
        families = self._loaded.families
        if name not in families.families:
            return False
        prefix = front(families.families[name])
        for key in sorted(key for key in self._loaded.rows if key.startswith(prefix)):
            self._change(DELETE, key, None)
        numbers, internal = dict(families.families), dict(families.internal)
        del numbers[name], internal[name]
        self._loaded.families = replace(families, families=numbers, internal=internal)
        self._loaded.renamed = True
        self._codecs.pop(name, None)
        return True

    def put(self, key: bytes, value: bytes, col_family: str = DEFAULT) -> None:
        """Sets the value of a key, in place of all that it has."""
        self._write("put", PUT, key, value, col_family)

    def merge(self, key: bytes, value: bytes, col_family: str = DEFAULT) -> None:
        """Adds a value to those of a key."""
        if not self._family("merge", col_family).many:
            raise ConfigError(f"Merge operation requires an encoder which supports {_MANY}")
        self._write("merge", MERGE, key, value, col_family)

    def remove(self, key: bytes, col_family: str = DEFAULT) -> None:
        """Removes a key with all its values; it is also written for a missing key."""
        self.must_update("remove")
        self._change(DELETE, self._family("remove", col_family).key(key), None)

    def commit(self) -> int:
        """Writes the next version's changelog, snapshot or both, and returns that version.

        If they could not be written (`StorageError`), the store can be committed again.
        """
        self.must_update("commit")
        self._info = self._commit(self._loaded, self._changes)
        self.state = StoreState.COMMITTED
        return self._info.batch_version

    @property
    def state_store_checkpoint_info(self) -> StateStoreCheckpointInfo:
        """The attempt that was committed; before the commit it is a `ConfigError`."""
        if self._info is None:
            raise ConfigError("Cannot get checkpointInfo without committing the store")
        return self._info

    def abort(self) -> None:
        """Drops the changes; nothing is written."""
        if self.state is StoreState.COMMITTED:
            raise ConfigError("Cannot abort after already committed")
        self.state = StoreState.ABORTED
        self._changes = []

    def _write(self, verb: str, kind: int, key: bytes, value: bytes, col_family: str) -> None:
        self.must_update(verb)
        family = self._family(verb, col_family)
        must_be_rows(key, value)
        encoded = family.key(key)
        stored = value_of(encoded, [value], self._wrapping, many=family.many)
        self._change(kind, encoded, stored)

    def _change(self, kind: int, key: bytes, value: bytes | None) -> None:
        change = kind, key, value
        for _ in self._files.applied(self._loaded.rows, [change]):
            self._changes.append(change)

    def _check_change(self, operation: str, name: str, *, internal: bool = False) -> None:
        if not self._files.has_families:
            raise ConfigError(f"{operation} operation not supported with {_NO_FAMILIES}")
        _check_name(operation, name, reserved=None if internal else DEFAULT)
        if not internal and name.startswith("$"):
            text = "Failed to create column family with unsupported starting character and name"
            raise ConfigError(f"{text}={name}.")
