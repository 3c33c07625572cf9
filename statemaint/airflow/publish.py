"""The metrics of a run, published by its report; errors are only logged."""

import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowException, AirflowRuntimeError

from statemaint.airflow.connections import open_checkpoint
from statemaint.airflow.settings import QuerySettings
from statemaint.errors import LeaseHeldError, LeaseLostError, StatemaintError, StorageError
from statemaint.maintain.record import read_record, trash_size, write_record
from statemaint.metrics.options import Named, Targets, namespace_of
from statemaint.model.findings import FindingCode
from statemaint.queries.interval import expected_interval
from statemaint.report.facts import RunFacts, total
from statemaint.report.record import Cause, LastRun, Record, next_record, with_loss
from statemaint.storage import Storage, storage_of

_log = logging.getLogger(__name__)


def publish(settings: QuerySettings, last: LastRun) -> None:
    """Publishes the metrics of a run, and stores its record with the checkpoint."""
    from statemaint.metrics.publish import publish_record  # noqa: PLC0415 -- not for parsing a DAG

    storage, record = _record(settings, last)
    where = targets(settings)
    if where.gateway or where.textfile:
        word = credentials(settings)
        if not publish_record(named(settings), record, where, credentials=word) and record.totals:
            record = with_loss(record)
    if storage:
        _write(storage, record)


def publish_held(settings: QuerySettings) -> None:
    """Publishes that the run waits for another run's lease."""
    from statemaint.metrics.publish import publish_waiting  # noqa: PLC0415 -- as above

    where = targets(settings)
    if where.gateway or where.textfile:
        word = credentials(settings)
        publish_waiting(named(settings), time.time(), where, credentials=word)


def named(settings: QuerySettings) -> Named:
    """Returns the metrics of a query in addition to its record."""
    from statemaint import __version__  # noqa: PLC0415 -- as above

    about = settings.metrics
    return Named(
        query=settings.query,
        dag=about.dag,
        origin=about.origin,
        interval=expected_interval(about.schedule),
        version=__version__,
        every_unit=about.every_unit,
        namespace=namespace_of(os.environ),
        storage=storage_of(settings.checkpoint),
        routing=about.routing,
    )


def targets(settings: QuerySettings) -> Targets:
    """Returns the destinations of the metrics of a query."""
    about = settings.metrics
    return Targets(settings.gateway, about.auth, settings.textfile, about.known, about.detailed)


def code_of(reason: str | None) -> str | None:
    """Returns the code of an error that a failure's reason begins with."""
    return reason.partition(":")[0] if reason else None


def run_ended(
    run: str,
    planned: int,
    summaries: Sequence[Mapping[str, Any]],
    decided: Mapping[str, Any],
    *,
    failure: str | None,
    errors: Sequence[str] = (),
) -> LastRun:
    """Returns the record of a run that ends.

    Args:
        run: its name.
        planned: the number of tasks of the plan.
        summaries: the summaries of the tasks that made one.
        decided: the results of the plan: `committed`, `lag` and `facts`.
        failure: why the plan failed.
        errors: the error code of each task that failed without a summary.
    """
    facts = _facts([decided.get("facts"), *(one.get("facts") for one in summaries)])
    codes = [*errors, *([code] if (code := code_of(failure)) else [])]
    damage = [_damage(one) for one in summaries if one["failed"]]
    failed = set(_of_codes(codes)) | {cause for found in damage for cause in found}
    if facts and facts.counts.get("outcomes", {}).get("halted"):
        failed.add(Cause.DAMAGE)
    if failure and not failed:
        failed.add(Cause.PLAN)
    silent = planned - len(summaries)
    if silent > len(errors):
        failed.add(Cause.TASK)
    return LastRun(
        run=run,
        ended=time.time(),
        failed=tuple(one for one in Cause if one in failed),
        silent=silent,
        tasks=planned,
        storage_errors=sum(one in _STORAGE for one in codes)
        + sum(Cause.STORAGE in found for found in damage),
        committed=decided.get("committed"),
        lag=decided.get("lag"),
        facts=facts,
    )


def _facts(parts: Iterable[Mapping[str, Any] | None]) -> RunFacts | None:
    """Returns the facts of a run; `None` if its plan saw no store."""
    facts = [RunFacts.from_json(one) for one in parts if one]
    return total(facts) if facts else None


def _of_codes(codes: Iterable[str]) -> Iterator[Cause]:
    for code in codes:
        if code in _LEASE:
            yield Cause.LEASE
        elif code in _STORAGE:
            yield Cause.STORAGE


def _damage(summary: Mapping[str, Any]) -> set[Cause]:
    """Returns why a task with a summary failed."""
    codes = {one["code"] for one in summary["findings"] if one["damage"]}
    storage = FindingCode.STORAGE_FAILED.value
    causes = {Cause.STORAGE} if storage in codes else set()
    return causes | ({Cause.DAMAGE} if codes - {storage} else set())


def _codes(kind: type[StatemaintError]) -> set[str]:
    return {kind.code, *(code for one in kind.__subclasses__() for code in _codes(one))}


def _record(settings: QuerySettings, last: LastRun) -> tuple[Storage | None, Record]:
    """Returns the record after a run, and the storage to keep it in; none if that fails."""
    try:
        storage = open_checkpoint(settings.checkpoint, settings.connection)
        before = read_record(storage)
    except StatemaintError as error:
        _log.warning("the record of earlier runs cannot be read: %s", error)
        return None, Record(last, None if last.failed else last.ended)
    if size := trash_size(storage):
        last = replace(last, trash_files=size[0], trash_bytes=size[1])
    return storage, next_record(before, last)


def _write(storage: Storage, record: Record) -> None:
    try:
        write_record(storage, record)
    except StatemaintError as error:
        _log.warning("the record of the run is not stored: %s", error)


def credentials(settings: QuerySettings) -> tuple[str | None, str] | None:
    """Returns the login and password of the Pushgateway's Airflow connection."""
    name = settings.metrics.auth.connection
    if name is None or settings.gateway is None:
        return None
    try:
        connection = Connection.get(name)
    except (AirflowException, AirflowRuntimeError):
        _log.warning("the Airflow connection %s is not defined, or not for this task", name)
        return None
    return connection.login or None, connection.password or ""


_STORAGE = _codes(StorageError)
_LEASE = {LeaseHeldError.code, LeaseLostError.code}
