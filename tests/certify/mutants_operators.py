"""Maintainers that confuse a query's operators, or go on where the storage refuses something."""

from importlib import import_module
from typing import Any

from statemaint.errors import StorageError
from statemaint.execute.ledger import Ledger
from statemaint.model.ids import StoreId
from tests.certify.mutant import REFUSED, TWO_WITH_IDS, Mutant

# Its package has a function of the same name.
reading = import_module("statemaint.scan.rocks")

_deleting, _id = Ledger.deleting, reading._id


def _deletes_unnamed(self: Ledger, *deletes: Any, **how: Any) -> None:
    """Takes a ledger that cannot be written for one that was."""
    try:
        _deleting(self, *deletes, **how)
    except StorageError:
        return


def _of_the_first(ids: Any, store: StoreId, place: int) -> str | None:
    """Looks the attempts of every operator up under the first one."""
    found: str | None = _id(ids, StoreId(0, store.partition, store.store), place)
    return found


OPERATOR_MUTANTS = (
    Mutant("ids of another operator", "S2", "takes the attempts of one operator for another's",
           ((reading, "_id", _of_the_first),), TWO_WITH_IDS),
    Mutant("no ledger on a full disk", "S18", "deletes what the ledger could not name any more",
           ((Ledger, "deleting", _deletes_unnamed),), REFUSED),
)  # fmt: skip
