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

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any
from uuid import uuid4

from tests.certify.executors import Executor, Held
from tests.certify.files import Item, Row, encode, lineage_of, spot
from tests.certify.loading import Loader
from tests.certify.query import Attempt, Query
from tests.certify.rocks_files import (
    LineageLoader,
    RocksLoader,
    Zipped,
    render,
    snapshot,
    tables_of,
    unzipped,
)
from tests.certify.world import World
from tests.support.checkpoints import offsets_bytes
from tests.support.rocks import PROVIDER, commit_bytes

_KEYS = [b"key-%d" % number for number in range(3)]
_VALUES = [b"value-%d" % number for number in range(5)]
# Whoever has never been seen to wait longer has uploaded before so many versions are over.
LEAST_QUIET = 20


def committed_id(world: World, store: str, version: int) -> str | None:
    """Returns the id of the attempt that a commit names."""
    file = world.files.get(f"commits/{version - 1}")
    if file is None:
        return None
    operator, partition = store.split("/")[1:3]
    ids = _ids(file.content).get(operator, ())
    return ids[int(partition)] if int(partition) < len(ids) else None


@lru_cache(maxsize=1 << 12)
def _ids(commit: bytes) -> dict[str, tuple[str, ...]]:
    fields = json.loads(commit.partition(b"\n")[2]).get("stateUniqueIds", {})
    return {operator: tuple(str(one[0]) for one in ids) for operator, ids in fields.items()}


@dataclass(slots=True)
class RocksQuery(Query):
    """The query, and what is true of it.

    Attributes:
        executors: of each store.
        held: the snapshots that somebody has and nobody has seen.
        gaps: of each store, the widest gap between two uploads that maintenance has noted.
        watched: whether maintenance was ever here.
        purged: the oldest version that the executors' clean-up has left.
        chosen: what clean-ups that began earlier are going to delete, and would without us.
        theirs: the zips of executors, by path.
        attempts: the id of the attempt that each store's running task is.
        counted: of each store and version, the id that was committed.
    """

    executors: dict[str, Executor] = field(default_factory=dict)
    waiting: list[Held] = field(default_factory=list)
    gaps: dict[str, int] = field(default_factory=dict)
    watched: bool = False
    purged: int = 0
    chosen: list[tuple[str, int, list[str], frozenset[str]]] = field(default_factory=list)
    theirs: dict[str, bytes] = field(default_factory=dict)
    attempts: dict[str, str | None] = field(default_factory=dict)
    counted: dict[tuple[str, int], str | None] = field(default_factory=dict)

    def _loader(self) -> Loader:
        kind = LineageLoader if self.habits.ids else RocksLoader
        return kind(self.world, self.states, ("changelog", "zip"))

    def _offsets(self, planned: int) -> bytes:
        conf = {"providerClass": PROVIDER, **self._conf}
        return offsets_bytes(conf, codec=self.habits.codec, planned=planned)

    @property
    def required(self) -> int:
        """Returns the oldest version that a restart could ask for: executors keep one less."""
        first = min(self.world.index.commits, default=0) + 1
        return max(first, min(self.purged, self.target))

    # -- batches

    def _start(self) -> bool:
        if self.running:
            return True
        if not Query._start(self):
            return False
        self.running = True
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
        return Executor(
            base, one.version if one else 0, target, self._lineage(directory, read.paths)
        )

    def _lineage(self, directory: str, changes: tuple[str, ...]) -> tuple[Item, ...]:
        if not self.habits.ids:
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

    def _changes(self, number: int) -> list[list[Row]]:
        """Returns what a batch does to each key that it touches; few values, for few databases."""
        known = self.states.known[number]
        touched = self.random.sample(_KEYS, self.random.randrange(3))
        return [[(key, self._value(key in known))] for key in touched]

    def _value(self, known: bool) -> bytes | None:  # noqa: FBT001
        removes = known and self.random.random() < 0.25
        return None if removes else self.random.choice(_VALUES)

    def task(self, directory: str) -> None:
        """Writes a store's changes as far as their temp file."""
        if self.batch is None or self.pending is None or directory in self.tasks:
            return
        version, rows = self.batch + 1, [row for few in self.pending[1][directory] for row in few]
        unique = str(uuid4()) if self.habits.ids else None
        lineage = self.executors[directory].lineage if self.habits.ids else None
        content = encode(rows, self.habits.codec, lineage)
        name = f"{version}_{unique}.changelog" if unique else f"{version}.changelog"
        self.tasks[directory] = self._attempt(directory, name, content)

    def rename(self, directory: str) -> None:
        """Gives a store's changes their name; the executor may make a snapshot of them."""
        attempt = self.tasks.get(directory)
        Query.rename(self, directory)
        if attempt and directory in self.done and directory not in self.attempts:
            one = spot(f"{directory}/{attempt.name}")
            assert one
            self.attempts[directory] = one.id
            executor = self.executors[directory]
            if one.id:
                executor.lineage = (*executor.lineage, (one.version, one.id))
            if self.habits.in_executor and one.version - executor.last >= self.habits.every:
                self.snapshot(directory)

    def _commit(self, batch: int) -> bytes:
        for directory, unique in self.attempts.items():
            self.counted[directory, batch + 1] = unique
        ids: dict[str, list[list[str]]] = defaultdict(list)
        for directory, unique in sorted(self.attempts.items()):  # no query has ten partitions
            ids[directory.split("/")[1]].append([str(unique)])
        self.attempts = {}
        return commit_bytes(ids) if self.habits.ids else commit_bytes()

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
        """Ends the query and all that belongs to it."""
        Query.stop(self)
        self.waiting.clear()
        self.chosen.clear()

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

    def seen(self) -> dict[str, int]:
        """Returns how far apart executors upload, by what maintenance can see now."""
        self.watched = True
        found = {}
        for directory in self.habits.stores:
            live = self.world.index.live[directory].items()
            versions = sorted({one.version for path, one in live if self._is_theirs(path)})
            found[directory] = max((high - low for low, high in pairwise(versions)), default=0)
            if len(versions) == 1 and directory not in self.gaps:  # what was before, nobody knows
                found[directory] = min(versions[0], 500)
        return found

    def known(self) -> frozenset[str]:
        """Returns the directories where an executor's snapshot lies, or has been noted."""
        live = {one: self.world.index.live[one] for one in self.habits.stores}
        there = {one for one, paths in live.items() if any(map(self._is_theirs, paths))}
        return frozenset(there | {one for one, widest in self.gaps.items() if widest})

    def noted(self, gaps: dict[str, int]) -> None:
        """Tells that a run which has seen some gaps has come to its end, and so noted them."""
        for directory, widest in gaps.items():
            self.gaps[directory] = max(widest, self.gaps.get(directory, 0))

    def _is_theirs(self, path: str) -> bool:
        file = self.world.files.get(path)
        return file is not None and self.theirs.get(path) == file.content

    def snapshot(self, directory: str) -> bool:
        """Makes a snapshot of the newest version in memory; it is uploaded later."""
        executor, version = self.executors.get(directory), self.loaded.get(directory)
        if executor is None or version is None or not executor.alive or self.misled:
            return False
        state = self.states.known[self.memory(directory, version)]
        image = snapshot(executor.base, state)
        stored = self._names(executor.base, image.tables)
        unique = next((one for at, one in executor.lineage if at == version), None)
        name = f"{version}_{unique}.zip" if unique else f"{version}.zip"
        folder = f"{directory}/SSTs/"
        old = set(executor.base.stored.values()) if executor.base else set[str]()
        held = Held(
            directory, version, f"{directory}/{name}", render(image, stored),
            {folder + stored[one]: image.tables[one] for one in stored if stored[one] not in old},
            frozenset(folder + one for one in stored.values() if one in old),
            executor.begun, Zipped(image, stored), executor,
        )  # fmt: skip
        self.waiting = [one for one in self.waiting if one.owner is not executor]
        self.waiting.append(held)
        executor.last = version
        return True

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
        return Query.land(self, number)

    def _land(self, attempt: Attempt) -> bool:
        return Query._land(self, attempt)

    def _upload(self, held: Held) -> None:
        for path, content in held.new.items():
            self.world.change({path: content})
        self.theirs[held.path] = held.zip
        self.world.change({held.path: held.zip})
        executor = held.owner
        executor.base, executor.begun = held.zipped, held.version
        executor.lineage = tuple(one for one in executor.lineage if one[0] >= held.version)

    def cleanup(self, directory: str, *, late: bool = False) -> bool:
        """Mirrors `deleteOldVersions`; where it is `late`, it only chooses, and deletes later."""
        least, paths = self._old(directory)
        if not paths:
            return False
        alone = frozenset(self._old(directory, alone=True)[1])
        if late:
            self.chosen.append((directory, least, paths, alone))
            return False
        return self._clean(directory, least, paths, alone)

    def clean_late(self, number: int) -> bool:
        """Lets a clean-up that began earlier delete what it has chosen."""
        if not self.chosen:
            return False
        return self._clean(*self.chosen.pop(number % len(self.chosen)))

    def _clean(self, directory: str, least: int, paths: list[str], alone: frozenset[str]) -> bool:
        """Deletes, but for what would harm without us too: what a snapshot of theirs needs.

        Args:
            directory: of the store.
            least: the version of the oldest zip that stays.
            paths: what goes.
            alone: what would go without the zips of ours, but for those that were written before
                any executor had uploaded one: of those to come nobody knows.
        """
        harm = self._needed(directory, paths) & set(paths)
        if harm & alone or not self._counts(directory, least) or least > self.target:
            return False
        self.purged = max(self.purged, least)
        for path in paths:
            if path in self.world.files:
                self.world.change({path: None})
        return True

    def _needed(self, directory: str, paths: list[str]) -> set[str]:
        """Returns the tables that something of an executor's needs, uploaded or not."""
        folder = f"{directory}/SSTs/"
        bases = (one.base for one in self.executors.values() if one.base and one.alive)
        found = {folder + name for base in bases for name in base.stored.values()}
        for path in self.world.index.live[directory]:
            if self._is_theirs(path) and path not in paths:  # one may have been uploaded again
                content = self.world.files[path].content
                found |= {folder + name for name in tables_of(content)}
        found |= {path for one in self.waiting for path in (*one.old, *one.new)}
        return found

    def _old(self, directory: str, *, alone: bool = False) -> tuple[int, list[str]]:
        live, files = self.world.index.live[directory], self.world.files
        zips = {
            path: one.version
            for path, one in live.items()
            if one.kind == "snapshot"
            and (not alone or self._is_theirs(path) or self._is_blind(path))
        }
        newest = max(zips.values(), default=0)
        retained = newest - self.habits.retain + 1
        least = max((one for one in zips.values() if one <= retained), default=0)
        gone = sorted(path for path, one in zips.items() if one < least)
        if not gone:
            return 0, []
        folder = f"{directory}/SSTs/"
        uses = {path: {folder + one for one in tables_of(files[path].content)} for path in zips}
        kept = {one for path, few in uses.items() if path not in gone for one in few}
        tables = {one for path in gone for one in uses[path]} - kept
        tables |= set(self._orphans(folder, {one for few in uses.values() for one in few}))
        old = sorted(
            path for path, one in live.items() if one.kind == "delta" and one.version < least
        )
        return least, [*sorted(tables), *gone, *old]

    def _is_blind(self, path: str) -> bool:
        return self.world.blind.get(path) == self.world.files[path].content

    def _orphans(self, folder: str, tracked: set[str]) -> Iterator[str]:
        files = self.world.files
        there = [path for path in self.world.index.under(folder) if path.endswith(".sst")]
        oldest = min((files[one].modified for one in tracked if one in files), default=None)
        if oldest is not None and len(there) > len(tracked):
            yield from (path for path in there if files[path].modified < oldest)

    def _counts(self, directory: str, version: int) -> bool:
        """Returns whether a zip of what was committed is there."""
        unique = self.counted.get((directory, version))
        name = f"{version}_{unique}.zip" if unique else f"{version}.zip"
        return f"{directory}/{name}" in self.world.files
