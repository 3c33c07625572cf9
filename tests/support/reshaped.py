"""Savepoints in other shapes: where tests make them, and the rows that they have."""

from collections import Counter
from typing import Any

from statemaint.codec.rows.state_row import Wrapping, key_reader, value_reader
from statemaint.fold import Source
from statemaint.fold.state import State, opened_state
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store
from statemaint.planning import scan_checkpoint
from statemaint.state.versions import layouts_of
from statemaint.storage import Storage
from tests.support.faults import HookedStorage


class At(HookedStorage):
    """A storage at an address of its own."""

    def __init__(self, files: dict[str, bytes], name: str) -> None:
        super().__init__(files)
        self._name = name

    @property
    def root(self) -> str:
        return f"memory:{self._name}"


def rows_of(storage: Storage) -> Counter[tuple[int, str, bytes, bytes]]:
    """The rows of all partitions as they are stored, by operator and store."""
    return _rows_of(storage, lambda *_: lambda row: row)


def values_of(storage: Storage) -> Counter[tuple[int, str, Any, Any]]:
    """The rows of all partitions as Spark's values, by operator and store."""
    checkpoint = scan_checkpoint(storage)

    def reader(store: Store, state: State) -> Any:
        layouts = layouts_of(storage, checkpoint, store, checkpoint.target or 0)
        around = Wrapping(2 * bool(state.families), checkpoint.row_checksums, state.delimiter)
        readers = {
            name: (key_reader(layout, around), value_reader(layout, around))
            for name, layout in layouts.items()
        }

        def read(row: tuple[bytes, bytes]) -> tuple[Any, Any]:
            number = int.from_bytes(row[0][:2], "little", signed=True)
            key, value = readers[state.families[number] if state.families else None]
            return repr(key(row[0])), repr(value(*row))

        return read

    return _rows_of(storage, reader)


def _rows_of(storage: Storage, reader: Any) -> Counter[tuple[int, str, Any, Any]]:
    checkpoint = scan_checkpoint(storage)
    found: Counter[tuple[int, str, Any, Any]] = Counter()
    for store in checkpoint.stores:
        chain = store.versions.chain(checkpoint.target or 0)
        assert isinstance(chain, Chain)
        with opened_state(Source.of(storage, store, checkpoint), store, chain) as state:
            read = reader(store, state)
            found.update((store.id.operator, store.id.store, *read(row)) for row in state.rows)
    return found
