"""One Spark for all tests of this folder, and a neglected checkpoint to work on.

A process holds one Spark session at a time and `spark` holds it until the last test, so what
makes sessions of its own (`run_hours`) runs in `job_process`, a process with a JVM of its own.
"""

import logging
import multiprocessing
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from pyspark.sql import SparkSession

from statemaint.cli.main import run as run_command
from statemaint.spark import program as module
from tests.support.program import run
from tools.demo.events import write_hours
from tools.demo.pipeline import hourly_job
from tools.demo.session import oracle_session

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
# It has to catch tasks at work, which a fast machine may not allow: a part of `make test-sparks`.
_CLUSTERS = ["test_cluster.py", "test_cluster_packages.py"]
collect_ignore = [] if os.environ.get("STATEMAINT_CLUSTER") else _CLUSTERS
Program = Callable[..., CompletedProcess[str]]
RunOn = Callable[[Path, Iterable[int]], None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session of all tests; it reads state well, and never maintains it by itself."""
    conf = {
        "spark.sql.streaming.stateStore.maintenanceInterval": "1h",
        "spark.executorEnv.PYTHONPATH": str(ROOT),  # for Python workers: this checkout's package
    }
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # It says goodbye when the process ends and the stream that it writes to is closed already.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    with oracle_session(conf) as session:
        yield session


def here(*arguments: str) -> CompletedProcess[str]:
    """Runs Spark's program in this process."""
    return run(
        *arguments, program=lambda: run_command(module.program, "python -m statemaint.spark")
    )


@pytest.fixture
def in_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Runs Spark's program with the session of all tests: its own costs ten times as much."""
    monkeypatch.setattr(module, "session", lambda *_: spark)
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    return here


@pytest.fixture(scope="session")
def job_process() -> Iterator[ProcessPoolExecutor]:
    """A process for what makes Spark sessions of its own."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        yield pool


@pytest.fixture(scope="session")
def run_on(spark: SparkSession) -> RunOn:
    """Runs the hourly job at a root for some hours: a batch for each, in the tests' own session."""
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "3")
    session.conf.set("spark.sql.streaming.minBatchesToRetain", "8")
    session.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")

    def run(root: Path, hours: Iterable[int]) -> None:
        write_hours(root / "input", hours=hours, seed=1)
        job = hourly_job(session, root, max_files_per_trigger=1)
        job.trigger(availableNow=True).start().awaitTermination()

    return run


@pytest.fixture(scope="session")
def neglected_root(run_on: RunOn, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The hourly job after 25 batches in 3 partitions: 25 deltas a store and no snapshot.

    The aggregation (operator 0) and the join's four stores (operator 1) have dropped rows, and
    the commit log has batches 16 to 24 left.
    """
    root = tmp_path_factory.mktemp("neglected")
    run_on(root, range(25))
    return root


@pytest.fixture(scope="session")
def neglected(neglected_root: Path) -> Path:
    """The checkpoint of `neglected_root`, for reading only; `neglected_copy` may be changed."""
    return neglected_root / "checkpoint"


@pytest.fixture
def neglected_copy(neglected_root: Path, tmp_path: Path) -> Path:
    """A checkpoint of one's own, with the job's input and output beside it: `run_on` its parent."""
    shutil.copytree(neglected_root, tmp_path / "job")
    return tmp_path / "job" / "checkpoint"
