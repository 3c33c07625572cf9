"""Where the record of a query's maintenance is stored.

_statemaint/metrics.json     the last run and the totals, replaced by each run's report
"""

import json
import logging
from dataclasses import replace

from statemaint.errors import CodecError, NotFoundError, StorageError
from statemaint.execute.manifest import FOLDER as TRASH
from statemaint.report.record import LastVerification, Record
from statemaint.storage import Storage

PATH = "_statemaint/metrics.json"

_log = logging.getLogger(__name__)


def read_record(storage: Storage) -> Record | None:
    """Returns the record; `None` where there is none, or only one of another build.

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


def note_verification(storage: Storage, *, healthy: bool) -> None:
    """Adds a verification's result to the record, if there is one; a failure is logged only.

    Args:
        storage: where the checkpoint lives; where it cannot be written, nothing is noted.
        healthy: whether nothing was damaged.
    """
    try:
        if (record := read_record(storage)) is not None:
            verified = LastVerification(ended=storage.now(), healthy=healthy)
            write_record(storage, replace(record, verified=verified))
    except StorageError as error:
        _log.warning("the verification is not in the metrics: %s", error)


def trash_size(storage: Storage) -> tuple[int, int] | None:
    """Returns the number of files in the trash and their bytes; `None` when it cannot be listed."""
    try:
        sizes = [entry.size for entry in storage.list(TRASH)]
    except StorageError as error:
        _log.warning("the trash is not counted: %s", error)
        return None
    return len(sizes), sum(sizes)
