"""Operators without metadata, which Spark before 4.0 does not write."""

import math
from typing import Any

import pytest

from statemaint.errors import CheckpointError, ConfigError, UnsupportedError
from statemaint.provider import bootstrap
from statemaint.state import select_state
from statemaint.storage import MemoryStorage
from tests.support.archived import archived
from tests.support.checkpoints import delta_bytes, offsets_bytes
from tests.unit.provider.test_bootstrap import (
    ROWS,
    checkpoint,
    count,
    operator_file,
    refused,
    schema_file,
)

SINCE_3_5 = b'"spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan":"false",'


def undeclared(**changes: Any) -> dict[str, bytes]:
    files = checkpoint(**changes)
    return {path: content for path, content in files.items() if "metadata/metadata" not in path}


def column(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def row(*columns: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": [*columns]}


def empty(key: dict[str, Any]) -> dict[str, bytes]:
    """Returns a query with other keys, which has none yet."""
    deltas = {path: delta_bytes([]) for path in undeclared() if path.endswith(".delta")}
    return {**undeclared(), **deltas, "state/0/0/_metadata/schema": schema_file(key)}


def test_rows_get_where_those_of_a_declared_operator_get() -> None:
    storages = [MemoryStorage(files) for files in (undeclared(), checkpoint())]
    made = [bootstrap(storage, ROWS, run="run") for storage in storages]
    assert made[0] == made[1]
    states = [[(*r.key, *r.entries) for r in select_state(s).decoded()] for s in storages]
    assert states[0] == states[1]
    assert ("new", (7,)) in states[0]


def test_an_operator_that_has_no_stores_is_refused() -> None:
    refused(undeclared(), ConfigError, "operator 5 is not there", operator=5)


MINUS_ZERO = [
    pytest.param("double", -0.0, id="double"),
    pytest.param("float", -0.0, id="float"),
    pytest.param(row(column("inner", "double")), (-0.0,), id="struct"),
    pytest.param(
        {"type": "array", "elementType": "float", "containsNull": True}, [-0.0], id="array"
    ),
]


@pytest.mark.parametrize("operator", [None, "dedupe", "dedupeWithinWatermark"])
@pytest.mark.parametrize(("kind", "value"), MINUS_ZERO)
def test_minus_zero_is_refused_where_nothing_shows_how_it_is_stored(
    operator: str | None, kind: Any, value: Any
) -> None:
    """Spark 4.0 keeps it in the keys of `dropDuplicates`, and 4.3 stores it as 0.0."""
    files = empty(row(column("a", "long"), column("b", kind)))
    if operator is not None:
        files["state/0/_metadata/metadata"] = operator_file(name=operator)
    refused(files, ConfigError, "row 0: -0.0, or a NaN of its own, in", rows=[((1, value), (1,))])
    assert sum(bootstrap(MemoryStorage(files), [((1, None), (1,))]).rows.values()) == 1


@pytest.mark.parametrize(
    ("operator", "sign"), [("stateStoreSave", 1), ("flatMapGroupsWithState", -1)]
)
def test_minus_zero_is_stored_as_the_operator_stores_it(operator: str, sign: int) -> None:
    storage = MemoryStorage({**checkpoint(name=operator), **empty(row(column("x", "double")))})
    bootstrap(storage, [((-0.0,), (1,))])
    ((stored,),) = [stored.key for stored in select_state(storage).decoded()]
    assert math.copysign(1, stored) == sign


@pytest.mark.parametrize("key", [row(), row(column("key", "void"))], ids=["total", "limit"])
def test_state_without_a_key_is_refused(key: dict[str, Any]) -> None:
    refused(empty(key), UnsupportedError, r"operator 0 \(default\): state without a key", rows=[])


def test_the_limit_of_spark_3_5_is_refused() -> None:
    storage = archived(("3.5.9", "limit"))
    refused(storage.files, UnsupportedError, "operator 0 with 1 partitions of 2", rows=[])


def test_stores_of_no_known_operator_are_refused() -> None:
    files = {
        path.replace("state/0/0/", "state/0/0/other/").replace("state/0/1/", "state/0/1/other/"): it
        for path, it in undeclared().items()
    }
    refused(files, UnsupportedError, r"operator 0 \(other\) is not supported", rows=[])


@pytest.mark.parametrize("setting", [{}, {"useStrictDistribution": "false"}])
def test_a_query_that_may_shuffle_by_some_of_its_keys_is_refused(setting: dict[str, str]) -> None:
    conf = {f"spark.sql.streaming.statefulOperator.{key}": value for key, value in setting.items()}
    for files in (undeclared(), checkpoint()):
        files["offsets/2"] = offsets_bytes(conf)
        refused(files, UnsupportedError, "state of a query that began before Spark 3.3")


def without(storage: MemoryStorage, setting: bytes) -> dict[str, bytes]:
    files = dict(storage.files)
    return {path: content.replace(setting, b"") for path, content in files.items()}


def test_rocksdb_of_a_spark_that_may_read_no_changelogs_is_refused() -> None:
    files = without(archived(("rocks-3.5.9", "rocks-zips")), SINCE_3_5)
    refused(files, UnsupportedError, "RocksDB without changelogs", rows=[])
    changelogs = without(archived(("rocks-3.5.9", "rocks-dedup")), SINCE_3_5)
    assert bootstrap(MemoryStorage(changelogs), []).batch == 13


def test_a_key_in_a_wrong_partition_is_refused_without_metadata_too() -> None:
    files = undeclared()
    for partition in range(2):
        files[f"state/0/{partition}/3.delta"] = delta_bytes([count("b1", 1)])
    refused(files, CheckpointError, "by our arithmetic")
