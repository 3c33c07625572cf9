"""Decides which files of a run's trash fit the current checkpoint, and why others do not (S17).

A file of a version is restored only if its store's log was not written again below it. Every log
file at or below its version must be the very file that the run saw, or be missing; none may be new.
The same holds for the next log file above, since the files below it may have been written again
before they were deleted; if no file is left above, whether they were is unknown. A file that was
judged against another log would be trusted wrongly. Nor is a file restored below a gap in the
versions that the commit log requires.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from statemaint.codec.rocksdb import snapshot_zip
from statemaint.errors import CodecError, NotFoundError
from statemaint.execute.fence import committed_batches
from statemaint.execute.trash import Versioned, log_of
from statemaint.listing import Entry
from statemaint.model.files import (
    ChecksumFile,
    Delta,
    Snapshot,
    SstFile,
    StateFile,
    TempFile,
    classify_any,
)
from statemaint.model.ids import RecoveryVerb, UnitId, run_folder, version_of
from statemaint.records.manifest import FOLDER, Contents, Note, StoreWorld
from statemaint.scan.rocks import shared_paths
from statemaint.storage import Storage
from statemaint.undo.history import FileIdentity, LedgerHistory

_STALE = (
    "it did not hold the state of the log when it was removed, which a restart would not notice; "
    "leave it in the trash, the log has the state"
)
_GONE = (
    "nothing is left of the log above it, and nothing shows whether it was written again; undo "
    "later runs first if they have it, otherwise leave it in the trash"
)
_LEAVE = "leave it in the trash, `statemaint doctor` reports what the checkpoint needs"
_OF_STORE = re.compile(r"/(SSTs|logs)$")
_IN_UNIT = re.compile(r"state/(\d+)/(\d+)/")


def undo_refusals(storage: Storage, trash: Contents, history: LedgerHistory) -> dict[str, str]:
    return _Fit(storage, trash, history).reasons()


def units_of(paths: Iterable[str]) -> frozenset[UnitId]:
    matches = filter(None, map(_IN_UNIT.match, paths))
    return frozenset(UnitId(int(match[1]), int(match[2])) for match in matches)


@dataclass(frozen=True, slots=True)
class _Log:
    """One store's current log, compared with the log that a run saw."""

    changed: tuple[tuple[int, str], ...]  # the files that changed, ascending by version
    sound: frozenset[int]  # the versions with an unchanged file
    newest: int  # the newest version that the run saw; 0 if it noted none
    new: str  # the words that describe a changed file
    noted: bool = True  # whether the run noted its log at all; early builds did not
    # Whether files above `newest` that the run saw, or a later one removed, are missing.
    cut: bool = False

    def against(self, version: int, target: int) -> str | None:
        if self.changed and self.changed[0][0] <= version:
            return f"{self.changed[0][1]} {self.new}; {_LEAVE}"
        above = {number: path for number, path in self.changed if version < number <= self.newest}
        nearest = min((near for near in {*above, *self.sound} if near >= version), default=None)
        if nearest in above:
            return f"{above[nearest]} {self.new}, and the log below it is missing; {_LEAVE}"
        # Does the log still end below the file, and has no batch continued from there?
        ends = not self.cut and self.newest in {0, *self.sound}
        if nearest is None and self.noted and not (ends and version > max(target, self.newest)):
            return _GONE
        return None


class _Fit:
    def __init__(self, storage: Storage, trash: Contents, history: LedgerHistory) -> None:
        self._storage, self._trash, self._history = storage, trash, history
        self._same = FileIdentity(storage, trash, history)
        versions = [*map(version_of, committed_batches(storage))]
        self._required, self._target = min(versions, default=0), max(versions, default=0)
        self._files: Mapping[str, StateFile] = {
            path: classify_any(Entry(path, entry.size, entry.modified))
            for path, entry in trash.files.items()
        }

    def reasons(self) -> dict[str, str]:
        directories: dict[str, list[Versioned]] = {}
        for path, file in self._files.items():
            if isinstance(file, Delta | Snapshot):
                directories.setdefault(path.rpartition("/")[0], []).append(file)
        stay: dict[str, str] = {}
        for directory, files in directories.items():
            stay.update(self._of_store(directory, files))
        for further in (self._without_parts, self._parts_of, self._without_store):
            stay.update(further(stay))
        return stay

    def _of_store(self, directory: str, files: list[Versioned]) -> Iterator[tuple[str, str]]:
        there = self._state_of(directory)
        highest, logs = max(file.version for file in files), dict[int, _Log]()
        back = {file.version for file in there}
        for file in sorted(files, key=lambda file: file.version, reverse=True):
            note = self._trash.notes.get(file.entry.path)
            world = note.world if note else None
            if id(world) not in logs:
                logs[id(world)] = self._log(directory, world, note, there, highest)
            why = (
                (_STALE if note and note.stale else None)
                or self._above(file, world)
                or logs[id(world)].against(file.version, self._target)
                or self._overtaken(file, world)
                or self._lone(file.version, back)
            )
            if why:
                yield file.entry.path, why
            else:
                back.add(file.version)

    def _state_of(self, directory: str) -> list[Versioned]:
        entries = (it for it in self._storage.list(directory) if _in(it.path, directory))
        return [file for file in map(classify_any, entries) if isinstance(file, Delta | Snapshot)]

    def _lone(self, version: int, back: Collection[int]) -> str | None:
        above = min((newer for newer in back if newer >= version), default=version)
        lacking = range(max(version + 1, self._required), min(above - 1, self._target) + 1)
        if lacking:
            return f"version {lacking[-1]}, which the commit log requires, is missing; {_LEAVE}"
        return None

    def _above(self, file: Versioned, world: StoreWorld | None) -> str | None:
        then = (world.target or 0) if world else None
        if file.version <= self._target or then == self._target:
            return None
        return f"version {file.version} is above the newest committed one now; {_LEAVE}"

    def _overtaken(self, file: Versioned, world: StoreWorld | None) -> str | None:
        """Returns why a snapshot from above the log does not fit once its batch has run."""
        # The batch may have written the same changes on top of another version below.
        if world is None or not isinstance(file, Snapshot):
            return None
        if not (world.target or 0) < file.version <= self._target:
            return None
        when = f"after run {self._trash.run} removed it"
        return f"version {file.version} was committed {when}; {_LEAVE}"

    def _log(
        self,
        directory: str,
        world: StoreWorld | None,
        note: Note | None,
        there: list[Versioned],
        highest: int,
    ) -> _Log:
        if world is None:
            return self._old_log(there, note.since if note else None)
        noted = {seen.path: seen for seen in world.files}
        mine = [other.seen for path, other in self._trash.notes.items() if _in(path, directory)]
        # Above the target, files are written again by repeated tasks, not by a rewind.
        versions = (version_in(path) for path in noted)
        newest = max((version for version in versions if version <= (world.target or 0)), default=0)
        zips = any(path.endswith(".zip") for path in noted)
        changed, sound = self._written_again(directory, zips=zips), set()
        for file in self._evidence(there, noted, zips=zips):
            path, entry = file.entry.path, file.entry
            views = [noted[path]] if path in noted else [seen for seen in mine if seen.path == path]
            if any(self._same(seen, entry) for seen in views):
                sound.add(file.version)
            elif not views and self._same.is_of_earlier(entry):
                continue
            elif file.version <= max(newest, highest):
                changed.append((file.version, path))
        dirty = {version for version, _ in changed}
        once = {path for path in (*noted, *self._history.removed_since()) if _in(path, directory)}
        missing = once - {file.entry.path for file in there}
        cut = any(version_in(path, zips=zips) > newest for path in missing)
        how = f"was written after run {self._trash.run}"
        return _Log(tuple(sorted(changed)), frozenset(sound - dirty), newest, how, cut=cut)

    def _evidence(
        self, there: list[Versioned], noted: Collection[str], *, zips: bool
    ) -> Iterator[Versioned]:
        """Yields the current log files; zips only if a batch wrote nothing else."""
        for file in there:
            if isinstance(file, Delta) or zips:
                if file.entry.path in self._history.written and file.entry.path not in noted:
                    continue  # written by maintenance, not by a batch
                yield file

    def _old_log(self, there: list[Versioned], since: float | None) -> _Log:
        """Returns the log of a run that did not note it: files newer than the manifest changed."""
        changed = []
        for file in log_of(there):
            path, modified = file.entry.path, file.entry.modified
            older = modified is not None and since is not None and modified <= since
            if not older and not self._history.restoring(path):
                changed.append((file.version, path))
        how = f"is newer than the manifest of run {self._trash.run}, which does not record the log"
        return _Log(tuple(sorted(changed)), frozenset(), 0, how, noted=False)

    def _written_again(self, directory: str, *, zips: bool) -> list[tuple[int, str]]:
        return [
            (file.version, path)
            for path, file in self._files.items()
            if (isinstance(file, Delta) or (zips and isinstance(file, Snapshot)))
            and _in(path, directory)
            and self._same.written_again(path)
        ]

    def _without_parts(self, stay: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yields the zips that lack a file, which those that a repair replaced may always have."""
        repair = f"{RecoveryVerb.REPAIR.value}.jsonl"
        if any(manifest.name == repair for manifest in self._trash.manifests):
            return
        for path in sorted(self._files.keys() - stay.keys()):
            if why := lacking_part(self._storage, self._trash, path):
                yield path, why

    def _parts_of(self, stay: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yields the shared files that only zips in the trash refer to: they would be orphans."""
        users: dict[str, list[str]] = {}
        for path in self._files:
            for part in parts_of(self._storage, self._trash.files[path].path, path):
                users.setdefault(part, []).append(path)
        for path, file in self._files.items():
            mine = users.get(path)
            if isinstance(file, SstFile) and mine and all(user in stay for user in mine):
                yield path, f"only {mine[0]} refers to it, which stays"

    def _without_store(self, stay: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yields the leftovers of stores that have no state any more, and get none back.

        Their operator may have left the query, and its folder been moved away: a file in it would
        look like the rest of a store that is needed. SST files may precede the zips of another run.
        """
        states = {path for path, file in self._files.items() if isinstance(file, Delta | Snapshot)}
        back = {path.rpartition("/")[0] for path in states - stay.keys()}
        leftovers: dict[str, list[str]] = {}
        for path, file in self._files.items():
            if path not in stay and isinstance(file, TempFile | ChecksumFile):
                folder = path.rpartition("/")[0]
                leftovers.setdefault(_OF_STORE.sub("", folder), []).append(path)
        for directory in sorted(leftovers.keys() - back):
            if not self._state_of(directory):
                why = f"{directory} has no state any more; {_LEAVE}"
                yield from ((path, why) for path in leftovers[directory])


def lacking_part(storage: Storage, trash: Contents, path: str) -> str | None:
    """Returns which file a zip in the trash would lack once it is back."""
    for part, size in parts_of(storage, trash.files[path].path, path).items():
        trashed = trash.files.get(part)
        if trashed is not None and trashed.size == size:
            continue
        with suppress(NotFoundError):
            if storage.stat(part).size == size:
                continue
        other = trash_of_others(storage, trash.run).get(part)
        where = f"was removed by run {other}; undo that run first" if other else "is missing"
        return f"{part}, which {path} refers to, {where}"
    return None


def parts_of(storage: Storage, stored: str, path: str) -> dict[str, int]:
    """Returns the shared files that a zip refers to; none for another file, or a broken zip."""
    if not path.endswith(".zip"):
        return {}
    try:
        metadata = snapshot_zip.parse_metadata(storage.read(stored))
    except CodecError:
        return {}
    return shared_paths(path.rpartition("/")[0], metadata)


def trash_of_others(storage: Storage, run: str) -> dict[str, str]:
    """Returns the files in the trash of other runs by their old paths, each with one such run."""
    inside = (entry.path.removeprefix(f"{FOLDER}/") for entry in storage.list(FOLDER))
    places = (path.partition("/") for path in inside)
    return {path: other for other, _, path in places if other != run_folder(run)}


def _in(path: str, directory: str) -> bool:
    return path.rpartition("/")[0] == directory


def version_in(path: str, *, zips: bool = True) -> int:
    file = classify_any(Entry(path, 0, None))
    kinds = Delta | Snapshot if zips else Delta
    return file.version if isinstance(file, kinds) else 0
