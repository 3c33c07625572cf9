"""Whether executors have what a fleet needs: a process without this package stands for one."""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark import cloudpickle

from statemaint import __version__
from statemaint.errors import ConfigError
from statemaint.spark.session import check_executors, probe_of

# The folder of the packages alone: this package is beside it, by a file that -S does not read.
_PACKAGES = Path(pyspark.__file__).parent.parent
_CALL = """
import pickle, sys
work = pickle.load(sys.stdin.buffer)
sys.stdout.buffer.write(pickle.dumps(work(0)))
"""


class Context:
    """A SparkContext whose executors are processes with a path of their own."""

    def __init__(self, path: str) -> None:
        self._path, self._work = path, b""

    def parallelize(self, rows: list[int], slices: int) -> "Context":
        assert (len(rows), slices) == (1, 1)
        return self

    def map(self, work: Callable[[int], object]) -> "Context":
        self._work = cloudpickle.dumps(work)  # type: ignore[no-untyped-call]
        return self

    def first(self) -> Any:
        done = subprocess.run(
            [sys.executable, "-S", "-c", _CALL],
            env={**os.environ, "PYTHONPATH": self._path}, cwd="/",
            input=self._work, capture_output=True, check=False,
        )  # fmt: skip
        if done.returncode:
            at = "An error occurred while calling o1.first: PythonException: "
            raise RuntimeError(f"{at}{done.stderr.decode()}\n\tat org.apache.spark.X.y(X.java:1)")
        return pickle.loads(done.stdout)  # noqa: S301 -- its own answer


class Spark:
    def __init__(self, path: str | Path) -> None:
        self._sc = Context(str(path))


class Connect:
    """A session of Spark Connect, which has DataFrames alone; it runs in this process."""

    def range(self, *_: int) -> "Connect":
        return self

    def mapInArrow(  # noqa: N802 -- as Spark's
        self, work: Callable[[Iterable[Any]], Iterable[Any]], columns: str
    ) -> "Connect":
        assert columns == "answer string"
        code = cloudpickle.dumps(work)  # type: ignore[no-untyped-call]
        sent = pickle.loads(code)  # noqa: S301 -- as an executor does
        (self._batch,) = sent([])
        return self

    def first(self) -> Any:
        return self._batch.to_pylist()[0]


def refused(spark: Any, *addresses: str) -> str:
    with pytest.raises(ConfigError) as error:
        check_executors(spark, addresses)
    (line,) = str(error.value).splitlines()
    assert line.endswith("(docs/spark.md, What executors need); nothing was done")
    return line


def test_an_executor_without_this_package_is_one_line_with_the_remedy() -> None:
    line = refused(Spark(_PACKAGES), "/data/a")
    assert f"the Python of an executor ({sys.executable}) has no statemaint: No module" in line
    assert "`pip install 'statemaint[spark]'`" in line


@pytest.mark.parametrize(
    ("addresses", "missing"), [(("/a",), None), (("/a", "s3://b/c"), "boto3")], ids=str
)
def test_a_client_is_needed_only_for_its_storage(
    addresses: tuple[str, ...], missing: str | None, tmp_path: Path
) -> None:
    (tmp_path / "boto3.py").write_text("raise ImportError('broken', name='boto3')")
    root = Path(__file__).parents[3]
    spark = Spark(f"{tmp_path}:{root}:{_PACKAGES}")
    if missing:
        assert f"has no {missing}: broken;" in refused(spark, *addresses)
    else:
        check_executors(spark, addresses)


def test_another_version_on_an_executor_is_told(tmp_path: Path) -> None:
    (tmp_path / "statemaint" / "spark").mkdir(parents=True)
    (tmp_path / "statemaint" / "__init__.py").write_text("__version__ = '0.1.0'")
    for name in ("__init__", "units"):
        (tmp_path / "statemaint" / "spark" / f"{name}.py").touch()
    line = refused(Spark(f"{tmp_path}:{_PACKAGES}"), "/data/a")
    assert f"has statemaint 0.1.0, and the driver {__version__};" in line


def test_an_executor_whose_python_fails_is_told_by_its_own_last_line(tmp_path: Path) -> None:
    (tmp_path / "statemaint").mkdir()
    (tmp_path / "statemaint" / "__init__.py").write_text("raise OSError('no disk')")
    line = refused(Spark(f"{tmp_path}:{_PACKAGES}"), "/data/a")
    assert line.startswith("no Python program runs on an executor: OSError: no disk; ")


def test_spark_connect_is_asked_by_a_dataframe() -> None:
    check_executors(Connect(), ["s3://a/b"])


def test_the_probe_says_what_it_lacks_and_where() -> None:
    found = probe_of(["json", "statemaint.nothing_of_it"])()
    assert (found["python"], found["missing"]) == (sys.executable, "statemaint")
