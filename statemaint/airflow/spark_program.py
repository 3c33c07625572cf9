"""Runs `python -m statemaint.spark` for a task: in a child process, or by `spark-submit`.

Airflow's Spark provider package is used if it is installed and a query names a connection of
its type. A local session, or another master in client mode, needs only PySpark and Java.
"""

import logging
import os
import shlex
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from airflow.sdk.exceptions import AirflowException

from statemaint.airflow.settings import QuerySettings
from statemaint.errors import ConfigError
from statemaint.queries.models import SparkSettings

_log = logging.getLogger(__name__)
_MODULE = "statemaint.spark"
_LOCAL = "local[*]"
PATIENCE = 3.0
"""The seconds that Spark has to end after a request to end. Airflow kills the task after five."""
_POLL_SECONDS = 0.05
_PROVIDER = "apache-airflow-providers-apache-spark"

OnKill = Callable[[Callable[[], object]], object]
"""Receives the function that ends the program, for when Airflow kills the task."""


def start_spark(
    settings: QuerySettings, arguments: Sequence[str], *, on_kill: OnKill
) -> str | None:
    """Runs Spark's program to its end, with its output in the task's log.

    Args:
        settings: the query's settings, with its Spark.
        arguments: of the program.
        on_kill: receives the function that ends the program early.

    Returns:
        Why it failed; `None` if it did not.

    Raises:
        ConfigError: when Spark cannot be started with these settings.
    """
    if settings.spark.connection:
        return _submitted(settings, arguments, on_kill)
    return _beside(settings.spark, arguments, on_kill)


def _beside(spark: SparkSettings, arguments: Sequence[str], on_kill: OnKill) -> str | None:
    command = [sys.executable, "-m", _MODULE, *arguments, "--master", spark.master or _LOCAL]
    _log.info("running %s", shlex.join(command))
    # In a session of its own, so that the JVM and its workers end with it.
    child = subprocess.Popen(  # noqa: S603 -- our own program; the arguments are one each
        command,
        env={**os.environ, **_environment(spark)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    last: deque[str] = deque(maxlen=1)
    with child:
        on_kill(lambda: _end(child))
        try:
            for line in child.stdout or ():
                _log.info(line.rstrip())
                last.append(line.strip())
            code = child.wait()
        finally:
            _end(child)
    if code == ConfigError.exit_code:
        raise ConfigError(f"Spark's program: {''.join(last)}")
    return f"Spark's program ended with {code}" if code else None


def _environment(spark: SparkSettings) -> dict[str, str]:
    """Returns the arguments with Spark's settings for the program."""
    if not spark.conf:
        return {}
    pairs = [part for name, value in spark.conf.items() for part in ("--conf", f"{name}={value}")]
    return {"PYSPARK_SUBMIT_ARGS": shlex.join([*pairs, "pyspark-shell"])}


def _end(child: subprocess.Popen[str]) -> None:
    """Ends the program, with the processes that it has started.

    Airflow calls it from a signal handler. The task may be waiting for the program at that moment,
    so it never waits for it here.
    """
    if child.poll() is not None:
        return
    deadline = time.monotonic() + PATIENCE
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGTERM)
        while time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            child.poll()
            os.killpg(child.pid, 0)
        os.killpg(child.pid, signal.SIGKILL)


def _submitted(settings: QuerySettings, arguments: Sequence[str], on_kill: OnKill) -> str | None:
    hook = _hook()(**_hook_arguments(settings, arguments))
    on_kill(hook.on_kill)
    try:
        hook.submit(settings.spark.application or _application())
    except AirflowException as error:
        return f"spark-submit: {error}"
    return None


def _hook() -> Any:
    try:
        from airflow.providers.apache.spark.hooks.spark_submit import (  # noqa: PLC0415 -- an extra
            SparkSubmitHook,
        )
    except ImportError:
        raise ConfigError(
            f"spark.connection is for Airflow's Spark provider package; pip install {_PROVIDER}, "
            "or set spark.master instead"
        ) from None
    return SparkSubmitHook


def _hook_arguments(settings: QuerySettings, arguments: Sequence[str]) -> Mapping[str, Any]:
    """Returns the arguments of Airflow's hook."""
    spark = settings.spark
    ours = {
        "conn_id": spark.connection,
        "conf": dict(spark.conf),
        "application_args": list(arguments),
        "name": f"statemaint {settings.query}",
    }
    if twice := sorted(set(ours) & set(spark.submit)):
        raise ConfigError(f"spark.submit: {', '.join(twice)} cannot be set there")
    return {**spark.submit, **ours}


def _application() -> str:
    found = find_spec(f"{_MODULE}.__main__")
    return str(Path(found.origin)) if found and found.origin else _MODULE
