"""The record of a query's maintenance in storage.

Whoever runs maintenance or a verification writes it: the program, Spark's driver, and Airflow's
`report`. A dry run never does.
"""

import json
import logging
from collections.abc import Callable, Collection
from dataclasses import replace

from statemaint.errors import (
    CodecError,
    ConfigError,
    NotACheckpointError,
    NotFoundError,
    RefusedLinkError,
    StatemaintError,
    StorageError,
    Superseded,
)
from statemaint.model.findings import FindingCode
from statemaint.records import size_of_trash
from statemaint.records.runs import METRICS, new_run_id
from statemaint.report import Emptied, Report
from statemaint.report.ended import run_ended
from statemaint.report.part import summary
from statemaint.report.record import (
    Cause,
    LastRun,
    LastVerification,
    Record,
    next_record,
    with_emptied,
)
from statemaint.storage import Storage

_REFUSALS = {one.code for one in (ConfigError, NotACheckpointError, Superseded, RefusedLinkError)}

_log = logging.getLogger(__name__)


def read_record(storage: Storage) -> Record | None:
    """Returns the record; `None` if there is none, or only one of another build.

    Raises:
        StorageError: when the storage fails.
    """
    try:
        return record_in(storage.read(METRICS))
    except NotFoundError:
        return None
    except CodecError as error:
        _log.warning("%s is not a record: %s", METRICS, error)
        return None


def record_in(content: bytes) -> Record | None:
    """Returns the record that a file holds; `None` if it is one of another build."""
    try:
        return Record.from_json(json.loads(content))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        _log.warning("%s is not a record of this version: %s", METRICS, error)
        return None


def write_record(storage: Storage, record: Record) -> None:
    """Replaces the record.

    Raises:
        StorageError: when the storage fails.
    """
    storage.replace(METRICS, [json.dumps(record.to_json()).encode() + b"\n"])


def with_run(storage: Storage, before: Record | None, last: LastRun) -> Record:
    """Returns the record with one more run, and with the trash as it is now."""
    if size := trash_size(storage):
        last = replace(last, trash_files=size[0], trash_bytes=size[1])
    return next_record(before, last)


def note_run(storage: Storage, last: LastRun) -> None:
    """Adds the end of a run to the record; a failure is only logged."""
    try:
        write_record(storage, with_run(storage, read_record(storage), last))
    except StorageError as error:
        # A run whose storage failed is reported as that.
        level = logging.INFO if Cause.STORAGE in last.failed else logging.WARNING
        _log.log(level, "the run is not in the metrics: %s", error)


def recorded(storage: Storage, work: Callable[[], Report], *, every_unit: bool = False) -> Report:
    """Returns the report of a run in one task, and adds its end to the record, also if it fails.

    Args:
        storage: where the checkpoint lives.
        work: carries the run out, of the whole checkpoint: the figures of a part are not the
            query's.
        every_unit: whether the record has each partition.

    Raises:
        StatemaintError: as `work` does.
    """
    try:
        report = work()
    except StatemaintError as error:
        if not is_refusal(error.code):
            note_run(storage, failed_run(storage, error))
        raise
    note_run(storage, _ended(report, every_unit=every_unit))
    return report


def is_refusal(code: str | None) -> bool:
    """Returns whether an error's code is that of a refused run, which tells nothing of the query.

    Its arguments, its plan or its address are wrong. A run that was refused for a link among our
    files writes nothing there, not even this (S24).
    """
    return code in _REFUSALS


def failed_run(storage: Storage, error: StatemaintError) -> LastRun:
    """Returns the end of a run that failed before it looked at the stores."""
    now = storage.now()
    return run_ended(new_run_id(now), 0, (), {}, ended=now, failure=f"{error.code}: {error}")


def _ended(report: Report, *, every_unit: bool) -> LastRun:
    alone = replace(report, emptied=Emptied())
    part = summary(alone, "", report.plan.target, every_unit=every_unit)
    if report.plan.target is None:
        part["facts"] = None  # there is nothing yet that a restart would load
    last = run_ended(
        report.run,
        1,
        [part],
        {"committed": report.plan.committed, "lag": part["lag"]},
        ended=report.started + report.seconds,
    )
    return with_emptied(last, report.emptied)


def note_verification(storage: Storage, codes: Collection[str], *, healthy: bool) -> None:
    """Adds the result of a verification to the record; a failure is only logged.

    With a link among our files, nothing is written there (S24).

    Args:
        storage: where the checkpoint lives.
        codes: the codes of its findings.
        healthy: whether nothing is damaged.
    """
    if FindingCode.REFUSED_LINK in codes:
        return
    verified = LastVerification(ended=storage.now(), healthy=healthy)
    try:
        record = read_record(storage) or Record(None)
        write_record(storage, replace(record, verified=verified))
    except StorageError as error:
        level = logging.INFO if error.lasting else logging.WARNING  # it needs rights to read only
        _log.log(level, "the verification is not in the metrics: %s", error)


def trash_size(storage: Storage) -> tuple[int, int] | None:
    """Returns the number of files in the trash and their bytes; `None` when it is not known."""
    try:
        return size_of_trash(storage)
    except StorageError as error:
        _log.warning("the trash is not counted: %s", error)
        return None
