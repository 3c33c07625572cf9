"""Finds the query's own file beside a new file, so that both have the same readers (S22)."""

from dataclasses import dataclass, field

from statemaint.execute.commits import newest_commit
from statemaint.listing import Entry
from statemaint.model.files import Delta, Snapshot, classify_any
from statemaint.storage import Storage

_SHARED = ("SSTs", "logs")


@dataclass(slots=True)
class Neighbours:
    """The newest of the query's own files in each folder; each folder is listed once."""

    storage: Storage
    _known: dict[str, str | None] = field(default_factory=dict)

    def of(self, path: str) -> str | None:
        """Returns the newest change or log entry beside a path, or else the newest commit.

        In a store without changes it is the newest snapshot. `None` if there is no such file.
        """
        folder = _folder(path)
        if folder not in self._known:
            self._known[folder] = self._newest(folder)
        return self._known[folder]

    def note(self, path: str) -> None:
        self._known[_folder(path)] = path

    def _newest(self, folder: str) -> str | None:
        inside = (one for one in self.storage.list(folder) if _folder(one.path) == folder)
        newest = max(((rank, one.path) for one in inside if (rank := _rank(one))), default=None)
        if newest:
            return newest[1]
        commit = newest_commit(self.storage)
        return commit.path if commit else None


def _folder(path: str) -> str:
    folder = path.rpartition("/")[0]
    above, _, name = folder.rpartition("/")
    return above if name in _SHARED else folder


def _rank(entry: Entry) -> tuple[bool, int] | None:
    """Returns the rank of a file: changes and log entries above snapshots, newer above older."""
    if entry.name.isdecimal():
        return True, int(entry.name)
    match classify_any(entry):
        case Delta(version=version):
            return True, version
        case Snapshot(version=version):
            return False, version
        case _:
            return None
