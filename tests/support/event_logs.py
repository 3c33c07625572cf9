"""Event logs with restarts of a query, line by line as Spark writes them."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime

QUERY = "11111111-2222-3333-4444-555555555555"
"""The id of the queries that `tests.support.checkpoints` writes."""
_LISTENER = "org.apache.spark.sql.streaming.StreamingQueryListener$Query"


def event(kind: str, **fields: object) -> bytes:
    return json.dumps({"Event": kind, **fields}, separators=(",", ":")).encode()


def header(cores: int = 4, cpus: object = "2", spark: str = "4.3.0") -> Iterator[bytes]:
    """Yields the begin of the log of an application with two executors."""
    yield event("SparkListenerLogStart", **{"Spark Version": spark})
    for executor in ("1", "2"):
        about = {"Executor ID": executor, "Executor Info": {"Host": "a", "Total Cores": cores}}
        yield event("SparkListenerExecutorAdded", **about)
    properties = {"spark.task.cpus": cpus}
    yield event("SparkListenerEnvironmentUpdate", **{"Spark Properties": properties})


def started(run: str, time: float, query: str = QUERY) -> bytes:
    about = {"id": query, "runId": run, "name": None, "timestamp": _stamp(time)}
    return event(f"{_LISTENER}StartedEvent", **about)


def progress(run: str, batch: int, time: float, whole: int, added: int | None) -> bytes:
    """Returns the end of a trigger: of a batch, unless `added` is `None`; in milliseconds."""
    took = {"triggerExecution": whole} | ({} if added is None else {"addBatch": added})
    told = {"runId": run, "batchId": batch, "timestamp": _stamp(time), "durationMs": took}
    return event(f"{_LISTENER}ProgressEvent", progress=told)


def restart_log(batch: int, time: float, seconds: float, slots: int = 4) -> bytes:
    """Returns the log of an application whose query was restarted once."""
    end = progress("a", batch, time + seconds - 1, 1000, 900)
    return b"\n".join((*header(slots, spark="3.5.9"), started("a", time), end)) + b"\n"


def _stamp(time: float) -> str:
    found = datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds")
    return found.replace("+00:00", "Z")
