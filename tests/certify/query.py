"""A model of a live query, as Spark's HDFS-backed provider behaves (`formats.md`, sections 1 to 4).

What it knows beside its files is the truth: the state of every version of every store.

batch       purge the logs, write offsets/b; each store's task writes b+1.delta by temp file and
            rename; write commits/b
attempt     a task may die before its rename, be run again with its rows in another order, or come
            to its rename much later (a zombie): other bytes, equal meaning
restart     the batch after the last committed one runs again with the same changes
rewind      an operator removes commits, offsets and snapshots above a retained batch; other changes
            follow
maintenance of the executors: the newest version's snapshot from memory, deletion by Spark's rule
"""

import zlib
from dataclasses import dataclass, field
from random import Random

from tests.certify.files import Row, State, encode, spark_checksum, split
from tests.certify.world import World
from tests.support.checkpoints import COMMIT, offsets_bytes

_OFFSETS = offsets_bytes()
_KEYS = [f"key-{number}".encode() for number in range(4)]


@dataclass(frozen=True, slots=True)
class Habits:
    """How a query is set up.

    Attributes:
        stores: their directories.
        min_deltas: Spark's `minDeltasForSnapshot`.
        retain: Spark's `minBatchesToRetain`, for state and logs.
        in_executor: whether its executors maintain the state too.
        side_files: whether Hadoop writes `.NAME.crc` beside each file.
        checksums: whether Spark 4.1 writes `NAME.crc` beside each file.
    """

    stores: tuple[str, ...] = ("state/0/0",)
    min_deltas: int = 2
    retain: int = 2
    in_executor: bool = False
    side_files: bool = False
    checksums: bool = False


@dataclass(slots=True)
class Attempt:
    """A file that is written but does not have its name yet."""

    directory: str
    name: str
    content: bytes
    temp: str | None


@dataclass(slots=True)
class Query:
    """The query, and what is true of it."""

    world: World
    habits: Habits
    random: Random
    truth: dict[str, list[State]] = field(default_factory=dict)
    changes: dict[str, list[list[Row]]] = field(default_factory=dict)
    commits: list[int] = field(default_factory=list)
    batch: int | None = None
    tasks: dict[str, Attempt] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    late: list[Attempt] = field(default_factory=list)
    loaded: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.truth = {one: [{}] for one in self.habits.stores}
        self.world.change({"metadata": b'{"id":"11111111-2222-3333-4444-555555555555"}'})

    @property
    def target(self) -> int:
        """Returns the newest committed version, 0 when there is none."""
        return self.commits[-1] + 1 if self.commits else 0

    @property
    def required(self) -> int:
        """Returns the oldest version that a restart could ask for."""
        return self.commits[0] + 1 if self.commits else 1

    # -- a batch

    def begin(self) -> None:
        """Begins the next batch, or the one that was cut short again."""
        if self.batch is not None:
            return
        self.batch = batch = self.target
        self._purge(batch - self.habits.retain)
        if not self.changes:
            self.changes = {one: self._changes(self.truth[one][-1]) for one in self.habits.stores}
            for directory, groups in self.changes.items():
                rows = [row for group in groups for row in group]
                self.truth[directory].append(_applied(self.truth[directory][-1], rows))
        self.world.change({f"offsets/{batch}": _OFFSETS})

    def _purge(self, below: int) -> None:
        for batch in [one for one in self.commits if one < below]:
            self.world.change({f"offsets/{batch}": None})
        for batch in [one for one in self.commits if one < below]:
            self.commits.remove(batch)
            self.world.change({f"commits/{batch}": None})

    def _changes(self, state: State) -> list[list[Row]]:
        """Returns what a batch does to each key that it touches."""
        touched = self.random.sample(_KEYS, self.random.randrange(4))
        return [self._of_key(key, known=key in state) for key in touched]

    def _of_key(self, key: bytes, *, known: bool) -> list[Row]:
        value: Row = (key, self.random.randbytes(8))
        removal: Row = (key, None)
        if known and self.random.random() < 0.3:
            return [removal]
        return [value] if self.random.random() < 0.7 else [(key, bytes(8)), value]

    def task(self, directory: str) -> None:
        """Writes a store's delta as far as its temp file."""
        if self.batch is None or directory in self.tasks:
            return
        groups = list(self.changes[directory])
        self.random.shuffle(groups)
        content = encode(row for group in groups for row in group)
        self.tasks[directory] = self._attempt(directory, f"{self.batch + 1}.delta", content)

    def _attempt(self, directory: str, name: str, content: bytes) -> Attempt:
        if not self.world.local:
            return Attempt(directory, name, content, None)
        temp = self.world.temp_of(f"{directory}/{name}")
        self.world.change({temp: content})
        return Attempt(directory, name, content, temp)

    def rename(self, directory: str) -> None:
        """Gives a store's delta its name: the task is done."""
        attempt = self.tasks.pop(directory, None)
        if attempt and self._land(attempt):
            self.done.add(directory)
            self.loaded[directory] = len(self.truth[directory]) - 1

    def _land(self, attempt: Attempt) -> bool:
        path = f"{attempt.directory}/{attempt.name}"
        if attempt.temp and attempt.temp not in self.world.files:
            return False  # somebody deleted it: the rename fails, the task is run again
        change: dict[str, bytes | None] = {path: attempt.content}
        if attempt.temp:
            change[attempt.temp] = None
        if self.habits.side_files:
            change[f"{attempt.directory}/.{attempt.name}.crc"] = _hadoop(attempt.content)
        if self.habits.checksums:
            change[f"{path}.crc"] = spark_checksum(attempt.content)
        self.world.change(change)
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
        self._rest()
        self.changes = {}
        self.commits.append(batch)
        self.world.change({f"commits/{batch}": COMMIT})
        return True

    def _rest(self) -> None:
        self.batch, self.tasks = None, {}
        self.done.clear()

    def finish(self) -> None:
        """Runs the current batch, or else the next, to its commit."""
        self.begin()
        for directory in self.habits.stores:
            while directory not in self.done:
                self.task(directory)
                self.rename(directory)
        self.commit()

    # -- the end of a run

    def kill(self) -> None:
        """Kills the query; its running tasks may live on for a while."""
        self.late += self.tasks.values()
        self.loaded.clear()
        self._rest()

    def rewind(self, version: int, *, tidy: bool) -> None:
        """Takes the query back to a retained version, as an operator does who knows the rules.

        Unless tidy, deltas above that version stay where they are, for the query to overwrite.
        """
        self.kill()
        self.late.clear()
        self.changes = {}
        above = range(version, self.target + 1)
        self.commits = [one for one in self.commits if one < version]
        logs = (f"{log}/{one}" for one in above for log in ("offsets", "commits"))
        self.world.change(dict.fromkeys(logs))
        for directory in self.habits.stores:
            del self.truth[directory][version + 1 :]
            names = (name for name in self.world.store(directory) if "." in name)
            gone = [name for name in names if _above(name, version, tidy=tidy)]
            self.world.change({f"{directory}/{name}": None for name in gone})

    # -- maintenance in the executors

    def _entries(self, directory: str) -> dict[int, str]:
        """Mirrors `fetchFiles`: one entry for each version, where a snapshot hides a delta."""
        found = [one for name in self.world.store(directory) if (one := split(name))]
        return {version: kind for version, kind in sorted(found)}  # noqa: C416 -- the last one stays

    def snapshot(self, directory: str) -> bool:
        """Begins the snapshot of the newest version, from memory; it lands later."""
        entries = self._entries(directory)
        last = max(entries, default=0)
        files = _files_for(entries, last)
        deltas = sum(1 for version in files or () if entries[version] == "delta")
        if self.loaded.get(directory) != last or deltas <= self.habits.min_deltas:
            return False
        content = encode(self.truth[directory][last].items())
        self.late.append(self._attempt(directory, f"{last}.snapshot", content))
        return True

    def cleanup(self, directory: str) -> bool:
        """Mirrors `cleanup`."""
        entries = self._entries(directory)
        earliest = max(entries, default=0) - self.habits.retain
        files = _files_for(entries, earliest) if earliest > 0 else None
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


def _applied(state: State, rows: list[Row]) -> State:
    changed = dict(state)
    for key, value in rows:
        changed.pop(key, None)
        if value is not None:
            changed[key] = value
    return changed


def _above(name: str, version: int, *, tidy: bool) -> bool:
    parts = name.lstrip(".").split(".")
    return parts[0].isdecimal() and int(parts[0]) > version and (tidy or parts[1] == "snapshot")


def _files_for(entries: dict[int, str], version: int) -> list[int] | None:
    """Mirrors `filesForVersion`; `None` where Spark raises."""
    if version not in entries:
        return None
    base = max((one for one, kind in entries.items() if kind == "snapshot" and one <= version),
               default=0)  # fmt: skip
    files = [one for one in entries if base < one <= version]
    if base and len(files) != version - base:
        return None
    return sorted([base, *files] if base else files)


def _hadoop(content: bytes) -> bytes:
    sums = [zlib.crc32(content[at : at + 512]) for at in range(0, len(content), 512)]
    return b"crc\0" + (512).to_bytes(4) + b"".join(one.to_bytes(4) for one in sums)
