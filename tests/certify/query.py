"""A model of a live query, as Spark's HDFS-backed provider behaves (`formats.md`, sections 1 to 4).

What it knows beside its files is the truth: the state of every version of every store.

batch       purge the logs, write offsets/b; each store's task writes b+1.delta by temp file and
            rename; write commits/b
attempt     a task may die before its rename, be run again with its rows in another order, or come
            to its rename much later (a zombie): other bytes, equal meaning
restart     the query begins where its log ends, whoever has cut that; the batch after it is new
            unless it was begun before, or its input is the same as at the first time
maintenance of the executors: the newest version's snapshot from memory, deletion by Spark's rule
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.certify.files import Row, applied, encode, spark_checksum, split
from tests.certify.habits import Habits
from tests.certify.hdfs_rules import files_for, hadoop
from tests.certify.loading import EMPTY, Loader, States
from tests.certify.operators import METADATA_SINCE, declare, partitions
from tests.certify.rows import keys_of, row_of
from tests.certify.world import World
from tests.support.checkpoints import COMMIT, offsets_bytes

_ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
_ROW_CHECKSUMS = "spark.sql.streaming.stateStore.rowChecksum.enabled"
_PLANNED = 1_700_000_000_000
_STRICT = "spark.sql.streaming.statefulOperator.useStrictDistribution"
_SINCE_3_5 = "spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan"
_MOST_KEYS = 4


@dataclass(slots=True)
class Attempt:
    """A file that is written but does not have its name yet."""

    directory: str
    name: str
    content: bytes
    temp: str | None


@dataclass(frozen=True, slots=True)
class Truth:
    """What is true of one version: the state of each store, and the families of those that have."""

    version: int
    states: dict[str, int]
    families: dict[tuple[str, int], Any]


Changes = dict[str, list[list[Row]]]


@dataclass(slots=True)
class Query:
    """The query, and what is true of it.

    Attributes:
        truth: the number of each version's true state, of each store.
        inputs: what each batch has done, the last time that it ran.
        same: until which batch the input is what it was the last time.
        pending: the batch that was begun and not committed, and what it does.
        plans: what each entry of the offset log says that its batch does.
        held: whether somebody keeps it from starting.
        running: whether it has loaded its state.
        misled: whether it has loaded a state that is not true.
        lines: how many batches have begun to be true, the repeated ones too.
        landed: the numbers of the changes that its tasks have put in place, by path.
        left: the folders of operators that it no longer has, and since when.
        after: what was true after each batch, by its entry in the offset log.
    """

    world: World
    habits: Habits
    random: Random
    states: States = field(init=False)
    loader: Loader = field(init=False)
    truth: dict[str, list[int]] = field(default_factory=dict)
    inputs: dict[int, Changes] = field(default_factory=dict)
    same: int = -1
    pending: tuple[int, Changes] | None = None
    plans: dict[bytes, Changes] = field(default_factory=dict)
    batch: int | None = None
    tasks: dict[str, Attempt] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    late: list[Attempt] = field(default_factory=list)
    loaded: dict[str, int] = field(default_factory=dict)
    held: bool = False
    running: bool = False
    misled: bool = False
    lines: int = 0
    landed: dict[str, int] = field(default_factory=dict)
    left: dict[str, float] = field(default_factory=dict)
    after: dict[bytes, Truth] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.states = States(self.habits.codec)
        self.loader = self._loader()
        self.truth = {one: [EMPTY] for one in self.habits.stores}
        self.world.change({"metadata": b'{"id":"11111111-2222-3333-4444-555555555555"}'})

    def _loader(self) -> Loader:
        return Loader(self.world, self.states)

    def _offsets(self, planned: int) -> bytes:
        return offsets_bytes(self._conf, codec=self.habits.codec, planned=planned)

    @property
    def _conf(self) -> dict[str, str]:
        """Returns the settings of the query that are not Spark's own."""
        always = {_STRICT: "true", _SINCE_3_5: "true"}
        if self.habits.spark is None:
            return {"shuffle.partitions": str(max(2, len(self.habits.stores))), **always}
        counts = map(len, partitions(self.habits.stores).values())
        later = {_ENCODING: "unsaferow"} if self.habits.spark >= METADATA_SINCE else {}
        if self.habits.ids:  # Spark 4.2: nothing but a zip shows 4.0's format of zips
            later[_ROW_CHECKSUMS] = "false"
        return {"shuffle.partitions": str(max(counts)), **always, **later}

    @property
    def knows_row_checksums(self) -> bool:
        return _ROW_CHECKSUMS in self._conf

    @property
    def partitions(self) -> int:
        """Returns how many partitions its offset log says that operators have."""
        return int(self._conf["shuffle.partitions"])

    def keys(self, directory: str, number: int = _MOST_KEYS) -> tuple[bytes, ...]:
        """Returns the keys that a store may have: those whose hash says that they are its."""
        partition = int(directory.split("/")[2])
        return keys_of(partition, self.partitions, number, rocks=self.habits.rocks)

    def row(self, content: bytes) -> bytes:
        return row_of(content, rocks=self.habits.rocks)

    def wrong(self, directory: str, said: bytes, codec: str | None = None) -> bytes:
        """Returns a file with a row that no batch has written."""
        row = self.keys(directory)[0], self.row(said)
        return encode([row], codec or self.habits.codec)

    @property
    def commits(self) -> list[int]:
        """Returns the batches in the commit log, ascending."""
        return sorted(self.world.index.commits)

    @property
    def target(self) -> int:
        """Returns the newest committed version, 0 when there is none."""
        return max(self.world.index.commits, default=-1) + 1

    @property
    def required(self) -> int:
        """Returns the oldest version that a restart could ask for."""
        return min(self.world.index.commits, default=0) + 1

    # -- a batch

    def begin(self) -> bool:
        """Begins the next batch, or the one that was cut short again; does nothing while it runs.

        Returns whether there is one now: a query whose state does not load does not start.
        """
        if self.batch is not None:
            return True
        if self.held or not self._start():
            return False
        self.batch = batch = self.target
        self._purge(batch - self.habits.retain)
        self.pending = batch, self._plan(batch)
        if not self.habits.families:
            declare(self.world, self.habits.stores, self.habits.spark)
        return True

    def _plan(self, batch: int) -> Changes:
        """Returns what a batch does: what its entry in the offset log says, if there is one."""
        path = f"offsets/{batch}"
        there = self.world.files.get(path)
        if there is None or there.content not in self.plans:
            content = self._offsets(_PLANNED + len(self.plans))
            mine = self.pending is not None and self.pending[0] == batch
            self.plans[content] = self.pending[1] if self.pending and mine else self._input(batch)
            self.world.change({path: content})
        return self.plans[self.world.files[path].content]

    def _start(self) -> bool:
        """Loads what is committed, unless that is in memory already."""
        target = self.target
        if self.running or not target:
            return True
        reads = [(one, self.loader.load(one, [target])[target]) for one in self.habits.stores]
        if any(read.state is None for _, read in reads):
            return False
        self.running = True
        self.misled = any(self._true(one, target) != read.state for one, read in reads)
        return True

    def _true(self, directory: str, version: int) -> int | None:
        truth = self.truth[directory]
        return truth[version] if version < len(truth) else None

    def _input(self, batch: int) -> Changes:
        if batch <= self.same and batch in self.inputs:
            return self.inputs[batch]
        return {one: self._changes(one, self.truth[one][batch]) for one in self.habits.stores}

    def _purge(self, below: int) -> None:
        old = [one for one in self.commits if one < below]
        for log in ("offsets", "commits"):
            for batch in old:
                self.world.change({f"{log}/{batch}": None})

    def _changes(self, directory: str, number: int) -> list[list[Row]]:
        state = self.states.known[number]
        touched = self.random.sample(self.keys(directory), self.random.randrange(4))
        return [self._of_key(key, known=key in state) for key in touched]

    def _of_key(self, key: bytes, *, known: bool) -> list[Row]:
        value: Row = (key, self.row(self.random.randbytes(8)))
        removal: Row = (key, None)
        if known and self.random.random() < 0.3:
            return [removal]
        return [value] if self.random.random() < 0.7 else [(key, self.row(bytes(8))), value]

    def task(self, directory: str) -> None:
        """Writes a store's changes as far as their temp file."""
        if self.batch is None or self.pending is None or directory in self.tasks:
            return
        groups = list(self.pending[1][directory])
        self.random.shuffle(groups)
        content = encode((row for group in groups for row in group), self.habits.codec)
        self.tasks[directory] = self._attempt(directory, f"{self.batch + 1}.delta", content)

    def _attempt(self, directory: str, name: str, content: bytes) -> Attempt:
        if not self.world.local:
            return Attempt(directory, name, content, None)
        temp = self.world.temp_of(f"{directory}/{name}")
        self.world.change({temp: content})
        return Attempt(directory, name, content, temp)

    def rename(self, directory: str) -> None:
        """Gives a store's changes their name: the task is done."""
        attempt = self.tasks.pop(directory, None)
        if attempt and self._land(attempt):
            self.done.add(directory)
            self.loaded[directory] = int(attempt.name.partition(".")[0].partition("_")[0])

    def _adopt(self) -> None:
        """From now on the begun batch is what follows, whatever there was at its version."""
        assert self.pending
        batch, changes = self.pending
        self.inputs[batch] = changes
        made = {one: self.memory(one, batch + 1) for one in changes}
        for directory, number in made.items():
            self.truth[directory][batch + 1 :] = [number]
        self.lines += 1

    def memory(self, directory: str, version: int) -> int:
        """Returns the state that an executor has of a version, the running batch's as well."""
        if self.pending is None or version != self.pending[0] + 1:
            return self.truth[directory][version]
        before = self.states.known[self.truth[directory][version - 1]]
        rows = [row for group in self.pending[1][directory] for row in group]
        return self.states.of(applied(before, rows))

    def _land(self, attempt: Attempt) -> bool:
        path = f"{attempt.directory}/{attempt.name}"
        if attempt.temp and attempt.temp not in self.world.files:
            return False  # somebody deleted it: the rename fails, the task is run again
        change: dict[str, bytes | None] = {path: attempt.content}
        if attempt.temp:
            change[attempt.temp] = None
        side = f"{attempt.directory}/.{attempt.name}.crc"
        if self.habits.side_files:
            change[side] = hadoop(attempt.content)
        elif side in self.world.files:
            change[side] = None  # left behind, and as Hadoop does it never of this file
        if self.habits.checksums:
            change[f"{path}.crc"] = spark_checksum(attempt.content)
        self.world.change(change)
        self.landed[path] = self.world.files[path].number
        return True

    def abort(self, directory: str, *, tidy: bool) -> None:
        """Lets a task die before its rename; unless tidy its temp file stays."""
        attempt = self.tasks.pop(directory, None)
        if attempt and attempt.temp and tidy:
            self.world.change({attempt.temp: None})

    def linger(self, directory: str) -> None:
        """Makes a zombie of a running task: another attempt takes its place."""
        if attempt := self.tasks.pop(directory, None):
            self.late.append(attempt)

    def land(self, number: int) -> bool:
        """Lets something late come to its rename."""
        if not self.late:
            return False
        return self._land(self.late.pop(number % len(self.late)))

    def commit(self) -> bool:
        """Ends the batch if all its tasks are done."""
        if self.batch is None or self.done != set(self.habits.stores):
            return False
        batch = self.batch
        self._adopt()
        if (planned := self.world.files.get(f"offsets/{batch}")) is not None:
            self.after[planned.content] = self._truth(batch + 1)
        self._rest()
        self.pending = None
        self.world.change({f"commits/{batch}": self._commit(batch)})
        return True

    def _truth(self, version: int) -> Truth:
        named = getattr(self.loader, "named", {})
        families = {one: named[one] for one in named if one[1] == version}
        states = {one: self.truth[one][version] for one in self.habits.stores}
        return Truth(version, states, families)

    def _commit(self, _: int) -> bytes:
        return COMMIT

    def _rest(self) -> None:
        self.batch, self.tasks = None, {}
        self.done.clear()

    def finish(self) -> bool:
        """Runs the current batch, or else the next, to its commit; returns whether it could."""
        if not self.begin():
            return False
        for directory in self.habits.stores:
            while directory not in self.done:
                self.task(directory)
                self.rename(directory)
        return self.commit()

    # -- the end of a run

    def kill(self) -> None:
        """Kills the query; its running tasks may live on for a while."""
        self.late += self.tasks.values()
        self.loaded.clear()
        self.running = False
        self._rest()

    def memories(self) -> dict[str, Any]:
        """Returns what is true of each version now, to come back to."""
        return {"truth": {store: list(states) for store, states in self.truth.items()}}

    def remember(self, memory: dict[str, Any]) -> None:
        """Comes back to what was true at another time."""
        self.truth.update({store: list(states) for store, states in memory["truth"].items()})

    def is_named(self, _directory: str, _version: int) -> bool:
        """Returns whether files tell which attempt at a version counts."""
        return True

    @property
    def alone(self) -> bool:
        """Returns whether executors have written no snapshot but those that they had to."""
        return False

    def seen(self) -> dict[str, int]:
        """Returns what maintenance can see by now of the executors' habits."""
        return {}

    def known(self) -> frozenset[str]:
        """Returns the directories where maintenance can see that executors upload."""
        return frozenset()

    def noted(self, gaps: dict[str, int]) -> None:
        """Tells what a run of maintenance that has come to its end had seen of them."""

    def stop(self) -> None:
        """Ends the query and all that belongs to it, as whoever changes its logs has to."""
        self.kill()
        self.late.clear()

    # -- maintenance in the executors

    def _entries(self, directory: str) -> dict[int, str]:
        """Mirrors `fetchFiles`: one entry for each version, where a snapshot hides a delta."""
        found = [one for name in self.world.store(directory) if (one := split(name))]
        return {version: kind for version, kind in sorted(found)}  # noqa: C416 -- the last one stays

    def snapshot(self, directory: str) -> bool:
        """Begins the snapshot of the newest version, from memory; it lands later."""
        entries = self._entries(directory)
        last = max(entries, default=0)
        files = files_for(entries, last)
        deltas = sum(1 for version in files or () if entries[version] == "delta")
        stale = self.misled or self.loaded.get(directory) != last
        if stale or deltas <= self.habits.min_deltas:
            return False
        content = encode(self.states.known[self.memory(directory, last)].items(), self.habits.codec)
        self.late.append(self._attempt(directory, f"{last}.snapshot", content))
        return True

    def cleanup(self, directory: str) -> bool:
        """Mirrors `cleanup`, which counts from the highest name.

        What a rewind has left above the log makes it delete versions that are retained, whoever
        wrote the snapshot that it keeps instead.
        """
        entries = self._entries(directory)
        begun = self.target if self.batch is None else self.batch + 1
        if max(entries, default=0) > begun:
            return False
        earliest = max(entries, default=0) - self.habits.retain
        files = files_for(entries, earliest) if earliest > 0 else None
        if not files:
            return False
        old = [version for version in entries if version < min(files)]
        for version in sorted(old):
            self._delete(directory, f"{version}.{entries[version]}")
        return bool(old)

    def _delete(self, directory: str, name: str) -> None:
        path = f"{directory}/{name}"
        beside = (f"{directory}/.{name}.crc", f"{path}.crc")
        found = [one for one in (path, *beside) if one in self.world.files]
        self.world.change(dict.fromkeys(found))
