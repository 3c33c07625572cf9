"""The RocksDB provider against Spark: both read and write the same stores."""

import json
import math
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from statemaint.audit import verify
from statemaint.codec.metadata.schema import parse_schema
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

STATE = "spark.sql.streaming.stateStore"
PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
KEY = StructType().add("k", "string").add("at", "long").add("x", "double")
VALUE = StructType().add("n", "long")
Rows = dict[bytes, list[bytes]]


def conf_of(ids: int, **more: str) -> dict[str, str]:
    return {
        f"{STATE}.providerClass": PROVIDER,
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


class Theirs:
    """Spark's own provider of the first store of a checkpoint."""

    def __init__(
        self,
        spark: SparkSession,
        root: Path,
        conf: Mapping[str, str],
        encoder: KeyEncoder,
        *,
        families: bool = False,
    ) -> None:
        jvm: Any = spark._jvm
        self._jvm, self._state = jvm, jvm.org.apache.spark.sql.execution.streaming.state
        own: Any = spark.newSession()._jsparkSession.sessionState()
        for name, setting in conf.items():
            own.conf().setConfString(name, setting)
        hadoop = own.newHadoopConf()
        hadoop.set("sql.streaming.runId", str(uuid4()))
        parse = jvm.org.apache.spark.sql.types.DataType.fromJson
        self._key, self._value = parse(KEY.json()), parse(VALUE.json())
        self.provider = self._state.RocksDBStateStoreProvider()
        self.provider.init(
            self._state.StateStoreId(f"file:{root}/state", 0, 0, "default"),
            self._key,
            self._value,
            self.spec(encoder),
            families,
            self._state.StateStoreConf.apply(own.conf()),
            hadoop,
            False,
            jvm.scala.Option.empty(),
        )

    def spec(self, encoder: KeyEncoder) -> Any:
        match encoder:
            case PrefixScan(columns):
                return self._state.PrefixKeyScanStateEncoderSpec(self._key, columns)
            case RangeScan(ordinals):
                converters = self._jvm.scala.jdk.javaapi.CollectionConverters
                some = converters.asScala(list(ordinals)).toSeq()
                return self._state.RangeKeyScanStateEncoderSpec(self._key, some)
            case _:
                return self._state.NoPrefixKeyStateEncoderSpec(self._key)

    def row(self, content: bytes, columns: int) -> Any:
        made = self._jvm.org.apache.spark.sql.catalyst.expressions.UnsafeRow(columns)
        made.pointTo(content, len(content))
        return made

    def store(self, version: int, unique: str | None) -> Any:
        return self.provider.getStore(version, self._jvm.scala.Option.apply(unique), False, False)

    @contextmanager
    def reading(self, version: int, unique: str | None) -> Iterator[Any]:
        store = self.provider.getReadStore(version, self._jvm.scala.Option.apply(unique))
        try:
            yield store
        finally:
            store.release()

    def add_family(self, store: Any, name: str) -> None:
        store.createColFamilyIfAbsent(
            name, self._key, self._value, self.spec(NoPrefix()), True, False
        )

    def rows(self, version: int, unique: str | None) -> list[tuple[bytes, bytes]]:
        with self.reading(version, unique) as store:
            return pairs(store.iterator("default"))


def pairs(found: Any) -> list[tuple[bytes, bytes]]:
    rows = []
    while found.hasNext():
        pair = found.next()
        rows.append((bytes(pair.key().getBytes()), bytes(pair.value().getBytes())))
    return rows


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

    theirs = Theirs(spark, tmp_path, conf, encoder)
    assert theirs.rows(5, unique) == expected  # in the same order
    changed = theirs.store(5, unique)
    changed.put(theirs.row(key("theirs", 1), 3), theirs.row(value(99), 1), "default")
    changed.remove(theirs.row(expected[0][0], 3), "default")
    assert changed.commit() == 6
    if ids == 2:
        info = changed.getStateStoreCheckpointInfo()
        assert info.baseStateStoreCkptId().get() == unique
        unique = info.stateStoreCkptId().get()
    theirs.provider.doMaintenance()
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
            some = theirs._jvm.scala.Option.apply
            first, end = key("", 0, -1.5), key("", 1, 0.0)
            bounds = (some(theirs.row(each, 3)) for each in (first, end))
            found = pairs(reading.rangeScan(*bounds, "default"))
            assert found == list(fresh.range_scan(first, end))
            assert 0 < len(found) < len(expected)
    theirs.provider.close()


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
    theirs = Theirs(spark, tmp_path, conf, NoPrefix(), families=True)
    changed = theirs.store(3, unique)
    assert set(
        theirs._jvm.scala.jdk.javaapi.CollectionConverters.asJava(changed.allColumnFamilyNames())
    ) == {"default", "list", "more"}
    for name in ("list", "more"):
        theirs.add_family(changed, name)
    assert values_of(theirs, changed, key("a"), "list") == [value(0), value(1)]
    assert values_of(theirs, changed, key("b"), "more") == [value(1), value(2)]
    changed.merge(theirs.row(key("a"), 3), theirs.row(value(7), 1), "list")
    theirs.add_family(changed, "later")
    changed.merge(theirs.row(key("c"), 3), theirs.row(value(8), 1), "later")
    assert changed.commit() == 4
    if ids == 2:
        unique = changed.getStateStoreCheckpointInfo().stateStoreCkptId().get()
    theirs.provider.close()
    read = ours(tmp_path, conf, NoPrefix(), families=True).get_read_store(4, unique)
    for name in ("list", "later"):
        read.register_col_family(name, use_multiple_values_per_key=True)
    assert list(read.values_iterator(key("a"), "list")) == [value(0), value(1), value(7)]
    assert list(read.iterator("later")) == [(key("c"), value(8))]
    assert list(read.iterator()) == [(key("a"), value(2))]


def values_of(theirs: Theirs, store: Any, of: bytes, family: str) -> list[bytes]:
    found, rows = store.valuesIterator(theirs.row(of, 3), family), []
    while found.hasNext():
        rows.append(bytes(found.next().getBytes()))
    return rows


def test_spark_judges_attempts_and_lineages_as_we_do(  # noqa: PLR0915 -- case by case
    spark: SparkSession, tmp_path: Path
) -> None:
    """The cases of SPARK-49374, with two attempts of one version beside each other."""
    conf = conf_of(2)
    mine = ours(tmp_path, conf, NoPrefix())

    def attempt(version: int, base: str | None, text: str) -> str:
        store = mine.get_store(version - 1, base)
        store.put(key(text), value(version))
        store.commit()
        unique = store.state_store_checkpoint_info.state_store_ckpt_id
        assert unique
        return unique

    first = attempt(1, None, "first")
    left, right = attempt(2, first, "left"), attempt(2, first, "right")
    snapshot = attempt(3, right, "third")
    mine.do_maintenance()  # 3_snapshot.zip
    last = attempt(4, snapshot, "fourth")
    names = {(2, left): 2, (2, right): 2, (3, snapshot): 3, (4, last): 4}
    assert (tmp_path / f"state/0/0/3_{snapshot}.zip").exists()
    for (version, unique), count in names.items():
        expected = list(ours(tmp_path, conf, NoPrefix()).get_read_store(version, unique).iterator())
        assert len(expected) == count
        assert Theirs(spark, tmp_path, conf, NoPrefix()).rows(version, unique) == expected

    # The lineage of the fourth version begins with a snapshot that is lost.
    (tmp_path / f"state/0/0/3_{snapshot}.zip").unlink()
    with pytest.raises(CannotLoadStateStoreError) as caught:
        ours(tmp_path, conf, NoPrefix()).get_store(4, last)
    with pytest.raises(Py4JJavaError) as theirs:
        Theirs(spark, tmp_path, conf, NoPrefix()).rows(4, last)
    text = f"Cannot find a base snapshot checkpoint with lineage: 3:{snapshot} 4:{last}."
    assert str(caught.value) == text  # as Spark 4.0 says
    assert "lineage is incomplete, missing versions 1,2" in str(theirs.value)

    # A changelog within a lineage is lost: its missing file is named.
    (tmp_path / f"state/0/0/1_{first}.changelog").unlink()
    with pytest.raises(CannotLoadStateStoreError) as caught:
        ours(tmp_path, conf, NoPrefix()).get_store(2, left)
    with pytest.raises(Py4JJavaError) as theirs:
        Theirs(spark, tmp_path, conf, NoPrefix()).rows(2, left)
    text = f"state/0/0/1_{first}.changelog does not exist. If the stream job is restarted"
    assert text in str(caught.value)
    assert text in str(theirs.value)


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
