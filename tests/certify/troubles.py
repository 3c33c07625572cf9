"""Troubles of the storage that last: from some point of a run on, until an operator mends it."""

from collections.abc import Mapping
from dataclasses import replace

from statemaint.maintain import list_runs
from statemaint.model.policy import Policy
from tests.certify.judge import Loss
from tests.certify.maintainer import Halt
from tests.certify.seat import Seat
from tests.certify.stage import Stage
from tests.certify.world import Trouble


def kinds(store: str) -> Mapping[str, Trouble]:
    """Returns the kinds of troubles: of a disk, and of a folder, such as a store's."""
    writes, takes = frozenset({"write", "append"}), frozenset({"delete", "move"})
    reads = frozenset({"list", "stat", "read", "open"})
    full, denied = "No space left on device", "Permission denied"
    return {
        "full disk": Trouble(full, writes, all_writers=True),
        "full disk, no folder can be made": Trouble(full, writes | {"move"}, all_writers=True),
        "used up quota": Trouble(full, writes),
        "read-only store": Trouble(denied, writes | takes, f"{store}/"),
        "closed store": Trouble(denied, writes | takes | reads, f"{store}/"),
        "read-only folder of ours": Trouble(denied, writes | takes, "_statemaint/"),
        "read-only ledger": Trouble(denied, writes | takes, "_statemaint/ledger/"),
        "read-only trash": Trouble(denied, writes | takes, "_statemaint/trash/"),
        "read-only log": Trouble(denied, writes | takes, "commits/"),
    }


def strike(stage: Stage, kind: str, number: int, policy: Policy, halt: Halt) -> None:
    """Lets the storage refuse something in the middle of a run, and go on to."""
    if stage.world.trouble or stage.paused:
        return
    trouble = kinds(stage.store(number))[kind]
    stage.step(f"a trouble comes: {kind}")
    stage.tally["lasting troubles"] += 1
    halt = replace(halt, trouble=trouble)
    if number % 4 == 0:
        stage.rollback(number % 3, halt)
    elif number % 8 == 1:
        stage.repair(halt)
    elif number % 8 == 5:
        stage.undo(-1, halt)
    else:
        before = set(stage.ended)
        stage.maintain(policy, halt)
        if "list" in trouble.verbs and not policy.trash_for:
            _unseen(stage, stage.ended - before, trouble.folder)
    stage.world.trouble = trouble  # at the latest now
    stage.hold()


def _unseen(stage: Stage, runs: set[str], folder: str) -> None:
    """Notes that runs whose deletions in a folder were cut short could not list it any more.

    A deletion that fails does not say which files it has deleted before: only a listing does.
    """
    for run in runs:
        inside = {path for path in stage.deeds.taken[run] if path.startswith(folder)}
        stage.deeds.taken[run] -= inside
        stage.deeds.linked[run] |= inside


def mend(stage: Stage) -> None:
    """Lets an operator free the disk, or give the folder back: everything can be written again.

    Raises:
        Loss: when the list of runs names another number of files than a run took away.
    """
    if stage.world.trouble is None:
        return
    stage.step("the storage is mended")
    stage.world.trouble = None
    stage.hold()
    if stage.query.commits or stage.query.batch:
        _check_records(stage)


def _check_records(stage: Stage) -> None:
    seat = Seat(stage.world, stage.doer(Policy(), "runs"), lambda _verb, _path: None)
    for one in list_runs(seat):
        taken = stage.deeds.taken[one.run]
        most = len(taken | stage.deeds.linked[one.run])
        if one.run in stage.ended and not len(taken) <= one.files_deleted <= most:
            raise Loss(f"the record of {one.run} names {one.files_deleted} files that it took "
                       f"away, and it took {len(taken)}")  # fmt: skip
