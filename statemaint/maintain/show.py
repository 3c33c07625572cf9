"""The rows of any version, decoded with the schema that the query wrote."""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from statemaint.codec.readable import shower
from statemaint.codec.state_row import RowLayout, Wrapping, key_reader, value_reader
from statemaint.codec.unsafe_row import Row
from statemaint.errors import CodecError, ConfigError, DamagedError
from statemaint.fold import Source
from statemaint.fold.state import State, opened_state
from statemaint.maintain.layouts import Layouts, layouts_of
from statemaint.maintain.planning import scan_checkpoint
from statemaint.model.chain import Chain, Gap
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.ids import StoreId
from statemaint.plan import diagnose
from statemaint.storage import ReadOnly, Storage, open_storage

_FAMILY = struct.Struct("<h")
# What Spark keeps beside the state variables, for itself: counters, and orders of what expires.
_OF_SPARK = "$"
_TIMERS = ("$eventTimers_keyToTimestamp", "$procTimers_keyToTimestamp")


@dataclass(frozen=True, slots=True)
class StateRow:
    """A row of state as people read it: columns by name, values as in JSON (`codec.readable`).

    Attributes:
        store: the store that it lies in.
        family: the column family; `None` where the store has none.
        key: the columns of its key.
        value: the columns of its value; a list of them where a value is any number of entries.
    """

    store: StoreId
    family: str | None
    key: dict[str, Any]
    value: dict[str, Any] | list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class DecodedRow:
    """A row of state as Python values, in the order of its layout's columns.

    Attributes:
        store: the store that it lies in.
        family: the column family; `None` where the store has none.
        layout: the types of its columns.
        key: the columns of its key.
        entries: the columns of each entry of its value: of one, unless the layout has many.
    """

    store: StoreId
    family: str | None
    layout: RowLayout
    key: Row
    entries: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A store at a version, and what of it is asked for.

    Attributes:
        store: which one.
        chain: the files that the version folds from.
        layouts: how the rows are laid out, of those column families that are asked for.
    """

    store: Store
    chain: Chain
    layouts: Layouts


@dataclass(frozen=True, slots=True)
class StateSelection:
    """What of a checkpoint's state is asked for, and found there.

    Attributes:
        storage: where it lives.
        checkpoint: what a scan of those stores saw.
        version: the state version.
        parts: each store that has any of it.
    """

    storage: Storage
    checkpoint: Checkpoint
    version: int
    parts: tuple[Part, ...]

    def decoded(self) -> Iterator[DecodedRow]:
        """Yields the rows as Python values, store by store; raises as `read_state` does."""
        for part in self.parts:
            source = Source.of(self.storage, part.store, self.checkpoint)
            yield from _rows(source, part)

    def rows(self) -> Iterator[StateRow]:
        """Yields the rows as people read them, store by store; raises as `read_state` does."""
        return map(_Readable().row, self.decoded())


def read_state(
    storage: Storage | str,
    operator: int = 0,
    *,
    partition: int | None = None,
    store: str | None = None,
    family: str | None = None,
    version: int | None = None,
) -> Iterator[StateRow]:
    """Yields the rows of an operator's state at a version; writes nothing.

    Rows come store by store, within one in the order of the bytes of their keys. Column families
    are those of the query's state variables, with its timers, and those of joins; what Spark keeps
    beside them for itself (`$ttl_NAME`, `$count_NAME`, ...) comes when it is named.

    Mirrors Spark's `statestore` data source, but for the names of columns: they are those that the
    state is stored with.

    Args:
        storage: where the checkpoint lives, or its address.
        operator: the stateful operator.
        partition: all of them by default.
        store: the store's name, all of them by default.
        family: the column family's name.
        version: the newest committed one by default.

    Raises:
        ConfigError: when nothing is committed, or there is nothing of what is asked for.
        UnsupportedError: when rows are encoded in another way than as UnsafeRow.
        DamagedError: when the checkpoint's own logs or schemas cannot be read, or a version that
            is still to be loaded does not.
        CheckpointError: when a file of the version is damaged; while rows come, too.
        StorageError: when anything could not be listed or read.
    """
    found = select_state(
        storage, operator, partition=partition, store=store, family=family, version=version
    )
    return found.rows()


def select_state(
    storage: Storage | str,
    operator: int = 0,
    *,
    partition: int | None = None,
    store: str | None = None,
    family: str | None = None,
    version: int | None = None,
) -> StateSelection:
    """Returns what of a checkpoint's state there is to read; raises as `read_state` does."""
    reading = ReadOnly(open_storage(storage) if isinstance(storage, str) else storage)

    def asked(one: StoreId) -> bool:
        return (
            one.operator == operator
            and partition in (None, one.partition)
            and store in (None, one.store)
        )

    checkpoint = scan_checkpoint(reading, asked)
    at = _version(checkpoint, version)
    if not checkpoint.stores:
        what = f"operator {operator}, partition {_any(partition)}, store {_any(store)}"
        raise ConfigError(f"{reading.root}: no {what}; `statemaint scan` lists what is there")
    chains = [(one, _chain(checkpoint, one, at)) for one in checkpoint.stores]
    layouts = _layouts(reading, checkpoint, at)
    parts = (Part(one, chain, _chosen(layouts(one), family)) for one, chain in chains)
    kept = tuple(part for part in parts if part.layouts)
    if family is not None and not kept:
        known = sorted({name for one, _ in chains for name in layouts(one) if name})
        raise ConfigError(f"{reading.root}: {_no_family(operator, family, known)}")
    return StateSelection(reading, checkpoint, at, kept)


def _no_family(operator: int, family: str, known: list[str]) -> str:
    there = f"there are {', '.join(known)}" if known else "there are none"
    return f"no column family {family} in operator {operator}; {there}"


def _any(found: object) -> object:
    return "(any)" if found is None else found


def _version(checkpoint: Checkpoint, version: int | None) -> int:
    for finding in checkpoint.findings:
        if finding.damage:
            raise DamagedError(checkpoint.root, finding.detail, code=finding.code.value)
    target = checkpoint.target
    if target is None:
        raise ConfigError(
            f"{checkpoint.root}: no batch is committed yet, there is no state to show"
        )
    if version is not None and version > target:
        # What lies above belongs to a batch that runs, or has failed (S2).
        raise ConfigError(f"{checkpoint.root}: version {version} is not committed, {target} is")
    return target if version is None else version


def _chain(checkpoint: Checkpoint, store: Store, version: int) -> Chain:
    chain = store.versions.chain(version)
    if isinstance(chain, Chain):
        return chain
    if checkpoint.required is not None and version >= checkpoint.required:
        for finding in diagnose(store, checkpoint):
            if finding.damage:
                raise DamagedError(store.id.directory, finding.detail, code=finding.code.value)
    raise ConfigError(_gone(store, chain))


def _gone(store: Store, gap: Gap) -> str:
    kind = "delta" if store.rocks is None else "changelog"
    return (
        f"{store.id}: version {gap.version} does not load any more, "
        f"{store.id.directory}/{gap.first}.{kind} is not there"
    )


def _layouts(storage: Storage, checkpoint: Checkpoint, version: int) -> Callable[[Store], Layouts]:
    """Returns what knows the layouts of a store; all partitions have the same."""
    known: dict[str, Layouts] = {}

    def layouts(store: Store) -> Layouts:
        if store.id.store not in known:
            known[store.id.store] = layouts_of(storage, checkpoint, store, version)
        return known[store.id.store]

    return layouts


def _chosen(layouts: Layouts, family: str | None) -> Layouts:
    if family is not None:
        return {family: layouts[family]} if family in layouts else {}
    return {name: one for name, one in layouts.items() if _of_the_query(name)}


def _of_the_query(family: str | None) -> bool:
    return family is None or not family.startswith(_OF_SPARK) or family in _TIMERS


def _rows(source: Source, part: Part) -> Iterator[DecodedRow]:
    with opened_state(source, part.store, part.chain) as state:
        read = _reader(source, part, state)
        for number, (key, value) in enumerate(state.rows, 1):
            try:
                row = read(key, value)
            except CodecError as error:
                raise _in_row(part, number, error) from error
            if row is not None:
                yield row


def _in_row(part: Part, number: int, error: CodecError) -> CodecError:
    text = f"row {number} of version {part.chain.version} in {part.store.id}: {error.detail}"
    return CodecError(text, offset=error.offset, path=part.chain.paths[-1])


_Read = Callable[[bytes, bytes], DecodedRow | None]


def _reader(source: Source, part: Part, state: State) -> _Read:
    """Returns what reads a row, and gives `None` for those of families not asked for."""
    families = _FAMILY.size if state.families else 0
    wrapping = Wrapping(families, source.row_checksums, state.delimiter)
    readers = {name: _of_one(part, name, wrapping) for name in part.layouts}
    if not state.families:
        return readers.get(None, _must_be_empty)
    by_number = {number: readers.get(name) for number, name in state.families.items()}

    def read(key: bytes, value: bytes) -> DecodedRow | None:
        number = _FAMILY.unpack_from(key)[0] if len(key) >= _FAMILY.size else None
        if number not in by_number:
            raise CodecError(f"column family {number} is unknown", offset=0)
        of_one = by_number[number]
        return of_one(key, value) if of_one else None

    return read


def _must_be_empty(_key: bytes, _value: bytes) -> None:
    raise CodecError("column families have no numbers: no snapshot is there to say them", offset=0)


def _of_one(part: Part, family: str | None, wrapping: Wrapping) -> _Read:
    layout, store = part.layouts[family], part.store.id
    of_key, of_value = key_reader(layout, wrapping), value_reader(layout, wrapping)
    return lambda key, value: DecodedRow(store, family, layout, of_key(key), of_value(key, value))


class _Readable:
    """Makes decoded rows readable; each layout is looked at once."""

    def __init__(self) -> None:
        self._known: dict[RowLayout, tuple[Callable[[Row], Any], Callable[[Row], Any]]] = {}

    def row(self, found: DecodedRow) -> StateRow:
        layout = found.layout
        if layout not in self._known:
            self._known[layout] = shower(layout.key), shower(layout.value)
        key, value = self._known[layout]
        entries = [value(entry) for entry in found.entries]
        shown = entries if layout.many else entries[0]
        return StateRow(found.store, found.family, key(found.key), shown)
