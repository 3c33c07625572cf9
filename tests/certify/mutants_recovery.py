"""Verbs for people that break a rule each: repair, rollback, undo, and those that only look."""

from importlib import import_module
from typing import Any

from statemaint.audit.rebuild import _Rebuild
from statemaint.errors import NotFoundError, StorageError
from statemaint.execute.trash import Trash
from statemaint.plan.recovery.recovery_plan import Remove
from statemaint.plan.recovery.rollback import rolled_back
from statemaint.records.manifest import Contents
from statemaint.undo.history import FileIdentity
from statemaint.undo.rollback_checks import _Rollback
from statemaint.undo.run import _OCCUPIED, _Undo
from tests.certify.mutant import FAILING, IDS, Mutant

# Their packages have functions of the same names.
restoring = import_module("statemaint.undo.run")
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


_move_back = _Undo._move_back


def _never_halfway(self: Any, entry: Any, path: str) -> str | None:
    """Takes a file that an undo has copied, and not deleted, for another one."""
    if any(True for one in self._storage.list(path.rpartition("/")[0]) if one.path == path):
        return _OCCUPIED
    return _move_back(self, entry, path)


def _any_removal(self: FileIdentity, path: str) -> bool:
    """Takes every file that a later run removed for one that was written since."""
    return bool(self.history.removed_again(path))


def _no(*_: Any) -> bool:
    return False


def _half_deleted(self: Trash, entry: Any) -> None:
    """Deletes a file although its copy in the trash was refused."""
    try:
        self.storage.move(entry.path, self.path_of(entry))
    except NotFoundError:
        return
    except StorageError:
        self.storage.delete(entry.path)
        raise


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
           ((restoring, "check_rollback_undoable", _nothing),)),
    Mutant("undo overwrites", "S17", "puts a file back over another one",
           ((_Undo, "_move_back", _overwrites), (restoring, "_places", _free),
            (restoring, "check_rollback_undoable", _nothing))),
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
    Mutant("undo asks no bytes", "S17", "takes a file that the next run moved again for another",
           ((FileIdentity, "written_again", _any_removal),), FAILING),
    Mutant("undo of undone runs", "S17", "takes what the undo of an earlier run restored for new",
           ((FileIdentity, "is_of_earlier", _no),), FAILING),
    Mutant("undo keeps halves", "S17", "leaves a file that has both names in the trash",
           ((_Undo, "_move_back", _never_halfway),), FAILING),
    Mutant("rollback keeps halves", "S17", "takes a file that has both names for the query's",
           ((_Rollback, "_is_unmoved", _no),), FAILING),
    Mutant("refused moves delete", "S1", "deletes a file whose move was refused",
           ((Trash, "put", _half_deleted),), FAILING),
    Mutant("no comparison in verify", "S21", "reads snapshots and compares them with nothing",
           ((_Rebuild, "_compare", _nothing),)),
    Mutant("verify reads no snapshots", "S21", "does not read the snapshots that it needs",
           ((_Rebuild, "_snapshot", _nothing), (verifying, "_unneeded", _accepts_all))),
)  # fmt: skip
