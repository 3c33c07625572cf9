"""Verbs for people that break a rule each: repair, rollback, undo, and those that only look."""

from importlib import import_module
from typing import Any

from statemaint.audit.rebuild import _Rebuild
from statemaint.execute.manifest import Contents
from statemaint.execute.restore import _Undo
from statemaint.execute.trash import Trash
from statemaint.plan import Remove
from statemaint.plan.recovery.rollback import rolled_back
from tests.certify.mutant import IDS, Mutant

# Their packages have functions of the same names.
restoring = import_module("statemaint.execute.restore")
going_back = import_module("statemaint.recover.rollback")
repairing = import_module("statemaint.recover.repair")
verifying = import_module("statemaint.audit.verify")


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _logs_first(*args: Any, **named: Any) -> tuple[Remove, ...]:
    """Cuts the logs before the state above them is gone."""
    found = rolled_back(*args, **named)
    return (*(one for one in found if one.store is None), *(one for one in found if one.store))


def _snapshots_stay(*args: Any, **named: Any) -> tuple[Remove, ...]:
    """Leaves snapshots above the batch where they are."""
    found = rolled_back(*args, **named)
    return tuple(one for one in found if not one.path.endswith((".snapshot", ".zip")))


def _one_too_many(stores: Any, logs: Any, batch: int, **keep: bool) -> tuple[Remove, ...]:
    """Takes the state of the batch itself away as well."""
    state = [one for one in rolled_back(stores, (), batch - 1, **keep) if one.store]
    return (*state, *rolled_back((), logs, batch, **keep))


def _for_good(self: Trash, entry: Any) -> None:
    self.storage.delete(entry.path)


def _overwrites(self: Any, entry: Any, path: str) -> None:
    """Puts a file back over one that has taken its place."""
    self._before()
    self._storage.write(path, [self._storage.read(entry.path)], overwrite=True)
    self._storage.delete(entry.path)


def _free(*_: Any) -> frozenset[str]:
    return frozenset()


_newest_first = Contents.newest_first


def _oldest_first(self: Any) -> Any:
    return _newest_first(self)[::-1]


def _accepts(_: Any, __: Any, ___: Any) -> Any:
    return iter(())


def _accepts_all(*_: Any) -> Any:
    return iter(())


def _no_rebuild(*_: Any) -> None:
    return None


RECOVERY_MUTANTS = (
    Mutant("undo in any world", "S17", "undoes a rollback although the query has gone on",
           ((restoring, "must_fit", _nothing),)),
    Mutant("undo overwrites", "S17", "puts a file back over another one",
           ((_Undo, "_move_back", _overwrites), (restoring, "_places", _free),
            (restoring, "must_fit", _nothing))),
    Mutant("undo in any order", "S17", "puts snapshots back before the log that they are of",
           ((Contents, "newest_first", _oldest_first),)),
    Mutant("rollback cuts logs first", "S7", "leaves state above the log where it is killed",
           ((going_back, "rolled_back", _logs_first),)),
    Mutant("rollback leaves snapshots", "S2", "leaves the snapshots above the batch",
           ((going_back, "rolled_back", _snapshots_stay),
            (going_back, "_check_restart", _nothing))),
    Mutant("rollback takes one more", "S1", "takes the state of the batch itself",
           ((going_back, "rolled_back", _one_too_many), (going_back, "_check_restart", _nothing))),
    Mutant("repairs for good", "S17", "deletes what should go to the trash",
           ((Trash, "put", _for_good),)),
    Mutant("repair asks nothing", "S1", "removes whatever a finding names",
           ((repairing._Search, "_against", _accepts),)),
    Mutant("repair leaves holes", "S21", "writes nothing in the place of a bad zip",
           ((repairing, "rebuilt", _no_rebuild),), IDS),
    Mutant("no comparison in verify", "S21", "reads snapshots and compares them with nothing",
           ((_Rebuild, "_compare", _nothing),)),
    Mutant("verify reads no snapshots", "S21", "does not read the snapshots that it needs",
           ((_Rebuild, "_snapshot", _nothing), (verifying, "_unneeded", _accepts_all))),
)  # fmt: skip
