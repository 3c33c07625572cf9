"""The session of `python -m statemaint.spark`: that of `spark-submit`, or one of its own."""

import os
import sys
from pathlib import Path
from typing import Any

import statemaint
from statemaint.errors import ConfigError, NotInstalledError

_NAME = "statemaint"


def session(master: str | None, remote: str | None) -> Any:
    """Returns a Spark session.

    Args:
        master: the master to connect to; by default that of `spark-submit`, else all local cores.
        remote: the address of a Spark Connect server, instead of a master.

    Raises:
        ConfigError: when there is no PySpark, or there are both a master and a remote.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise NotInstalledError("PySpark", extra="spark") from error
    if master and remote:
        raise ConfigError("--master and --remote are mutually exclusive; give one of them")
    builder = SparkSession.builder.appName(_NAME)
    if remote:
        return builder.remote(remote).getOrCreate()
    if master or not _submitted():
        builder = builder.master(master or "local[*]")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = builder.config("spark.executorEnv.PYTHONPATH", _path())
        builder = builder.config("spark.ui.showConsoleProgress", str(sys.stderr.isatty()).lower())
    return builder.getOrCreate()


def _submitted() -> bool:
    """Returns whether `spark-submit` has started this process, and chosen the master."""
    return "PYSPARK_GATEWAY_PORT" in os.environ or "SPARK_REMOTE" in os.environ


def _path() -> str:
    """Returns where local workers find this package, if it is not installed."""
    here, given = str(Path(statemaint.__file__).parent.parent), os.environ.get("PYTHONPATH")
    return os.pathsep.join(one for one in (here, given) if one)
