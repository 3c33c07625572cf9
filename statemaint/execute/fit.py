"""Decides which files of a run's trash fit into today's world, and why the others do not (S17).

A file of a version comes back only if its store's log was not written again below it. Every log
file at or below its version must be the very file that the run saw, or be missing; none may be new.
The same holds for the next log file above, since the files below it may have been written again
before they were deleted; with none left above, nothing shows that. A file that was judged against
another log would be trusted again for what it is not. Nor does a file come back below a gap in the
versions that the commit log requires.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from statemaint.codec.rocksdb import snapshot_zip
from statemaint.errors import CodecError, NotFoundError
from statemaint.execute.deeds import Deeds
from statemaint.execute.manifest import FOLDER, Contents, Note, StoreWorld
from statemaint.execute.same import Same
from statemaint.execute.world import Versioned, log_of
from statemaint.listing import Entry
from statemaint.model.files import Delta, Snapshot, SstFile, StateFile, classify_any
from statemaint.model.ids import UnitId, run_folder, version_of
from statemaint.plan import RecoveryVerb
from statemaint.scan import shared_paths
from statemaint.storage import Storage

_STALE = (
    "it did not hold the state of the log when it went, which a restart would not see; leave it in "
    "the trash, the log has the state"
)
_GONE = (
    "nothing is left of the log above it, and nothing shows whether it was written again; undo "
    "later runs first where they have it, else leave it in the trash"
)
_LEAVE = "leave it in the trash, `statemaint doctor` says what the checkpoint needs"


def staying(storage: Storage, found: Contents, deeds: Deeds, *, ended: bool) -> dict[str, str]:
    """Returns the files that must stay in the trash, with the reason of each.

    Args:
        storage: where the checkpoint lives.
        found: the contents of the run's trash.
        deeds: the ledger's record since.
        ended: whether the run completed; a killed run may have left a file under both names, and a
            deletion that the next run noted again.

    Raises:
        StorageError: when the storage fails.
    """
    return dict(_Fit(storage, found, deeds, ended=ended).reasons())


def units_of(paths: Iterable[str]) -> frozenset[UnitId]:
    """Returns the partitions that files belong to."""
    parts = (path.split("/") for path in paths if path.startswith("state/"))
    numbers = ((one[1], one[2]) for one in parts if len(one) > 3)  # noqa: PLR2004
    return frozenset(
        UnitId(int(operator), int(partition))
        for operator, partition in numbers
        if operator.isdecimal() and partition.isdecimal()
    )


def committed(storage: Storage) -> tuple[int, int]:
    """Returns the oldest and the newest committed version; zeros without one.

    Raises:
        StorageError: when the storage fails.
    """
    names = (one.name for one in storage.list("commits"))
    versions = [version_of(int(one)) for one in names if one.isdecimal()]
    return min(versions, default=0), max(versions, default=0)


@dataclass(frozen=True, slots=True)
class _Log:
    """One store's log today, compared with the log that a run saw.

    Attributes:
        changed: the files that changed, ascending by version.
        sound: the versions with an unchanged file.
        newest: the newest version that the run saw; 0 where it noted none.
        new: the words that describe a changed file.
        noted: whether the run noted its log at all; early builds did not.
        cut: whether files above `newest` that the run saw, or a later one removed, are missing.
    """

    changed: tuple[tuple[int, str], ...]
    sound: frozenset[int]
    newest: int
    new: str
    noted: bool = True
    cut: bool = False

    def against(self, version: int, target: int) -> str | None:
        """Returns why a file of a version no longer fits; `None` if it fits.

        Args:
            version: the file's version.
            target: today's newest committed version.
        """
        if self.changed and self.changed[0][0] <= version:
            return f"{self.changed[0][1]} {self.new}; {_LEAVE}"
        above = {number: path for number, path in self.changed if version < number <= self.newest}
        nearest = min((one for one in {*above, *self.sound} if one >= version), default=None)
        if nearest in above:
            return f"{above[nearest]} {self.new}, and what lay below it is gone; {_LEAVE}"
        if nearest is None and self.noted and not self._stands_below(version, target):
            return _GONE
        return None

    def _stands_below(self, version: int, target: int) -> bool:
        """Returns whether the log still ends below a file, and no batch continued from there."""
        ends = not self.cut and self.newest in {0, *self.sound}
        return ends and version > max(target, self.newest)


class _Fit:
    def __init__(self, storage: Storage, found: Contents, deeds: Deeds, *, ended: bool) -> None:
        self._storage, self._found, self._deeds, self._ended = storage, found, deeds, ended
        self._same = Same(storage, found, deeds)
        self._required, self._target = committed(storage)
        self._files: Mapping[str, StateFile] = {
            path: classify_any(Entry(path, entry.size, entry.modified))
            for path, entry in found.files.items()
        }
        self._of_repair = any(
            one.name == f"{RecoveryVerb.REPAIR.value}.jsonl" for one in found.manifests
        )

    def reasons(self) -> Iterator[tuple[str, str]]:
        stay: dict[str, str] = {}
        for directory, files in self._by_directory().items():
            stay.update(self._of_store(directory, files))
        stay.update(self._without_parts(stay))
        stay.update(self._parts_of(stay))
        yield from stay.items()

    def _by_directory(self) -> dict[str, list[Versioned]]:
        found: dict[str, list[Versioned]] = {}
        for path, file in self._files.items():
            if isinstance(file, Delta | Snapshot):
                found.setdefault(path.rpartition("/")[0], []).append(file)
        return found

    # -- the log of a store

    def _of_store(self, directory: str, files: list[Versioned]) -> Iterator[tuple[str, str]]:
        there = [
            file
            for entry in self._storage.list(directory)
            if entry.path.rpartition("/")[0] == directory
            and isinstance(file := classify_any(entry), Delta | Snapshot)
        ]
        highest, logs = max(file.version for file in files), dict[int, _Log]()
        back = {file.version for file in there}
        for file in sorted(files, key=lambda one: one.version, reverse=True):
            note = self._found.notes.get(file.entry.path)
            world = note.world if note else None
            if id(world) not in logs:
                logs[id(world)] = self._log(directory, world, note, there, highest)
            stale = _STALE if note and note.stale else None
            why = (
                stale
                or self._above(file, world)
                or logs[id(world)].against(file.version, self._target)
                or self._overtaken(file, world)
            )
            if why := why or self._lone(file.version, back):
                yield file.entry.path, why
            else:
                back.add(file.version)

    def _lone(self, version: int, back: Collection[int]) -> str | None:
        """Returns why a file does not fit below the existing files; `None` if it fits."""
        above = min((one for one in back if one >= version), default=version)
        lacking = range(max(version + 1, self._required), min(above - 1, self._target) + 1)
        if lacking:
            return f"version {lacking[-1]}, which the commit log asks for, is gone since; {_LEAVE}"
        return None

    def _above(self, file: Versioned, world: StoreWorld | None) -> str | None:
        """Returns why a file above the newest committed version does not fit; `None` if it fits."""
        then = (world.target or 0) if world else None
        if file.version <= self._target or then == self._target:
            return None
        return f"version {file.version} is above the newest committed one now; {_LEAVE}"

    def _overtaken(self, file: Versioned, world: StoreWorld | None) -> str | None:
        """Returns why a snapshot from above the log does not fit once its batch has run.

        The batch may have written the same changes on top of another version below.
        """
        if world is None or not isinstance(file, Snapshot):
            return None
        if not (world.target or 0) < file.version <= self._target:
            return None
        run = f"run {self._found.run}"
        return f"version {file.version} was committed after {run} took it away; {_LEAVE}"

    def _log(
        self,
        directory: str,
        world: StoreWorld | None,
        note: Note | None,
        there: list[Versioned],
        highest: int,
    ) -> _Log:
        if world is None:
            since = note.since if note else None
            return self._old_log(there, since)
        known = {seen.path: seen for seen in world.files}
        mine = [one.seen for path, one in self._found.notes.items() if _in(path, directory)]
        # Above the target, files are written again by repeated tasks, not by a rewind.
        versions = (_version(path) for path in known)
        newest = max((one for one in versions if one <= (world.target or 0)), default=0)
        zips = any(path.endswith(".zip") for path in known)
        changed, sound = self._written_again(directory, zips=zips), set()
        for file in self._evidence(there, known, zips=zips):
            path, entry = file.entry.path, file.entry
            seen = [known[path]] if path in known else [one for one in mine if one.path == path]
            if any(self._same(one, entry) for one in seen):
                sound.add(file.version)
            elif file.version <= max(newest, highest):
                changed.append((file.version, path))
        dirty = {version for version, _ in changed}
        once = {path for path in (*known, *self._deeds.removed_since()) if _in(path, directory)}
        gone = once - {file.entry.path for file in there}
        cut = any(_version(path, zips=zips) > newest for path in gone)
        how = f"was written after run {self._found.run}"
        return _Log(tuple(sorted(changed)), frozenset(sound - dirty), newest, how, cut=cut)

    def _evidence(
        self, there: list[Versioned], known: Collection[str], *, zips: bool
    ) -> Iterator[Versioned]:
        """Yields today's log files; zips only where a batch wrote nothing else."""
        for file in there:
            if isinstance(file, Delta) or zips:
                if file.entry.path in self._deeds.written and file.entry.path not in known:
                    continue  # written by maintenance, not by a batch
                yield file

    def _old_log(self, there: list[Versioned], since: float | None) -> _Log:
        """Returns the log of a run that did not note it: files newer than the manifest changed."""
        changed = [
            (file.version, file.entry.path)
            for file in log_of(there)
            if not self._is_older(file.entry, since)
        ]
        how = f"is newer than the manifest of run {self._found.run}, which says nothing of the log"
        return _Log(tuple(sorted(changed)), frozenset(), 0, how, noted=False)

    def _is_older(self, entry: Entry, since: float | None) -> bool:
        known = entry.modified is not None and since is not None
        return (known and (entry.modified or 0.0) <= (since or 0.0)) or entry.path in self._restored

    @property
    def _restored(self) -> frozenset[str]:
        restored = self._deeds.restored
        return frozenset(path for path in restored if self._deeds.restoring(path))

    def _written_again(self, directory: str, *, zips: bool) -> list[tuple[int, str]]:
        """Returns the files in the trash that another run has since removed from their places."""
        if not self._ended:
            return []
        return [
            (file.version, path)
            for path, file in self._files.items()
            if (isinstance(file, Delta) or (zips and isinstance(file, Snapshot)))
            and _in(path, directory)
            and self._deeds.removed_again(path)
        ]

    # -- zips of RocksDB, and the files they share

    def _without_parts(self, stay: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yields the zips that refer to a missing file.

        A zip that a repair replaced may have lacked it already.
        """
        if self._of_repair:
            return
        for path in sorted(self._files.keys() - stay.keys()):
            if why := lacking_part(self._storage, self._found, path):
                yield path, why

    def _parts_of(self, stay: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yields the shared files to which only staying zips refer: they would be orphans."""
        users: dict[str, list[str]] = {}
        for path in self._files:
            for part in parts_of(self._storage, self._found.files[path].path, path):
                users.setdefault(part, []).append(path)
        for path, file in self._files.items():
            mine = users.get(path)
            if isinstance(file, SstFile) and mine and all(one in stay for one in mine):
                yield path, f"only {mine[0]} refers to it, which stays"


def lacking_part(storage: Storage, found: Contents, path: str) -> str | None:
    """Returns which file a zip in the trash would lack once it is back; `None` if none.

    Raises:
        StorageError: when the storage fails.
    """
    for part, size in parts_of(storage, found.files[path].path, path).items():
        trashed = found.files.get(part)
        if trashed is not None and trashed.size == size:
            continue
        if _size(storage, part) != size:
            other = trash_of_others(storage, found.run).get(part)
            where = f"went in run {other}; undo that one first" if other else "is gone since"
            return f"{part}, which {path} refers to, {where}"
    return None


def _size(storage: Storage, path: str) -> int | None:
    try:
        return storage.stat(path).size
    except NotFoundError:
        return None


def parts_of(storage: Storage, stored: str, path: str) -> dict[str, int]:
    """Returns the shared files that a zip refers to; none for another file, or a broken zip.

    Raises:
        StorageError: when the storage fails.
    """
    if not path.endswith(".zip"):
        return {}
    try:
        found = snapshot_zip.parse_metadata(storage.read(stored))
    except CodecError:
        return {}
    return shared_paths(path.rpartition("/")[0], found)


def trash_of_others(storage: Storage, run: str) -> dict[str, str]:
    """Returns the files in the trash of other runs by their old paths, each with one such run.

    Raises:
        StorageError: when the storage fails.
    """
    found = {}
    for entry in storage.list(FOLDER):
        other, _, path = entry.path.removeprefix(f"{FOLDER}/").partition("/")
        if other != run_folder(run):
            found[path] = other
    return found


def _in(path: str, directory: str) -> bool:
    return path.rpartition("/")[0] == directory


def _version(path: str, *, zips: bool = True) -> int:
    found = classify_any(Entry(path, 0, None))
    kinds = Delta | Snapshot if zips else Delta
    return found.version if isinstance(found, kinds) else 0
