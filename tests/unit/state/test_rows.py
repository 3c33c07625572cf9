"""What `read_state` gives, and what it says where there is nothing to give."""

import json
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import statemaint
from statemaint.errors import (
    CodecError,
    ConfigError,
    DamagedError,
    StatemaintError,
    UnsupportedError,
)
from statemaint.fold.state import State
from statemaint.model.ids import StoreId
from statemaint.planning import scan_checkpoint
from statemaint.state import StateRow, read_state
from statemaint.state.arrow import read_table
from statemaint.storage import LocalStorage, MemoryStorage
from tests.checkpoints.archive import contents
from tests.support.checkpoints import offsets_bytes
from tests.support.long_rows import write_longs

SCHEMA = "state/0/0/_metadata/schema"
OPERATOR = "state/0/_metadata/metadata"
ENCODING = "spark.sql.streaming.stateStore.encodingFormat"


def archived(kind: str) -> MemoryStorage:
    return MemoryStorage(contents("rocks-4.3.0" if kind.startswith("rocks-") else "4.3.0")[kind])


def test_a_number_that_no_key_can_begin_with_hides_no_other_family() -> None:
    state = State(iter(()), {0: "a", 40_000: "b", -1: "c"})
    assert (state.width, state.fronts) == (2, {b"\0\0": "a", b"\xff\xff": "c"})
    without = State(iter(()), {})
    assert (without.width, without.fronts) == (0, {b"": None})


def rows_of(kind: str, **where: Any) -> list[StateRow]:
    return list(read_state(archived(kind), **where))


def test_a_row_says_where_it_lies() -> None:
    row, *_ = rows_of("join2", partition=1, store="left-keyWithIndexToValue", version=10)
    assert row.store == StoreId(0, 1, "left-keyWithIndexToValue")
    assert row.family is None
    assert list(row.key) == ["field0", "index"]
    assert list(row.value) == ["id", "key", "at", "matched"]


def test_what_is_asked_for_is_all_that_comes() -> None:
    everything = rows_of("join2")
    assert {row.store.store for row in everything} == {
        "left-keyToNumValues", "left-keyWithIndexToValue",
        "right-keyToNumValues", "right-keyWithIndexToValue",
    }  # fmt: skip
    some = rows_of("join2", partition=1, store="right-keyToNumValues")
    assert some == [row for row in everything if row.store == StoreId(0, 1, "right-keyToNumValues")]
    assert some


def test_rows_come_in_the_order_of_their_stores() -> None:
    stores = [row.store for row in rows_of("join2")]
    assert stores == sorted(stores)


def test_a_join_counts_what_it_has_of_each_key() -> None:
    for kind in ("join1", "join2", "rocks-join2"):
        for side in ("left", "right"):
            counted = {
                row.key["field0"]: row.value["value"]  # type: ignore[call-overload]
                for row in rows_of(kind, store=f"{side}-keyToNumValues")
            }
            indexes: dict[str, list[int]] = {}
            for row in rows_of(kind, store=f"{side}-keyWithIndexToValue"):
                indexes.setdefault(row.key["field0"], []).append(row.key["index"])
            assert {key: len(found) for key, found in indexes.items()} == counted
            assert all(sorted(found) == list(range(len(found))) for found in indexes.values())


@pytest.mark.parametrize("kind", ["rocks-timed", "rocks-timed-ids"])
def test_timers_are_in_two_orders(kind: str) -> None:
    by_key, by_time = (
        {
            (row.key["key"]["key"], row.key["expiryTimestampMs"])
            for row in rows_of(kind, family=name)
        }
        for name in ("$eventTimers_keyToTimestamp", "$eventTimers_timestampToKey")
    )
    assert by_key == by_time
    assert len(by_key) > 1


@pytest.mark.parametrize(
    ("variable", "key"), [("total", "key"), ("brief", "key"), ("hours", "key")]
)
def test_what_expires_is_in_the_order_of_its_time_too(variable: str, key: str) -> None:
    kept: set[tuple[int, str]] = {
        (row.value["ttlExpirationMs"], json.dumps(row.key))  # type: ignore[call-overload]
        for row in rows_of("rocks-expiring", family=variable)
    }
    expiring = rows_of("rocks-expiring", family=f"$ttl_{variable}")
    assert {
        (row.key["expirationMs"], json.dumps(row.key["elementKey"])) for row in expiring
    } == kept
    assert kept
    assert all(key in row.key["elementKey"] for row in expiring)


def test_what_spark_keeps_for_itself_comes_when_it_is_named() -> None:
    names = {row.family for row in rows_of("rocks-timed")}
    assert names == {"total", "amounts", "hours", "$eventTimers_keyToTimestamp"}
    counters = rows_of("rocks-timed", family="$rowCounter_amounts")
    lists = rows_of("rocks-timed", family="amounts")
    assert {row.key["key"]: row.value["count"] for row in counters} == {  # type: ignore[call-overload]
        row.key["key"]: len(row.value) for row in lists
    }


def test_schema_files_are_found_without_the_metadata_that_name_them() -> None:
    storage = archived("rocks-join3")
    expected = list(read_state(storage))
    for path in list(storage.files):
        if "/_metadata/" in path:
            storage.delete(path)
    assert list(read_state(storage)) == expected


def drop_v2(storage: MemoryStorage) -> None:
    for path in list(storage.files):
        if "/_metadata/v2/" in path:
            storage.delete(path)


def without_properties(storage: MemoryStorage) -> None:
    for path in list(storage.files):
        if path.rpartition("/")[0] == "state/0/_metadata/v2" and path.endswith("/0"):
            version, _, text = storage.read(path).partition(b"\n")
            fields = {**json.loads(text), "operatorPropertiesJson": [[]]}
            storage.write(path, [version, b"\n", json.dumps(fields).encode()], overwrite=True)


@pytest.mark.parametrize("spoil", [drop_v2, without_properties])
@pytest.mark.parametrize("family", [None, "total"])
def test_no_file_is_called_corrupt_because_it_is_unknown_what_is_a_list(
    family: str | None, spoil: Callable[[MemoryStorage], None]
) -> None:
    storage = archived("rocks-timed")
    spoil(storage)
    with pytest.raises(DamagedError, match=r"state/0/_metadata/v2: only its newest file") as caught:
        list(read_state(storage, family=family))
    assert caught.value.code == "UNREADABLE_METADATA"


Spoil = Callable[[MemoryStorage], object]


def put(path: str, content: bytes) -> Spoil:
    return lambda storage: storage.write(path, [content], overwrite=True)


def drop(path: str) -> Spoil:
    return lambda storage: storage.delete(path)


def drop_deltas(storage: MemoryStorage) -> None:
    for path in list(storage.files):
        if path.endswith("/12.delta"):
            storage.delete(path)


def schema(key: str, value: str) -> bytes:
    texts = (f'{{"type":"struct","fields":[{fields}]}}'.encode() for fields in (key, value))
    chunked = (struct.pack(">iH", 1, len(text)) + text for text in texts)
    return b"\0\2v2" + b"".join(chunked)


LONG, VARIANT = '{"name":"a","type":"long"}', '{"name":"a","type":"variant"}'


@pytest.mark.parametrize(
    ("spoil", "kind", "code", "text"),
    [
        (put(SCHEMA, b"\0\2v9"), DamagedError, "UNREADABLE_METADATA", "unknown format 'v9'"),
        (drop(SCHEMA), DamagedError, "UNREADABLE_METADATA", f"{SCHEMA}: it has the schema"),
        (put(SCHEMA, schema(VARIANT, LONG)), UnsupportedError, "UNSUPPORTED", "type variant"),
        (put(SCHEMA, schema(",".join([LONG] * 9), LONG)),
         CodecError, "CORRUPT_FILE", "row 1 of version 13 in op 0 / part 0 / default: row of"),
        (put(OPERATOR, b"v1\n{}"), DamagedError, "UNREADABLE_METADATA", OPERATOR),
        (put("state/0/0/12.delta", b"LZ4Block"), CodecError, "CORRUPT_FILE", "state/0/0/12.delta"),
        (drop_deltas, DamagedError, "BROKEN_CHAIN", "12.delta"),
        (put("commits/12", b"v1\n{"), DamagedError, "UNREADABLE_COMMIT", "commits/12"),
        (put("offsets/12", offsets_bytes({ENCODING: "avro"})), UnsupportedError, "UNSUPPORTED",
         f"{ENCODING}=avro"),
    ],
)  # fmt: skip
def test_damage_is_told_by_its_code(
    spoil: Spoil, kind: type[StatemaintError], code: str, text: str
) -> None:
    storage = archived("aggregation2")
    spoil(storage)
    with pytest.raises(kind, match=text.replace("(", r"\(")) as caught:
        list(read_state(storage))
    assert caught.value.code == code


def test_the_encoding_is_unsafe_row_where_the_log_says_so_or_nothing() -> None:
    storage = archived("aggregation2")
    expected = list(read_state(storage))
    put("offsets/12", offsets_bytes({ENCODING: "UnsafeRow"}))(storage)
    assert list(read_state(storage)) == expected


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ({"operator": 3}, "no operator 3, partition .any., store .any."),
        ({"partition": 2}, "no operator 0, partition 2, store"),
        ({"store": "left"}, "store left; `statemaint scan` lists"),
        ({"version": 14}, "version 14 is not committed; the newest is 13"),
        ({"version": -1}, "version -1 is below 0, the empty state"),
        ({"family": "nix"}, "no column family nix in operator 0; there are none"),
    ],
)
def test_what_is_not_there_is_the_caller_s_fault(where: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        rows_of("aggregation2", **where)


def test_other_column_families_are_named() -> None:
    with pytest.raises(ConfigError, match=r"there are .*amounts, hours, total"):
        rows_of("rocks-timed", family="nix")


def test_a_version_below_the_commit_log_is_not_damage() -> None:
    storage = archived("aggregation2")
    storage.delete("state/0/0/1.delta")
    with pytest.raises(ConfigError, match=r"version 1 no longer loads, .*1.delta"):
        read_state(storage, version=1)


def test_without_a_committed_batch_there_is_no_state() -> None:
    storage = archived("aggregation2")
    for path in list(storage.files):
        if path.startswith("commits/"):
            storage.delete(path)
    with pytest.raises(ConfigError, match="no batch is committed yet"):
        read_state(storage)


def without_zips(kind: str) -> MemoryStorage:
    storage = archived(kind)
    for path in list(storage.files):
        if path.endswith(".zip"):
            storage.delete(path)
    return storage


def test_column_families_without_numbers_cannot_be_told_apart() -> None:
    with pytest.raises(ConfigError, match=r"uses column families .* which no earlier zip names"):
        list(read_state(without_zips("rocks-join3"), version=1))


def test_a_version_below_every_zip_has_its_column_families_too() -> None:
    storage = archived("rocks-join3")
    expected = list(read_state(storage, version=1))
    for path in list(storage.files):
        if path.endswith("/1.zip"):
            newer = storage.read(path)
            storage.delete(path)
            storage.write(path.replace("1.zip", "2.zip"), [newer])
    assert list(read_state(storage, version=1)) == expected
    assert expected


def test_a_table_needs_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match="pyarrow is not installed"):
        statemaint.open("/nowhere").show()


def test_the_old_function_has_the_old_columns_and_names_the_new_way(tmp_path: Path) -> None:
    storage, theirs = LocalStorage(tmp_path), archived("limit")
    for path in theirs.files:
        storage.write(path, [theirs.read(path)])
    with pytest.warns(DeprecationWarning, match=r"use statemaint.open\(address\).show"):
        table = statemaint.read_state(str(tmp_path))
    new = statemaint.open(tmp_path).show()
    assert table.column_names == ["partition", "key", "value"]
    assert table.column("partition") == new.column("partitionId")
    assert table.num_rows == new.num_rows > 0


def test_a_table_has_rows_of_one_kind() -> None:
    with pytest.raises(ConfigError, match="default / amounts, default / hours, default / total"):
        read_table(archived("rocks-timed"))


@pytest.mark.parametrize(
    ("kind", "where"),
    [("pandas-state", {}), ("join2", {"store": "left-keyToNumValues"}), ("limit", {}),
     ("rocks-timed", {"family": "amounts"}), ("rocks-timed", {"family": "hours"})],
)  # fmt: skip
def test_a_table_has_the_same_rows(kind: str, where: dict[str, Any]) -> None:
    table = read_table(archived(kind), **where)
    expected = [
        {
            "batchId": scan_checkpoint(archived(kind)).committed,
            "operatorId": row.store.operator,
            "partitionId": row.store.partition,
            "storeName": row.store.store,
            "key": row.key,
            "value": row.value,
        }
        for row in rows_of(kind, **where)
    ]
    assert table.to_pylist() == expected
    assert expected


def test_a_large_table_has_every_row() -> None:
    versions: list[list[tuple[int, int | None]]] = [[(key, key + 1) for key in range(20_000)]]
    table = read_table(write_longs([versions]))
    rows = sorted((one["key"]["k"], one["value"]["v"]) for one in table.to_pylist())
    assert rows == [(key, key + 1) for key in range(20_000)]
    assert table.column("key").num_chunks > 1
    assert read_table(write_longs([[[]]])).num_rows == 0
