"""A small, quiet Spark on this machine, whose own state readers judge the contents of stores.

The `statestore` and `state-metadata` readers load a version as a restarted query would, through
snapshots and deltas, and share no code with the rest of this package.
"""

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

_JVM_SECONDS = 20.0
_LOGGING = Path(__file__).with_name("log4j2.properties")
# For a short life: little compilation, a single code cache large enough for it, and little logging.
_JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m "
    f'"-Dlog4j2.configurationFile={_LOGGING}"'
)
_SMALL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": _JAVA_OPTIONS,
    "spark.driver.host": "127.0.0.1",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_CONF = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    # No query runs here, so no coordinator of stores exists; Spark would warn at every read.
    "spark.sql.streaming.stateStore.coordinatorReportSnapshotUploadLag": "false",
    "spark.sql.streaming.stateStore.forceSnapshotUploadOnLag": "false",
}
# By default `to_json` drops nulls, and truncates times to milliseconds.
_JSON_OPTIONS = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
}
_64_BITS = (1 << 64) - 1


@contextmanager
def local_session(
    name: str, conf: Mapping[str, str], *, master: str = "local[2]"
) -> Iterator[SparkSession]:
    """Yields a new session with `conf` on top of the defaults; no part of it outlives the block.

    A second session can follow in the same process and costs much less: the JVM stays. Beside
    another it is refused (`ValueError`): it would be shared, and stopped while its owner uses it.
    """
    # With defaults, the settings of this JVM's first session would reappear in all later ones.
    settings = SparkConf(loadDefaults=False).setMaster(master).setAppName(name)
    settings.setAll([*{**_SMALL, **conf}.items()])
    spark = SparkSession(SparkContext(conf=settings))
    try:
        yield spark
    finally:
        _end(spark)


def end_jvm() -> None:
    """Ends this process's JVM and waits until it has ended; does nothing if there is none.

    The JVM would end by itself a second or two after this process: too late for an operator who
    checks immediately.
    """
    gateway: Any = SparkContext._gateway  # noqa: SLF001 - there is no public way to it
    if gateway is None:
        return
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - the next session makes its own
    with suppress(Py4JError, OSError):
        gateway.shutdown()
    # The JVM ends when its input closes.
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(_JVM_SECONDS)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()


def _end(spark: SparkSession) -> None:
    # Spark leaves the state stores' maintenance thread and its loaded providers in the JVM, and
    # a later session inherits them; an executor whose process has ended leaves nothing.
    jvm: Any = spark._jvm  # noqa: SLF001 - there is no public way to it
    # Ctrl-C reaches the JVM as well as this process: it may already have ended.
    with suppress(Py4JError, ConnectionError):
        jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()
        spark.stop()


@dataclass(frozen=True, slots=True)
class OracleDigest:
    """All rows of one store in all partitions: their number, and an order-free 128-bit digest."""

    rows: int
    digest: str


Digests = dict[tuple[int, str, int], OracleDigest]
"""The digest of each store after each batch, by (operator, store, batch)."""


@contextmanager
def oracle_session(conf: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Yields a session for reading state, with `conf` on top of its settings."""
    with local_session("statemaint-oracle", {**_CONF, **(conf or {})}) as spark:
        yield spark


def retained_batches(checkpoint: Path) -> tuple[int, ...]:
    """Returns the committed batches that are still in the commit log, oldest first."""
    names = (path.name for path in (checkpoint / "commits").iterdir())
    return tuple(sorted(int(name) for name in names if name.isdecimal()))


def stores(spark: SparkSession, checkpoint: Path) -> tuple[tuple[int, str], ...]:
    with _plain(checkpoint) as place:
        rows = spark.read.format("state-metadata").load(str(place)).collect()
    return tuple(sorted((row.operatorId, row.stateStoreName) for row in rows))


def read_rows(
    spark: SparkSession, checkpoint: Path, *, batch: int, operator: int, store: str
) -> list[str]:
    """Returns one store's rows after `batch`, with partitions, as sorted JSON; for small state."""
    with _plain(checkpoint) as place:
        state = _load(spark, place, batch, (operator, store))
        return sorted(row[0] for row in state.select(_row_as_json()).collect())


def read_state(
    spark: SparkSession, checkpoint: Path, *, batch: int, operator: int, store: str
) -> OracleDigest:
    with _plain(checkpoint) as place:
        return _read_batch(spark, place, [(operator, store)], batch)[operator, store, batch]


def read_all(
    spark: SparkSession,
    checkpoint: Path,
    *,
    batches: Sequence[int],
    progress: Callable[[int], None],
) -> Digests:
    """Returns the digest of every store after each batch, two at a time.

    `progress` is called for each batch in order, in the caller's thread.
    """
    digests: Digests = {}
    with _plain(checkpoint) as place, ThreadPoolExecutor(2) as pool:
        read = partial(_read_batch, spark, place, stores(spark, place))
        for batch, found in zip(batches, pool.map(read, batches), strict=True):
            digests |= found
            progress(batch)
    return digests


@contextmanager
def _plain(checkpoint: Path) -> Iterator[Path]:
    """Yields a path of a checkpoint that Spark's state readers understand.

    They encode the path as an address and do not decode it again, so that they find no commit in a
    folder with a space in its name (seen with Spark 4.3). A link to it has a plain name.
    """
    if quote(str(checkpoint)) == str(checkpoint):
        yield checkpoint
        return
    with TemporaryDirectory(prefix="statemaint-") as folder:
        link = Path(folder) / "checkpoint"
        link.symlink_to(checkpoint.absolute(), target_is_directory=True)
        yield link


def _read_batch(
    spark: SparkSession, checkpoint: Path, wanted: Sequence[tuple[int, str]], batch: int
) -> Digests:
    """Reads all stores in one Spark job, since most of a small read is the cost of starting one."""
    hashed = (_hashes(_load(spark, checkpoint, batch, store), store) for store in wanted)
    totals = reduce(DataFrame.union, hashed).groupBy("operator", "store")
    found = totals.agg(
        f.count("*").alias("rows"),
        f.bit_xor("first").alias("xor"),
        f.sum(f.col("second").cast("decimal(20, 0)")).alias("sum"),
    ).collect()
    # A store without rows has no group.
    empty = {(*store, batch): _digest(0, 0, 0) for store in wanted}
    return empty | {
        (row.operator, row.store, batch): _digest(row["rows"], row["xor"], int(row["sum"]))
        for row in found
    }


def _load(spark: SparkSession, checkpoint: Path, batch: int, store: tuple[int, str]) -> DataFrame:
    operator, name = store
    reader = spark.read.format("statestore").option("batchId", batch)
    return reader.option("operatorId", operator).option("storeName", name).load(str(checkpoint))


def _hashes(state: DataFrame, store: tuple[int, str]) -> DataFrame:
    operator, name = store
    row = _row_as_json()
    return state.select(
        f.lit(operator).alias("operator"),
        f.lit(name).alias("store"),
        f.xxhash64(row).alias("first"),
        f.xxhash64(f.lit(name), row).alias("second"),
    )


def _row_as_json() -> Column:
    return f.to_json(f.struct("partition_id", "key", "value"), _JSON_OPTIONS)


def _digest(rows: int, xor: int, total: int) -> OracleDigest:
    return OracleDigest(rows, f"{xor & _64_BITS:016x}{total & _64_BITS:016x}")
