"""Maintainers that ignore pins, and savepoints that are neither whole nor not startable."""

from dataclasses import replace
from importlib import import_module
from typing import Any

from statemaint.execute.fence import PinWatch
from statemaint.records.savepoints import true_metadata
from statemaint.savepoint import expiry
from statemaint.savepoint.catalog import SavepointState
from tests.certify.mutant import Mutant

PINNED = {"rocks": 0.0, "events": ("pin", "end_pin"), "often": ("maintain", "batch")}
SAVED = {"rocks": 0.0, "events": ("savepoint",)}
EXPIRED = {"rocks": 0.0, "events": ("savepoint", "start_from", "expire")}

# Their packages have functions of the same names.
planning = import_module("statemaint.plan.planner")
saving = import_module("statemaint.savepoint.run")
plans = import_module("statemaint.savepoint.plan")
choosing = import_module("statemaint.savepoint.keep")
cataloguing = import_module("statemaint.savepoint.catalog")
storing = import_module("statemaint.savepoint.stores")
shuffling = import_module("statemaint.savepoint.shuffle")
going_back = import_module("statemaint.recover.rollback")

_floor = planning._floor
_reasons = choosing._reasons
_snapshot_of = plans._snapshot_of
_note = saving._Run.note
_placer = shuffling._placer


def _no_pins(policy: Any, target: int, required: int, _: Any) -> int:
    floor: int = _floor(policy, target, required, ())
    return floor


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _startable_first(self: Any, planned: Any, begun: Any) -> Any:
    """Writes the true metadata before anything else, and never takes them back."""
    found = _note(self, planned, begun)
    vars(saving)["UNFINISHED"] = true_metadata(found)
    return found


def _one_below(*args: Any) -> Any:
    """Names the state of a batch by the batch, and not by the version that a restart asks for."""
    write = _snapshot_of(*args)
    folder, _, name = write.path.rpartition("/")
    version = str(write.version)
    return replace(write, path=f"{folder}/{int(version) - 1}{name.removeprefix(version)}")


def _next_partition(shuffle: Any, store: Any) -> Any:
    """Puts each row into the partition after its own."""
    place, partitions = _placer(shuffle, store), len(shuffle.targets)
    return lambda family, rows: [(one + 1) % partitions for one in place(family, rows)]


def _believed(_engine: Any, _source: Any, _path: str, written: Any, _fence: Any) -> Any:
    return written


def _newest_goes(savepoints: Any, rules: Any, now: float) -> Any:
    """Takes the newest one for any other."""
    return (one for one in _reasons(savepoints, rules, now) if one[1] != choosing.NEWEST)


def _started_is_whole(listed: Any, note: Any, query_id: Any) -> Any:
    """Does not look for what a query has written beside the savepoint."""
    state, why = _state(listed, note, query_id)
    if state is SavepointState.STARTED:
        state = SavepointState.EXPIRING if note.expired else SavepointState.WHOLE
    return state, why


_state = cataloguing._state


SAVEPOINT_MUTANTS = (
    Mutant("pins ignored", "S3", "plans as if nothing were pinned",
           ((planning, "_floor", _no_pins), (PinWatch, "check", _nothing)), PINNED),
    Mutant("pins looked for once", "S3", "does not look again for pins before it deletes",
           ((PinWatch, "check", _nothing),), PINNED),
    Mutant("rollback below a pin", "S3", "goes back to below a batch that is pinned",
           ((going_back, "check_pins", _nothing),),
           {**PINNED, "often": ("rollback",)}),
    Mutant("savepoint startable first", "S23", "writes the true metadata before the rest",
           ((saving._Run, "note", _startable_first), (saving, "UNFINISHED", saving.UNFINISHED)),
           SAVED),
    Mutant("savepoint one version below", "S23", "writes the state of a batch as its own version",
           ((plans, "_snapshot_of", _one_below),), SAVED),
    Mutant("rows in other partitions", "S23", "puts a savepoint's rows where no hash sends them",
           ((shuffling, "_placer", _next_partition),), SAVED),
    Mutant("savepoint not read back", "S23", "believes that a store is what it has written",
           ((storing, "read_back", _believed),), SAVED),
    Mutant("newest savepoint expires", "S23", "deletes the newest savepoint like any other",
           ((choosing, "_reasons", _newest_goes),), EXPIRED),
    Mutant("started savepoint expires", "S23", "deletes a savepoint from which a query has run",
           ((cataloguing, "_state", _started_is_whole),), EXPIRED),
    Mutant("expiry is startable", "S23", "deletes a savepoint that a query may start from",
           ((expiry, "_REFUSED", b'{"id":"expired"}'),), EXPIRED),
)  # fmt: skip
