"""The trash: deleted files, kept for some time in a folder per run (S17). `restore` restores them.

    _statemaint/trash/<run>/manifest/...             a line for each file, before it is moved
    _statemaint/trash/<run>/<path>                   the file, under its old path

A line records until when the file is kept at least, and its surroundings at that time. Emptying the
trash (`trashed`) follows these lines and not the current policy, and so does an undo.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock

from statemaint.errors import AlreadyExistsError, NotFoundError
from statemaint.execute.log_witness import maintained
from statemaint.listing import Entry
from statemaint.model.checkpoint import Store
from statemaint.model.ids import UnitId
from statemaint.model.proof import Attestation
from statemaint.plan.actions import Delete
from statemaint.plan.reasons import DeleteReason
from statemaint.records.manifest import (
    LogWorld,
    Note,
    Seen,
    folder_of,
    manifest_path,
    newest_pages,
    page_name,
    render,
)
from statemaint.records.trashed import forget_trashed
from statemaint.scan.proofs import equal
from statemaint.storage import Storage


@dataclass(slots=True)
class Trash:
    """The trash of one run.

    Attributes:
        pages: the number of each partition's newest manifest page; `None` until one is written.
    """

    storage: Storage
    run: str
    seconds: float
    pages: Counter[UnitId] | None = None
    _there: set[str] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)

    @property
    def until(self) -> float:
        return self.storage.now() + self.seconds

    def take(
        self,
        deletes: Sequence[Delete],
        *,
        before: Callable[[], object],
        after: Callable[[Delete], object],
    ) -> None:
        """Moves files of one store to the trash, after `note`; a missing file is not an error.

        Only this run creates files in its trash, so a file that was not there when the run began to
        work is there only if this object moved it. A file of an earlier attempt is compared.

        The files may be moved in any order. `before` is called before every request that removes
        files from their places, `after` with each file that is no longer in its place, as far as
        that is known.
        """
        by_path = {self.path_of(delete.entry): delete for delete in deletes}
        for path in by_path.keys() & self._there:
            before()
            self.put(by_path[path].entry)
            after(by_path.pop(path))
        with self._lock:
            self._there.update(by_path)
        moves = [(delete.entry, path) for path, delete in by_path.items()]
        self.storage.move_all(
            moves, before=before, after=lambda entry: after(by_path[self.path_of(entry)])
        )

    def note(
        self,
        deletes: Sequence[Delete],
        store: Store | None = None,
        *,
        target: int | None = None,
        gone: int = 0,
        proof: Attestation | None = None,
    ) -> None:
        """Adds files of one store to the manifest, before they are moved."""
        world = maintained(self.storage, store, target, gone, proof) if store else None
        until = self.until
        notes = []
        for delete in deletes:
            stale = delete.reason is DeleteReason.STALE_SNAPSHOT
            notes.append(Note(Seen(delete.entry), until, world=world, stale=stale))
        self.announce(notes, self._next_page(deletes[0].store.unit))

    def _next_page(self, unit: UnitId) -> str:
        with self._lock:
            if self.pages is None:
                if there := list(self.storage.list(folder_of(self.run))):
                    forget_trashed(self.storage, self.run)
                self.pages = newest_pages(there)
                self._there.update(entry.path for entry in there)
            self.pages[unit] += 1
            return page_name(unit, self.pages[unit])

    def announce(self, notes: Sequence[Note], name: str, logs: LogWorld | None = None) -> None:
        """Adds files to a manifest of the run, in the order in which they will be moved."""
        self.storage.append(manifest_path(self.run, name), render(notes, logs))

    def path_of(self, entry: Entry) -> str:
        return f"{folder_of(self.run)}/{entry.path}"

    def put(self, entry: Entry) -> None:
        """Moves one file to the trash, after `announce`; a missing file is not an error."""
        target = self.path_of(entry)
        try:
            self.storage.move(entry.path, target)
        except NotFoundError:
            return
        except AlreadyExistsError:
            # The same run was cut short between the two steps of a move.
            if not equal(self.storage, entry.path, target):
                raise
            self.storage.delete(entry.path)
