"""What must hold after every single change, by S1 to S7, S11 and S18; `Loss` where it does not.

The truth comes from the model of the query, loading from `tests.certify.files`: nothing that is
judged takes part in the judgement.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.certify.files import State, load_all, load_without, split
from tests.certify.query import Query
from tests.certify.world import Doer, File, World

_OURS = re.compile(r"state/\d+/\d+(/[a-z-]+)?/\d+\.snapshot(\.crc)?")
_TEMP = re.compile(r"\.\d+\.(delta|snapshot)(\.crc)?\.[0-9a-f-]{36}\.tmp")
_SIDE = re.compile(r"\.?(?P<owner>(?P<version>\d+)\.(delta|snapshot))(\.crc)?\.crc")


def holder(world: World) -> str | None:
    """Returns the run that holds the lease, as its newest file says."""
    leases = [path for path in world.files if path.startswith("_statemaint/lease/0")]
    if not leases:
        return None
    fields = json.loads(world.files[max(leases)].content)
    return str(fields["run"]) if fields["deadline"] > world.clock else None


class Loss(BaseException):
    """Something happened that must never happen."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Somebody who has listed a store, chosen the files of a version, and not read them yet."""

    version: int
    chosen: frozenset[str]
    listed: float


@dataclass(slots=True)
class Certificate:
    """The judge of one schedule.

    Attributes:
        untrue: contents of snapshots that were damaged or made wrong on purpose.
        readers: those who have listed and not read.
        known: of each store, the versions that the true files rebuild.
        named: what the ledger said would be deleted, by run and path.
        proved: what the ledger proves of each snapshot: version, size and time.
        holder: tells from the files which run holds the lease (S8); `None` in a world without.
        gone: what maintenance deleted, by path: what an undo may bring back (S17).
        undo: whether it may.
        removed: how many files maintenance deleted.
        written: how many snapshots it wrote.
    """

    world: World
    query: Query
    untrue: set[bytes] = field(default_factory=set)
    readers: list[Reader] = field(default_factory=list)
    known: dict[str, set[int]] = field(default_factory=dict)
    named: set[tuple[str, str]] = field(default_factory=set)
    proved: dict[str, tuple[int, int, float]] = field(default_factory=dict)
    foreign: set[str] = field(default_factory=set)
    holder: Callable[[World], str | None] | None = None
    gone: dict[str, set[bytes]] = field(default_factory=dict)
    undo: bool = False
    removed: int = 0
    written: int = 0

    def look(self, before: Mapping[str, File | None], doer: Doer | None) -> None:
        """Judges a change that has just happened.

        Raises:
            Loss: when it must not have happened.
        """
        folders = {path.rpartition("/")[0] for path in before}
        if doer:
            for path, file in before.items():
                self._deed(path, file, doer)
        for directory in self.query.habits.stores:
            if directory in folders or "commits" in folders:
                self._store(directory, doer)

    # -- what every store must be

    def _store(self, directory: str, doer: Doer | None) -> None:
        truth, store = self.query.truth[directory], self.world.store(directory)
        loaded = load_all(store)
        untrue = frozenset(name for name, content in store.items() if content in self.untrue)
        rebuilt = loaded if not untrue else load_without(store, untrue)
        for version in range(self.query.required, self.query.target + 1):
            if not untrue or (version in rebuilt and not _misled(store, untrue, version)):
                _must_load(directory, version, loaded, truth)
        known = {one for one, state in rebuilt.items() if _is(truth, one, state)}
        if doer:
            self._nothing_lost(directory, known, doer)
        self.known[directory] = known

    def _nothing_lost(self, directory: str, known: set[int], doer: Doer) -> None:
        target = self.query.target
        floor = min(self.query.required, target - doer.policy.min_batches_to_retain)
        lost = {one for one in self.known.get(directory, set()) - known if floor <= one <= target}
        if lost:
            raise Loss(f"S1/S3: {doer.run} made versions {sorted(lost)} of {directory} impossible")

    # -- what maintenance may do

    def _deed(self, path: str, before: File | None, doer: Doer) -> None:
        after = self.world.files.get(path)
        if path.startswith("_statemaint/"):
            if "/state/" in path and after:  # what lies in the trash may come back
                self.gone.setdefault(path[path.index("/state/") + 1 :], set()).add(after.content)
            elif path.endswith(".jsonl") and after:
                self._read_ledger(after.content[len(before.content) if before else 0 :])
        elif not path.startswith("state/"):
            raise Loss(f"S18: {doer.run} touched {path}")
        elif after is None and before:
            self._removed(path, before, doer)
        elif after:
            self._put(path, after, doer)

    def _read_ledger(self, added: bytes) -> None:
        for line in added.splitlines():
            try:
                fields: dict[str, Any] = json.loads(line)
            except ValueError:
                continue  # a crash tore it
            if fields.get("action") == "delete":
                self.named.add((fields["run"], fields["path"]))
            elif proof := fields.get("attestation"):
                self.proved[proof["path"]] = (proof["version"], proof["size"], proof["modified"])

    def _put(self, path: str, file: File, doer: Doer) -> None:
        directory, _, name = path.rpartition("/")
        if _TEMP.fullmatch(name):
            return
        restored = self.undo and file.content in self.gone.get(path, ())
        if not (restored or _OURS.fullmatch(path)):
            raise Loss(f"S18: {doer.run} wrote {path}")
        version = int(name.lstrip(".").partition(".")[0])
        if version > self.query.target:
            raise Loss(f"S2: {doer.run} wrote {path}, the target is {self.query.target}")
        if name.endswith(".snapshot"):
            self.written += 1
            self._must_be_true(directory, version, file, doer)

    def _must_be_true(self, directory: str, version: int, file: File, doer: Doer) -> None:
        if file.content in self.untrue:  # the storage garbled it, not the maintainer
            return
        store = self.world.store(directory)
        if version < self.query.required and not self.untrue.isdisjoint(store.values()):
            return  # from a snapshot that went wrong below all that is retained, and its log gone
        state = load_all({f"{version}.snapshot": file.content}).get(version)
        if state is None or not _is(self.query.truth[directory], version, state):
            raise Loss(f"S1: {doer.run} wrote a wrong {version}.snapshot to {directory}")

    def _removed(self, path: str, file: File, doer: Doer) -> None:
        directory, _, name = path.rpartition("/")
        if _TEMP.fullmatch(name):
            self._temp(path, file, doer)
            return
        if path in self.foreign or not (split(name) or _SIDE.fullmatch(name)):
            raise Loss(f"S11: {doer.run} deleted {path}")
        self.removed += 1
        self.gone.setdefault(path, set()).add(file.content)
        self._fenced(path, doer)
        if (doer.run, path) not in self.named:
            raise Loss(f"S18: {doer.run} deleted {path} before the ledger named it")
        if side := _SIDE.fullmatch(name):
            if f"{directory}/{side['owner']}" not in self.world.files:
                self._old_enough(path, file, doer)
        else:
            self._state_file(directory, name, doer)

    def _fenced(self, path: str, doer: Doer) -> None:
        holder = self.holder(self.world) if self.holder else doer.run
        if holder != doer.run and doer.run not in self.world.late:
            raise Loss(f"S8: {doer.run} deleted {path}, the lease is held by {holder}")

    def _temp(self, path: str, file: File, doer: Doer) -> None:
        # A writer takes its own temp file away; one of somebody else must be old and named.
        if (doer.run, path) not in self.named:
            return
        version = int(path.rpartition("/")[2].split(".")[1])
        if version > self.query.target:
            raise Loss(f"S2: {doer.run} deleted {path}, the target is {self.query.target}")
        self._old_enough(path, file, doer)

    def _old_enough(self, path: str, file: File, doer: Doer) -> None:
        age = self.world.clock - file.modified
        if age < doer.policy.orphan_age and file.modified <= doer.begun:
            raise Loss(f"S5: {doer.run} deleted {path}, {age:.0f} seconds old")

    def _state_file(self, directory: str, name: str, doer: Doer) -> None:
        version = int(name.partition(".")[0])
        if version > self.query.target:
            raise Loss(f"S2: {doer.run} deleted {name}, the target is {self.query.target}")
        self._proof(directory, version, doer)
        for side in (f".{name}.crc", f"{name}.crc"):
            file = self.world.files.get(f"{directory}/{side}")
            if file and file.modified < doer.begun:
                raise Loss(f"S7: {doer.run} deleted {name} and left {side}")
        for reader in self.readers:
            self._reader(reader, f"{directory}/{name}", doer)

    def _proof(self, directory: str, version: int, doer: Doer) -> None:
        for path, (base, size, modified) in self.proved.items():
            file = self.world.files.get(path)
            if path.startswith(f"{directory}/") and base > version and (
                file is None or (len(file.content), file.modified) == (size, modified)
            ):  # fmt: skip
                return
        raise Loss(f"S6: {doer.run} deleted version {version} of {directory} without a proof")

    def _reader(self, reader: Reader, path: str, doer: Doer) -> None:
        since = self.world.clock - reader.listed
        wanted = path in reader.chosen and reader.version >= self.query.required
        if wanted and since < doer.policy.grace:
            raise Loss(f"S4: {doer.run} deleted {path} under a reader of {since:.0f} seconds")

    def reads(self, directory: str, version: int) -> None:
        """Lets somebody list a store and choose the files of a version."""
        names = self.world.store(directory)
        bases = [one[0] for name in names if (one := split(name)) and one[1] == "snapshot"]
        base = max((one for one in bases if one <= version), default=0)
        chosen = {f"{directory}/{number}.delta" for number in range(base + 1, version + 1)}
        chosen |= {f"{directory}/{base}.snapshot"} if base else set()
        self.readers.append(Reader(version, frozenset(chosen), self.world.clock))


def _must_load(
    directory: str, version: int, loaded: Mapping[int, State], truth: list[State]
) -> None:
    if version not in loaded:
        raise Loss(f"S1: version {version} of {directory} no longer loads")
    if not _is(truth, version, loaded[version]):
        raise Loss(f"S1: version {version} of {directory} loads a wrong state")


def _is(truth: list[State], version: int, state: State) -> bool:
    return version < len(truth) and truth[version] == state


def _misled(store: Mapping[str, bytes], untrue: frozenset[str], version: int) -> bool:
    """Tells whether Spark would load a version from a snapshot that was made wrong on purpose."""
    bases = [one[0] for name in store if (one := split(name)) and one[1] == "snapshot"]
    base = max((one for one in bases if one <= version), default=0)
    return f"{base}.snapshot" in untrue
