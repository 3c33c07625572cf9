"""The trash: deleted files, kept for some time in a folder per run (S17). `restore` restores them.

    _statemaint/trash/<run>/manifest/...             a line for each file, before it is moved
    _statemaint/trash/<run>/<path>                   the file, under its old path

A line records until when the file is kept at least, and its surroundings at that time. Emptying the
trash follows these lines and not the current policy, and so does an undo.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

from statemaint.errors import AlreadyExistsError, CodecError, NotFoundError
from statemaint.execute.json_lines import read_lines
from statemaint.execute.manifest import (
    FOLDER,
    MANIFEST,
    LogWorld,
    Note,
    Seen,
    folder_of,
    manifest_path,
    newest_pages,
    page_name,
    render,
)
from statemaint.execute.same import equal
from statemaint.execute.world import maintained
from statemaint.listing import Entry
from statemaint.model.checkpoint import Store
from statemaint.model.ids import UnitId
from statemaint.plan import Delete, DeleteReason
from statemaint.storage import Storage


@dataclass(slots=True)
class Trash:
    """The trash of one run.

    Attributes:
        storage: the storage of the checkpoint.
        run: the run's id.
        seconds: how long its files are kept.
        pages: the number of each partition's newest manifest page; `None` until one is written.
    """

    storage: Storage
    run: str
    seconds: float
    pages: Counter[UnitId] | None = None
    _lock: Lock = field(default_factory=Lock)

    @property
    def until(self) -> float:
        """Returns the time until which a file moved now is kept at least."""
        return self.storage.now() + self.seconds

    def take(
        self,
        deletes: Sequence[Delete],
        *,
        before: Callable[[], object],
        after: Callable[[Delete], object] = lambda _: None,
    ) -> None:
        """Moves files of one store to the trash, after `note`; a missing file is not an error.

        Args:
            deletes: the files, in the order of their moves.
            before: called before every move; whatever it raises ends the work.
            after: called with each file once it is moved.

        Raises:
            StorageError: when the storage fails.
        """
        for delete in deletes:
            before()
            self._move(delete.entry)
            after(delete)

    def note(
        self,
        deletes: Sequence[Delete],
        store: Store | None = None,
        *,
        target: int | None = None,
        gone: int = 0,
    ) -> None:
        """Adds files of one store to the manifest, before they are moved.

        Args:
            deletes: the files, in the order of their moves.
            store: the store as it was listed; `None` if an earlier line has its world.
            target: the run's target version.
            gone: the newest version of any file that this run removes.

        Raises:
            StorageError: when the storage fails.
        """
        world = maintained(self.storage, store, target, gone) if store else None
        until = self.until
        notes = [Note(Seen(one.entry), until, world=world, stale=_is_stale(one)) for one in deletes]
        self.announce(notes, self._next_page(deletes[0].store.unit))

    def _next_page(self, unit: UnitId) -> str:
        with self._lock:
            if self.pages is None:
                self.pages = newest_pages(self.storage, self.run)
            self.pages[unit] += 1
            return page_name(unit, self.pages[unit])

    def announce(self, notes: Sequence[Note], name: str, logs: LogWorld | None = None) -> None:
        """Adds files to a manifest of the run, in the order in which they will be moved.

        Raises:
            StorageError: when the storage fails.
        """
        self.storage.append(manifest_path(self.run, name), render(notes, logs))

    def put(self, entry: Entry) -> None:
        """Moves one file to the trash, after `announce`; a missing file is not an error.

        Raises:
            StorageError: when the storage fails.
        """
        self._move(entry)

    def path_of(self, entry: Entry) -> str:
        """Returns the path that a file has in the trash."""
        return f"{folder_of(self.run)}/{entry.path}"

    def _move(self, entry: Entry) -> None:
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


def _is_stale(delete: Delete) -> bool:
    return delete.reason is DeleteReason.STALE_SNAPSHOT


def trashed_runs(storage: Storage) -> Mapping[str, float]:
    """Returns the folders of the runs that have files in the trash, and since when.

    Raises:
        StorageError: when the storage fails.
    """
    since: dict[str, float] = {}
    for entry in storage.list(FOLDER):
        run, _, path = entry.path.removeprefix(f"{FOLDER}/").partition("/")
        since.setdefault(run, 0.0)
        if path.startswith(f"{MANIFEST}/") and entry.modified is not None:
            since[run] = min(since[run] or entry.modified, entry.modified)
    return since


def size_in_trash(storage: Storage, run: str) -> tuple[int, int]:
    """Returns the number of files of a run in the trash, and their bytes.

    Raises:
        StorageError: when the storage fails.
    """
    listed = storage.list(folder_of(run))
    sizes = [one.size for one in listed if one.path.split("/")[3:4] != [MANIFEST]]
    return len(sizes), sum(sizes)


def bytes_in_trash(storage: Storage) -> int:
    """Returns the size of all files in the trash, without the manifests.

    Raises:
        StorageError: when the storage fails.
    """
    listed = (one for one in storage.list(FOLDER) if one.path.split("/")[3:4] != [MANIFEST])
    return sum(entry.size for entry in listed)


def expired(storage: Storage, now: float) -> tuple[str, ...]:
    """Returns the paths in the trash that have expired, a manifest after its files.

    Raises:
        StorageError: when the storage fails.
    """
    by_run: dict[str, list[Entry]] = defaultdict(list)
    for entry in storage.list(FOLDER):
        by_run[entry.path.split("/")[2]].append(entry)
    paths: list[str] = []
    for run, entries in sorted(by_run.items()):
        folder = f"{FOLDER}/{run}/{MANIFEST}/"  # a crash may also leave a temp file there
        there = [one for one in entries if one.path.startswith(folder)]
        manifests = [one.path for one in there if not one.name.startswith(".")]
        if manifests and all(_expired(storage, path, now) for path in manifests):
            paths += [one.path for one in entries if one.path not in manifests]
            paths += manifests
    return tuple(paths)


def empty(storage: Storage, paths: Sequence[str], *, before: Callable[[], object]) -> None:
    """Deletes expired paths; a run's manifests last, since they record that the run has expired.

    Raises:
        StorageError: when the storage fails.
    """
    manifests = [one for one in paths if one.split("/")[3] == MANIFEST]
    for some in ([one for one in paths if one not in set(manifests)], manifests):
        if some:
            storage.delete_all(some, before=before)


def _expired(storage: Storage, path: str, now: float) -> bool:
    """Returns whether every line has expired; an unreadable line has not."""
    try:
        lines = read_lines(storage, path)
    except CodecError:
        return False
    times = [line.get("until") for line in lines]
    return bool(times) and all(isinstance(one, int | float) and one <= now for one in times)
