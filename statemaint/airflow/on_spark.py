"""The work of `maintain` on Spark: all bundles of one query or more, in one task.

The bundles go to Spark's driver, and their outcomes come back, by files beside the checkpoint
(`maintain.work`): the driver may run on another machine. The program is `python -m
statemaint.spark`, in a child process or by `spark-submit`. Airflow's Spark provider package is used
if it is installed and a query names a connection of its type. A local session, or another master in
client mode, needs only PySpark and Java.
"""

import logging
import os
import shlex
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from airflow.sdk.exceptions import AirflowException

from statemaint.airflow import texts
from statemaint.airflow.settings import QuerySettings
from statemaint.errors import ConfigError, StatemaintError
from statemaint.maintain.work import WorkOrder, hand_over, read_reports
from statemaint.queries.models import SparkSettings
from statemaint.report.task import BundleReport, Failure, named, of_one_build

_log = logging.getLogger(__name__)
_MODULE = "statemaint.spark"
PATIENCE = 3.0
"""The seconds that Spark has to end after a request to end. Airflow kills the task after five."""
_POLL_SECONDS = 0.05
_PROVIDER = "apache-airflow-providers-apache-spark"
_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_UNREAD = (
    "the outcomes of Spark's program cannot be read; give it the build of statemaint that Airflow "
    "has"
)

OnKill = Callable[[Callable[[], object]], object]
"""Receives the function that ends the program, for when Airflow kills the task."""
Start = Callable[[QuerySettings, Sequence[str]], str | None]
"""Runs Spark's program with a query's settings and some arguments; returns why it failed."""
Done = tuple[list[BundleReport], Failure | None]
"""The reports on a query's bundles, and why its work must fail."""


def maintain_queries(
    works: Sequence[tuple[QuerySettings, WorkOrder]], *, attempt: int, start: Start
) -> dict[str, Done]:
    """Maintains the bundles of queries in one Spark program; returns the results of each query.

    Safe to repeat: a further attempt only works on bundles that have no outcome, or failed for a
    reason that may pass. A failure of one query does not stop the others.
    """
    done: dict[str, Done] = {}
    handed = []
    for settings, order in works:
        try:
            hand_over(settings.open(), order)
        except StatemaintError as error:
            done[settings.query] = [], Failure.of(error)
        else:
            handed.append((settings, order))
    if not handed:
        return done
    pairs = [part for settings, order in handed for part in (settings.checkpoint, order.key)]
    try:
        wrong = start(handed[0][0], ["units", *pairs, "--attempt", str(attempt)])
    except StatemaintError as error:
        return done | {settings.query: ([], Failure.of(error)) for settings, _ in handed}
    for settings, order in handed:
        done[settings.query] = _done(settings, order, attempt, wrong)
    return done


def _done(settings: QuerySettings, order: WorkOrder, attempt: int, wrong: str | None) -> Done:
    try:
        with of_one_build(_UNREAD):
            reports = read_reports(settings.open(), order, attempt)
    except StatemaintError as error:
        return [], Failure.of(error)
    inspected = [report for report in reports if report.inspected]
    _log.info("%s\n%s", settings.query, texts.table(inspected))
    labels = {report.label for report in reports}
    silent = [bundle.label for bundle in order.bundles if bundle.label not in labels]
    failures = [*_failures(reports)]
    if silent:
        why = wrong or "Spark's program ended"
        reason = f"SPARK: {why}, and these have no outcome: {named(silent)}"
        failures.insert(0, Failure(reason, retry=True))
    elif wrong:
        _log.warning("%s, after every partition had its outcome", wrong)
    return reports, Failure.of_all(failures)


def _failures(reports: Iterable[BundleReport]) -> Iterator[Failure]:
    for report in reports:
        if report.failure:
            damaged = [str(unit.id) for unit in report.units if unit.damage]
            reason = f"{named(damaged) or report.label}: {report.failure.reason}"
            _log.error(reason)
            yield Failure(reason, report.failure.retry)


def start_spark(
    settings: QuerySettings, arguments: Sequence[str], *, on_kill: OnKill, name: str = ""
) -> str | None:
    """Runs Spark's program to its end, with its output in the task's log; returns why it failed.

    A program of several queries has a name of its own.
    """
    if not settings.spark.connection:
        return _beside(settings.spark, arguments, on_kill)
    hook = _hook(settings.spark, arguments, name or settings.query)
    on_kill(hook.on_kill)
    program = find_spec(f"{_MODULE}.__main__")
    try:
        hook.submit(settings.spark.application or (program and program.origin) or _MODULE)
    except (AirflowException, OSError) as error:
        return f"spark-submit: {error}"
    return None


def _beside(spark: SparkSettings, arguments: Sequence[str], on_kill: OnKill) -> str | None:
    command = [sys.executable, "-m", _MODULE, *arguments, "--master", spark.master or "local[*]"]
    _log.info("running %s", shlex.join(command))
    pairs = [part for name, value in spark.conf.items() for part in ("--conf", f"{name}={value}")]
    # The worker may have some already, such as --packages; the last one of a name counts.
    *usual, shell = shlex.split(os.environ.get(_ARGUMENTS) or "pyspark-shell")
    # In a session of its own, so that the JVM and its workers end with it.
    child = subprocess.Popen(  # noqa: S603 -- our own program; the arguments are one each
        command,
        env={**os.environ, _ARGUMENTS: shlex.join([*usual, *pairs, shell])},
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


def _hook(spark: SparkSettings, arguments: Sequence[str], name: str) -> Any:
    try:
        from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook  # noqa: PLC0415 -- an extra
    except ImportError:
        raise ConfigError(
            f"spark.connection is for Airflow's Spark provider package; pip install {_PROVIDER}, "
            "or set spark.master instead"
        ) from None
    ours = {
        "conn_id": spark.connection,
        "conf": dict(spark.conf),
        "application_args": list(arguments),
        "name": f"statemaint {name}",
    }
    if twice := sorted(set(ours) & set(spark.submit)):
        raise ConfigError(f"spark.submit: {', '.join(twice)} cannot be set there")
    try:
        return SparkSubmitHook(**{**spark.submit, **ours})
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(f"spark.submit: {error}") from None
