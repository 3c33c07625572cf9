"""Keeps our files in a checkpoint small: removes those that nothing relies on."""

import logging

from statemaint.errors import CodecError, LeaseLostError, StorageError
from statemaint.execute import Lease, compact_ledger, ledger_is_due
from statemaint.maintain.history import forget, remembered
from statemaint.storage import Storage

_log = logging.getLogger(__name__)


def tidy(storage: Storage, lease: Lease) -> None:
    """Compacts the ledger and forgets old runs, now and then; never raises.

    Args:
        storage: where the checkpoint lives.
        lease: the lease, which keeps other runs out.
    """
    try:
        if ledger_is_due(storage):
            window = remembered(storage)
            compact_ledger(storage, window, before=lease.check)
            forget(storage, window, before=lease.check)
    except (CodecError, LeaseLostError, StorageError) as error:
        _log.warning("the ledger is not compacted, the next run tries again: %s", error)
