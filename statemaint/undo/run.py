"""Brings back the files that a run deleted (S17), immediately or by a reviewed plan (S14)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from statemaint.errors import CheckpointError, StatemaintError, Superseded
from statemaint.execute.commits import must_stand, newest_commit
from statemaint.execute.fence import Fence
from statemaint.execute.lease import leased
from statemaint.execute.ledger import Ledger
from statemaint.model.ids import run_folder
from statemaint.plan.recovery.recovery_plan import PutBack, UndoPlan
from statemaint.records.claims import Holder
from statemaint.records.runs import RunNote, new_run_id, write_note
from statemaint.records.trashed import forget_trashed
from statemaint.report.facts import RunFacts
from statemaint.report.to_json import undo_fingerprint
from statemaint.scan.identity import must_be_checkpoint
from statemaint.storage import ReadOnly, Storage
from statemaint.undo.restore import must_be_in_trash, plan_restore, restore
from statemaint.wording import counted


@dataclass(frozen=True, slots=True)
class Undone:
    """The result of an undo.

    Attributes:
        files: the number of files that are in place again.
        left: the paths of the files that stay in the trash, with the reason for each: their store's
            log was written again since, another file is in their place, a checksum would be beside
            a file that is not its own, or the query might be unable to read them.
        undo: the id under which this undo is recorded.
        sequel: what follows, as `UndoPlan.sequel` has it; empty if no file came back.
    """

    run: str
    files: int
    bytes: int
    left: Mapping[str, str] = field(default_factory=dict)
    undo: str = ""
    sequel: str = ""

    @property
    def record_id(self) -> str:
        """Returns the id that the record has for it."""
        return self.undo

    @property
    def incomplete(self) -> bool:
        """Returns whether files stay in the trash."""
        return bool(self.left)

    @property
    def work(self) -> RunFacts:
        """Returns what it wrote and deleted: nothing."""
        return RunFacts()


def plan_undo(storage: Storage, run: str) -> UndoPlan:
    """Returns the files that an undo would bring back, and why the others stay; writes nothing.

    Raises:
        NotACheckpointError: when there is none.
        ConfigError: when nothing of that run is in the trash, or it was a rollback and the query
            has continued since.
    """
    reading = ReadOnly(storage)
    must_be_checkpoint(reading)
    return plan_restore(reading, run)


def undo(
    storage: Storage,
    run: str,
    *,
    expected: str | None = None,
    on_restored: Callable[[PutBack], None] = lambda _: None,
) -> Undone:
    """Puts back, byte for byte, the files that a run moved to the trash and that still fit.

    A file of maintenance or of a repair fits as long as the log of its store was not written again
    at or below its version. The files of a rollback fit as long as the query has not continued, and
    come back as a whole or not at all. The next maintenance deletes the files of an earlier one
    again unless its policy keeps more than the one that deleted them.

    Safe to kill and to repeat.

    Args:
        storage: where the checkpoint lives.
        run: the id of the run, as `statemaint runs` lists it.
        expected: the fingerprint of the plan that was reviewed; `None` for any.
        on_restored: called with each file when it is done, for progress.

    Raises:
        NotACheckpointError: when there is none.
        ConfigError: when nothing of that run is in the trash, or it was a rollback and the query
            has continued since.
        LeaseHeldError: when another run maintains the checkpoint.
        Superseded: when the plan has changed by now, the query was rewound before the first file
            came back, or it has removed the file beside which another was to be restored.
        StorageError: when the storage fails.
    """
    must_be_checkpoint(storage)
    must_be_in_trash(storage, run)  # before anything is written for it
    sequel = ""

    def check(plan: UndoPlan) -> None:
        nonlocal sequel
        sequel = plan.sequel
        if expected is not None and undo_fingerprint(plan) != expected:
            raise Superseded(plan.root, f"the undo of run {run} has changed since it was planned")

    if expected is not None:
        check(plan_undo(storage, run))
    mine, started = new_run_id(storage.now()), storage.now()
    restored: list[PutBack] = []
    with leased(storage, Holder(mine)) as lease:
        forget_trashed(storage, run)
        ledger = Ledger(storage, mine, lease)
        noted = partial(_note, storage, mine, lease, of=run, started=started)

        commit = newest_commit(storage)

        def begin(files: Sequence[Mapping[str, Any]]) -> None:
            ledger.restoring(run, files)
            noted(files=None)
            must_stand(storage, commit)

        with _counting(restored, noted):
            for file in restore(storage, run, check=check, note=begin, before=lease.check):
                restored.append(file)
                on_restored(file)
        if not restored or any(file.comes_back for file in restored):
            noted(files=restored)  # an undo that brings nothing back changes nothing
    back = [file for file in restored if file.comes_back]
    kept = {file.path: file.reason for file in restored if not file.comes_back}
    return Undone(run, len(back), sum(file.entry.size for file in back), kept, mine, sequel)


def _note(  # noqa: PLR0913 -- each is a fact of its own
    storage: Storage,
    run: str,
    fence: Fence,
    *,
    of: str,
    started: float,
    files: Sequence[PutBack] | None,
    exit_code: int | None = None,
) -> None:
    """Records an undo, which is a run like any other; a storage failure is only logged.

    It is recorded with `None` when it begins, so that a killed undo is among the runs as well.
    One that ends with an error has its exit code.
    """
    back = [file for file in files or () if file.comes_back]
    left = len(files or ()) - len(back)
    if exit_code is None:
        failed = StatemaintError if files is None else CheckpointError
        exit_code = failed.exit_code if left or files is None else 0
    note = replace(
        RunNote.of_nothing(storage, started, fence.number, exit_code),
        undo_of=run_folder(of),
        files_restored=len(back),
        bytes_restored=sum(file.entry.size for file in back),
        files_left=left,
    )
    write_note(storage, run, "undo", note)


@contextmanager
def _counting(restored: Sequence[PutBack], noted: Callable[..., None]) -> Iterator[None]:
    """Records what came back before an error, and adds it to the error."""
    try:
        yield
    except StatemaintError as error:
        back = sum(file.comes_back for file in restored)
        if back:
            noted(files=restored, exit_code=error.exit_code)
            are = "is" if back == 1 else "are"
            error.add_note(
                f"{counted(back, 'file')} {are} in place again, and another undo of the run goes on"
            )
        raise
