"""Decides from the logs and the ledger whether the query continued after a rollback (S17).

State and logs of different times are worse than either alone, so a rollback is undone as a whole or
not at all. The logs must be as it left them: each entry that it left exists unchanged, and the only
other entries are those that it never moved or that an earlier undo restored. If the rollback ended
before it moved any entry, the query may have continued from the old ones. Then the state that the
query lacks may be restored, but none above its newest batch, and no snapshot that is older than a
change it would hide.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter

from statemaint.errors import ConfigError
from statemaint.execute.trash import is_log_entry, log_entries
from statemaint.listing import Entry
from statemaint.model.files import Delta, Snapshot, classify_any, snapshot_version
from statemaint.model.ids import batch_in, batch_of, version_of
from statemaint.model.proof import FileRecord
from statemaint.records.manifest import Contents, LogWorld
from statemaint.scan.proofs import equal
from statemaint.storage import Storage
from statemaint.undo.checks import lacking_part, trash_of_others, version_in
from statemaint.undo.history import FileIdentity, FileNote, LedgerHistory


def check_rollback_undoable(storage: Storage, trash: Contents, history: LedgerHistory) -> None:
    if trash.of_rollback:
        _Rollback.of(storage, trash, history).check()


@dataclass(frozen=True, slots=True)
class _Rollback:
    storage: Storage
    trash: Contents
    history: LedgerHistory
    same: FileIdentity
    there: Mapping[str, Entry] = field(default_factory=dict)

    @classmethod
    def of(cls, storage: Storage, trash: Contents, history: LedgerHistory) -> "_Rollback":
        state = {entry.path: entry for entry in storage.list("state")}
        # The entries of the operators' metadata are among those of `state/`.
        logs = {entry.path: entry for entry in log_entries(storage, ())}
        same = FileIdentity(storage, trash, history)
        return cls(storage, trash, history, same, state | logs)

    def check(self) -> None:
        self._must_have_its_commits()
        # A rollback that ended while it noted what it would move has moved none, and its manifest
        # may lack files that exist.
        root, run, logs = self.storage.root, self.trash.run, self.trash.logs
        reasons = self._against(logs) if logs else self._against_old()
        for why in reasons if self.trash.files else ():
            raise ConfigError(
                f"{root}: {why}: the query has continued since run {run}, and the files that were "
                "moved away no longer fit; they stay in the trash, from which they can be copied "
                "to another place"
            )
        for why in self._lost():
            raise ConfigError(f"{root}: {why}; no file of run {run} is restored")

    def _must_have_its_commits(self) -> None:
        """Refuses the first half of a killed rollback while the second is in the trash.

        Its snapshots would be above the log, and Spark would load them for batches that run again.
        Nor do log entries come back while a later rollback, killed, has the state below theirs.
        """
        logs = self.trash.logs
        noted = [seen.path for seen in (*logs.removed, *logs.left)] if logs else []
        if logs and not self.trash.files.keys().isdisjoint(noted):
            noted += [seen.path for seen in logs.newest]
        versions = sorted({snapshot_version(path) or 0 for path in self.trash.files})
        commits = [f"commits/{batch_of(version)}" for version in versions if version]
        missing = [path for path in (*noted, *commits) if not self._exists(path)]
        others = trash_of_others(self.storage, self.trash.run) if missing else {}
        for path in missing:
            if path in others:
                removed = f"{path} was removed by run {others[path]}"
                raise ConfigError(f"{self.storage.root}: {removed}; undo that run first")

    def _exists(self, path: str) -> bool:
        return path in self.there or path in self.trash.files

    def _against(self, logs: LogWorld) -> Iterator[str]:
        removed = {seen.path: seen for seen in logs.removed}
        whole = bool(removed) and all(
            path not in self.trash.files and self._is_mine(seen) for path, seen in removed.items()
        )
        yield from self._against_left(logs.left, missing=not whole)
        yield from self._against_removed(removed)
        noted = {seen.path for seen in logs.left} | removed.keys()
        yield from self._against_gone_on(noted) if whole else self._against_others(noted)
        yield from self._against_left(logs.newest, missing=False)
        for path in self.trash.files:
            if not is_log_entry(path):
                yield from self._against_place(path)
        yield from self._against_new_state(logs, whole=whole)

    def _against_left(self, left: Iterable[FileRecord], *, missing: bool) -> Iterator[str]:
        for seen in left:
            entry = self.there.get(seen.path)
            if entry is None and missing:
                yield f"{seen.path}, which the rollback had left, is missing"
            elif entry and not self.same(seen, entry):
                yield f"{seen.path}, which the rollback had left, was written again"

    def _against_removed(self, removed: Mapping[str, FileRecord]) -> Iterator[str]:
        for path, seen in removed.items():
            if path in self.trash.files:
                yield from self._against_place(path)
            elif path not in self.there:
                yield f"{path} is neither in its place nor in the trash"
            elif not self._is_mine(seen):
                yield f"{path} was written again"

    def _against_place(self, path: str) -> Iterator[str]:
        """Yields why the old place of a file is taken, unless a move of the file was cut short."""
        entry = self.there.get(path)
        if entry is None or self._is_half_way(entry):
            removals = self.history.removed_again(path)
            if not all(self.same.is_noted(path, removal) for removal in removals):
                yield f"{path} was written again, and removed by another run"
        elif equal(self.storage, self.trash.files[path].path, path):
            yield f"{path} was written again"
        else:
            yield f"{path} is another file by now"

    def _against_others(self, noted: frozenset[str] | set[str]) -> Iterator[str]:
        """Yields the entries that neither the rollback left nor an undo restored."""
        for path in sorted(self.there, key=_by_batch):
            if is_log_entry(path) and path not in noted and not self._is_of_earlier(path):
                yield f"{path} was written after it"
        for path in sorted(self.history.removed_since(), key=_by_batch):
            if is_log_entry(path) and path not in noted:
                yield f"{path} was written after it, and removed by another run"

    def _against_gone_on(self, noted: frozenset[str] | set[str]) -> Iterator[str]:
        """Yields the snapshots above the log of a query, or older than what it wrote again."""
        now, then = _committed(self.there), _committed(noted)
        for path in self.trash.files if now > then else ():
            version = snapshot_version(path) or 0
            if version > version_of(now):
                yield f"{path} is above commits/{now}, which is newer than the rollback"
            elif hidden := self._hidden(path, version):
                yield f"{hidden} may be newer than {path}"

    def _hidden(self, snapshot: str, version: int) -> str | None:
        note = self.trash.notes.get(snapshot)
        made, folder = note.seen.modified if note else None, snapshot.rpartition("/")[0]
        for path, entry in sorted(self.there.items()):
            if path.rpartition("/")[0] != folder or not 0 < version_in(path) <= version:
                continue
            newer = made is None or entry.modified is None or entry.modified > made
            if newer and isinstance(classify_any(entry), Delta):
                return path
        return None

    def _against_new_state(self, logs: LogWorld, *, whole: bool) -> Iterator[str]:
        """Yields the state above the rollback's version that only a batch can have written."""
        notes, newest = self.trash.notes, {seen.path for seen in logs.newest}
        versions = [version_in(path) for path in notes]
        for path, entry in sorted(self.there.items()):
            file = classify_any(entry)
            if not isinstance(file, Delta | Snapshot) or path in self.trash.files:
                continue
            above = file.version > logs.version - isinstance(file, Delta) and path not in newest
            if path in notes:
                seen = notes[path].seen
                if seen.sum is not None and not self.same(seen, entry):
                    yield f"{path} is another file by now"
                continue
            new = above and (not whole or file.version <= max(versions))
            if new and not self._is_of_earlier(path):
                yield f"{path} was written after it"

    def _is_mine(self, seen: FileRecord) -> bool:
        entry = self.there.get(seen.path)
        if entry is None or not self.same(seen, entry):
            return False
        unmoved = entry.modified is not None and entry.modified == seen.modified
        return unmoved or bool(self.history.restored_since(seen.path))

    def _is_half_way(self, entry: Entry) -> bool:
        # Two names of a move that was cut short or done twice; otherwise the query wrote it again.
        if not equal(self.storage, self.trash.files[entry.path].path, entry.path):
            return False
        ours = self._is_unmoved(entry) or self._is_coming_back(entry)
        return ours or self._is_of_another_undo(entry)

    def _is_unmoved(self, entry: Entry) -> bool:
        """Returns whether a file is the one that this run saw, which was copied and not deleted."""
        note = self.trash.notes.get(entry.path)
        if note is None or note.since is None or entry.modified is None:
            return False
        # Nothing written since the manifest has an older time.
        return entry.modified == note.seen.modified and entry.modified < note.since

    def _is_coming_back(self, entry: Entry) -> bool:
        """Returns whether a file may be the copy of an undo of this run that was cut short."""
        begun = self.history.restoring(entry.path)
        # An undo moves one file at a time, so it can only be the file that it moves next.
        is_next = self.trash.path_of(self.trash.newest_first()[0]) == entry.path
        return begun is not None and is_next and _is_since(entry, begun)

    def _is_of_earlier(self, path: str) -> bool:
        """Returns whether an earlier run had removed a file, and its undo restored it."""
        return self.history.removed_before(path) and self._is_of_another_undo(self.there[path])

    def _is_of_another_undo(self, entry: Entry) -> bool:
        # A rollback killed in the middle of a move leaves that file to the next rollback.
        return entry.modified is not None and any(
            _is_since(entry, note) or entry.modified == note.modified
            for note in self.history.restored_since(entry.path)
            if note.run != self.history.run
        )

    def _lost(self) -> Iterator[str]:
        """Yields the files that would be missing: deleted from the trash, or from beside a zip."""
        until = max((note.until for note in self.trash.notes.values()), default=0.0)
        if self.storage.now() >= until:  # another run may have begun to empty this trash
            for path in self.trash.notes:
                if not self._exists(path) and not path.endswith(".crc"):
                    yield f"{path} has been deleted from the trash, which is due"
        yield from self._lost_halves()
        reasons = (lacking_part(self.storage, self.trash, it) for it in sorted(self.trash.files))
        yield from filter(None, reasons)

    def _lost_halves(self) -> Iterator[str]:
        """Yields what is lost of a killed rollback that this one has done again.

        Both have noted the same log entries. The first half has a trash of its own, which expires
        earlier.
        """
        noted, mine = self.history.removed, self.trash.logs.removed if self.trash.logs else ()
        alike = (note for seen in mine for note in noted.get(seen.path, ()) if note.lists(seen))
        halves = {note.run for note in alike} - {self.history.run}
        last = {path: max(notes, key=attrgetter("fence")).run for path, notes in noted.items()}
        moved = [path for path, run in sorted(last.items()) if run in halves]
        lost = [path for path in moved if not self._exists(path) and not path.endswith(".crc")]
        others = trash_of_others(self.storage, self.trash.run) if lost else {}
        for path in lost:
            if path not in others:
                yield f"{path} has been deleted from the trash of run {last[path]}"

    def _against_old(self) -> Iterator[str]:
        """Yields the reasons against the undo if the logs were not noted: every newer file."""
        for path in sorted(self.trash.files):
            if path in self.there:
                yield from self._against_place(path)
        times = (manifest.modified for manifest in self.trash.manifests)
        since = max((time for time in times if time is not None), default=None)
        for path, entry in sorted(self.there.items()):
            if path in self.trash.files or path in self.history.restored:
                continue
            if not is_log_entry(path) and not isinstance(classify_any(entry), Delta):
                continue
            if since is None or entry.modified is None or entry.modified > since:
                yield f"{path} is newer than its manifest, which does not record the logs"


def _is_since(entry: Entry, note: FileNote) -> bool:
    """Returns whether a file may be the copy that an undo made; storages may have whole seconds."""
    return entry.modified is not None and entry.modified >= int(note.time)


def _committed(paths: Iterable[str]) -> int:
    return max((batch_in(path, "commits") for path in paths), default=-1)


def _by_batch(path: str) -> tuple[int, str]:
    return batch_in(path, path.rpartition("/")[0]), path
