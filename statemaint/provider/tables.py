"""The rows that a caller gives, as Python values: pairs, Arrow, Parquet, or frames of others.

A table has the columns `key` and `value`, structs of the state's columns, or all of those columns
by themselves, if their names differ. Types are the state's; a width, unit or time zone may be
another as long as every value fits.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from os import PathLike
from types import ModuleType
from typing import Any, cast

from statemaint.codec.rows.types import StructType
from statemaint.codec.rows.unsafe_write import Values
from statemaint.errors import ConfigError
from statemaint.state.arrow import arrow_module, arrow_type

Given = Iterable[tuple[Values, Any]] | str | PathLike[str] | Any
"""Pairs of a key and a value; the path of a Parquet file; or a table, of Arrow or turned into it.

`None` as a value removes the key.
"""

_KEY, _VALUE, _INDEX = "key", "value", "__index_level_"
# Beside key and value: of `read_table` now and before, and of Spark's own reader.
_PLACE = {"batchId", "operatorId", "partitionId", "storeName", "partition", "partition_id"}
_TO_ARROW, _STREAM = ("toArrow", "to_arrow"), "__arrow_c_stream__"
_BATCH = 8192
_WIDTH = re.compile(r"large_|^u(?=int)|[^a-z].*")  # in the name of a type


def pairs_of(
    given: Given, key: StructType, value: StructType, *, many: bool
) -> Iterable[tuple[Values, Any]]:
    """Returns the pairs in some rows; `many`: values are lists. `ConfigError` names a column."""
    is_path = isinstance(given, str | PathLike)
    where = f"{given}: " if is_path else ""
    if not is_path and not any(hasattr(given, name) for name in (*_TO_ARROW, _STREAM)):
        return cast("Iterable[tuple[Values, Any]]", given)
    pa = arrow_module()
    import pyarrow.compute  # noqa: F401 -- an attribute of `pa` from here on
    import pyarrow.parquet as pq

    try:
        maker = next((name for name in _TO_ARROW if hasattr(given, name)), None)
        frame = getattr(given, maker) if maker else partial(pa.table, given)
        table = pq.read_table(given) if is_path else frame()
        of_value = arrow_type(pa, value)
        of_value = pa.list_(of_value) if many else of_value
        keys, values = _columns(pa, table, arrow_type(pa, key), of_value)
    except (pa.ArrowException, OSError) as error:
        raise ConfigError(f"{where}no table of rows: {error}") from error
    except ConfigError as error:
        raise ConfigError(f"{where}{error}") from error
    return _pairs(*(each.cast(_numbers(pa, each.type)) for each in (keys, values)))


def _pairs(keys: Any, values: Any) -> Iterator[tuple[Values, Any]]:
    for start in range(0, len(keys), _BATCH):
        some = (each.slice(start, _BATCH).to_pylist() for each in (keys, values))
        for key, value in zip(*some, strict=True):
            yield tuple((key or {}).values()), value


def _numbers(arrow: ModuleType, of: Any) -> Any:
    """Returns a type with dates and times as numbers, as Python has none beyond the year 9999."""
    kinds = arrow.types
    if kinds.is_struct(of):
        return arrow.struct([(field.name, _numbers(arrow, field.type)) for field in of])
    if kinds.is_map(of):
        return arrow.map_(_numbers(arrow, of.key_type), _numbers(arrow, of.item_type))
    if kinds.is_list(of):
        return arrow.list_(_numbers(arrow, of.value_type))
    if kinds.is_timestamp(of):
        return arrow.int64()
    return arrow.int32() if kinds.is_date(of) else of


def _columns(arrow: ModuleType, table: Any, key: Any, value: Any) -> tuple[Any, Any]:
    """Returns the keys and the values of a table, as the types of the state."""
    there = [name for name in table.column_names if not name.startswith(_INDEX)]
    if repeated := [name for name, number in Counter(there).items() if number > 1]:
        raise ConfigError(f"more than one column is named {', '.join(repeated)}")
    if {_KEY, _VALUE} == {*there} - _PLACE and arrow.types.is_struct(table[_KEY].type):
        key_column, value_column = _fitted(arrow, key, table[_KEY], "key."), table[_VALUE]
        return key_column, _fitted(arrow, value, value_column, "value.")
    if not all(map(arrow.types.is_struct, (key, value))) or {*_names(key)} & {*_names(value)}:
        raise ConfigError(f"a table of these rows has the columns {_KEY} and {_VALUE}, not {there}")
    _check_names("", there, [*_names(key), *_names(value)])
    whole = (table.select(_names(kind)).to_struct_array() for kind in (key, value))
    return _fitted(arrow, key, next(whole), ""), _fitted(arrow, value, next(whole), "")


def _names(struct: Any) -> list[str]:
    return [field.name for field in struct]


def _fitted(arrow: ModuleType, expected: Any, column: Any, path: str) -> Any:
    """Returns a column as another type of the same kind."""
    kinds, column = arrow.types, getattr(column, "combine_chunks", lambda: column)()
    if kinds.is_dictionary(column.type):
        column = column.dictionary_decode()
    if kinds.is_struct(expected) and kinds.is_struct(column.type):
        names = _names(expected)
        _check_names(path, _names(column.type), names)
        columns = (arrow.compute.struct_field(column, name) for name in names)
        parts = [
            _fitted(arrow, field.type, part, f"{path}{field.name}.")
            for field, part in zip(expected, columns, strict=True)
        ]
        return arrow.StructArray.from_arrays(parts, names, mask=column.is_null())
    _check_type(kinds, expected, column.type, path)
    try:
        return column.cast(expected)
    except arrow.ArrowInvalid as error:
        raise ConfigError(f"column {path[:-1]!r}: {error}") from error


def _check_type(kinds: ModuleType, expected: Any, there: Any, path: str) -> None:
    """Checks the kind of a type and of those within: a cast of lists makes missing columns null."""
    there = there.value_type if kinds.is_dictionary(there) else there
    if kinds.is_null(there):
        return
    if _kind(expected) != _kind(there):
        raise ConfigError(f"column {path[:-1]!r} is {there}, where the state has {expected}")
    if kinds.is_struct(expected):
        _check_names(path, _names(there), _names(expected))
        for field in expected:
            _check_type(kinds, field.type, there.field(field.name).type, f"{path}{field.name}.")
    elif kinds.is_map(expected):
        _check_type(kinds, expected.key_type, there.key_type, f"{path}key.")
        _check_type(kinds, expected.item_type, there.item_type, f"{path}value.")
    elif kinds.is_list(expected):
        _check_type(kinds, expected.value_type, there.value_type, path)


def _check_names(path: str, there: Sequence[str], known: Sequence[str]) -> None:
    for name in sorted({*there} ^ {*known}):
        what = "is missing" if name in known else "is not one of the state's"
        raise ConfigError(f"column '{path}{name}' {what}: {', '.join(known)}")


def _kind(of: Any) -> tuple[str, bool]:
    """Returns the kind of a type; values may be of any type of their kind if they fit."""
    name = _WIDTH.sub("", str(of))
    return "float" if name in ("double", "halffloat") else name, getattr(of, "tz", None) is None
