"""Keeps our files in a checkpoint small: removes those that nothing relies on."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from statemaint.errors import CodecError, LeaseLostError, StorageError
from statemaint.execute import Lease, and_then, compact_ledger, ledger_is_due
from statemaint.records import REMEMBERED, Remembering, index_trash, recalling
from statemaint.records.runs import forget, remembered
from statemaint.storage import Storage

_log = logging.getLogger(__name__)


def tidy(
    storage: Storage,
    lease: Lease,
    *,
    reading: Remembering | None = None,
    unknown: int = 0,
    moved: int = 0,
) -> None:
    """Tidies up after a run, now and then; never raises.

    Compacts the ledger, forgets old runs, indexes the trash, and remembers what was read.
    """
    with _tried("the trash is not indexed"):
        index_trash(storage, unknown, moved)
    with _tried("the ledger is not compacted"):
        if ledger_is_due(storage):
            window = remembered(storage)
            compact_ledger(storage, window, before=lease.check)
            forget(storage, window, before=lease.check)
    with _tried("what was read is not remembered"):
        if reading is None:
            reading = recalling(storage)
            reading.catch_up()
        if cache := reading.cache():
            storage.replace(REMEMBERED, and_then([cache], lease.check))


@contextmanager
def _tried(failure: str) -> Iterator[None]:
    try:
        yield
    except (CodecError, LeaseLostError, StorageError) as error:
        _log.warning("%s, the next run tries again: %s", failure, error)
