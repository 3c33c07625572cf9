"""State as an Arrow table; needs `pyarrow`, an extra of this package."""

from itertools import islice
from types import ModuleType
from typing import Any, assert_never

from statemaint.codec.rows.display import field_names
from statemaint.codec.rows.state_row import RowLayout
from statemaint.codec.rows.types import (
    ArrayType,
    AtomicType,
    DataType,
    DecimalType,
    MapType,
    StructType,
)
from statemaint.codec.rows.unsafe_read import Row
from statemaint.errors import CodecError, ConfigError, NotInstalledError
from statemaint.state.rows import DecodedRow, StateSelection, select_state
from statemaint.storage import Storage

# Arrow's calendar intervals consist of months, days and nanoseconds.
_NANOSECONDS = 1000
# As Python objects, rows take a multiple of their size in the table.
_BATCH = 8192


def read_table(storage: Storage | str, operator: int = 0, **where: Any) -> Any:
    """Returns the rows of one store or column family at a version as a `pyarrow.Table`.

    Its columns are `partition`, `key` and `value`; the last two are structs of the stored columns.
    If a value has any number of entries, `value` is a list of them.

    Args:
        storage: where the checkpoint lives, or its address.
        operator: the stateful operator.
        where: `partition`, `store`, `family` and `version` as in `read_state`.

    Raises:
        ConfigError: when `pyarrow` is not installed, or several stores or families are requested,
            whose rows have different columns; else as `read_state` does.
    """
    arrow = _pyarrow()
    selection = select_state(storage, operator, **where)
    layout = _layout(selection)
    schema = _schema(arrow, layout)
    rows = (_columns(layout, row) for row in selection.decoded())
    try:
        batches = []
        while some := [*islice(rows, _BATCH)]:
            columns = {name: [row[name] for row in some] for name in schema.names}
            batches.append(arrow.record_batch(columns, schema=schema))
        return arrow.Table.from_batches(batches, schema)
    except (arrow.ArrowException, OverflowError) as error:
        raise CodecError(f"a value does not fit in Arrow: {error}", offset=0) from error


def _pyarrow() -> ModuleType:
    try:
        import pyarrow as pa
    except ImportError as error:
        raise NotInstalledError("pyarrow", extra="arrow") from error
    module: ModuleType = pa
    return module


def _layout(selection: StateSelection) -> RowLayout:
    layouts = selection.kinds
    if len(layouts) > 1:
        names = ", ".join(" / ".join(filter(None, one)) for one in sorted(layouts))
        raise ConfigError(f"a table has rows of one kind: name one store or family of {names}")
    return next(iter(layouts.values()))


def _schema(arrow: ModuleType, layout: RowLayout) -> Any:
    value = _type(arrow, layout.value)
    fields = {
        "partition": arrow.int32(),
        "key": _type(arrow, layout.key),
        "value": arrow.list_(value) if layout.many else value,
    }
    return arrow.schema(list(fields.items()))


def _columns(layout: RowLayout, row: DecodedRow) -> dict[str, Any]:
    entries = [_value(layout.value, entry) for entry in row.entries]
    return {
        "partition": row.store.partition,
        "key": _value(layout.key, row.key),
        "value": entries if layout.many else entries[0],
    }


def _type(arrow: ModuleType, kind: DataType) -> Any:
    match kind:
        case StructType(fields):
            pairs = zip(field_names(kind), fields, strict=True)
            return arrow.struct([(name, _type(arrow, field.type)) for name, field in pairs])
        case ArrayType(element):
            return arrow.list_(_type(arrow, element))
        case MapType(key, value):
            return arrow.map_(_type(arrow, key), _type(arrow, value))
        case DecimalType(precision, scale):
            return arrow.decimal128(precision, scale)
        case AtomicType(name):
            return _atomic(arrow, name)
        case _:
            assert_never(kind)


def _atomic(arrow: ModuleType, name: str) -> Any:
    return {
        "void": arrow.null(),
        "boolean": arrow.bool_(),
        "byte": arrow.int8(),
        "short": arrow.int16(),
        "integer": arrow.int32(),
        "long": arrow.int64(),
        "float": arrow.float32(),
        "double": arrow.float64(),
        "string": arrow.string(),
        "binary": arrow.binary(),
        "date": arrow.date32(),
        "timestamp": arrow.timestamp("us", tz="UTC"),
        "timestamp_ntz": arrow.timestamp("us"),
        # Arrow has no interval of months alone.
        "year-month": arrow.int32(),
        "day-time": arrow.duration("us"),
        "interval": arrow.month_day_nano_interval(),
    }[name]


def _value(kind: DataType, value: Any) -> Any:
    """Returns a value in Arrow's form: structs by name, intervals with nanoseconds."""
    if value is None:
        return None
    match kind:
        case StructType():
            return _struct(kind, value)
        case ArrayType(element):
            return [_value(element, one) for one in value]
        case MapType(key, other):
            return [(_value(key, one), _value(other, two)) for one, two in value]
        case AtomicType("interval"):
            months, days, micros = value
            return (months, days, micros * _NANOSECONDS)
        case _:
            return value


def _struct(kind: StructType, row: Row) -> dict[str, Any]:
    names = field_names(kind)
    return {
        name: _value(field.type, value)
        for name, field, value in zip(names, kind.fields, row, strict=True)
    }
