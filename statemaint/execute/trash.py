"""The trash: deleted files, kept for a while in a folder per run, and their way back (S17).

    _statemaint/trash/<run>/manifest/...             a line for each file, before it is moved
    _statemaint/trash/<run>/<path>                   the file, under its old path

A line records until when the file is kept at least, and the world that it was in. Emptying the
trash follows these lines and not the current policy, and so does an undo.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from statemaint.errors import (
    AlreadyExistsError,
    CodecError,
    ConfigError,
    NotFoundError,
    Superseded,
    UnreadableError,
)
from statemaint.execute.deeds import Deeds, read_deeds
from statemaint.execute.fit import staying, units_of
from statemaint.execute.fit_rollback import must_fit
from statemaint.execute.json_lines import read_lines
from statemaint.execute.manifest import (
    FOLDER,
    MANIFEST,
    Contents,
    LogWorld,
    Note,
    Seen,
    contents,
    folder_of,
    manifest_path,
    newest_pages,
    page_name,
    render,
)
from statemaint.execute.neighbours import Neighbours
from statemaint.execute.same import Same, equal
from statemaint.execute.world import fingerprint, maintained
from statemaint.listing import Entry
from statemaint.model.checkpoint import Store
from statemaint.model.files import Delta, checksum_file_of, classify_any
from statemaint.model.ids import UnitId
from statemaint.plan import Delete, DeleteReason
from statemaint.storage import Storage


@dataclass(frozen=True, slots=True)
class Restored:
    """A file that an undo considered.

    Attributes:
        path: its old path.
        bytes: its size.
        reason: why it stays in the trash; empty where it is in its place now.
    """

    path: str
    bytes: int
    reason: str = ""

    @property
    def in_place(self) -> bool:
        """Returns whether it is in its place now."""
        return not self.reason


@dataclass(slots=True)
class Trash:
    """The trash of one run.

    Attributes:
        storage: where the checkpoint lives.
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

    def take(self, deletes: Sequence[Delete], *, before: Callable[[], object]) -> None:
        """Moves files of one store to the trash, after `note`; a missing file is not an error.

        Args:
            deletes: the files, in the order of their moves.
            before: called before every move; whatever it raises ends the work.

        Raises:
            StorageError: when the storage fails.
        """
        for one in deletes:
            before()
            self._move(one.entry)

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
            store: the store as it was listed; `None` where an earlier line has its world.
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

    def _move(self, entry: Entry) -> None:
        target = f"{folder_of(self.run)}/{entry.path}"
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


def restore(
    storage: Storage,
    run: str,
    *,
    ended: bool = True,
    note: Callable[[Sequence[Mapping[str, Any]]], None] = lambda _: None,
    before: Callable[[], object] = lambda: None,
) -> Iterator[Restored]:
    """Puts back the files of a run that still fit, the newest first; yields each when it is done.

    Safe to kill and to repeat. Files that no longer fit stay in the trash. Of a rollback these are
    all files once the query has continued. Of any other run they are: a file whose store's log was
    written again, a file whose place is taken by another one, a checksum without the file that it
    was made for, and a file that the readers of the files beside it might be unable to read.

    Args:
        storage: where the checkpoint lives.
        run: the run.
        ended: whether it completed, rather than being killed.
        note: called with the files that come back before the first is moved.
        before: called before each move; whatever it raises ends the work.

    Raises:
        ConfigError: when there is no trash of that run, or it was a rollback and the query has
            continued since.
        Superseded: when the file beside which one is put is missing.
        UnreadableError: when the query might be unable to read a file that a rollback moved away.
        StorageError: when the storage fails.
    """
    must_be_in_trash(storage, run)
    found = contents(storage, run)
    deeds = read_deeds(storage, run, units_of(found.files))
    must_fit(storage, found, deeds, ended=ended)
    reasons = {} if found.of_rollback else staying(storage, found, deeds, ended=ended)
    undo = _Undo(storage, found, deeds, reasons, before)
    if coming := undo.coming():
        note(coming)
    for entry in found.newest_first():
        yield undo.put_back(entry)
    if not undo.left:
        storage.delete_all([one.path for one in found.manifests], before=before)


def must_be_in_trash(storage: Storage, run: str) -> None:
    """Makes sure that the trash holds something of a run.

    Raises:
        ConfigError: when it does not.
        StorageError: when the storage fails.
    """
    if not any(True for _ in storage.list(folder_of(run))):
        raise ConfigError(
            f"{storage.root}: nothing of run {run!r} is in the trash; "
            "`statemaint runs` lists the runs and what can be undone"
        )


class _Undo:
    """One run's trash while it is put back; `left` are the old paths of the files that stay."""

    def __init__(
        self,
        storage: Storage,
        found: Contents,
        deeds: Deeds,
        reasons: Mapping[str, str],
        before: Callable[[], object],
    ) -> None:
        self._storage, self._found, self._reasons = storage, found, reasons
        self._before = before
        self._same = Same(storage, found, deeds)
        self._beside = Neighbours(storage)
        self.left = set[str]()

    def coming(self) -> list[dict[str, Any]]:
        """Returns the ledger's notes of the files that come back.

        Where a move gives a file another time, the checksum of a change's bytes is noted as well,
        so that another undo recognizes it.
        """
        return [
            self._noted(path, entry)
            for path, entry in sorted(self._found.files.items())
            if path not in self._reasons and not self._against_checksum(entry, path)
        ]

    def _noted(self, path: str, entry: Entry) -> dict[str, Any]:
        note = self._found.notes.get(path)
        before = note.seen.entry.modified if note else None
        fields = {"path": path, "bytes": entry.size, "modified": before}
        change = isinstance(classify_any(Entry(path, entry.size, None)), Delta)
        if change and before != entry.modified:
            fields["crc32c"] = fingerprint(self._storage, entry.path)
        return fields

    def put_back(self, entry: Entry) -> Restored:
        """Moves one file to its old place, unless it no longer fits there."""
        path = self._found.path_of(entry)
        reason = self._reasons.get(path) or self._against_checksum(entry, path)
        if reason := reason or self._move_back(entry, path):
            self.left.add(path)
        return Restored(path, entry.size, reason or "")

    def _against_checksum(self, entry: Entry, path: str) -> str | None:
        """Returns why a checksum file would not be beside the file that it was made for.

        Spark refuses to load a file that is beside the checksum of another one.
        """
        file = checksum_file_of(Entry(path, entry.size, entry.modified))
        if file is None:
            return None
        if file.owner in self._found.notes or file.owner in self._found.files:
            stays = file.owner in self.left or file.owner in self._reasons
            return f"{file.owner} stays in the trash" if stays else None
        # A checksum that was alone already would end up beside a file that it was not made for.
        note = self._found.notes.get(path)
        if note is None or note.beside is None:
            return f"it was not made for the {file.owner} of today"
        try:
            beside = self._storage.stat(file.owner)
        except NotFoundError:
            return f"{file.owner}, which it was made for, is gone"
        same = self._same(note.beside, beside)
        return None if same else f"{file.owner}, which it was beside, was written again"

    def _move_back(self, entry: Entry, path: str) -> str | None:
        """Moves one file to its old place, or returns why it stays in the trash."""
        like = self._beside.of(path)  # may take requests, which must precede `before`
        self._before()
        try:
            self._storage.move(entry.path, path, like=like)
        except AlreadyExistsError:
            if not equal(self._storage, entry.path, path):
                return "another file is in its place; remove that one first if this one is right"
            self._before()
            self._storage.delete(entry.path)  # cut short between the two steps of a move
        except UnreadableError as error:
            if self._found.of_rollback:  # as a whole or not at all
                raise
            return error.detail
        except NotFoundError as error:
            if error.path == like:
                raise Superseded(
                    error.path, "was there when this undo began and is gone"
                ) from error
        return None  # or another undo moved it first


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
    found: list[str] = []
    for run, entries in sorted(by_run.items()):
        folder = f"{FOLDER}/{run}/{MANIFEST}/"  # where a crash may leave a temp file as well
        there = [one for one in entries if one.path.startswith(folder)]
        manifests = [one.path for one in there if not one.name.startswith(".")]
        if manifests and all(_expired(storage, path, now) for path in manifests):
            found += [one.path for one in entries if one.path not in manifests]
            found += manifests
    return tuple(found)


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
