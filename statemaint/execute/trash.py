"""What was deleted, for a while: a folder a run, and the way back (S17).

    _statemaint/trash/<run>/manifest/<op>-<partition>.jsonl    a line for each file, before it goes
    _statemaint/trash/<run>/<path>                             the file, under its old path

A line says until when the file is kept at least. Whoever empties the trash goes by what the lines
say and not by the policy of the day.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from statemaint.errors import AlreadyExistsError, ConfigError, NotFoundError
from statemaint.listing import Entry
from statemaint.model.ids import run_folder
from statemaint.plan import Delete
from statemaint.storage import Storage

FOLDER = "_statemaint/trash"
_MANIFEST = "manifest"


def _folder(run: str) -> str:
    return f"{FOLDER}/{run_folder(run)}"


@dataclass(frozen=True, slots=True)
class Restored:
    """A file that an undo looked at.

    Attributes:
        path: where it was, and is again.
        bytes: its size.
        in_place: whether it is there now; else another file of that name is, which stays.
    """

    path: str
    bytes: int
    in_place: bool


@dataclass(frozen=True, slots=True)
class Trash:
    """The trash of one run.

    Attributes:
        storage: where the checkpoint lives.
        run: the run's id.
        seconds: how long its files are kept.
    """

    storage: Storage
    run: str
    seconds: float

    def take(self, deletes: Sequence[Delete], *, before: Callable[[], None]) -> None:
        """Moves files of one store here; those that are gone already are no error.

        Args:
            deletes: the files, in the order in which they go.
            before: is called ahead of every move; whatever it raises ends the work.

        Raises:
            StorageError: when the storage fails.
        """
        self._note(deletes)
        for one in deletes:
            before()
            self._move(one.entry)

    def _note(self, deletes: Sequence[Delete]) -> None:
        until = self.storage.now() + self.seconds
        unit = deletes[0].store
        lines = [
            json.dumps({"path": one.path, "bytes": one.entry.size, "until": until}) + "\n"
            for one in deletes
        ]
        path = f"{_folder(self.run)}/{_MANIFEST}/{unit.operator}-{unit.partition}.jsonl"
        self.storage.append(path, "".join(lines).encode())

    def _move(self, entry: Entry) -> None:
        target = f"{_folder(self.run)}/{entry.path}"
        try:
            self.storage.move(entry.path, target)
        except NotFoundError:
            return
        except AlreadyExistsError:
            # The same run was cut short between the two steps of a move.
            if self.storage.stat(target).size != entry.size:
                raise
            self.storage.delete(entry.path)


def restore(
    storage: Storage, run: str, *, before: Callable[[], None] = lambda: None
) -> Iterator[Restored]:
    """Puts a run's files back, the newest first; yields each as it is done.

    Safe to kill and to repeat. A file whose place is taken by another one stays in the trash.

    Raises:
        ConfigError: when there is no trash of that run.
        StorageError: when the storage fails.
    """
    manifests, kept = _contents(storage, run)
    if not manifests and not kept:
        raise ConfigError(
            f"{storage.root}: nothing of run {run!r} is in the trash; "
            "`statemaint runs` lists the runs and what can be undone"
        )
    left = False
    for entry in _newest_first(storage, manifests, kept):
        before()
        found = _put_back(storage, run, entry)
        left |= not found.in_place
        yield found
    if not left:
        storage.delete_all([entry.path for entry in manifests], before=before)


def _contents(storage: Storage, run: str) -> tuple[list[Entry], dict[str, Entry]]:
    """Returns a run's manifests, and its files by their old paths."""
    manifests, kept = [], {}
    folder = f"{_folder(run)}/"
    for entry in storage.list(folder.rstrip("/")):
        path = entry.path.removeprefix(folder)
        if path.startswith(f"{_MANIFEST}/"):
            manifests.append(entry)
        else:
            kept[path] = entry
    return manifests, kept


def _newest_first(
    storage: Storage, manifests: list[Entry], kept: dict[str, Entry]
) -> Iterator[Entry]:
    """Yields the files against the order in which they went: a file before its checksum."""
    waiting = dict(kept)
    for manifest in manifests:
        for line in reversed(_lines(storage, manifest.path)):
            if found := waiting.pop(str(line.get("path")), None):
                yield found
    yield from waiting.values()


def _put_back(storage: Storage, run: str, entry: Entry) -> Restored:
    path = entry.path.removeprefix(f"{_folder(run)}/")
    try:
        storage.move(entry.path, path)
    except AlreadyExistsError:
        if storage.stat(path).size != entry.size:
            return Restored(path, entry.size, in_place=False)
        storage.delete(entry.path)  # an undo was cut short between the two steps of a move
    except NotFoundError:  # another undo was quicker
        return Restored(path, entry.size, in_place=True)
    return Restored(path, entry.size, in_place=True)


def trashed_runs(storage: Storage) -> frozenset[str]:
    """Returns the folders of the runs of which something is in the trash.

    Raises:
        StorageError: when the storage fails.
    """
    return frozenset(entry.path.split("/")[2] for entry in storage.list(FOLDER))


def expired(storage: Storage, now: float) -> tuple[str, ...]:
    """Returns what has been in the trash for as long as it was to be, a manifest after its files.

    Raises:
        StorageError: when the storage fails.
    """
    by_run: dict[str, list[Entry]] = defaultdict(list)
    for entry in storage.list(FOLDER):
        by_run[entry.path.split("/")[2]].append(entry)
    found: list[str] = []
    for run, entries in sorted(by_run.items()):
        folder = f"{FOLDER}/{run}/{_MANIFEST}/"
        manifests = [one.path for one in entries if one.path.startswith(folder)]
        if manifests and all(_expired(storage, path, now) for path in manifests):
            found += [one.path for one in entries if one.path not in manifests]
            found += manifests
    return tuple(found)


def _expired(storage: Storage, path: str, now: float) -> bool:
    """Tells whether every line has expired; one that cannot be read has not."""
    lines = _lines(storage, path)
    times = [line.get("until") for line in lines]
    return bool(times) and all(isinstance(one, int | float) and one <= now for one in times)


def _lines(storage: Storage, path: str) -> list[dict[str, Any]]:
    """Returns a manifest's lines; a line that a crash cut short moved no file and says nothing."""
    try:
        content = storage.read(path)
    except NotFoundError:
        return []
    found = []
    for line in content.splitlines():
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(fields, dict):
            found.append(fields)
    return found
