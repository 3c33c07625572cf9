"""A standalone Spark on this machine: a master and workers, real processes that tests may kill.

A worker starts executors, which start a Python daemon, which starts Python workers. All are in the
worker's process tree; what is killed from the top leaves orphans, which the session still has.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pyspark

from tests.support.paths import ROOT
from tools.demo.processes import Process, alive, end_of, free_port, spawn, stop, wait_until

_SPARK = Path(pyspark.__file__).parent
_SECONDS = 300.0
# For processes that live for seconds.
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Seconds until Spark takes what is only paused for lost.
_PATIENCE = 600
_DRIVER = "127.0.0.1"
_CONF = {
    "spark.driver.bindAddress": _DRIVER,
    "spark.driver.extraJavaOptions": _QUICK,
    "spark.driver.host": _DRIVER,
    "spark.driver.memory": "512m",
    "spark.executor.extraJavaOptions": _QUICK,
    "spark.executor.memory": "512m",
    "spark.executorEnv.PYTHONPATH": str(ROOT),
    "spark.network.timeout": f"{_PATIENCE}s",
    "spark.pyspark.python": sys.executable,
    "spark.ui.enabled": "false",
    "spark.sql.warehouse.dir": "/nowhere",
    "spark.ui.showConsoleProgress": "false",
}


class ClusterError(Exception):
    """A part of the cluster did not start."""


@dataclass(slots=True)
class Cluster:
    """A running master with its workers.

    Attributes:
        place: the folder of logs and working folders.
        port: the master's.
        started: all processes that were ever started, for the end.
        workers: those of them that are workers.
    """

    place: Path
    port: int
    started: list[Process] = field(default_factory=list)
    workers: list[Process] = field(default_factory=list)

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def start(self, name: str, shown: str, *command: str, host: str = _DRIVER) -> Process:
        """Starts a program of Spark's on an address, and waits until its log shows a text."""
        log = self.place / f"{name}.log"
        program = [str(_SPARK / "bin" / "spark-class"), *command]
        process = spawn(program, log=log, environ=_environment(host))
        self.started.append(process)
        if not wait_until(lambda: shown in _text(log), seconds=_SECONDS, needed=[process]):
            raise ClusterError(f"{name}:\n{end_of(log)}")
        return process

    def second_worker(self) -> Process:
        """Returns the second of two workers that are alive, after starting what is missing.

        Each has a host of its own: Spark begins no task a second time on the same one.
        """
        while len(running := [one for one in self.workers if alive(one)]) < 2:
            self.workers.append(self._start_worker(len(self.workers) + 1))
        return running[1]

    def _start_worker(self, number: int) -> Process:
        name, host = f"worker-{number}", f"127.0.0.{number + 1}"
        return self.start(
            name,
            "Successfully registered with master",
            *("org.apache.spark.deploy.worker.Worker", "--host", host),
            *("--webui-port", "0", "--cores", "2", "--memory", "1g"),
            *("--work-dir", str(self.place / name), self.master),
            host=host,
        )

    def submit(
        self, name: str, *arguments: str, conf: Mapping[str, str] | None = None
    ) -> "Submitted":
        """Starts `statemaint.spark` under `spark-submit`, as a process session of its own."""
        log, out = self.place / f"{name}.log", self.place / f"{name}.json"
        settings = {**_CONF, "spark.master": self.master, **(conf or {})}
        submit = [str(_SPARK / "bin" / "spark-submit")]
        for key, value in settings.items():
            submit += ["--conf", f"{key}={value}"]
        submit += [str(ROOT / "statemaint" / "spark" / "__main__.py"), *arguments]
        code = ["/bin/sh", "-c", 'code=$1; shift; "$@"; echo $? > "$code"', "-", f"{out}.code"]
        command = [*code, *submit, "--summary", str(out)]
        process = spawn(command, log=log, environ=_environment(_DRIVER))
        self.started.append(process)
        return Submitted(process, log, out)


@dataclass(frozen=True, slots=True)
class Submitted:
    """A program under `spark-submit`.

    Attributes:
        process: the shell that it runs in.
        log: what it says.
        out: the file of its result.
    """

    process: Process
    log: Path
    out: Path

    def code(self, seconds: float = _SECONDS) -> int:
        code = self.out.with_name(f"{self.out.name}.code")
        wait_until(lambda: bool(_text(code)), seconds=seconds, needed=[self.process])
        return int(_text(code) or -1)


def tree(process: Process) -> list[psutil.Process]:
    """Returns a process and all that it started, the parents first."""
    with suppress(psutil.NoSuchProcess):
        top = psutil.Process(process.pid)
        return [top, *top.children(recursive=True)]
    return []


@contextmanager
def spark_cluster(place: Path) -> Iterator[Cluster]:
    """Runs a master, and ends it with all that was started since.

    Raises:
        ClusterError: when it does not start.
    """
    cluster = Cluster(place, free_port())
    try:
        cluster.start(
            "master",
            "I have been elected leader",
            *("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1"),
            *("--port", str(cluster.port), "--webui-port", "0"),
        )
        yield cluster
    finally:
        stop(cluster.started, seconds=10)


def _environment(host: str) -> dict[str, str]:
    others = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    return {
        **others,
        "PYTHONPATH": str(ROOT),
        "SPARK_DAEMON_JAVA_OPTS": f"{_QUICK} -Dspark.worker.timeout={_PATIENCE}",
        "SPARK_DAEMON_MEMORY": "192m",
        "SPARK_HOME": str(_SPARK),
        "SPARK_LOCAL_IP": host,
    }


def _text(file: Path) -> str:
    return file.read_text(errors="replace") if file.exists() else ""
