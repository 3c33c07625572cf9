"""Spark's own RocksDB class by py4j, below all rows and encoders: bytes in, bytes out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

_STATE = "spark.sql.streaming.stateStore"
_SCHEMA = '{"type":"struct","fields":[{"name":"a","type":"long","nullable":true,"metadata":{}}]}'


class SparkRocks:
    """The database of one store of partition 0, as a task of Spark 4.3 has it."""

    def __init__(
        self,
        spark: SparkSession,
        root: Path,
        conf: Mapping[str, str],
        *,
        families: bool = True,
    ) -> None:
        """Makes a provider; nothing is loaded yet."""
        session, jvm = spark.newSession(), spark._jvm
        settings = {
            f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true",
            f"{_STATE}.coordinatorReportSnapshotUploadLag": "false",
            f"{_STATE}.forceSnapshotUploadOnLag": "false",
            **conf,
        }
        for name, value in settings.items():
            session.conf.set(name, value)
        assert jvm is not None
        state = jvm.org.apache.spark.sql.execution.streaming.state
        session_state: Any = session._jsparkSession.sessionState()
        hadoop = jvm.org.apache.hadoop.conf.Configuration()
        hadoop.set("sql.streaming.runId", str(uuid4()))
        schema = jvm.org.apache.spark.sql.types.DataType.fromJson(_SCHEMA)
        spec = state.NoPrefixKeyStateEncoderSpec(schema)
        store = state.StateStoreId(f"file:{root}/state", 0, 0, "default")
        self._none = jvm.scala.Option.empty()
        stores = state.StateStoreConf.apply(session_state.conf())
        self._provider = state.RocksDBStateStoreProvider()
        self._provider.init(
            store, schema, schema, spec, families, stores, hadoop, families, self._none
        )
        self.database: Any = self._provider.rocksDB()

    def close(self) -> None:
        """Deletes what the provider has in its own folder."""
        self._provider.close()

    def load(self, version: int) -> None:
        self.database.load(version, self._none, False, False)

    def family(self, name: str, *, internal: bool = False) -> int:
        number: int = self.database.createColFamilyIfAbsent(name, internal, False)
        return number

    def put(self, key: bytes, value: bytes, family: str = "default") -> None:
        self.database.put(key, value, family, False, False, False)

    def remove(self, key: bytes, family: str = "default") -> None:
        self.database.remove(key, family, False, False, False)

    def merge(self, key: bytes, value: bytes, family: str) -> None:
        self.database.merge(key, value, family, False, False, False)

    def delete_range(self, first: bytes, end: bytes, family: str) -> None:
        self.database.deleteRange(first, end, family, False, False)

    def commit(self) -> None:
        """Writes a changelog, and a snapshot where one is due."""
        self.write()
        self.maintain()

    def write(self) -> None:
        """Writes a changelog; a snapshot that is due is made on local disk, and waits there."""
        self.database.commit(False)

    def maintain(self) -> None:
        """Uploads the snapshot that waits, and cleans up, as the maintenance thread does."""
        self._provider.doMaintenance()

    def rows(self, families: Mapping[str, int]) -> dict[bytes, bytes]:
        """Returns all rows of some column families as they lie in the database."""
        return {
            number.to_bytes(2, "little") + key: value
            for name, number in families.items()
            for key, value in self._rows(name)
        }

    def _rows(self, family: str) -> list[tuple[bytes, bytes]]:
        found, rows = self.database.iterator(family), []
        while found.hasNext():
            pair = found.next()
            rows.append((bytes(pair.key()), bytes(pair.value())))
        return rows
