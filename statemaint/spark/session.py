"""The session of `python -m statemaint.spark`, and whether its executors have what a fleet needs.

It is that of `spark-submit`, or its own. One task before the work tries what is installed.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import statemaint
from statemaint import __version__
from statemaint.errors import ConfigError, NotInstalledError
from statemaint.spark.frames import context_of, first_line

# Spark's own Java code has little to do here: compiling it again, better, costs more than it saves,
# on cores that the workers need. Spark puts these before `spark.driver.extraJavaOptions`.
_JAVA = "-XX:TieredStopAtLevel=1"
_REMEDY = (
    "`pip install 'statemaint[spark]'` for the Python of the executors, or send them an "
    "environment (docs/spark.md, What executors need); nothing was done"
)
# The last line of a traceback of Python, in an error of the JVM.
_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t]+.*\n)+(?P<error>\S.*)")
Probe = Callable[[], dict[str, str]]


def session(master: str | None, remote: str | None) -> Any:
    SparkSession = _session_class()  # noqa: N806 -- a class
    if master and remote:
        raise ConfigError("--master and --remote are mutually exclusive; give one of them")
    builder = SparkSession.builder.appName("statemaint")
    if remote:
        return builder.remote(remote).getOrCreate()
    # `spark-submit` has started this process, and chosen the master
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ or "SPARK_REMOTE" in os.environ
    if master or not submitted:
        builder = builder.master(master or "local[*]")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        # for local workers, if this package is not installed
        path = Path(statemaint.__file__).parent.parent, os.environ.get("PYTHONPATH")
        python_path = os.pathsep.join(str(folder) for folder in path if folder)
        builder = builder.config("spark.executorEnv.PYTHONPATH", python_path)
        builder = builder.config("spark.driver.defaultJavaOptions", _JAVA)
        builder = builder.config("spark.ui.showConsoleProgress", str(sys.stderr.isatty()).lower())
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


def check_executors(spark: Any, addresses: Iterable[str]) -> None:
    """Has one task of an executor import what the fleet at some addresses needs."""
    modules = ["statemaint.spark.units", "numba"]
    if context_of(spark) is None or find_spec("pandas"):
        modules.append("pyarrow")  # or the rows are those of an RDD
    if any(address.startswith(("s3:", "s3a:", "s3n:")) for address in addresses):
        modules.append("boto3")
    try:
        found = _answer(spark, probe_of(modules))
    except Exception as error:
        why = _TRACEBACK.search(str(error))
        said = why["error"] if why else first_line(str(error))
        raise ConfigError(f"no Python program runs on an executor: {said}; {_REMEDY}") from error
    python = f"the Python of an executor ({found['python']})"
    if missing := found.get("missing"):
        raise ConfigError(f"{python} has no {missing}: {found['why']}; {_REMEDY}")
    if found["version"] != __version__:
        raise ConfigError(
            f"{python} has statemaint {found['version']}, and the driver {__version__}; {_REMEDY}"
        )


def probe_of(modules: Sequence[str]) -> Probe:
    """Returns the function that an executor runs; it needs nothing of this package there.

    Spark sends the code of an inner function, and only the name of any other.
    """

    def probe() -> dict[str, str]:
        for module in modules:
            try:
                import_module(module)
            except ImportError as error:
                name = str(error.name or module).partition(".")[0]
                return {"python": sys.executable, "missing": name, "why": str(error)}
        return {"python": sys.executable, "version": import_module("statemaint").__version__}

    return probe


def _answer(spark: Any, probe: Probe) -> dict[str, str]:
    context = context_of(spark)
    if context is not None:
        return dict(context.parallelize([0], 1).map(lambda _: probe()).first())

    def rows(_batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        yield pa.RecordBatch.from_pylist([{"answer": json.dumps(probe())}])

    answer = spark.range(0, 1, 1, 1).mapInArrow(rows, "answer string").first()["answer"]
    return dict(json.loads(answer))
