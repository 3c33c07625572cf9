"""A model of a live query whose state RocksDB keeps, with changelogs (`formats.md`, section 5).

executor    has a database on its local disk, which came from the newest zip that it loaded; makes
            a snapshot every few versions, or every few hundred, holds it for a while, and uploads
            it late: new tables, and a zip that also names tables of the zip it had begun from
restart     another executor; what the one before held may be uploaded all the same, and the new
            one may upload the same version again, with other tables
clean-up    of the executors, by Spark's rule; what it has chosen it may delete much later
structure   V1: names are versions; V2: every attempt has an id, and the commit log names one

Executors of one habit keep to it: nobody holds a snapshot, or what it was begun from, for longer
than maintenance may expect of what it has seen of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from uuid import uuid4

from tests.certify.commits import commit_entry, committed_id
from tests.certify.executors import Commit, Executor, Held
from tests.certify.files import Item, Row, encode, lineage_of, spot
from tests.certify.loading import Loader
from tests.certify.query import Attempt, Query
from tests.certify.rocks_cleanup import Cleaner
from tests.certify.rocks_files import Zipped, render, snapshot, tables_of, unzipped
from tests.certify.rocks_loading import LineageLoader, RocksLoader, leads_to
from tests.certify.rows import row_of
from tests.support.checkpoints import offsets_bytes

_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_MOST_KEYS = 3
_VALUES = [row_of(b"value-%d" % number, rocks=True) for number in range(5)]
# Whoever has never been seen to wait longer has uploaded before so many versions are over.
LEAST_QUIET = 20


@dataclass(slots=True)
class RocksQuery(Query):
    """The query, and what is true of it.

    Attributes:
        executors: of each store.
        held: the snapshots that somebody has and nobody has seen.
        gaps: of each store, the widest gap between two uploads that maintenance has noted.
        watched: whether maintenance was ever here.
        cleaner: the executors' clean-up.
        theirs: the zips of executors, by path.
        synchronous: those of them that a commit had to upload.
        changelogs: whether commits write changelogs; else each uploads a zip.
        ids: whether attempts have unique ids.
        copied: whether somebody has put zips there by hand.
        attempts: the id of the attempt that each store's running task is.
        counted: of each store and version, the id that was committed.
    """

    executors: dict[str, Executor] = field(default_factory=dict)
    waiting: list[Held] = field(default_factory=list)
    gaps: dict[str, int] = field(default_factory=dict)
    watched: bool = False
    cleaner: Cleaner = field(init=False)
    theirs: dict[str, bytes] = field(default_factory=dict)
    synchronous: set[str] = field(default_factory=set)
    changelogs: bool = True
    ids: bool = field(init=False)
    copied: bool = False
    attempts: dict[str, str | None] = field(default_factory=dict)
    counted: dict[tuple[str, int], str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Query.__post_init__(self)
        self.cleaner = Cleaner(self)
        self.ids = self.habits.ids

    def _loader(self) -> Loader:
        kind = LineageLoader if self.habits.ids else RocksLoader
        return kind(self.world, self.states)

    def _offsets(self, planned: int) -> bytes:
        conf = {"providerClass": _PROVIDER, **self._conf}
        return offsets_bytes(conf, codec=self.habits.codec, planned=planned)

    @property
    def required(self) -> int:
        """Returns the oldest version that a restart could ask for: executors keep one less."""
        first = min(self.world.index.commits, default=0) + 1
        return max(first, min(self.cleaner.purged, self.target))

    # -- batches

    def _start(self) -> bool:
        if self.running:
            return True
        if not Query._start(self):
            return False
        self.running = True
        newest = committed_id(self.world, self.habits.stores[0], self.target)
        self.ids = self.habits.ids if newest is None else newest != ""  # as the log began
        for directory in self.habits.stores:
            self.executors[directory] = self._loaded(directory)
        return True

    def _loaded(self, directory: str) -> Executor:
        target = self.target
        if not target:
            return Executor()
        read = self.loader.load(directory, [target])[target]
        base = self._zipped(read.base) if read.base else None
        one = spot(read.base) if read.base else None
        version = one.version if one else 0
        lineage = self._lineage(directory, read.paths)
        return Executor(base, version, target, lineage, path=read.base)

    def _lineage(self, directory: str, changes: tuple[str, ...]) -> tuple[Item, ...]:
        if not self.ids:
            return ()
        mine = (self.target, committed_id(self.world, directory, self.target) or "")
        if not changes:
            return (mine,)
        return (*lineage_of(self.world.files[changes[-1]].content, self.habits.codec), mine)

    def _zipped(self, path: str) -> Zipped | None:
        content = self.world.files[path].content
        folder = f"{path.rpartition('/')[0]}/SSTs/"
        tables = {one: self.world.files.get(folder + one) for one in tables_of(content)}
        return unzipped(
            content, {one: file.content if file else None for one, file in tables.items()}
        )

    def _changes(self, directory: str, number: int) -> list[list[Row]]:
        """Returns what a batch does to each key that it touches; few values, for few databases."""
        known = self.states.known[number]
        keys = self.keys(directory, _MOST_KEYS)
        touched = self.random.sample(keys, self.random.randrange(3))
        return [[(key, self._value(key in known))] for key in touched]

    def _value(self, known: bool) -> bytes | None:  # noqa: FBT001
        removes = known and self.random.random() < 0.25
        return None if removes else self.random.choice(_VALUES)

    def task(self, directory: str) -> None:
        """Writes a store's changes as far as their temp file."""
        if self.batch is None or self.pending is None or directory in self.tasks:
            return
        version, executor = self.batch + 1, self.executors[directory]
        unique = str(uuid4()) if self.ids else None
        stem = f"{version}_{unique}" if unique else str(version)
        uploads = executor.forced or not self.changelogs
        held = self._held(directory, f"{stem}.zip", version) if uploads else None
        if not self.changelogs:
            self.tasks[directory] = Commit(directory, f"{stem}.zip", b"", None, held, logged=False)
            return
        content = self._encoded(directory, executor.lineage if unique else None)
        made = self._attempt(directory, f"{stem}.changelog", content)
        self.tasks[directory] = Commit(directory, made.name, content, made.temp, held)

    def _encoded(self, directory: str, lineage: tuple[Item, ...] | None) -> bytes:
        assert self.pending
        rows = [row for few in self.pending[1][directory] for row in few]
        return encode(rows, self.habits.codec, lineage)

    def rename(self, directory: str) -> None:
        """Gives a store's changes their name; the executor may make a snapshot of them."""
        attempt = self.tasks.get(directory)
        Query.rename(self, directory)
        if not isinstance(attempt, Commit) or directory not in self.done:
            return
        one = spot(f"{directory}/{attempt.name}")
        assert one
        executor, again = self.executors[directory], directory in self.attempts
        if not again:
            self.attempts[directory] = one.id
            if one.id:
                executor.lineage = (*executor.lineage, (one.version, one.id))
        if attempt.held and not (again and one.id):
            executor.last = one.version
            self._goes_on_from(attempt.held)
        elif again:
            return
        elif self.habits.in_executor and one.version - executor.last >= self.habits.every:
            self.snapshot(directory)

    def abort(self, directory: str, *, tidy: bool) -> None:
        """Lets a task die before its rename; a snapshot that it had to upload may be there."""
        attempt = self.tasks.get(directory)
        Query.abort(self, directory, tidy=tidy)
        if isinstance(attempt, Commit) and attempt.held and not tidy:
            self._put(attempt.held)
            self._note_synchronous(attempt)

    def _commit(self, batch: int) -> bytes:
        for directory, unique in self.attempts.items():
            self.counted[directory, batch + 1] = unique
        ids = {one: str(unique) for one, unique in self.attempts.items()}
        self.attempts = {}
        return commit_entry(ids if self.ids else None)

    @property
    def rocks(self) -> RocksLoader:
        assert isinstance(self.loader, RocksLoader)
        return self.loader

    def by_ids(self) -> None:
        """From now on the commit log says which versions have unique ids."""
        loader = self.rocks
        self.loader = LineageLoader(
            self.world, self.states, families=loader.families, named=loader.named
        )

    def commit(self) -> bool:
        """Ends the batch if all its tasks are done."""
        if not Query.commit(self):
            return False
        for directory, executor in self.executors.items():
            if executor.base and self.target - executor.begun >= self._allowed(directory) - 1:
                executor.alive = False  # it never uploads again
        self.waiting = [one for one in self.waiting if self._in_time(one)]
        if self.waiting and self.random.random() < 0.3:
            self._upload(self.waiting.pop(0))
        return True

    def kill(self) -> None:
        """Kills the query; its running tasks and what its executors hold may come late."""
        Query.kill(self)
        self.attempts = {}
        self.executors.clear()

    def stop(self) -> None:
        Query.stop(self)
        self.waiting.clear()
        self.cleaner.chosen.clear()

    # -- maintenance in the executors

    def _allowed(self, directory: str) -> int:
        """Returns how long maintenance waits for an executor; before it first came, for ever."""
        widest = self.gaps.get(directory, 0)
        return max(LEAST_QUIET, 2 * widest) if self.watched else 1 << 60

    def _in_time(self, held: Held) -> bool:
        return not held.old or self.target - held.begun < self._allowed(held.directory) - 1

    def memories(self) -> dict[str, Any]:
        """Returns what is true of each version now, and which attempt at it counts."""
        return {**Query.memories(self), "counted": dict(self.counted)}

    def remember(self, memory: dict[str, Any]) -> None:
        """Comes back to what was true at another time."""
        Query.remember(self, memory)
        self.counted = dict(memory["counted"])

    @property
    def alone(self) -> bool:
        """Returns whether executors have written no snapshot but those that they had to."""
        by_hand = self.habits.in_executor or self.copied
        return not by_hand and self.synchronous.issuperset(self.theirs)

    def is_named(self, directory: str, version: int) -> bool:
        """Returns whether a commit, or a lineage, names the attempt that counts at a version."""
        unique = self.counted.get((directory, version))
        if version - 1 in self.world.index.commits:
            return True
        if unique is None:
            return not self.ids  # else no commit says that it has none
        commits = sorted(self.world.index.commits)
        named = [(one + 1, self.counted.get((directory, one + 1)) or "") for one in commits]
        return leads_to(self.world, directory, named, (version, unique), self.habits.codec)

    def seen(self) -> dict[str, int]:
        """Returns how far apart executors upload, by what maintenance can see now."""
        self.watched = True
        found = {}
        for directory in self.habits.stores:
            live = self.world.index.live[directory].items()
            versions = sorted({one.version for path, one in live if self._is_habit(path)})
            found[directory] = max((high - low for low, high in pairwise(versions)), default=0)
            if len(versions) == 1 and directory not in self.gaps:  # what was before, nobody knows
                found[directory] = min(versions[0], 500)
        return found

    def known(self) -> frozenset[str]:
        """Returns the directories where an executor's snapshot lies, or has been noted."""
        live = {one: self.world.index.live[one] for one in self.habits.stores}
        there = {one for one, paths in live.items() if any(map(self._is_habit, paths))}
        return frozenset(there | {one for one, widest in self.gaps.items() if widest})

    def noted(self, gaps: dict[str, int]) -> None:
        """Tells that a run which has seen some gaps has come to its end, and so noted them."""
        for directory, widest in gaps.items():
            self.gaps[directory] = max(widest, self.gaps.get(directory, 0))

    def _is_habit(self, path: str) -> bool:
        """Returns whether an executor has uploaded a zip in the background, and may do so again."""
        return path not in self.synchronous and self.is_theirs(path)

    def is_theirs(self, path: str) -> bool:
        """Returns whether a zip is an executor's."""
        file = self.world.files.get(path)
        return file is not None and self.theirs.get(path) == file.content

    def snapshot(self, directory: str) -> bool:
        """Makes a snapshot of the newest version in memory; it is uploaded later."""
        executor, version = self.executors.get(directory), self.loaded.get(directory)
        if executor is None or version is None or not executor.alive or self.misled:
            return False
        if not self.changelogs:  # then a commit uploads, and nobody else
            return False
        unique = next((one for at, one in executor.lineage if at == version), None)
        name = f"{version}_{unique}.zip" if unique else f"{version}.zip"
        held = self._held(directory, name, version)
        self.waiting = [one for one in self.waiting if one.owner is not executor]
        self.waiting.append(held)
        executor.last = version
        return True

    def _held(self, directory: str, name: str, version: int) -> Held:
        executor = self.executors[directory]
        state = self.states.known[self.memory(directory, version)]
        image = snapshot(executor.base, state)
        stored, folder = self._names(executor.base, image.tables), f"{directory}/SSTs/"
        old = set(executor.base.stored.values()) if executor.base else set[str]()
        return Held(
            directory, version, f"{directory}/{name}", render(image, stored, executor.families),
            {folder + stored[one]: image.tables[one] for one in stored if stored[one] not in old},
            frozenset(folder + one for one in stored.values() if one in old),
            executor.begun, Zipped(image, stored), executor,
        )  # fmt: skip

    def again(self, directory: str) -> bool:
        """Uploads the version that a new executor has loaded, whoever has uploaded it before."""
        if self.held or self.batch is not None or not self.target or not self._start():
            return False
        self.loaded[directory] = self.target
        made = self.snapshot(directory)
        if made:
            self._upload(self.waiting.pop())
        return made

    @staticmethod
    def _names(base: Zipped | None, tables: Mapping[str, bytes]) -> dict[str, str]:
        def name(local: str) -> str:
            kept = base and base.image.tables.get(local) == tables[local]
            return base.stored[local] if base and kept else f"{local[:-4]}-{uuid4()}.sst"

        return {local: name(local) for local in tables}

    def land(self, number: int) -> bool:
        """Lets something late come: a changelog to its rename, or a snapshot to its upload."""
        if self.waiting and (number < 0 or number % 2 or not self.late):
            held = self.waiting.pop(number % len(self.waiting))
            if self._in_time(held):
                self._upload(held)
                return True
            return False
        late = self.late[number % len(self.late)] if self.late else None
        if isinstance(late, Commit) and not self.ids:
            late.held = None  # what it names again would be other tables: Spark is no better off
        return Query.land(self, number)

    def _land(self, attempt: Attempt) -> bool:
        if not isinstance(attempt, Commit):
            return Query._land(self, attempt)
        if attempt.held:
            self._put(attempt.held)
            self._note_synchronous(attempt)
        return Query._land(self, attempt) if attempt.logged else attempt.held is not None

    def _note_synchronous(self, attempt: Commit) -> None:
        if attempt.held and attempt.logged:
            self.synchronous.add(attempt.held.path)

    def _put(self, held: Held) -> None:
        for path, content in held.new.items():
            self.world.change({path: content})
        self.theirs[held.path] = held.zip
        self.world.change({held.path: held.zip})

    def _upload(self, held: Held) -> None:
        self.synchronous.discard(held.path)
        self._put(held)
        self._goes_on_from(held)

    @staticmethod
    def _goes_on_from(held: Held) -> None:
        executor = held.owner
        executor.base, executor.begun = held.zipped, held.version
        executor.lineage = tuple(one for one in executor.lineage if one[0] >= held.version)

    def cleanup(self, directory: str, *, late: bool = False) -> bool:
        """Mirrors `deleteOldVersions`; where it is `late`, it only chooses, and deletes later."""
        return self.cleaner.cleanup(directory, late=late)

    def clean_late(self, number: int) -> bool:
        """Lets a clean-up that began earlier delete what it has chosen."""
        return self.cleaner.clean_late(number)
