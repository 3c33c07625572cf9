"""Spark's own maintenance of a store, in a JVM that is warm.

What an executor's maintenance thread does, without a query around it: load a version's map from its
files (`getReadStore`), then write that map as a snapshot (`doMaintenance`); or load a RocksDB
database, then make and upload its snapshot. Every call has a new provider, as an executor has that
was just given the store.
"""

import gc
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
from pyspark.sql import SparkSession

from tests.benchmarks.measure import Seconds
from tests.benchmarks.rows import Kind
from tools.demo import session

_LOGGING = Path(session.__file__).with_name("log4j2.properties")


@dataclass(frozen=True, slots=True)
class SparkSeconds:
    """How long Spark took to load the maps and to write the snapshots; the CPU is the JVM's."""

    load: Seconds
    write: Seconds

    @property
    def total(self) -> float:
        """Returns the seconds of both by the clock."""
        return self.load.wall + self.write.wall


@contextmanager
def warm_spark(heap: str) -> Iterator["Spark"]:
    """A JVM with its default collector and compilers, for as long as the block lasts."""
    conf = {
        "spark.driver.memory": heap,
        "spark.driver.extraJavaOptions": f'"-Dlog4j2.configurationFile={_LOGGING}"',
        "spark.sql.streaming.stateStore.maintenanceInterval": "1h",
        "spark.sql.streaming.stateStore.minDeltasForSnapshot": "1",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }
    try:
        with session.local_session("benchmarks", conf) as spark:
            yield Spark(spark)
    finally:
        session.end_jvm()


class Spark:
    """The provider of a Spark session, driven from here."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._state = jvm.org.apache.spark.sql.execution.streaming.state
        java: Any = spark._jsparkSession
        self._conf = self._state.StateStoreConf.apply(java.sessionState().conf())
        context: Any = spark.sparkContext._jsc
        self._hadoop = jvm.org.apache.hadoop.conf.Configuration(context.hadoopConfiguration())
        self._hadoop.set("sql.streaming.runId", str(uuid4()))  # no provider begins without one
        gateway: Any = spark.sparkContext._gateway
        self._gateway = gateway
        self._process = psutil.Process(gateway.proc.pid)

    def maintain(self, root: Path, kind: Kind, *, version: int, count: int = 1) -> SparkSeconds:
        """Loads a version of the first partitions' stores, and writes their snapshots."""
        providers = [self._provider(root, kind, partition) for partition in range(count)]
        none = self._jvm.scala.Option.empty()
        load = self._timed(lambda: [one.getReadStore(version, none) for one in providers])
        write = self._timed(lambda: [one.doMaintenance() for one in providers])
        for provider in providers:
            provider.close()
        return SparkSeconds(load, write)

    def snapshot_rocks(self, root: Path, kind: Kind, *, version: int) -> SparkSeconds:
        """Loads a version of the first partition's RocksDB store, and uploads a snapshot of it.

        By the same private methods as the maintenance of a provider that has committed it.
        """
        provider = self._init(self._state.RocksDBStateStoreProvider(), root, kind)
        database, none = provider.rocksDB(), self._jvm.scala.Option.empty()
        load = self._timed(lambda: database.load(version, none, True, False))
        write = self._timed(lambda: database.uploadSnapshot(self._snapshot(database, version)))
        database.release()
        provider.close()
        return SparkSeconds(load, write)

    def _snapshot(self, database: Any, version: int) -> Any:
        methods = database.getClass().getDeclaredMethods()
        (create,) = (one for one in methods if one.getName() == "createSnapshot")
        create.setAccessible(True)
        given = self._gateway.new_array(self._jvm.java.lang.Object, 2)
        given[0], given[1] = version, self._jvm.scala.Option.empty()
        return create.invoke(database, given)._1().get()

    def collect(self) -> None:
        """Frees what earlier calls left in the heap, so that a later one does not pay for it."""
        gc.collect()  # our references keep the JVM's objects alive
        self._jvm.java.lang.System.gc()

    def _provider(self, root: Path, kind: Kind, partition: int) -> Any:
        return self._init(self._state.HDFSBackedStateStoreProvider(), root, kind, partition)

    def _init(self, provider: Any, root: Path, kind: Kind, partition: int = 0) -> Any:
        store = self._state.StateStoreId(f"file:{root}/state", 0, partition, "default")
        key, value = self._schema(kind.key), self._schema(kind.value)
        spec = self._state.NoPrefixKeyStateEncoderSpec(key)
        none = self._jvm.scala.Option.empty()
        provider.init(store, key, value, spec, False, self._conf, self._hadoop, False, none)
        return provider

    def _schema(self, fields: tuple[tuple[str, str], ...]) -> Any:
        described = [
            {"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields
        ]
        types = self._jvm.org.apache.spark.sql.types.DataType
        return types.fromJson(json.dumps({"type": "struct", "fields": described}))

    def _timed(self, work: Callable[[], object]) -> Seconds:
        cpu, began = self._cpu(), time.perf_counter()
        work()
        return Seconds(time.perf_counter() - began, self._cpu() - cpu)

    def _cpu(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)


class Sparks:
    """One JVM at a time, with the heap that is asked for."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._heap = ""
        self._spark: Spark | None = None

    def with_heap(self, heap: str) -> Spark:
        """Returns the running JVM, or a new one when the running one has another heap."""
        if self._spark is None or heap != self._heap:
            self.close()
            self._spark, self._heap = self._stack.enter_context(warm_spark(heap)), heap
        return self._spark

    def close(self) -> None:
        """Ends the JVM, if there is one."""
        self._spark = None
        self._stack.close()
