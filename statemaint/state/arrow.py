"""State as an Arrow table; needs `pyarrow`, an extra of this package."""

from collections.abc import Iterable, Iterator
from itertools import islice
from types import ModuleType
from typing import TYPE_CHECKING, Any, assert_never

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
from statemaint.errors import CodecError, ConfigError, NotInstalledError
from statemaint.model.ids import batch_of
from statemaint.state.rows import DecodedRow, StateSelection, select_state
from statemaint.storage import Storage

if TYPE_CHECKING:
    import pyarrow as pa

# Arrow's calendar intervals consist of months, days and nanoseconds.
_NANOSECONDS = 1000
# Where Arrow's name for a type is not Spark's; it has no interval of months alone.
_ALIASES = {
    "void": "null", "byte": "int8", "short": "int16", "integer": "int32", "long": "int64",
    "date": "date32", "timestamp_ntz": "timestamp[us]", "year-month": "int32",
    "day-time": "duration[us]", "interval": "month_day_nano_interval",
}  # fmt: skip
# As Python objects, rows take a multiple of their size in the table.
_BATCH = 8192


def read_table(
    storage: Storage | str,
    operator: int = 0,
    *,
    partition: int | None = None,
    store: str | None = None,
    family: str | None = None,
    version: int | None = None,
) -> "pa.Table":
    """Returns the rows of one store or column family at a version as a `pyarrow.Table`.

    Its columns have Spark's names: `batchId`, `operatorId`, `partitionId`, `storeName`, then `key`
    and `value`, structs of the stored columns. If a value has any number of entries, `value` is a
    list of them. The default is the newest committed version of all partitions.

    Raises:
        ConfigError: when `pyarrow` is not installed, or several stores or families are requested,
            whose rows have different columns; else as `read_state` does.
    """
    arrow = arrow_module()
    selection = select_state(
        storage, operator, partition=partition, store=store, family=family, version=version
    )
    schema, batches = record_batches(selection, selection.decoded())
    return arrow.Table.from_batches([*batches], schema)


def arrow_module() -> Any:
    """Returns the module `pyarrow`; a `NotInstalledError` says how it is installed."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise NotInstalledError("pyarrow", extra="arrow") from error
    return pa


def record_batches(
    selection: StateSelection, rows: Iterable[DecodedRow]
) -> tuple[Any, Iterator[Any]]:
    """Returns the Arrow schema of a selection of one kind of row, and its rows, batch by batch."""
    if len(selection.kinds) > 1:
        names = ", ".join(" / ".join(filter(None, kind)) for kind in sorted(selection.kinds))
        raise ConfigError(
            "a table has rows of one kind: choose a store or family (--store, --family) of " + names
        )
    (layout,) = selection.kinds.values()
    schema, batch = _schema(arrow_module(), layout), batch_of(selection.version)
    columns = ({"batchId": batch, **_columns(layout, row)} for row in rows)
    return schema, _batches(schema, columns)


def _batches(schema: Any, rows: Iterator[dict[str, Any]]) -> Iterator[Any]:
    arrow = arrow_module()
    try:
        while some := [*islice(rows, _BATCH)]:
            columns = {name: [row[name] for row in some] for name in schema.names}
            yield arrow.record_batch(columns, schema=schema)
    except (arrow.ArrowException, OverflowError) as error:
        raise CodecError(f"a value does not fit in Arrow: {error}", offset=0) from error


def _schema(arrow: ModuleType, layout: RowLayout) -> Any:
    value = arrow_type(arrow, layout.value)
    fields = {
        "batchId": arrow.int64(),
        "operatorId": arrow.int32(),
        "partitionId": arrow.int32(),
        "storeName": arrow.string(),
        "key": arrow_type(arrow, layout.key),
        "value": arrow.list_(value) if layout.many else value,
    }
    return arrow.schema(list(fields.items()))


def _columns(layout: RowLayout, row: DecodedRow) -> dict[str, Any]:
    entries = [_value(layout.value, entry) for entry in row.entries]
    return {
        **row.store.columns,
        "key": _value(layout.key, row.key),
        "value": entries if layout.many else entries[0],
    }


def arrow_type(arrow: ModuleType, kind: DataType) -> Any:
    """Returns Arrow's type of a column; those of structs are by name."""
    match kind:
        case StructType(fields):
            pairs = zip(field_names(kind), fields, strict=True)
            return arrow.struct([(name, arrow_type(arrow, field.type)) for name, field in pairs])
        case ArrayType(element):
            return arrow.list_(arrow_type(arrow, element))
        case MapType(key, value):
            return arrow.map_(arrow_type(arrow, key), arrow_type(arrow, value))
        case DecimalType(precision, scale):
            return arrow.decimal128(precision, scale)
        case AtomicType("timestamp"):
            return arrow.timestamp("us", tz="UTC")
        case AtomicType(name):
            return arrow.type_for_alias(_ALIASES.get(name, name))
        case _:
            assert_never(kind)


def _value(kind: DataType, value: Any) -> Any:
    """Returns a value in Arrow's form: structs by name, intervals with nanoseconds."""
    if value is None:
        return None
    match kind:
        case StructType(fields):
            columns = zip(field_names(kind), fields, value, strict=True)
            return {name: _value(field.type, column) for name, field, column in columns}
        case ArrayType(element):
            return [_value(element, item) for item in value]
        case MapType(of_key, of_value):
            return [(_value(of_key, key), _value(of_value, item)) for key, item in value]
        case AtomicType("interval"):
            months, days, micros = value
            return (months, days, micros * _NANOSECONDS)
        case _:
            return value
