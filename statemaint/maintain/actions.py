"""The actions of a run, as the ledger recorded them."""

from collections.abc import Mapping
from typing import Any

from statemaint.model.ids import run_folder
from statemaint.records.segments import in_order, ledgers, read_ledger
from statemaint.storage import Storage


def list_actions(storage: Storage, run: str) -> tuple[Mapping[str, Any], ...]:
    """Returns the actions of a run in the order in which they were recorded.

    The ledger keeps what later runs need; it may have merged lines of an old run.

    Raises:
        CodecError: when a file of the ledger is not valid.
        StorageError: when anything could not be listed or read.
    """
    folder, listed = run_folder(run), sorted(ledgers(storage))
    lines = [line for ledger in listed for line in read_ledger(storage, ledger)]
    return tuple(line.fields for line in in_order(lines) if line.run == folder)
