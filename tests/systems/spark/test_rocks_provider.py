"""The RocksDB provider against Spark: both read and write the same stores."""

import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from statemaint.audit import verify
from statemaint.codec.metadata.schema import parse_schema
from statemaint.codec.rocksdb.snapshot_zip import parse_metadata
from statemaint.codec.rows.murmur3 import partition_of_row
from statemaint.codec.rows.state_row import KeyEncoder, NoPrefix, PrefixScan, RangeScan
from statemaint.codec.rows.unsafe_write import RowWriter, encode_row
from statemaint.model.ids import StoreId
from statemaint.provider import (
    CannotLoadStateStoreError,
    RocksDBStateStoreProvider,
    StateStoreConf,
)
from statemaint.storage import LocalStorage
from tests.support.spark_providers import ROCKSDB, STATE, SparkProvider, pairs, values

KEY = StructType().add("k", "string").add("at", "long").add("x", "double")
VALUE = StructType().add("n", "long")


def conf_of(ids: int, **more: str) -> dict[str, str]:
    return {
        f"{STATE}.providerClass": ROCKSDB,
        f"{STATE}.checkpointFormatVersion": str(ids),
        f"{STATE}.rocksdb.changelogCheckpointing.enabled": "true",
        f"{STATE}.coordinatorReportSnapshotUploadLag": "false",
        f"{STATE}.forceSnapshotUploadOnLag": "false",
        f"{STATE}.minDeltasForSnapshot": "3",
        **{f"{STATE}.{name}": value for name, value in more.items()},
    }


def key(name: str | None, at: int | None = 0, x: float | None = 0.0) -> bytes:
    return encode_row((name, at, x), KEY.jsonValue())


def value(number: int) -> bytes:
    return encode_row((number,), VALUE.jsonValue())


def ours(
    root: Path, conf: Mapping[str, str], encoder: KeyEncoder, *, families: bool = False
) -> RocksDBStateStoreProvider:
    return RocksDBStateStoreProvider(
        StoreId(0, 0),
        LocalStorage(root),
        StateStoreConf.of(conf),
        key_schema=KEY.jsonValue(),
        key_encoder=encoder,
        use_column_families=families,
    )


def theirs_of(
    spark: SparkSession,
    root: Path,
    conf: Mapping[str, str],
    encoder: KeyEncoder | None = None,
    *,
    families: bool = False,
) -> SparkProvider:
    return SparkProvider(
        spark, root, conf, key=KEY, value=VALUE, encoder=encoder, families=families
    )


@pytest.mark.parametrize("ids", [1, 2])
@pytest.mark.parametrize(
    ("encoder", "more"),
    [
        (NoPrefix(), {"compression.codec": "zstd"}),
        (PrefixScan(1), {"rowChecksum.enabled": "true"}),
        (RangeScan((2, 1)), {}),
        (NoPrefix(), {"rocksdb.changelogCheckpointing.enabled": "false"}),
    ],
    ids=["zstd", "prefix", "range", "zips"],
)
def test_each_goes_on_from_the_versions_of_the_other(  # noqa: PLR0915 -- each in turn
    spark: SparkSession, tmp_path: Path, encoder: KeyEncoder, more: dict[str, str], ids: int
) -> None:
    conf = conf_of(ids, **more)
    mine, unique = ours(tmp_path, conf, encoder), None
    numbers = [-1.5, 0.0, -0.0, math.inf, math.nan, None, 7.25]
    for version in range(5):
        store = mine.get_store(version, unique)
        for at, x in enumerate(numbers):
            store.put(key(f"k{at % 3}", version - at, x), value(10 * version + at))
        store.remove(key("k0", version - 1, -1.5))
        assert store.commit() == version + 1
        unique = store.state_store_checkpoint_info.state_store_ckpt_id
        if version == 3:
            mine.do_maintenance()
    expected = list(mine.get_read_store(5, unique).iterator())
    assert len(expected) == 31

    theirs = theirs_of(spark, tmp_path, conf, encoder)
    assert theirs.rows(5, unique) == expected  # in the same order
    changed = theirs.store(5, unique)
    changed.put(theirs.key(key("theirs", 1)), theirs.value(value(99)), "default")
    changed.remove(theirs.key(expected[0][0]), "default")
    assert changed.commit() == 6
    if ids == 2:
        info = changed.getStateStoreCheckpointInfo()
        assert info.baseStateStoreCkptId().get() == unique
        unique = info.stateStoreCkptId().get()
    theirs.maintain()
    fresh = ours(tmp_path, conf, encoder).get_read_store(6, unique)
    assert dict(fresh.iterator()) == {
        **dict(expected[1:]),
        key("theirs", 1): value(99),
    }
    with theirs.reading(6, unique) as reading:
        assert pairs(reading.iterator("default")) == list(fresh.iterator())
        if isinstance(encoder, PrefixScan):
            prefix = encode_row(("k1",), StructType().add("k", "string").jsonValue())
            found = pairs(reading.prefixScan(theirs.row(prefix, 1), "default"))
            assert found == list(fresh.prefix_scan(prefix))
            assert len(found) == 10
        if isinstance(encoder, RangeScan):
            some = theirs.jvm.scala.Option.apply
            first, end = key("", 0, -1.5), key("", 1, 0.0)
            bounds = (some(theirs.key(each)) for each in (first, end))
            found = pairs(reading.rangeScan(*bounds, "default"))
            assert found == list(fresh.range_scan(first, end))
            assert 0 < len(found) < len(expected)
    theirs.close()


@pytest.mark.parametrize("ids", [1, 2])
@pytest.mark.parametrize("operator", ["1", "2"])
@pytest.mark.parametrize("sealed", ["false", "true"])
def test_lists_in_column_families_are_the_same_for_both(  # noqa: PLR0915 -- each in turn
    spark: SparkSession, tmp_path: Path, ids: int, operator: str, sealed: str
) -> None:
    more = {"rocksdb.mergeOperatorVersion": operator, "rowChecksum.enabled": sealed}
    conf = conf_of(ids, **more)
    mine, unique = ours(tmp_path, conf, NoPrefix(), families=True), None
    for version in range(3):
        store = mine.get_store(version, unique)
        for name in ("list", "gone"):
            if version < 2:
                store.create_col_family_if_absent(name, use_multiple_values_per_key=True)
                store.merge(key("a"), value(version), name)
        store.put(key("a"), value(version))
        if version == 2:
            assert store.remove_col_family_if_exists("gone")
            store.create_col_family_if_absent("more", use_multiple_values_per_key=True)
            store.put(key("b"), value(1), "more")
            store.merge(key("b"), value(2), "more")
        store.commit()
        unique = store.state_store_checkpoint_info.state_store_ckpt_id
    theirs = theirs_of(spark, tmp_path, conf, families=True)
    changed = theirs.store(3, unique)
    assert set(
        theirs.jvm.scala.jdk.javaapi.CollectionConverters.asJava(changed.allColumnFamilyNames())
    ) == {"default", "list", "more"}
    for name in ("list", "more"):
        theirs.add_family(changed, name)
    assert values(changed.valuesIterator(theirs.key(key("a")), "list")) == [value(0), value(1)]
    assert values(changed.valuesIterator(theirs.key(key("b")), "more")) == [value(1), value(2)]
    changed.merge(theirs.key(key("a")), theirs.value(value(7)), "list")
    theirs.add_family(changed, "later")
    changed.merge(theirs.key(key("c")), theirs.value(value(8)), "later")
    assert changed.commit() == 4
    if ids == 2:
        unique = theirs.committed_id(changed)
    theirs.close()
    read = ours(tmp_path, conf, NoPrefix(), families=True).get_read_store(4, unique)
    for name in ("list", "later"):
        read.register_col_family(name, use_multiple_values_per_key=True)
    assert list(read.values_iterator(key("a"), "list")) == [value(0), value(1), value(7)]
    assert list(read.iterator("later")) == [(key("c"), value(8))]
    assert list(read.iterator()) == [(key("a"), value(2))]


# -- old versions


def files_of(root: Path) -> set[str]:
    files = (file for file in root.rglob("*") if file.is_file() and file.suffix != ".crc")
    return {file.relative_to(root).as_posix() for file in files}


def written_by_us(root: Path, conf: Mapping[str, str]) -> dict[int, str | None]:
    """Commits and maintains twelve versions, and returns their unique ids."""
    mine, attempts = ours(root, conf, NoPrefix()), dict[int, str | None]({0: None})
    for version in range(12):
        store = mine.get_store(version, attempts[version])
        store.put(key("k", version), value(version))
        store.commit()
        attempts[version + 1] = store.state_store_checkpoint_info.state_store_ckpt_id
        mine.do_maintenance()
    return attempts


def written_by_spark(theirs: SparkProvider) -> dict[int, str | None]:
    attempts: dict[int, str | None] = {0: None}
    for version in range(12):
        store = theirs.store(version, attempts[version])
        store.put(theirs.key(key("k", version)), theirs.value(value(version)), "default")
        store.commit()
        attempts[version + 1] = theirs.committed_id(store)
        theirs.maintain()
    theirs.close()
    return attempts


@pytest.mark.parametrize("ids", [1, 2])
@pytest.mark.parametrize("changelogs", ["true", "false"])
@pytest.mark.parametrize("most", ["-1", "2"])
@pytest.mark.parametrize("writer", ["ours", "theirs"])
def test_both_delete_the_same_old_versions(
    spark: SparkSession, tmp_path: Path, ids: int, changelogs: str, most: str, writer: str
) -> None:
    more = {"rocksdb.changelogCheckpointing.enabled": changelogs, "minDeltasForSnapshot": "2"}
    conf = conf_of(ids, **more)
    conf |= {"spark.sql.streaming.ratioExtraSpaceAllowedInCheckpoint": "0"}
    root, copy = tmp_path / "root", tmp_path / "copy"
    root.mkdir()
    if writer == "ours":
        attempts = written_by_us(root, conf)
    else:
        attempts = written_by_spark(theirs_of(spark, root, conf))
    shutil.copytree(root, copy)

    conf |= {
        "spark.sql.streaming.minBatchesToRetain": "4",
        f"{STATE}.maxVersionsToDeletePerMaintenance": most,
    }
    before = files_of(root)
    ours(root, conf, NoPrefix()).do_maintenance()
    theirs = theirs_of(spark, copy, conf)
    theirs.maintain()
    assert files_of(root) == files_of(copy) < before
    for version in range(9, 13):
        rows = [*ours(root, conf, NoPrefix()).get_read_store(version, attempts[version]).iterator()]
        assert len(rows) == version
        assert theirs.rows(version, attempts[version]) == rows
    theirs.close()


# -- SPARK-49374, unique ids: each case is read by both on the same files


class Lineages:
    """Versions that our provider writes, each attempt with one more key."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark, self.root = spark, root
        self.conf = conf_of(2, minDeltasForSnapshot="100")
        self.mine = ours(root, self.conf, NoPrefix())
        self.made: list[tuple[int, str]] = []

    def attempt(self, version: int, base: str | None, name: str, *, snapshot: bool = False) -> str:
        store = self.mine.get_store(version - 1, base, force_snapshot_on_commit=snapshot)
        store.put(key(name), value(version))
        store.commit()
        self.made.append((version, str(store.state_store_checkpoint_info.state_store_ckpt_id)))
        return self.made[-1][1]

    def file(self, version: int, unique: str, kind: str) -> Path:
        return self.root / f"state/0/0/{version}_{unique}.{kind}"

    def lose(self, version: int, unique: str, kind: str) -> None:
        self.file(version, unique, kind).unlink()

    def loads(self, version: int, unique: str, *names: str) -> None:
        """Checks that both read these keys."""
        found = [*ours(self.root, self.conf, NoPrefix()).get_read_store(version, unique).iterator()]
        assert sorted(row for row, _ in found) == sorted(map(key, names))
        theirs = theirs_of(self.spark, self.root, self.conf)
        assert theirs.rows(version, unique) == found
        theirs.close()

    def refused(self, version: int, unique: str) -> tuple[str, str]:
        """Returns why neither of them reads a version, in our words and in Spark's."""
        with pytest.raises(CannotLoadStateStoreError) as caught:
            ours(self.root, self.conf, NoPrefix()).get_store(version, unique)
        with pytest.raises((Py4JJavaError, PySparkException)) as theirs:
            theirs_of(self.spark, self.root, self.conf).rows(version, unique)
        return str(caught.value), str(theirs.value)


@pytest.fixture
def lineages(spark: SparkSession, tmp_path: Path) -> Lineages:
    return Lineages(spark, tmp_path)


def test_a_version_loads_from_its_own_snapshot_without_any_changelog(lineages: Lineages) -> None:
    first = lineages.attempt(1, None, "a")
    second = lineages.attempt(2, first, "b", snapshot=True)
    for version, unique in ((1, first), (2, second)):
        lineages.lose(version, unique, "changelog")
    lineages.loads(2, second, "a", "b")


def test_a_version_loads_from_the_newest_snapshot_of_its_lineage_and_changelogs(
    lineages: Lineages,
) -> None:
    first = lineages.attempt(1, None, "a", snapshot=True)
    second = lineages.attempt(2, first, "b", snapshot=True)
    fourth = lineages.attempt(4, lineages.attempt(3, second, "c"), "d")
    for version, unique in ((1, first), (2, second)):
        lineages.lose(version, unique, "changelog")
    lineages.lose(1, first, "zip")
    lineages.loads(4, fourth, "a", "b", "c", "d")


def test_a_version_without_a_snapshot_loads_from_the_changelogs_since_version_1(
    lineages: Lineages,
) -> None:
    second = lineages.attempt(2, lineages.attempt(1, None, "a"), "b")
    lineages.loads(3, lineages.attempt(3, second, "c"), "a", "b", "c")


def test_two_attempts_of_one_version_each_load_their_own_rows(lineages: Lineages) -> None:
    first = lineages.attempt(1, None, "a")
    left, right = (lineages.attempt(2, first, name) for name in ("left", "right"))
    lineages.loads(2, left, "a", "left")
    lineages.loads(2, right, "a", "right")
    lineages.loads(3, lineages.attempt(3, left, "b"), "a", "left", "b")


def test_a_changelog_is_not_applied_to_the_snapshot_of_another_attempt(lineages: Lineages) -> None:
    first = lineages.attempt(1, None, "a")
    lineages.attempt(2, first, "abandoned", snapshot=True)
    second = lineages.attempt(2, first, "b")
    lineages.loads(3, lineages.attempt(3, second, "c"), "a", "b", "c")


def test_a_failed_upload_of_a_changelog_is_named(lineages: Lineages) -> None:
    first = lineages.attempt(1, None, "a")
    second = lineages.attempt(2, first, "b")
    lineages.lose(2, second, "changelog")
    text = f"state/0/0/2_{second}.changelog does not exist. If the stream job is restarted"
    for refusal in lineages.refused(2, second):
        assert text in refusal
    lineages.loads(1, first, "a")


def test_a_changelog_that_is_lost_within_the_lineage_is_named(lineages: Lineages) -> None:
    first = lineages.attempt(1, None, "a")
    third = lineages.attempt(3, lineages.attempt(2, first, "b"), "c")
    lineages.lose(1, first, "changelog")
    for refusal in lineages.refused(3, third):
        assert f"state/0/0/1_{first}.changelog does not exist." in refusal


def damage(lineages: Lineages, version: int, unique: str, kind: str) -> None:
    """Cuts a zip or the SST file that was uploaded for it; or loses the zip."""
    file = lineages.file(version, unique, "zip")
    if kind == "sst":
        (file,) = parts_of(file)
    if kind == "lost":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:100])
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def parts_of(file: Path) -> list[Path]:
    metadata = parse_metadata(file.read_bytes())
    return [file.parent / "SSTs" / table.stored for table in metadata.ssts]


@pytest.mark.parametrize("partial", ["zip", "sst"])
def test_a_version_with_a_partial_upload_of_its_snapshot_loads_from_changelogs(
    lineages: Lineages, partial: str
) -> None:
    second = lineages.attempt(2, lineages.attempt(1, None, "a"), "b", snapshot=True)
    third = lineages.attempt(3, second, "c")
    damage(lineages, 2, second, partial)
    lineages.loads(2, second, "a", "b")
    lineages.loads(3, third, "a", "b", "c")
    lineages.loads(4, lineages.attempt(4, third, "d"), "a", "b", "c", "d")


@pytest.mark.parametrize("kind", ["zip", "sst", "lost"])
def test_a_version_loads_from_an_older_snapshot_by_the_lineages_of_its_changelogs(
    lineages: Lineages, kind: str
) -> None:
    first = lineages.attempt(1, None, "a", snapshot=True)
    third = lineages.attempt(3, lineages.attempt(2, first, "b"), "c", snapshot=True)
    fourth = lineages.attempt(4, third, "d")
    lineages.lose(1, first, "changelog")
    damage(lineages, 3, third, kind)
    lineages.loads(4, fourth, "a", "b", "c", "d")
    lineages.lose(2, dict(lineages.made)[2], "changelog")
    for refusal in lineages.refused(4, fourth):
        assert ".changelog does not exist." in refusal


@pytest.mark.parametrize("setting", ["autoSnapshotRepair", "rocksdb.changelogCheckpointing"])
def test_a_partial_upload_of_a_snapshot_is_refused_without_repair(
    lineages: Lineages, setting: str
) -> None:
    second = lineages.attempt(2, lineages.attempt(1, None, "a"), "b", snapshot=True)
    damage(lineages, 2, second, "zip")
    lineages.conf[f"{STATE}.{setting}.enabled"] = "false"
    mine, theirs = lineages.refused(2, second)
    assert f"Error reading snapshot file {lineages.root}/state/0/0/2_{second}.zip" in mine
    assert "CANNOT_LOAD_STATE_STORE" in theirs


def test_sst_files_without_their_zip_are_no_snapshot(lineages: Lineages) -> None:
    first = lineages.attempt(1, None, "a")
    second = lineages.attempt(2, first, "b", snapshot=True)
    lineages.lose(2, second, "zip")
    lineages.loads(2, second, "a", "b")


def test_a_lineage_whose_snapshot_is_lost_is_cut(lineages: Lineages) -> None:
    second = lineages.attempt(2, lineages.attempt(1, None, "a"), "b", snapshot=True)
    third = lineages.attempt(3, second, "c")
    lineages.lose(2, second, "zip")
    mine, theirs = lineages.refused(3, third)
    # As Spark 4.0 says.
    assert mine == f"Cannot find a base snapshot checkpoint with lineage: 2:{second} 3:{third}."
    assert "lineage is incomplete, missing versions 1" in theirs


# -- a query


def totals(spark: SparkSession, root: Path, conf: Mapping[str, str]) -> dict[int, Any]:
    """Runs a sum by key over what is new, and returns the result of each batch."""
    session = spark.newSession()
    settings = {"shuffle.partitions": "3", "streaming.noDataMicroBatches.enabled": "false"}
    for name, setting in {**{f"spark.sql.{k}": v for k, v in settings.items()}, **conf}.items():
        session.conf.set(name, setting)
    found: dict[int, Any] = {}
    events = session.readStream.schema("key STRING, amount LONG").json(str(root / "input"))
    grouped = events.groupBy("key").agg(f.count("*").alias("n"), f.sum("amount").alias("sum"))
    writer = grouped.writeStream.outputMode("update").foreachBatch(
        lambda frame, batch: found.update({batch: sorted(map(tuple, frame.collect()))})
    )
    writer = writer.option("checkpointLocation", str(root / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    return found


def add_input(root: Path, name: str, *rows: tuple[str, int]) -> None:
    (root / "input").mkdir(exist_ok=True)
    lines = (json.dumps({"key": name, "amount": amount}) for name, amount in rows)
    (root / "input" / name).write_text("\n".join(lines))


@pytest.mark.parametrize("ids", [1, 2])
@pytest.mark.parametrize("changelogs", ["true", "false"])
def test_a_query_goes_on_from_a_batch_that_we_wrote(  # noqa: PLR0915 -- a batch by hand
    spark: SparkSession, tmp_path: Path, ids: int, changelogs: str
) -> None:
    conf = conf_of(ids, **{"rocksdb.changelogCheckpointing.enabled": changelogs})
    add_input(tmp_path, "0.json", ("a", 5), ("b", 7), ("gone", 1))
    assert totals(spark, tmp_path, conf) == {0: [("a", 1, 5), ("b", 1, 7), ("gone", 1, 1)]}
    checkpoint = tmp_path / "checkpoint"
    storage = LocalStorage(checkpoint)

    schema = parse_schema(storage.read("state/0/0/_metadata/schema"))
    keys, values = RowWriter(schema.key), RowWriter(schema.value)
    changes = {f"k{number}": (number, 10 * number) for number in range(100)} | {"gone": None}
    head, text = (checkpoint / "commits/0").read_text().split("\n")
    commit = json.loads(text)
    attempts = []
    for partition in range(3):
        provider = RocksDBStateStoreProvider(
            StoreId(0, partition), storage, StateStoreConf.of(conf)
        )
        base = commit["stateUniqueIds"]["0"][partition][0] if ids == 2 else None
        store = provider.get_store(1, base)
        for name, total in changes.items():
            row = keys.write((name,))
            if partition_of_row(row, schema.key, 3) != partition:
                continue
            if total is None:
                assert store.get(row) == values.write((1, 1))
                store.remove(row)
            else:
                store.put(row, values.write(total))
        assert store.commit() == 2
        info = store.state_store_checkpoint_info
        assert info.base_state_store_ckpt_id == base
        attempts.append([info.state_store_ckpt_id])
    if ids == 2:
        commit["stateUniqueIds"]["0"] = attempts
    shutil.copy(checkpoint / "offsets/0", checkpoint / "offsets/1")
    (checkpoint / "commits/1").write_text(f"{head}\n{json.dumps(commit)}")
    assert verify(storage, deep=True).findings == ()

    session = spark.newSession()
    for name, setting in conf.items():
        session.conf.set(name, setting)
    read = session.read.format("statestore").load(str(checkpoint))
    sums = {row.key.key: tuple(row.value) for row in read.collect()}
    assert sums == {"a": (1, 5), "b": (1, 7), **{k: v for k, v in changes.items() if v}}

    add_input(tmp_path, "1.json", ("a", 1), ("k99", 2), ("gone", 3), ("new", 4))
    expected = [("a", 2, 6), ("gone", 1, 3), ("k99", 100, 992), ("new", 1, 4)]
    assert totals(spark, tmp_path, conf) == {2: expected}
    for number in range(2, 6):
        add_input(tmp_path, f"{number}.json", ("b", number))
        later = totals(spark, tmp_path, conf)
        assert later == {number + 1: [("b", number, 7 + sum(range(2, number + 1)))]}
    assert verify(storage, deep=True).findings == ()
