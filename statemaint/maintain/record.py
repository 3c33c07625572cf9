"""Where the record of a query's maintenance is stored.

_statemaint/metrics.json     the last run and the totals, replaced by each run's report
"""

import json
import logging

from statemaint.errors import CodecError, NotFoundError, StorageError
from statemaint.execute.manifest import FOLDER as TRASH
from statemaint.report.record import Record
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


def trash_size(storage: Storage) -> tuple[int, int] | None:
    """Returns the number of files in the trash and their bytes; `None` when it cannot be listed."""
    try:
        sizes = [entry.size for entry in storage.list(TRASH)]
    except StorageError as error:
        _log.warning("the trash is not counted: %s", error)
        return None
    return len(sizes), sum(sizes)
