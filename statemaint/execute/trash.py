"""What was deleted, for a while: a folder a run, and the way back (S17).

    _statemaint/trash/<run>/manifest/<op>-<partition>.jsonl    a line for each file, before it goes
    _statemaint/trash/<run>/<path>                             the file, under its old path

A line says until when the file is kept at least. Whoever empties the trash goes by what the lines
say and not by the policy of the day.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from statemaint.errors import AlreadyExistsError, ConfigError, NotFoundError
from statemaint.listing import Entry
from statemaint.model.files import side_file, snapshot_version
from statemaint.model.ids import batch_of, run_folder
from statemaint.plan import Delete, MendVerb
from statemaint.storage import Storage

FOLDER = "_statemaint/trash"
_MANIFEST = "manifest"
_OF_ROLLBACK = f"{MendVerb.ROLLBACK.value}.jsonl"
_PIECE = 1024 * 1024


def _folder(run: str) -> str:
    return f"{FOLDER}/{run_folder(run)}"


@dataclass(frozen=True, slots=True)
class Restored:
    """A file that an undo looked at.

    Attributes:
        path: where it was, and is again.
        bytes: its size.
        in_place: whether it is there now; else another file of that name is, which stays, or a
            file that this one would be the wrong checksum of.
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

    def take(self, deletes: Sequence[Delete], *, before: Callable[[], object]) -> None:
        """Moves files of one store here, which `note` was told; absent ones are no error.

        Args:
            deletes: the files, in the order in which they go.
            before: is called ahead of every move; whatever it raises ends the work.

        Raises:
            StorageError: when the storage fails.
        """
        for one in deletes:
            before()
            self._move(one.entry)

    def note(self, deletes: Sequence[Delete]) -> None:
        """Adds files of one store to the manifest, ahead of their move.

        Raises:
            StorageError: when the storage fails.
        """
        unit = deletes[0].store
        self.announce([one.entry for one in deletes], f"{unit.operator}-{unit.partition}")

    def announce(self, entries: Sequence[Entry], name: str) -> None:
        """Adds files to a manifest of the run, in the order in which they will be moved.

        Raises:
            StorageError: when the storage fails.
        """
        until = self.storage.now() + self.seconds
        lines = [
            json.dumps({"path": one.path, "bytes": one.size, "until": until}) + "\n"
            for one in entries
        ]
        path = f"{_folder(self.run)}/{_MANIFEST}/{name}.jsonl"
        self.storage.append(path, "".join(lines).encode())

    def put(self, entry: Entry) -> None:
        """Moves one file here, which `announce` was told; an absent one is no error.

        Raises:
            StorageError: when the storage fails.
        """
        self._move(entry)

    def _move(self, entry: Entry) -> None:
        target = f"{_folder(self.run)}/{entry.path}"
        try:
            self.storage.move(entry.path, target)
        except NotFoundError:
            return
        except AlreadyExistsError:
            # The same run was cut short between the two steps of a move.
            if not _equal(self.storage, entry.path, target):
                raise
            self.storage.delete(entry.path)


def _equal(storage: Storage, one: str, other: str) -> bool:
    """Tells whether two files hold the same bytes; a size proves nothing."""
    if storage.stat(one).size != storage.stat(other).size:
        return False
    with storage.open(one) as first, storage.open(other) as second:
        while piece := first.read(_PIECE):
            if piece != second.read(_PIECE):
                return False
    return True


def restore(
    storage: Storage,
    run: str,
    *,
    note: Callable[[Sequence[str]], None] = lambda _: None,
    before: Callable[[], object] = lambda: None,
) -> Iterator[Restored]:
    """Puts a run's files back, the newest first; yields each as it is done.

    `note` is told all old paths before the first file moves, `before` is called ahead of each.

    Safe to kill and to repeat. A file whose place is taken by another one stays in the trash, and
    so does a checksum file that would not stand beside the file that it was made for.

    Raises:
        ConfigError: when there is no trash of that run.
        StorageError: when the storage fails.
    """
    must_be_in_trash(storage, run)
    manifests, kept = _contents(storage, run)
    undo = _Undo(storage, run, [one.path for one in manifests], kept)
    note(sorted(kept))
    for entry in undo.newest_first():
        before()
        yield undo.put_back(entry)
    if not undo.left:
        storage.delete_all(undo.manifests, before=before)


def must_be_in_trash(storage: Storage, run: str) -> None:
    """Makes sure that there is something to undo of a run.

    Raises:
        ConfigError: when there is not.
        StorageError: when the storage fails.
    """
    if not any(True for _ in storage.list(_folder(run))):
        raise ConfigError(
            f"{storage.root}: nothing of run {run!r} is in the trash; "
            "`statemaint runs` lists the runs and what can be undone"
        )


def must_fit(storage: Storage, run: str) -> None:
    """Makes sure that what a rollback moved away can come back as it was; asks nothing of others.

    State of one time and logs of another are worse than either: where the query has gone on since,
    nothing comes back.

    Raises:
        ConfigError: when another file stands where one of them was, or the commits of its snapshots
            went in a later run.
        StorageError: when the storage fails.
    """
    manifests, kept = _contents(storage, run)
    if not any(one.name == _OF_ROLLBACK for one in manifests):
        return
    _must_have_its_commits(storage, kept)
    for path, entry in sorted(kept.items()):
        try:
            same = _equal(storage, entry.path, path)
        except NotFoundError:
            continue
        if not same:
            raise ConfigError(
                f"{storage.root}: {path} is another file by now: the query has gone on since run "
                f"{run}, and what was moved away does not fit any more; it stays in the trash"
            )


def _must_have_its_commits(storage: Storage, kept: Mapping[str, Entry]) -> None:
    """Refuses the first half of a rollback that was killed, while the second is in the trash.

    Its snapshots would lie above the log, and Spark would load them for batches that run again.
    """
    snapshots = (snapshot_version(path) for path in kept)
    needed = {f"commits/{batch_of(version)}" for version in snapshots if version}
    needed -= kept.keys() | {one.path for one in storage.list("commits")}
    for entry in storage.list(FOLDER):
        other, _, path = entry.path.removeprefix(f"{FOLDER}/").partition("/")
        if path in needed:
            raise ConfigError(f"{storage.root}: {path} went in run {other}; undo that one first")


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


class _Undo:
    """One run's trash while it is put back; `left` are the old paths of what stays there."""

    def __init__(
        self, storage: Storage, run: str, manifests: list[str], kept: dict[str, Entry]
    ) -> None:
        self._storage, self._folder, self._kept = storage, f"{_folder(run)}/", kept
        self.manifests, self.left = manifests, set[str]()
        self._noted = [
            str(line.get("path")) for one in manifests for line in reversed(_lines(storage, one))
        ]

    def newest_first(self) -> Iterator[Entry]:
        """Yields the files against the order in which they went: a file before its checksum."""
        waiting = dict(self._kept)
        for path in self._noted:
            if found := waiting.pop(path, None):
                yield found
        yield from sorted(waiting.values(), key=lambda one: one.path.endswith(".crc"))

    def put_back(self, entry: Entry) -> Restored:
        """Moves one file to its old place, unless another one is there."""
        path = entry.path.removeprefix(self._folder)
        done = self._fits(entry, path) and self._moved(entry, path)
        if not done:
            self.left.add(path)
        return Restored(path, entry.size, in_place=done)

    def _fits(self, entry: Entry, path: str) -> bool:
        """Tells whether a checksum file would stand beside the file that it was made for.

        Spark refuses to load a file beside which another one's checksum stands.
        """
        file = side_file(Entry(path, entry.size, entry.modified))
        if file is None:
            return True
        # One that was alone already would wait there for a file that it is not of.
        mine = file.owner in self._noted or file.owner in self._kept
        return mine and file.owner not in self.left

    def _moved(self, entry: Entry, path: str) -> bool:
        try:
            self._storage.move(entry.path, path)
        except AlreadyExistsError:
            if not _equal(self._storage, entry.path, path):
                return False
            self._storage.delete(entry.path)  # cut short between the two steps of a move
        except NotFoundError:  # another undo was quicker
            return True
        return True


def trashed_runs(storage: Storage) -> Mapping[str, float]:
    """Returns the folders of the runs of which something is in the trash, and since when.

    Raises:
        StorageError: when the storage fails.
    """
    since: dict[str, float] = {}
    for entry in storage.list(FOLDER):
        run, _, path = entry.path.removeprefix(f"{FOLDER}/").partition("/")
        since.setdefault(run, 0.0)
        if path.startswith(f"{_MANIFEST}/") and entry.modified is not None:
            since[run] = min(since[run] or entry.modified, entry.modified)
    return since


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


def empty(storage: Storage, paths: Sequence[str], *, before: Callable[[], object]) -> None:
    """Deletes what has expired; a run's manifests go last, since they say that it has.

    Raises:
        StorageError: when the storage fails.
    """
    manifests = [one for one in paths if one.split("/")[3] == _MANIFEST]
    for some in ([one for one in paths if one not in set(manifests)], manifests):
        if some:
            storage.delete_all(some, before=before)


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
