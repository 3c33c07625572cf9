"""Spark's event log: how long the restarts of a query took, as its listeners were told.

Mirrors `EventLoggingListener` and the events of `StreamingQueryListener`; `JsonProtocol` writes an
event a line.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median
from typing import Any

_LISTENER = "org.apache.spark.sql.streaming.StreamingQueryListener$Query"
_STARTED, _PROGRESS = f"{_LISTENER}StartedEvent", f"{_LISTENER}ProgressEvent"
_BEGAN, _ADDED = "SparkListenerLogStart", "SparkListenerExecutorAdded"
_REMOVED, _SET = "SparkListenerExecutorRemoved", "SparkListenerEnvironmentUpdate"
_NEEDED = tuple(f'"Event":"{name}"'.encode() for name in (_STARTED, _PROGRESS, _BEGAN, _ADDED,
                                                          _REMOVED, _SET))  # fmt: skip
# `Event` is the first field of every event.
_HEAD = 120
_MILLIS = 1000
_OTHERS = 2  # so many later batches show what a batch takes without a restart


@dataclass(frozen=True, slots=True)
class PastRestart:
    """A restart of a query that ended in a committed batch.

    Attributes:
        version: the version of the state that it loaded.
        began: when the query was started, in seconds since the epoch.
        seconds: from then to the end of its first batch, without what a later batch takes, if any
            shows that.
        warm: whether its process had run the query before.
        spark: the version of Spark.
        slots: the tasks that its executors ran at a time; 0 if the log does not say.
    """

    version: int
    began: float
    seconds: float
    warm: bool
    spark: str
    slots: int


@dataclass(slots=True)
class _Run:
    began: float
    warm: bool
    slots: int = 0
    version: int | None = None
    first: float = 0.0  # seconds to the end of its first batch, and of later ones in `others`
    others: list[float] = field(default_factory=list)


def restarts(lines: Iterable[bytes], query_id: str) -> Iterator[PastRestart]:
    """Yields the restarts of a query in the log of one application, the oldest first.

    Lines that are torn or of another build of Spark are passed over.
    """
    spark, cpus, cores, runs = "", 1, dict[str, int](), dict[str, _Run]()
    for line in lines:
        event = _event(line)
        match event.get("Event"):
            case name if name == _BEGAN:
                spark = str(event.get("Spark Version", ""))
            case name if name == _SET:
                set_to = _dict(event, "Spark Properties").get("spark.task.cpus", "1")
                cpus = max(1, int(set_to)) if str(set_to).isdecimal() else 1
            case name if name == _ADDED:
                added = _dict(event, "Executor Info").get("Total Cores")
                cores[str(event.get("Executor ID"))] = added if isinstance(added, int) else 0
            case name if name == _REMOVED:
                cores.pop(str(event.get("Executor ID")), None)
            case name if name == _STARTED and event.get("id") == query_id:
                began = _time(event.get("timestamp"))
                if began is not None:
                    runs[str(event.get("runId"))] = _Run(began, warm=bool(runs))
            case name if name == _PROGRESS:
                _progress(runs, _dict(event, "progress"), sum(cores.values()) // cpus)
    for run in runs.values():
        if run.version:
            usual = median(run.others) if len(run.others) >= _OTHERS else 0.0
            seconds = max(run.first - usual, 0.0)
            yield PastRestart(run.version, run.began, seconds, run.warm, spark, run.slots)


def _progress(runs: dict[str, _Run], progress: dict[str, Any], slots: int) -> None:
    run, took = runs.get(str(progress.get("runId"))), _dict(progress, "durationMs")
    batch, began = progress.get("batchId"), _time(progress.get("timestamp"))
    times = (took.get("addBatch"), took.get("triggerExecution"))
    if run is None or began is None or not all(type(each) is int for each in (batch, *times)):
        return  # of another query, or of a trigger without a batch
    added, whole = (each / _MILLIS for each in times)
    if run.version is None:
        run.version, run.slots, run.first = batch, slots, began + whole - run.began
    else:
        run.others.append(added)


def _event(line: bytes) -> dict[str, Any]:
    if not any(name in line[:_HEAD] for name in _NEEDED):
        return {}
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}


def _dict(fields: dict[str, Any], name: str) -> dict[str, Any]:
    found = fields.get(name)
    return found if isinstance(found, dict) else defaultdict()


def _time(text: object) -> float | None:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None
