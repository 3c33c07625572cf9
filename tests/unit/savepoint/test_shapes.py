"""A savepoint in another shape has the same rows, and says so where Spark looks for it."""

import re
from dataclasses import replace
from typing import Any

import pytest

from statemaint.audit import digest_stores, doctor, verify
from statemaint.codec.compression.base import encode
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.hdfs import records
from statemaint.codec.metadata import logs
from statemaint.codec.rows.state_row import NoPrefix, PrefixScan
from statemaint.errors import CheckpointError, ConfigError
from statemaint.fold import Source
from statemaint.model.checkpoint import Provider
from statemaint.planning import scan_checkpoint
from statemaint.records.savepoints import Shape, read_savepoint
from statemaint.savepoint import savepoint
from statemaint.state.versions import layouts_of
from statemaint.storage import MemoryStorage, Storage
from tests.checkpoints.archive import contents
from tests.support.archived import archived
from tests.support.faults import Clock, each_crash
from tests.support.reshaped import At, rows_of, values_of

HDFS, ROCKSDB = Provider.HDFS_BACKED, Provider.ROCKSDB
SESSIONS = ("4.3.0", "session-window")
_STATE = "spark.sql.streaming.stateStore"


def cases(*archives: str) -> list[Any]:
    return [
        pytest.param((archive, kind), id=f"{archive} {kind}")
        for archive in archives
        for kind in sorted(contents(archive))
        if not (archive == "rocks-4.0.5" and kind.endswith("-ids"))  # refused
    ]


def source_of(case: tuple[str, str]) -> At:
    return At(archived(case).files, "source")


def saved(source: Storage, shape: Shape, name: str = "dest") -> At:
    """Returns a savepoint that is healthy, and in the shape that was chosen."""
    dest = At({}, name)
    savepoint(source, dest, shape=shape)
    assert verify(dest, deep=True).findings == ()
    assert doctor(dest).restarts
    assert Shape.of(scan_checkpoint(dest)) == Shape.of(scan_checkpoint(source)).changed(shape)
    note = read_savepoint(dest)
    assert note
    assert note.after == Shape.of(scan_checkpoint(dest))
    return dest


@pytest.mark.parametrize("case", cases("3.5.9", "4.3.0"))
def test_hdfs_backed_stores_go_to_rocksdb_and_back(case: tuple[str, str]) -> None:
    source = source_of(case)
    expected = values_of(source)
    steps = [Shape(provider=ROCKSDB)]
    if case[0] >= "4":
        steps += [Shape(ids="v2", partitions=5), Shape(ids="v1")]
    at: Storage = source
    for number, shape in enumerate(steps):
        at = saved(at, shape, str(number))
        assert values_of(at) == expected
    back = saved(at, Shape(provider=HDFS, partitions=2), "back")
    assert rows_of(back) == rows_of(source)


@pytest.mark.parametrize("case", cases("rocks-3.5.9", "rocks-4.0.5", "rocks-4.3.0"))
def test_rocksdb_stores_go_to_hdfs_backed_ones_unless_they_have_families(
    case: tuple[str, str],
) -> None:
    source = source_of(case)
    checkpoint = scan_checkpoint(source)
    shape = Shape(provider=HDFS, partitions=3, codec="zstd")
    if checkpoint.operators and checkpoint.operators[0].has_families:
        name = checkpoint.operators[0].name
        assert f"operator 0 ({name}) with HDFSBacked" in refused(source, shape)
        return
    dest = saved(source, shape)
    assert values_of(dest) == values_of(source)
    assert rows_of(saved(dest, Shape(provider=ROCKSDB), "back")) == rows_of(source)


TWINS = [
    (("4.3.0", "aggregation2"), ("rocks-4.3.0", "rocks-aggregation")),
    (("4.3.0", "aggregation2-rowchecksum"), ("rocks-4.3.0", "rocks-rowchecksum")),
    (("3.5.9", "session-window"), ("rocks-3.5.9", "rocks-session-window")),
]


@pytest.mark.parametrize(("hdfs", "rocks"), TWINS)
def test_rows_are_those_of_the_same_query_on_the_other_provider(
    hdfs: tuple[str, str], rocks: tuple[str, str]
) -> None:
    one, other = source_of(hdfs), source_of(rocks)
    assert rows_of(saved(one, Shape(provider=ROCKSDB))) == rows_of(other)
    assert rows_of(saved(other, Shape(provider=HDFS))) == rows_of(one)


CHECKED = ["aggregation-ids", "join2", "join4-ids", "timed-ids", "expiring"]


@pytest.mark.parametrize("kind", CHECKED)
def test_rocksdb_rows_get_checksums_and_lose_them(kind: str) -> None:
    source = source_of(("rocks-4.3.0", f"rocks-{kind}"))
    dest = saved(source, Shape(row_checksums=True, partitions=3))
    assert values_of(dest) == values_of(source)
    back = saved(dest, Shape(row_checksums=False, partitions=2), "back")
    assert rows_of(back) == rows_of(source)


@pytest.mark.parametrize("kind", cases("rocks-4.3.0"))
def test_unique_ids_come_and_go_with_other_partitions(kind: tuple[str, str]) -> None:
    source = source_of(kind)
    before, after = Shape(ids="v1", partitions=2), Shape(ids="v2", partitions=5)
    if kind[1].endswith("-ids"):
        before, after = replace(before, ids="v2"), replace(after, ids="v1")
    there = saved(source, after, "there")
    assert rows_of(there) == rows_of(source)
    back = saved(there, before, "back")
    assert digest_stores(back) == digest_stores(source)


@pytest.mark.parametrize("codec", COMPRESSIONS)
def test_hdfs_backed_files_get_any_codec(codec: str) -> None:
    source = source_of(("4.3.0", "aggregation2-rowchecksum"))
    dest = saved(source, Shape(codec=codec, row_checksums=False))
    assert values_of(dest) == values_of(source)


def test_only_the_newest_offsets_say_it_and_all_else_stays() -> None:
    source = source_of(SESSIONS)
    shape = Shape(partitions=3, provider=ROCKSDB, codec="zstd", row_checksums=True)
    dest = saved(source, shape)
    assert dest.files["offsets/11"] == source.files["offsets/11"]
    changed = {
        "spark.sql.shuffle.partitions": "3",
        f"{_STATE}.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        f"{_STATE}.compression.codec": "zstd",
        f"{_STATE}.rowChecksum.enabled": "true",
    }
    before, after = (logs.parse_conf(one.files["offsets/12"]) for one in (source, dest))
    assert after == {**before, **changed}
    undone = logs.with_conf(dest.files["offsets/12"], {one: before[one] for one in changed})
    assert undone == source.files["offsets/12"]
    assert dest.files["commits/12"] == source.files["commits/12"]


def test_unique_ids_are_in_the_commit_in_sparks_order() -> None:
    theirs = source_of(("rocks-4.3.0", "rocks-join2-ids"))
    dest = saved(source_of(("rocks-4.3.0", "rocks-join2")), Shape(ids="v2"))
    for storage in (theirs, dest):
        (partitions,) = logs.parse_commit(storage.files["commits/12"]).values()
        for number, ids in enumerate(partitions):
            stores = [one for one in scan_checkpoint(storage).stores if one.id.partition == number]
            named = {one.rocks.id_at(13): one.id.store for one in stores if one.rocks}
            assert [named[one] for one in ids] == sorted(named.values())


def test_the_shape_of_the_source_is_refused() -> None:
    source = source_of(SESSIONS)
    same = Shape.of(scan_checkpoint(source))
    assert "has this shape already (partitions 2, provider HDFS" in refused(source, same)
    assert "has this shape already" in refused(source, Shape(partitions=same.partitions))


def test_a_query_without_state_has_no_shape() -> None:
    files = archived(("4.3.0", "aggregation2")).files
    source = At(
        {path: one for path, one in files.items() if not path.startswith("state/")}, "source"
    )
    none = re.compile(rb'"batchWatermarkMs":[0-9]+')
    for path in [one for one in source.files if one.startswith("offsets/")]:
        source.replace(path, [none.sub(b'"batchWatermarkMs":0', source.files[path])])
    text = refused(source, Shape(partitions=3))
    assert text == "memory:source: the query has no state, which is all that can have a shape"


def test_one_partition_of_an_unknown_operator_does_not_stay_alone() -> None:
    source = saved(source_of(("4.3.0", "aggregation2")), Shape(partitions=1), "one")
    path = "state/0/_metadata/metadata"
    source.replace(path, [source.files[path].replace(b"stateStoreSave", b"newOperator")])
    text = refused(source, Shape(partitions=3))
    assert "other partitions of operator 0 (newOperator), as its shuffle key is not known" in text


def test_keys_with_a_sessions_name_are_no_sessions_without_its_window() -> None:
    source = source_of(("3.5.9", "session-window"))
    checkpoint = scan_checkpoint(source)
    store = checkpoint.stores[0]
    assert layouts_of(source, checkpoint, store, 13, ROCKSDB)[None].encoder == PrefixScan(1)
    path = f"{store.id.directory}/_metadata/schema"
    source.replace(path, [source.files[path].replace(b'"name":"start"', b'"name":"begin"')])
    assert layouts_of(source, checkpoint, store, 13, ROCKSDB)[None].encoder == NoPrefix()


@pytest.mark.parametrize(
    ("case", "shape"),
    [
        (SESSIONS, Shape(provider=ROCKSDB, ids="v2")),
        (("rocks-4.3.0", "rocks-aggregation-ids"), Shape(provider=HDFS, ids="v1", codec="lzf")),
    ],
)
def test_a_killed_savepoint_in_another_shape_is_completed(
    case: tuple[str, str], shape: Shape
) -> None:
    source, clock, whole = source_of(case), Clock(), 0
    expected = values_of(source)
    for _, left in each_crash(
        MemoryStorage(clock=clock), clock, lambda dest: savepoint(source, dest, shape=shape)
    ):
        startable = left.files.get("metadata", b"").startswith(b"{")
        whole += startable
        if not startable:
            savepoint(source, left, shape=shape)
        assert values_of(left) == expected
        assert verify(left, deep=True).findings == ()
    assert whole


def refused(source: Storage, shape: Shape) -> str:
    dest = At({}, "dest")
    with pytest.raises((ConfigError, CheckpointError)) as caught:
        savepoint(source, dest, shape=shape)
    assert not dest.files.get("metadata", b"").startswith(b"{")
    return str(caught.value)


REFUSED = [
    (SESSIONS, Shape(provider=Provider.UNKNOWN), "provider unknown is not one of"),
    (SESSIONS, Shape(codec="gzip"), "codec 'gzip' is not one of lz4, lzf, snappy, zstd"),
    (SESSIONS, Shape(ids="v2"), "with unique ids (v2) is not supported"),
    (("rocks-4.0.5", "rocks-zips"), Shape(ids="v2"), f"with {_STATE}.rowChecksum.enabled"),
    (("rocks-4.0.5", "rocks-zips-ids"), Shape(partitions=3), "unique ids (v2), after a batch of"),
    (("3.4.4", "dedup"), Shape(provider=ROCKSDB), "a Spark that is too old for it"),
    (("4.1.4", "dedup"), Shape(row_checksums=True), f"with {_STATE}.rowChecksum.enabled"),
]


@pytest.mark.parametrize(("case", "shape", "why"), REFUSED)
def test_what_cannot_be_is_refused_in_a_line(case: tuple[str, str], shape: Shape, why: str) -> None:
    text = refused(source_of(case), shape)
    assert why in text
    assert "\n" not in text


@pytest.mark.parametrize("columns", [2, 0, -1])
def test_an_unknown_encoding_of_keys_is_refused(columns: int) -> None:
    source = source_of(SESSIONS)
    path, known = "state/0/_metadata/metadata", b'"numColsPrefixKey":1'
    assert known in source.files[path]
    changed = source.files[path].replace(known, b'"numColsPrefixKey":%d' % columns)
    source.replace(path, [changed])
    text = refused(source, Shape(provider=ROCKSDB))
    assert "encoding of its keys in RocksDB is not known" in text
    assert "operator 0 (sessionWindowStateStoreSaveExec)" in text


def test_a_row_that_would_not_come_back_is_refused() -> None:
    source = saved(source_of(SESSIONS), Shape(), "plain")
    path = "state/0/0/13.snapshot"
    checkpoint = scan_checkpoint(source)
    rows = [*Source.of(source, checkpoint.stores[0], checkpoint).rows(path)]
    key = rows[0][0][:-1] + b"\1"  # in the zeros after the text of a key
    rows[0] = (key, rows[0][1])
    source.replace(path, [*encode(COMPRESSIONS["lz4"], records.encode(rows))])
    text = refused(source, Shape(provider=ROCKSDB))
    assert "state/0/0: a row that Spark would have written in another way" in text
