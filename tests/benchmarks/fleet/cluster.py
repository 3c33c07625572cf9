"""A standalone cluster on this machine: a master, and workers of one core each."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import pyspark

_HOST = "127.0.0.1"
_DEPLOY = "org.apache.spark.deploy"
_PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster.

    Attributes:
        master: the address of its master.
        pids: its processes.
    """

    master: str
    pids: tuple[int, ...]


@contextmanager
def cluster(workers: int, folder: Path, environ: Mapping[str, str]) -> Iterator[Cluster]:
    """Runs a cluster for the block's length.

    Args:
        workers: the number of worker processes; each has one core and an executor of 1 GiB.
        folder: where the workers keep their files.
        environ: what executors need in their environment.
    """
    start = partial(_start, folder, environ)
    port, page = _free(), _free()
    with ExitStack() as stack:
        master = ["master.Master", "--host", _HOST, "--port", str(port), "--webui-port", str(page)]
        started = [start(stack, master)]
        _wait_for(page, "ALIVE")
        address = f"spark://{_HOST}:{port}"
        for number in range(workers):
            place = str(folder / f"worker-{number}")
            words = ["worker.Worker", "--host", _HOST, "-c", "1", "-m", "2g", "-d", place, address]
            started.append(start(stack, words))
        _wait_for(page, f'"aliveworkers" : {workers}')
        yield Cluster(address, tuple(one.pid for one in started))


def _start(
    folder: Path, environ: Mapping[str, str], stack: ExitStack, words: list[str]
) -> "subprocess.Popen[bytes]":
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else "java"
    spark = str(Path(pyspark.__file__).parent)
    classes = f"{spark}/jars/*"
    name, *rest = words
    command = [java, "-Xmx256m", "-cp", classes, f"{_DEPLOY}.{name}", *rest]
    log = stack.enter_context((folder / f"{name}.log").open("ab"))
    # What Spark's own scripts set; without these no worker starts an executor.
    scripts = {"SPARK_HOME": spark, "SPARK_SCALA_VERSION": "2.13"}
    whole = {**os.environ, **environ, **scripts}
    process = subprocess.Popen(command, stdout=log, stderr=log, env=whole)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return process


def _wait_for(page: int, word: str) -> None:
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            with urlopen(f"http://{_HOST}:{page}/json/") as answer:
                if word in answer.read().decode():
                    return
        except OSError:
            pass
        if time.monotonic() > end:
            raise TimeoutError(f"no {word} on the master's page")
        time.sleep(0.2)


def _free() -> int:
    with socket.socket() as one:
        one.bind((_HOST, 0))
        port: int = one.getsockname()[1]
        return port
