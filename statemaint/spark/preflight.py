"""One task before the work of a fleet: whether executors have what it takes."""

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from statemaint import __version__
from statemaint.errors import ConfigError
from statemaint.spark.frames import context_of, first_line

_REMEDY = (
    "`pip install 'statemaint[spark]'` for the Python of the executors, or send them an "
    "environment (docs/spark.md, What executors need); nothing was done"
)
# The last line of a traceback of Python, in an error of the JVM.
_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t]+.*\n)+(?P<error>\S.*)")
Probe = Callable[[], dict[str, str]]


def check_executors(spark: Any, addresses: Iterable[str]) -> None:
    """Has one task of an executor import what the fleet at some addresses needs.

    Raises:
        ConfigError: when a package is missing there, or that of another version is.
    """
    try:
        found = _answer(spark, probe_of(_modules(spark, addresses)))
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


def _modules(spark: Any, addresses: Iterable[str]) -> list[str]:
    modules = ["statemaint.spark.units", "numba"]
    if context_of(spark) is None or find_spec("pandas"):
        modules.append("pyarrow")  # or the rows are those of an RDD
    if any(address.startswith(("s3:", "s3a:", "s3n:")) for address in addresses):
        modules.append("boto3")
    return modules


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
