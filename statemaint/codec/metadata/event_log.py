"""Spark's event log: how long the restarts of a query took, as its listeners were told.

Mirrors `EventLoggingListener` and the events of `StreamingQueryListener`; `JsonProtocol` writes an
event a line.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median
from typing import Any

# `Event` is the first field of every event.
_HEAD = 120
_MILLIS = 1000
_OTHERS = 2  # so many later batches show what a batch takes without a restart


@dataclass(frozen=True, slots=True)
class PastRestart:
    """A restart of a query that ended in a committed batch."""

    version: int  # of the state that it loaded
    began: float  # when the query was started, in seconds since the epoch
    # From then to the end of its first batch, without what a later batch takes, if any shows that.
    seconds: float
    warm: bool  # whether its process had run the query before
    spark: str  # the version of Spark
    slots: int  # the tasks that its executors ran at a time; 0 if the log does not say


@dataclass(slots=True)
class _Run:
    began: float
    warm: bool
    slots: int = 0
    version: int | None = None
    first: float = 0.0  # seconds to the end of its first batch, and of later ones in `others`
    others: list[float] = field(default_factory=list)


def restarts(lines: Iterable[bytes], query_id: str) -> Iterator[PastRestart]:
    """Yields the restarts of a query in the log of one application, the oldest first."""
    log = _Log(query_id)
    for line in lines:
        event = _event(line)
        if take := _TAKES.get(str(event.get("Event"))):
            take(log, event)
    for run in log.runs.values():
        if run.version:
            usual = median(run.others) if len(run.others) >= _OTHERS else 0.0
            seconds = max(run.first - usual, 0.0)
            yield PastRestart(run.version, run.began, seconds, run.warm, log.spark, run.slots)


@dataclass(slots=True)
class _Log:
    """What the events of an application have shown so far."""

    query_id: str
    spark: str = ""
    cpus: int = 1  # of a task
    cores: dict[str, int] = field(default_factory=dict)  # by executor
    runs: dict[str, _Run] = field(default_factory=dict)  # of the query

    def began(self, event: dict[str, Any]) -> None:
        self.spark = str(event.get("Spark Version", ""))

    def set_up(self, event: dict[str, Any]) -> None:
        cpus = str(_dict(event, "Spark Properties").get("spark.task.cpus", "1"))
        self.cpus = max(1, int(cpus)) if cpus.isdecimal() else 1

    def added(self, event: dict[str, Any]) -> None:
        cores = _dict(event, "Executor Info").get("Total Cores")
        self.cores[str(event.get("Executor ID"))] = cores if isinstance(cores, int) else 0

    def removed(self, event: dict[str, Any]) -> None:
        self.cores.pop(str(event.get("Executor ID")), None)

    def started(self, event: dict[str, Any]) -> None:
        began = _time(event.get("timestamp"))
        if event.get("id") == self.query_id and began is not None:
            self.runs[str(event.get("runId"))] = _Run(began, warm=bool(self.runs))

    def progress(self, event: dict[str, Any]) -> None:
        told = _dict(event, "progress")
        run, took = self.runs.get(str(told.get("runId"))), _dict(told, "durationMs")
        batch, began = told.get("batchId"), _time(told.get("timestamp"))
        times: tuple[Any, Any] = (took.get("addBatch"), took.get("triggerExecution"))
        if run is None or began is None or not all(type(each) is int for each in (batch, *times)):
            return  # of another query, or of a trigger without a batch
        added, whole = (each / _MILLIS for each in times)
        if run.version is None:
            run.version, run.first = batch, began + whole - run.began
            run.slots = sum(self.cores.values()) // self.cpus
        else:
            run.others.append(added)


_LISTENER = "org.apache.spark.sql.streaming.StreamingQueryListener$Query"
_TAKES = {
    "SparkListenerLogStart": _Log.began,
    "SparkListenerEnvironmentUpdate": _Log.set_up,
    "SparkListenerExecutorAdded": _Log.added,
    "SparkListenerExecutorRemoved": _Log.removed,
    f"{_LISTENER}StartedEvent": _Log.started,
    f"{_LISTENER}ProgressEvent": _Log.progress,
}
_NEEDED = tuple(f'"Event":"{name}"'.encode() for name in _TAKES)


def _event(line: bytes) -> dict[str, Any]:
    if not any(name in line[:_HEAD] for name in _NEEDED):
        return {}
    with suppress(ValueError, RecursionError):  # a torn line
        event = json.loads(line)
        return event if isinstance(event, dict) else {}
    return {}


def _dict(fields: dict[str, Any], name: str) -> dict[str, Any]:
    found = fields.get(name)
    return found if isinstance(found, dict) else {}


def _time(text: object) -> float | None:
    with suppress(ValueError):
        return datetime.fromisoformat(str(text)).timestamp()
    return None
