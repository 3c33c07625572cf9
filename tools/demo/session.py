"""A small, quiet Spark on this machine, for the duration of a `with` block."""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

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
