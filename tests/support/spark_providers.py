"""Spark's own state store providers by py4j: rows in, rows out."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from statemaint.codec.rows.state_row import KeyEncoder, NoPrefix, PrefixScan, RangeScan

STATE = "spark.sql.streaming.stateStore"
_PACKAGE = "org.apache.spark.sql.execution.streaming.state"
ROCKSDB = f"{_PACKAGE}.RocksDBStateStoreProvider"
HDFS = f"{_PACKAGE}.HDFSBackedStateStoreProvider"
Pair = tuple[bytes, bytes]


class SparkProvider:
    """Spark's provider of the first store of a checkpoint, of the class that the settings name."""

    def __init__(  # noqa: PLR0913 -- the arguments of Spark's `init`
        self,
        spark: SparkSession,
        root: Path,
        conf: Mapping[str, str],
        *,
        key: StructType,
        value: StructType,
        encoder: KeyEncoder | None = None,
        families: bool = False,
    ) -> None:
        jvm: Any = spark._jvm
        self.jvm, self._state = jvm, jvm.org.apache.spark.sql.execution.streaming.state
        own: Any = spark.newSession()._jsparkSession.sessionState()
        for name, setting in conf.items():
            own.conf().setConfString(name, setting)
        hadoop = own.newHadoopConf()
        hadoop.set("sql.streaming.runId", str(uuid4()))
        parse = jvm.org.apache.spark.sql.types.DataType.fromJson
        self._key, self._value = parse(key.json()), parse(value.json())
        self._columns = len(key.fields), len(value.fields)
        made = conf.get(f"{STATE}.providerClass", HDFS).rpartition(".")[2]
        self.provider = getattr(self._state, made)()
        self.provider.init(
            self._state.StateStoreId(f"file:{root}/state", 0, 0, "default"),
            self._key,
            self._value,
            self._spec(encoder or NoPrefix()),
            families,
            self._state.StateStoreConf.apply(own.conf()),
            hadoop,
            False,
            self.some(None),
        )

    def _spec(self, encoder: KeyEncoder) -> Any:
        match encoder:
            case PrefixScan(columns):
                return self._state.PrefixKeyScanStateEncoderSpec(self._key, columns)
            case RangeScan(ordinals):
                converters = self.jvm.scala.jdk.javaapi.CollectionConverters
                some = converters.asScala(list(ordinals)).toSeq()
                return self._state.RangeKeyScanStateEncoderSpec(self._key, some)
            case _:
                return self._state.NoPrefixKeyStateEncoderSpec(self._key)

    def close(self) -> None:
        self.provider.close()

    def maintain(self) -> None:
        self.provider.doMaintenance()

    # -- rows

    def row(self, content: bytes, columns: int) -> Any:
        made = self.jvm.org.apache.spark.sql.catalyst.expressions.UnsafeRow(columns)
        made.pointTo(content, len(content))
        return made

    def key(self, content: bytes) -> Any:
        return self.row(content, self._columns[0])

    def value(self, content: bytes) -> Any:
        return self.row(content, self._columns[1])

    # -- stores

    def store(self, version: int, unique: str | None = None) -> Any:
        return self.provider.getStore(version, self.some(unique), False, False)

    @contextmanager
    def reading(self, version: int, unique: str | None = None) -> Iterator[Any]:
        store = self.provider.getReadStore(version, self.some(unique))
        try:
            yield store
        finally:
            store.release()

    def rows(self, version: int, unique: str | None = None) -> list[Pair]:
        with self.reading(version, unique) as store:
            return pairs(store.iterator("default"))

    def add_family(self, store: Any, name: str, *, many: bool = True) -> None:
        spec = self._spec(NoPrefix())
        store.createColFamilyIfAbsent(name, self._key, self._value, spec, many, False)

    def some(self, value: Any) -> Any:
        """Returns Scala's option of a value, empty for `None`."""
        return self.jvm.scala.Option.apply(value)

    def info(self, store: Any) -> Any:
        """Returns the `StateStoreCheckpointInfo` of a store that has committed."""
        return store.getStateStoreCheckpointInfo()

    def committed_id(self, store: Any) -> str | None:
        unique: str | None = unpacked(self.info(store).stateStoreCkptId())
        return unique


def unpacked(option: Any) -> Any:
    """Returns what a Scala option has, or `None`."""
    return option.get() if option.isDefined() else None


def pairs(found: Any) -> list[Pair]:
    rows = []
    while found.hasNext():
        pair = found.next()
        rows.append((bytes(pair.key().getBytes()), bytes(pair.value().getBytes())))
    return rows


def values(found: Any) -> list[bytes]:
    rows = []
    while found.hasNext():
        rows.append(bytes(found.next().getBytes()))
    return rows
