"""Rows of a table, of whatever library, have the columns and types of the state, or are refused."""

from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from statemaint.errors import ConfigError
from statemaint.provider import bootstrap
from statemaint.state import select_state
from statemaint.state.arrow import read_table
from statemaint.storage import MemoryStorage
from tests.support.archived import archived
from tests.support.checkpoints import delta_bytes
from tests.unit.provider.test_bootstrap import KEY, VALUE, checkpoint, schema_file

FLAT = {"k": ["new", "b1"], "count": [7, 50]}


def counts(rows: Any) -> dict[str, int]:
    storage = MemoryStorage(checkpoint())
    bootstrap(storage, rows)
    return {row.key[0]: row.entries[0][0] for row in select_state(storage).decoded()}


class Frame:
    """A frame of a library that makes Arrow of itself."""

    def __init__(self, rows: dict[str, list[Any]]) -> None:
        self._rows = rows

    def toArrow(self) -> pa.Table:  # noqa: N802 -- Spark's name
        return pa.table(self._rows)


@pytest.mark.parametrize("make", [pa.table, pd.DataFrame, Frame])
def test_a_flat_table_has_the_columns_of_key_and_value(make: Any) -> None:
    found = counts(make(FLAT))
    assert (found["new"], found["b1"], found["b2"], len(found)) == (7, 50, 3, 11)


def test_an_empty_frame_changes_nothing() -> None:
    typed = pa.schema({"k": pa.string(), "count": pa.int64()})
    assert counts(pa.Table.from_pylist([], typed)) == counts([])


def test_a_null_value_removes_its_key(tmp_path: Path) -> None:
    rows = [{"key": {"k": "b1"}, "value": None}, {"key": {"k": "b2"}, "value": {"count": 9}}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    found = counts(str(tmp_path / "rows.parquet"))
    assert found == counts(tmp_path / "rows.parquet")
    assert "b1" not in found
    assert (found["b2"], len(found)) == (9, 9)


@pytest.mark.parametrize("names", [["k", "k", "count"], ["key", "key", "value"]])
def test_a_column_that_is_there_twice_is_refused(names: list[str]) -> None:
    texts, numbers = pa.array([{"k": "a"}]), pa.array([{"count": 1}])
    columns = [texts, texts, numbers]
    if "k" in names:
        columns = [column.field(0) for column in columns]
    with pytest.raises(ConfigError, match=f"more than one column is named {names[0]}"):
        counts(pa.Table.from_arrays(columns, names))


def test_another_width_or_encoding_of_a_type_is_taken() -> None:
    names = pa.array(["b1"]).dictionary_encode()
    assert counts(pa.table({"k": names, "count": pa.array([5], pa.int8())}))["b1"] == 5
    assert counts(pa.table({"k": pa.array(["b1"], pa.large_string()), "count": [6]}))["b1"] == 6


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"k": [1], "count": [1]}, "column 'k' is int64, where the state has string"),
        ({"k": ["a"], "count": ["1"]}, "column 'count' is string, where the state has int64"),
        ({"k": ["a"], "count": [1.0]}, "column 'count' is double, where the state has int64"),
        ({"k": ["a"], "count": pa.array([2**63], pa.uint64())}, "column 'count': "),
        ({"k": ["a"]}, "column 'count' is missing: k, count"),
        ({"k": ["a"], "count": [1], "n": [1]}, "column 'n' is not one of the state's: k, count"),
        ({"key": [{"k": 1}], "value": [{"count": 1}]}, "column 'key.k' is int64, where"),
        ({"key": [{"q": "a"}], "value": [{"count": 1}]}, "column 'key.k' is missing: k"),
        ({"k": ["a"], "count": pa.array([None], pa.int64())}, "row 0: column 'count': null"),
    ],
)
def test_a_column_of_another_type_is_named(columns: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        counts(pa.table(columns))


def test_a_file_without_a_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").write_text("no table")
    for path in ("rows.parquet", "missing.parquet"):
        with pytest.raises(ConfigError, match="no table of rows"):
            counts(tmp_path / path)


KINDS = [
    ("4.3.0", "aggregation2"),
    ("4.3.0", "session-window"),
    ("4.3.0", "pandas-state-timeout"),
    ("4.3.0", "dedup"),
]


@pytest.mark.parametrize("case", KINDS)
def test_what_read_table_returns_can_be_given_back(case: tuple[str, str]) -> None:
    storage = archived(case)
    table = read_table(storage)
    assert table.num_rows
    bootstrap(storage, [(tuple(key.values()), None) for key in table["key"].to_pylist()])
    assert not read_table(storage).num_rows
    bootstrap(storage, table)
    again, of_batch = read_table(storage), ["batchId"]
    assert again.drop_columns(of_batch) == table.drop_columns(of_batch)


def test_a_lists_values_are_one_column() -> None:
    storage = archived(("rocks-4.3.0", "rocks-timed"))
    table = read_table(storage, family="amounts")
    more = pa.table({"key": [{"key": "k99"}], "value": [[{"amount": 1}, {"amount": 2}]]})
    bootstrap(storage, {"amounts": more})
    found = {
        row["key"]["key"]: row["value"] for row in read_table(storage, family="amounts").to_pylist()
    }
    assert found["k99"] == [{"amount": 1}, {"amount": 2}]
    assert len(found) == table.num_rows + 1
    with pytest.raises(ConfigError, match="has the columns key and value"):
        bootstrap(storage, {"amounts": pa.table({"key": ["k99"], "amount": [1]})})


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({"all": 1}, "column 'value.all' is not one of the state's: amount"),
        (
            {"amount": 1, "note": 2},
            "column 'value.note' is not one of the state's: amount",
        ),
        ({"amount": "17"}, "column 'value.amount' is string, where the state has int64"),
    ],
)
def test_a_column_of_a_lists_values_is_named_too(entry: dict[str, Any], text: str) -> None:
    storage = archived(("rocks-4.3.0", "rocks-timed"))
    before = read_table(storage, family="amounts")
    with pytest.raises(ConfigError, match=text):
        bootstrap(storage, {"amounts": pa.table({"key": [{"key": "k9"}], "value": [[entry]]})})
    assert read_table(storage, family="amounts") == before


def test_sessions_that_are_not_their_keys_are_refused() -> None:
    storage = archived(("4.3.0", "session-window"))
    row = next(select_state(storage).decoded())
    (name, start), value = row.key, row.entries[0]
    for key in ((name, start + 1), ("other", start)):
        with pytest.raises(ConfigError, match="row 1: the value is of another key"):
            bootstrap(storage, [(row.key, value), (key, value)])


def test_a_value_without_its_expiry_is_refused() -> None:
    storage = archived(("rocks-4.3.0", "rocks-expiring"))
    with pytest.raises(ConfigError, match="total: row 0: column 'ttlExpirationMs': null"):
        bootstrap(storage, {"total": [(("k1",), ((5,), None))]})


@pytest.mark.parametrize(
    ("kind", "last"), [("date", 2**31 - 1), ("timestamp", 2**63 - 1), ("timestamp_ntz", -(2**63))]
)
def test_a_time_beyond_those_of_python_can_be_given_back(kind: str, last: int) -> None:
    files = checkpoint(batches=1)
    value = {"type": "struct", "fields": [{"name": "at", "type": kind, "nullable": True}]}
    files["state/0/0/_metadata/schema"] = schema_file(KEY, value)
    files |= {f"state/0/{part}/1.delta": delta_bytes([]) for part in range(2)}
    storage = MemoryStorage(files)
    bootstrap(storage, [(("a",), (last,)), (("b",), (None,))])
    table = read_table(storage)
    bootstrap(storage, table)
    assert read_table(storage).drop_columns("batchId") == table.drop_columns("batchId")
    found = {row.key: row.entries for row in select_state(storage).decoded()}
    assert found == {("a",): ((last,),), ("b",): ((None,),)}


def test_columns_of_one_name_are_numbered_as_read_table_has_them() -> None:
    twice = [*VALUE["fields"], *VALUE["fields"]]
    files = checkpoint(batches=1)
    files["state/0/0/_metadata/schema"] = schema_file(KEY, {"type": "struct", "fields": twice})
    files |= {f"state/0/{part}/1.delta": delta_bytes([]) for part in range(2)}
    storage = MemoryStorage(files)
    rows = [{"key": {"k": "a"}, "value": {"count": 1, "count (2)": 2}}]
    bootstrap(storage, pa.Table.from_pylist(rows))
    (row,) = read_table(storage).to_pylist()
    assert (row["key"], row["value"]) == (rows[0]["key"], rows[0]["value"])
