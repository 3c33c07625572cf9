"""Checks that precede writes and deletions; `lease` has the fence that asks the storage.

The newest files of the query show that it was not rewound, and whose readers a new file has (S22).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

from statemaint.errors import NotFoundError, Superseded
from statemaint.listing import Entry
from statemaint.model.checkpoint import Store
from statemaint.model.files import Delta, Snapshot, classify_any
from statemaint.model.ids import batch_in, version_of
from statemaint.records.pins import read_pins
from statemaint.scan.scanner import scan
from statemaint.storage.base import Check, Chunks, Storage
from statemaint.workers import nothing

# The seconds for which a holder trusts the storage's last answer that it holds the lease.
TRUSTED = 2.0


class Fence:
    """A check that always passes: there is no lease."""

    @property
    def number(self) -> int:
        return 0

    def must_hold(self) -> None:
        """Makes sure, by asking the storage, that the lease is still held (S8)."""

    @property
    def is_fresh(self) -> bool:
        """Returns whether an answer of the last `TRUSTED` seconds confirms the lease."""
        return True

    def check(self) -> None:
        if not self.is_fresh:
            self.must_hold()


@dataclass(slots=True)
class PinWatch:
    """Looks for pins below the floor of a run's plan; the threads of the run share its answers.

    An answer counts for `TRUSTED` seconds, as the lease's does. A pin made while a run holds the
    lease is relied on only after longer than that.
    """

    storage: Storage
    floor: int | None  # the oldest version that the plan keeps loadable; none without deletions
    _looked: float = float("-inf")
    _lock: Lock = field(default_factory=Lock)

    @property
    def is_fresh(self) -> bool:
        """Returns whether no pin can be below the floor, or none was within `TRUSTED` seconds."""
        lowest = self.floor is None or self.floor <= 1
        return lowest or self.storage.now() - self._looked < TRUSTED

    def check(self) -> None:
        """Makes sure that no pin, made since the plan, holds versions that it deletes files of."""
        if not self.is_fresh:
            with self._lock:
                if not self.is_fresh:
                    self._look()

    def _look(self) -> None:
        now = self.storage.now()
        for pin in read_pins(self.storage):
            if self.floor is not None and pin.version < self.floor and pin.holds(now):
                what = "every batch" if pin.batch is None else f"batch {pin.batch}"
                raise Superseded(pin.path, f"pins {what}, which the plan does not keep")
        self._looked = now


@contextmanager
def superseded_if_missing(
    when: str = "the run was planned", *, only: str | None = None
) -> Iterator[None]:
    """Turns the error of a missing file, which existed at some time, into `Superseded`."""
    try:
        yield
    except NotFoundError as error:
        if only is not None and error.path != only:
            raise
        raise Superseded(error.path, f"existed when {when} and is missing") from error


def and_then(chunks: Chunks, before: Check) -> Iterator[bytes]:
    """Yields chunks, then calls `before`: a file appears in storage once its chunks have ended."""
    yield from chunks
    before()


def newest_commit(storage: Storage) -> Entry | None:
    commits = committed_batches(storage)
    return commits[max(commits)] if commits else None


def committed_batches(storage: Storage) -> dict[int, Entry]:
    batches = ((batch_in(entry.path, "commits"), entry) for entry in storage.list("commits"))
    return {batch: entry for batch, entry in batches if batch >= 0}


class SharedLook:
    """Looks at one file; threads that wait for each other share a look that began after all."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._begun = self._answered = 0
        self._entry: Entry | None = None

    def at(self, storage: Storage, path: str, *, first: Check = nothing) -> Entry:
        begun = self._begun
        with self._lock:
            if self._entry is None or self._answered <= begun:
                self._begun += 1
                first()
                self._entry = storage.stat(path)
                self._answered = self._begun
            return self._entry


def must_stand(
    storage: Storage,
    commit: Entry | None,
    store: Store | None = None,
    look: SharedLook | None = None,
    *,
    first: Check = nothing,
) -> None:
    """Makes sure that the query was not rewound since a run was planned; one request.

    A rewound query writes files again under names that the plan deletes. If the query has advanced
    so far that it removed the entry itself, the store's log decides. Threads share the look at the
    entry by `look`, and `first`, a check that precedes it.
    """
    if commit is None:
        first()
        return
    try:
        current = (look or SharedLook()).at(storage, commit.path, first=first)
    except NotFoundError as error:
        if min(committed_batches(storage), default=-1) <= int(commit.name):
            why = "was removed after the run was planned: the query was rewound"
            raise Superseded(commit.path, why) from error
        if store is not None:
            _must_be_the_same_log(storage, store, version_of(int(commit.name)))
        return
    if current != commit:
        raise Superseded(
            commit.path, "was written again after the run was planned: the query was rewound"
        )


def _must_be_the_same_log(storage: Storage, planned: Store, target: int) -> None:
    """Makes sure that no file of a store's log up to a version was written since planning."""
    why = "was written after the run was planned: the query was rewound"
    entries = {file.entry.path: file.entry for file in planned.files}
    stores = scan(storage, lambda store_id: store_id == planned.id).stores
    if not any(store.files for store in stores):
        raise Superseded(planned.id.directory, "no longer exists")
    for store in stores:
        for file in store.files:
            path = file.entry.path
            logged = isinstance(file, Delta) or path in entries
            if not isinstance(file, Delta | Snapshot) or file.version > target or not logged:
                continue
            if entries.get(path) != file.entry:
                raise Superseded(path, why)
        _must_count(planned, store, target)


def _must_count(planned: Store, store: Store, target: int) -> None:
    # Unique ids that count now must have counted then, as far as both are known; without any, it
    # is unknown which attempts are dead.
    if planned.rocks is None or store.rocks is None:
        return
    then = {version: uid for version, uid in planned.rocks.ids.items() if version <= target}
    both = then.keys() & store.rocks.ids.keys()
    for version in sorted(both):
        if then[version] != store.rocks.ids[version]:
            why = "counted when the run was planned and no longer does: the query was rewound"
            raise Superseded(f"{planned.id.directory}/{version}_{then[version]}", why)
    if not both and any(
        isinstance(file, Delta | Snapshot)
        and file.version <= target
        and not planned.rocks.counts(file)
        for file in planned.files
    ):
        raise Superseded(planned.id.directory, "no commit records any longer which attempts count")


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
        inside = (entry for entry in self.storage.list(folder) if _folder(entry.path) == folder)
        ranked = [(rank, entry.path) for entry in inside if (rank := _rank(entry))]
        if ranked:
            return max(ranked)[1]
        commit = newest_commit(self.storage)
        return commit.path if commit else None


def _folder(path: str) -> str:
    folder = path.rpartition("/")[0]
    above, _, name = folder.rpartition("/")
    return above if name in _SHARED else folder


def _rank(entry: Entry) -> tuple[bool, int] | None:
    # Changes and log entries rank above snapshots, newer ones above older.
    if entry.name.isdecimal():
        return True, int(entry.name)
    match classify_any(entry):
        case Delta(version=version):
            return True, version
        case Snapshot(version=version):
            return False, version
        case _:
            return None
