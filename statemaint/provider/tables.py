"""The rows that a caller gives, as Python values: pairs, Arrow, Parquet, or frames of others.

A table has the columns `key` and `value`, structs of the state's columns, or all of those columns
by themselves, if their names differ. Types are the state's; a width, unit or time zone may be
another as long as every value fits.
"""

from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from types import ModuleType
from typing import Any

from statemaint.codec.rows.display import field_names
from statemaint.codec.rows.unsafe_write import Values
from statemaint.errors import ConfigError, NotInstalledError
from statemaint.provider.edits import Rows
from statemaint.state.arrow import arrow_type

Given = Iterable[tuple[Values, Any]] | str | PathLike[str] | Any
"""Pairs of a key and a value; the path of a Parquet file; or a table, of Arrow or turned into it.

`None` as a value removes the key.
"""

_KEY, _VALUE, _PARTITION, _INDEX = "key", "value", "partition", "__index_level_"
_TO_ARROW = ("toArrow", "to_arrow")
_BATCH = 8192
# Each is a test of `pyarrow.types`.
_ALIKE = (
    ("integer",), ("floating",), ("decimal",), ("boolean",), ("date",), ("duration",), ("map",),
    ("interval",), ("string", "large_string"), ("binary", "large_binary"), ("list", "large_list"),
)  # fmt: skip


def pairs_of(given: Given, rows: Rows) -> Iterable[tuple[Values, Any]]:
    """Returns the pairs in some rows; a `ConfigError` names a column that does not fit."""
    if not isinstance(given, str | PathLike) and not any(
        hasattr(given, name) for name in (*_TO_ARROW, "__arrow_c_stream__")
    ):
        return given
    try:
        import pyarrow as pa
        import pyarrow.compute
        import pyarrow.parquet as pq
    except ImportError as error:
        raise NotInstalledError("pyarrow", extra="arrow") from error
    try:
        table = pq.read_table(given) if isinstance(given, str | PathLike) else _table(pa, given)
        keys, values = _columns(pa, table, rows)
    except (pa.ArrowException, OSError) as error:
        raise ConfigError(f"no table of rows: {error}") from error
    return _pairs(keys, values)


def _table(arrow: ModuleType, given: Any) -> Any:
    for name in _TO_ARROW:
        if hasattr(given, name):
            return getattr(given, name)()
    return arrow.table(given)


def _pairs(keys: Any, values: Any) -> Iterator[tuple[Values, Any]]:
    for start in range(0, len(keys), _BATCH):
        some = (each.slice(start, _BATCH).to_pylist() for each in (keys, values))
        for key, value in zip(*some, strict=True):
            yield tuple((key or {}).values()), value


def _columns(arrow: ModuleType, table: Any, rows: Rows) -> tuple[Any, Any]:
    """Returns the keys and the values of a table, each with the types of the state."""
    key, value = rows.table.layout.key, rows.values.layout.value
    of_key, of_value = arrow_type(arrow, key), arrow_type(arrow, value)
    there = [name for name in table.column_names if not name.startswith(_INDEX)]
    if {_KEY, _VALUE} == {*there} - {_PARTITION} and arrow.types.is_struct(table[_KEY].type):
        many = rows.values.layout.many and not rows.adds
        of_value = arrow.list_(of_value) if many else of_value
        fit = _fitted(arrow, of_key, table[_KEY], _KEY)
        return fit, _fitted(arrow, of_value, table[_VALUE], _VALUE)
    names = (*field_names(key), *field_names(value))
    if len({*names}) < len(names):
        text = f"give the columns {_KEY} and {_VALUE}, as names are repeated: {', '.join(names)}"
        raise ConfigError(text)
    whole = table.select(there).to_struct_array()
    return _fitted(arrow, of_key, whole, "", names), _fitted(arrow, of_value, whole, "", names)


def _fitted(
    arrow: ModuleType, expected: Any, column: Any, path: str, known: Sequence[str] = ()
) -> Any:
    """Returns a column as another type of the same kind; `known` are all columns of a flat row."""
    kinds, column = arrow.types, _whole(arrow, column)
    if kinds.is_struct(expected) and kinds.is_struct(column.type):
        names = [field.name for field in expected]
        _check_names(path, [field.name for field in column.type], known or names)
        parts = [
            _fitted(arrow, field.type, arrow.compute.struct_field(column, field.name), inner)
            for field, inner in zip(expected, _within(path, names), strict=True)
        ]
        return arrow.StructArray.from_arrays(parts, names, mask=column.is_null())
    if kinds.is_null(column.type) or _alike(kinds, expected, column.type):
        try:
            return column.cast(expected)
        except arrow.ArrowInvalid as error:
            raise ConfigError(f"column {path!r}: {error}") from error
    raise ConfigError(f"column {path!r} is {column.type}, where the state has {expected}")


def _whole(arrow: ModuleType, column: Any) -> Any:
    whole = column.combine_chunks() if isinstance(column, arrow.ChunkedArray) else column
    return whole.dictionary_decode() if arrow.types.is_dictionary(whole.type) else whole


def _check_names(path: str, there: Sequence[str], known: Sequence[str]) -> None:
    if wrong := sorted({*there} ^ {*known}):
        (name,) = _within(path, wrong[:1])
        what = "is missing" if wrong[0] in known else "is not one of the state's"
        raise ConfigError(f"column {name!r} {what}: {', '.join(known)}")


def _within(path: str, names: Sequence[str]) -> list[str]:
    return [f"{path}.{name}" if path else name for name in names]


def _alike(kinds: ModuleType, expected: Any, given: Any) -> bool:
    """Returns whether values of one type can be of the other, but for their size or unit."""
    if kinds.is_timestamp(expected) and kinds.is_timestamp(given):
        return (expected.tz is None) == (given.tz is None)
    return any(
        any(getattr(kinds, f"is_{name}")(expected) for name in names)
        and any(getattr(kinds, f"is_{name}")(given) for name in names)
        for names in _ALIKE
    )
