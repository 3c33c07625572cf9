"""The record of a query's maintenance in storage.

_statemaint/metrics.json     the last run and the totals, replaced by each run's report

Airflow's `report` writes it, and `statemaint maintain --record`.
"""

import json
import logging
from dataclasses import replace

from statemaint.errors import CodecError, NotFoundError, StorageError
from statemaint.model.findings import OF_STORAGE
from statemaint.records import size_of_trash
from statemaint.report import Report
from statemaint.report.facts import facts_of
from statemaint.report.query_state import lag
from statemaint.report.record import Cause, LastRun, LastVerification, Record, next_record
from statemaint.storage import Storage

PATH = "_statemaint/metrics.json"

_log = logging.getLogger(__name__)


def read_record(storage: Storage) -> Record | None:
    """Returns the record; `None` if there is none, or only one of another build.

    Raises:
        StorageError: when the storage fails.
    """
    try:
        return Record.from_json(json.loads(storage.read(PATH)))
    except NotFoundError:
        return None
    except (CodecError, KeyError, TypeError, ValueError, AttributeError) as error:
        _log.warning("%s is not a record of this version: %s", PATH, error)
        return None


def write_record(storage: Storage, record: Record) -> None:
    """Replaces the record.

    Raises:
        StorageError: when the storage fails.
    """
    storage.replace(PATH, [json.dumps(record.to_json()).encode() + b"\n"])


def note_run(storage: Storage, report: Report) -> None:
    """Adds a run without Airflow to the record; a failure is only logged.

    Args:
        storage: where the checkpoint lives.
        report: of a run of the whole checkpoint: the figures of a part are not those of the query.
    """
    try:
        write_record(storage, next_record(read_record(storage), _ended(storage, report)))
    except StorageError as error:
        _log.warning("the run is not in the metrics: %s", error)


def _ended(storage: Storage, report: Report) -> LastRun:
    damage = {one.code for one in report.findings if one.damage}
    failing = any(one.code in OF_STORAGE for one in report.findings)
    size = trash_size(storage)
    return LastRun(
        run=report.run,
        ended=report.started + report.seconds,
        failed=(
            *([Cause.DAMAGE] if damage - OF_STORAGE else []),
            *([Cause.STORAGE] if failing else []),
        ),
        tasks=1,
        storage_errors=int(failing),
        committed=report.plan.committed,
        lag=lag((one.after for one in report.stores), report.plan.target),
        facts=facts_of(report),
        trash_files=size[0] if size else None,
        trash_bytes=size[1] if size else None,
    )


def note_verification(storage: Storage, *, healthy: bool) -> None:
    """Adds a verification's result to the record, if there is one; a failure is only logged.

    Args:
        storage: where the checkpoint lives; if it cannot be written, nothing is recorded.
        healthy: whether nothing was damaged.
    """
    try:
        if (record := read_record(storage)) is not None:
            verified = LastVerification(ended=storage.now(), healthy=healthy)
            write_record(storage, replace(record, verified=verified))
    except StorageError as error:
        _log.warning("the verification is not in the metrics: %s", error)


def trash_size(storage: Storage) -> tuple[int, int] | None:
    """Returns the number of files in the trash and their bytes; `None` when it is not known."""
    try:
        return size_of_trash(storage)
    except StorageError as error:
        _log.warning("the trash is not counted: %s", error)
        return None
