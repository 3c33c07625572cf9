"""The session of `python -m statemaint.spark`: that of `spark-submit`, or its own."""

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import statemaint
from statemaint.errors import ConfigError, NotInstalledError

_NAME = "statemaint"
# Spark's own Java code has little to do here: compiling it again, better, costs more than it saves,
# on cores that the workers need. Spark puts these before `spark.driver.extraJavaOptions`.
_JAVA = "-XX:TieredStopAtLevel=1"


def session(master: str | None, remote: str | None) -> Any:
    """Returns a Spark session."""
    SparkSession = _session_class()  # noqa: N806 -- a class
    if master and remote:
        raise ConfigError("--master and --remote are mutually exclusive; give one of them")
    builder = SparkSession.builder.appName(_NAME)
    if remote:
        return builder.remote(remote).getOrCreate()
    if master or not _submitted():
        builder = builder.master(master or "local[*]")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = builder.config("spark.executorEnv.PYTHONPATH", _path())
        builder = builder.config("spark.driver.defaultJavaOptions", _JAVA)
        builder = builder.config("spark.ui.showConsoleProgress", str(sys.stderr.isatty()).lower())
    return _started(builder)


def _started(builder: Any) -> Any:
    try:
        return builder.getOrCreate()
    except RuntimeError as error:  # PySpark's own class of it has moved between versions
        if "JAVA_GATEWAY_EXITED" not in str(error):
            raise
        raise ConfigError(
            "Spark's Java process did not start, its messages are above; JAVA_HOME must name a "
            "Java that this PySpark knows: 17 or 21 for Spark 4, 8 to 17 for Spark 3.5"
        ) from error


def _session_class() -> Any:
    """Returns PySpark's session class, if everything for a fleet's tables is installed."""
    for package, name in (("pyspark.sql", "PySpark"), ("pandas", "pandas"), ("pyarrow", "pyarrow")):
        try:
            import_module(package)
        except ImportError as error:
            raise NotInstalledError(name, extra="spark") from error
    return import_module("pyspark.sql").SparkSession


def _submitted() -> bool:
    """Returns whether `spark-submit` has started this process, and chosen the master."""
    return "PYSPARK_GATEWAY_PORT" in os.environ or "SPARK_REMOTE" in os.environ


def _path() -> str:
    """Returns the path of this package for local workers, if it is not installed."""
    here, given = str(Path(statemaint.__file__).parent.parent), os.environ.get("PYTHONPATH")
    return os.pathsep.join(path for path in (here, given) if path)
