"""The partition that holds the rows of a key, if the checkpoint shows it.

It is known if the column that the text can be is the only one that rows are shuffled by, the query
shuffles by all keys, and the offsets of the batch agree with the listing on the number of
partitions. If anything is in doubt, every partition may hold such a row.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from statemaint.codec.metadata import logs
from statemaint.codec.rows.murmur3 import partition_of
from statemaint.codec.rows.types import AtomicType, DataType, StructType
from statemaint.errors import CodecError, ConfigError, NotFoundError
from statemaint.model.ids import batch_of
from statemaint.scan.partitions import count_in
from statemaint.state.rows import Part, StateSelection
from statemaint.state.shuffle_key import shuffle_key, shuffles_by_all_keys

_INTEGERS = ("byte", "short", "integer", "long")
_TIMES = ("date", "timestamp", "timestamp_ntz")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_TIME = re.compile(r"[-+0-9]")


def holding(selection: StateSelection, text: str) -> StateSelection:
    """Returns the partitions that may hold rows with a key column that reads as a text."""
    count = _partitions(selection)
    if count is None:
        return selection
    places: set[int] = set()
    for name, part in _kinds(selection.parts):
        place = _place(selection, part, name, text, count)
        if place is None:
            return selection
        places |= place
    return replace(
        selection, parts=tuple(x for x in selection.parts if x.store.id.partition in places)
    )


def _partitions(selection: StateSelection) -> int | None:
    """Returns the number of partitions at the version; `None` if it is uncertain."""
    checkpoint, batch = selection.checkpoint, batch_of(selection.version)
    operators = {part.store.id.operator for part in selection.parts}
    listed = {checkpoint.partitions.get(one) for one in operators}
    if checkpoint.counts:
        listed = {checkpoint.counts.get(batch)}
    with suppress(CodecError, NotFoundError):
        conf = logs.parse_conf(selection.storage.read(f"offsets/{batch}"))
        count = count_in(conf)
        return count if shuffles_by_all_keys(conf) and listed == {count} else None
    return None


def _kinds(parts: Iterable[Part]) -> Iterator[tuple[str | None, Part]]:
    """Yields each column family, or store without any, once; all partitions have the same."""
    kinds = {(part.store.id.store, name): part for part in parts for name in part.layouts}
    yield from ((name, part) for (_, name), part in kinds.items())


def _place(
    selection: StateSelection, part: Part, name: str | None, text: str, count: int
) -> set[int] | None:
    """Returns the partitions of a kind's rows with a column of that text; `None` for all."""
    layout, store = part.layouts[name], part.store.id
    columns = [one for one, field in enumerate(layout.key.fields) if _may_be(field.type, text)]
    if not columns:
        return set()
    operators = {one.id: one for one in selection.checkpoint.operators}
    key = shuffle_key(operators.get(store.operator), name or store.store, layout, 0)
    if key is None or key.columns != 1 or columns != [0]:
        return None
    return _hashed(layout.key.fields[0].type, text, count)


def _may_be(kind: DataType, text: str) -> bool:
    """Returns whether a value of a type may read as a text; a null of any type reads `null`."""
    match kind:
        case StructType(fields):
            return any(_may_be(field.type, text) for field in fields)
        case AtomicType(name) if name in _INTEGERS:
            return text == "null" or _NUMBER.fullmatch(text) is not None
        case AtomicType(name) if name in _TIMES:
            return text == "null" or _TIME.match(text) is not None
        case _:
            return True


def _hashed(kind: DataType, text: str, count: int) -> set[int] | None:
    if text == "null" or not isinstance(kind, AtomicType):
        return None
    if kind.name != "string" and kind.name not in _INTEGERS:
        return None
    field = {"name": "key", "type": kind.name, "nullable": True, "metadata": {}}
    value = text if kind.name == "string" else int(text)
    with suppress(ConfigError):  # a number that is too large for the type
        return {partition_of([value], {"type": "struct", "fields": [field]}, count)}
    return None
