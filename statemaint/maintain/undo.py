"""Bringing back what a run deleted (S17)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from statemaint.execute import Ledger, Restored, leased, must_be_in_trash, must_fit, restore
from statemaint.maintain.maintain import new_run_id
from statemaint.scan import must_be_checkpoint
from statemaint.storage import Storage


@dataclass(frozen=True, slots=True)
class Undone:
    """What an undo brought back.

    Attributes:
        run: the run that had deleted.
        files: how many files are in place again.
        bytes: of these files.
        left: the paths at which another file stands by now, and those of checksum files that
            would stand beside another file than theirs, or alone; theirs stay in the trash.
    """

    run: str
    files: int
    bytes: int
    left: tuple[str, ...]


def undo(
    storage: Storage, run: str, *, on_restored: Callable[[Restored], None] = lambda _: None
) -> Undone:
    """Puts back, byte for byte, what a run moved to the trash.

    Safe to kill and to repeat. The next maintenance deletes the same files again unless its policy
    keeps more than the one that deleted them.

    Args:
        storage: where the checkpoint lives.
        run: the id of the run, as `statemaint runs` lists it.
        on_restored: is told each file as it is done, for progress.

    Raises:
        NotACheckpointError: when there is none.
        ConfigError: when nothing of that run is in the trash, or it was a rollback and the query
            has gone on since.
        LeaseHeldError: when another run maintains the checkpoint.
        StorageError: when the storage fails.
    """
    must_be_checkpoint(storage)
    must_be_in_trash(storage, run)  # before anything is written for it
    mine = new_run_id(storage.now())
    found: list[Restored] = []
    with leased(storage, mine) as lease:
        must_fit(storage, run)
        ledger = Ledger(storage, mine, lease)
        noted = partial(ledger.restoring, run)
        for one in restore(storage, run, note=noted, before=lease.check):
            found.append(one)
            on_restored(one)
    back = [one for one in found if one.in_place]
    left = tuple(one.path for one in found if not one.in_place)
    return Undone(run, len(back), sum(one.bytes for one in back), left)
