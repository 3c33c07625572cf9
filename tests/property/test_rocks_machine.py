"""A live query on RocksDB and maintenance, in any order: what a restart may ask for always loads.

`python -m tests.property.test_rocks_machine SECONDS` plays for longer than the suite does.
"""

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import process_time

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.integrity.digest import StateDigest, digest, digest_key
from statemaint.fold import Source
from statemaint.fold.rocksdb.engine import RocksEngine
from statemaint.maintain import maintain, undo
from statemaint.model.chain import Chain
from statemaint.model.files import ROCKS_NAMES, Delta, Snapshot
from statemaint.model.findings import FindingCode
from statemaint.model.policy import Policy
from statemaint.report import Report
from statemaint.storage import MemoryStorage
from tests.support.faults import Clock, Crash, CrashingStorage, PausingStorage
from tests.support.rocks_query import (
    HOME,
    QUERY,
    Habits,
    Loaded,
    Query,
    State,
    applied,
    changes_of,
    loaded,
    path_of,
    tables_of,
)
from tests.support.simulate import left_long, unexplained

KEY = digest_key(QUERY)
TALLY = Counter[str]()


class Judge:
    """Compares what is left of a checkpoint with what is true of its query.

    What it has found equal is found so by the bytes of the files, and never read again.
    """

    def __init__(self, storage: MemoryStorage, query: Query) -> None:
        self._storage, self._query = storage, query
        self._digests: dict[object, StateDigest] = {}

    def look(self) -> None:
        """Every retained version loads its rows, and no zip that it may load from dangles."""
        files = self._storage.files
        least = min(self._query.retained, default=1)
        for version, unique in self._query.retained.items() if self._query.target else ():
            found = loaded(files, version, unique)
            least = min(least, _base(found))
            self._rows(files, found)
        self._whole(files, least)

    def _rows(self, files: Mapping[str, bytes], found: Loaded) -> None:
        """The zip by RocksDB, the changelogs above it by a dictionary."""
        base, truth = _base(found), self._query.truth
        if found.zip:
            assert self._digest(files, replace(found, changelogs=())) == _digest(truth[base])
        rows: State = truth[base]
        for path in found.changelogs:
            rows = applied(rows, changes_of(files[path]))
        assert rows == truth[found.version], f"version {found.version} holds other rows"

    def fold(self, every: int = 1) -> None:
        """The retained versions as the product folds them: the newest, and each so many below."""
        files = self._storage.files
        retained = sorted(self._query.retained.items(), reverse=True)[::every]
        for version, unique in retained if self._query.target else ():
            found = self._digest(files, loaded(files, version, unique))
            assert found == _digest(self._query.truth[version])

    def _digest(self, files: Mapping[str, bytes], found: Loaded) -> StateDigest:
        tables = tables_of(files[found.zip]) if found.zip else ()
        read = (*([found.zip] if found.zip else ()), *tables, *found.changelogs)
        key = tuple((path, hash(files.get(path))) for path in read)
        if key not in self._digests:
            TALLY["folds"] += 1
            self._digests[key] = self._folded(found)
        return self._digests[key]

    def _folded(self, found: Loaded) -> StateDigest:
        source = Source(self._storage, COMPRESSIONS["lz4"], row_checksums=False, key=KEY)
        if found.zip and not found.changelogs:
            return RocksEngine().digest(source, found.zip)
        files = [ROCKS_NAMES.classify(self._storage.stat(path)) for path in found.changelogs]
        base = ROCKS_NAMES.classify(self._storage.stat(found.zip)) if found.zip else None
        deltas = tuple(one for one in files if isinstance(one, Delta))
        chain = Chain(found.version, base if isinstance(base, Snapshot) else None, deltas)
        folding = RocksEngine().fold(source, chain, (found.version,), write=False)
        return folding.digests[found.version]

    def _whole(self, files: Mapping[str, bytes], least: int) -> None:
        for path, content in files.items():
            if _is_zip(path) and _version(path) >= least:
                for table, size in tables_of(content).items():
                    assert len(files.get(table, b"")) == size, f"{path} lacks {table}"


def _base(found: Loaded) -> int:
    return _version(found.zip) if found.zip else 0


def _is_zip(path: str) -> bool:
    return path.startswith(f"{HOME}/") and path.endswith(".zip")


def _version(path: str) -> int:
    return int(path.rpartition("/")[2].partition(".")[0].partition("_")[0])


def _digest(state: State) -> StateDigest:
    return digest(state.items(), KEY)


BATCH = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=4)
EVERY = st.sampled_from([None, 1, 3, 8])
MEANWHILE = ("commit", "upload", "late", "clean up")
NUMBERS = st.integers(0, 3)
POLICIES = st.builds(
    Policy,
    min_deltas_for_snapshot=st.integers(1, 4),
    min_batches_to_retain=st.integers(1, 4),
    grace=st.sampled_from([0.0, 0.0, 30.0]),
    orphan_age=st.sampled_from([0.0, 0.0, 60.0]),
    rebase=st.booleans(),
    max_deletes_per_run=st.sampled_from([50_000, 50_000, 3]),
    trash_for=st.sampled_from([0.0, 1000.0]),
)
HABITS = st.builds(Habits, window=st.integers(1, 4), ids=st.booleans(), families=st.booleans())
_LEASE = 61.0


class Machine(RuleBasedStateMachine):
    """Every step that a query, its executors and maintenance can take."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.storage = MemoryStorage(clock=self.clock)
        self.query = Query(self.storage, Habits())
        self.judge = Judge(self.storage, self.query)
        self.runs = 0
        self.trashed: list[str] = []

    @initialize(habits=HABITS, every=EVERY, batch=BATCH)
    def begin(self, habits: Habits, every: int | None, batch: list[tuple[int, int]]) -> None:
        self.storage = MemoryStorage(clock=self.clock)
        self.query = Query(self.storage, habits)
        self.judge = Judge(self.storage, self.query)
        self.query.restart(every)
        self.query.commit(batch)

    # -- the query

    @rule(batches=st.lists(BATCH, min_size=1, max_size=4))
    def commit(self, batches: list[list[tuple[int, int]]]) -> None:
        for batch in batches:
            self._passes(1)
            self.query.commit(batch)

    @rule(batch=BATCH, number=st.sampled_from([8, 25]))
    def run_on(self, batch: list[tuple[int, int]], number: int) -> None:
        for _ in range(number):
            self._passes(1)
            self.query.commit(batch)

    @rule(batch=BATCH, how=st.sampled_from(["changelog", "tables", "zip", "late"]))
    def die(self, batch: list[tuple[int, int]], how: str) -> None:
        self.query.die(batch, how)

    @precondition(lambda self: self.query.ids)
    @rule(batch=BATCH)
    def linger(self, batch: list[tuple[int, int]]) -> None:
        self.query.linger(batch)

    @precondition(lambda self: self.query.dead)
    @rule(number=NUMBERS)
    def zombie(self, number: int) -> None:
        self.query.zombie(number)

    @rule(every=EVERY, ids=st.sampled_from([False, False, True]))
    def restart(self, every: int | None, *, ids: bool) -> None:
        self.query.restart(every, ids=ids)

    # -- its executors

    @precondition(lambda self: self.query.executor.held)
    @rule()
    def upload(self) -> None:
        self.query.upload()

    @precondition(lambda self: self.query.executor.held)
    @rule()
    def fail(self) -> None:
        self.query.fail()

    @precondition(lambda self: self.query.late)
    @rule(number=NUMBERS)
    def come_late(self, number: int) -> None:
        self.query.come_late(number)

    @rule(more=st.sampled_from([0, 2, 24]))
    def clean_up(self, more: int) -> None:
        TALLY["cleaned up"] += self.query.clean_up(self.query.habits.window + more)

    # -- time and maintenance

    @rule(seconds=st.sampled_from([29.0, 100.0, 2000.0]))
    def wait(self, seconds: float) -> None:
        self._passes(seconds)

    def _passes(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule(policy=POLICIES)
    def maintain(self, policy: Policy) -> None:
        self._run(policy, self.storage)
        self.judge.fold()

    @rule(policy=POLICIES, batch=BATCH, number=st.sampled_from([3, 9, 22]))
    def tend(self, policy: Policy, batch: list[tuple[int, int]], number: int) -> None:
        for _ in range(number):
            self._passes(1)
            self.query.commit(batch)
            self._run(policy, self.storage)

    def _run(self, policy: Policy, storage: MemoryStorage, *, moving: bool = False) -> Report:
        run = f"run-{self.runs}"
        self.runs += 1
        if policy.trash_for:
            self.trashed.append(run)
        report = maintain(storage, policy, run=run)
        TALLY["runs"] += 1
        TALLY["snapshots"] += report.snapshots_written
        TALLY["deletions"] += report.files_deleted.total()
        self._sound(report, moving=moving)
        return report

    def _sound(self, report: Report, *, moving: bool) -> None:
        """Nothing is ever damaged, so nothing may be called so."""
        allowed = {FindingCode.FOREIGN_MAINTAINER, FindingCode.SNAPSHOT_WITHHELD}
        if moving:
            allowed.add(FindingCode.SUPERSEDED)
        # Its batch may have been tried again, and committed, since the run looked.
        target = report.plan.target or 0
        if path_of(target + 1, None, "zip") in self.storage.files:
            allowed.add(FindingCode.SNAPSHOT_ABOVE_TARGET)
        assert {one.code for one in report.findings} <= allowed, report.findings
        assert (unexplained(report.plan), left_long(report)) == ([], [])

    @rule(policy=POLICIES, at=st.integers(0, 30), after=st.booleans())
    def crash(self, policy: Policy, at: int, *, after: bool) -> None:
        storage = CrashingStorage({}, at=at, after=after, clock=self.clock)
        storage._files = self.storage._files
        try:
            self._run(policy, storage)
        except Crash:
            TALLY["crashes"] += 1
        self._passes(_LEASE)

    @rule(policy=POLICIES, at=st.integers(0, 60), what=st.sampled_from(MEANWHILE), batch=BATCH)
    def ambush(self, policy: Policy, at: int, what: str, batch: list[tuple[int, int]]) -> None:
        """Something happens in the middle of a run."""
        storage = PausingStorage(
            {}, clock=self.clock, pauses={at: lambda _: self._meanwhile(what, batch)}
        )
        storage._files = self.storage._files
        self._run(policy, storage, moving=True)

    def _meanwhile(self, what: str, batch: list[tuple[int, int]]) -> None:
        TALLY["ambushes"] += 1
        match what:
            case "commit":
                self.query.commit(batch)
            case "upload":
                self.query.upload()
            case "late":
                self.query.come_late(0)
            case _:
                self.query.clean_up(self.query.habits.window)

    @precondition(lambda self: self.trashed)
    @rule()
    def undo(self) -> None:
        run = self.trashed.pop()
        if any(True for _ in self.storage.list(f"_statemaint/trash/{run}")):
            undo(self.storage, run)
            TALLY["undos"] += 1

    @rule(policy=POLICIES)
    def settle(self, policy: Policy) -> None:
        whole = replace(policy, max_deletes_per_run=50_000)
        for _ in range(3):
            report = self._run(whole, self.storage)
        assert report.plan.idle, report.plan.actions

    @invariant()
    def holds(self) -> None:
        TALLY["steps"] += 1
        self._passes(1)
        self.judge.look()


@contextmanager
def in_memory() -> Iterator[None]:
    """RocksDB's folders in memory, where there is a file system for that."""
    before, fast = tempfile.tempdir, Path("/dev/shm")  # noqa: S108
    tempfile.tempdir = str(fast) if fast.is_dir() else before
    try:
        yield
    finally:
        tempfile.tempdir = before


FEW = settings(
    max_examples=12,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


def test_whatever_happens_every_retained_version_loads() -> None:
    with in_memory():
        run_state_machine_as_test(Machine, settings=FEW)


def _long(seconds: float) -> None:
    with in_memory():
        while process_time() < seconds:
            many = settings(FEW, max_examples=50, stateful_step_count=60, derandomize=False)
            run_state_machine_as_test(Machine, settings=many)
            sys.stdout.write(f"{process_time():.0f} s of CPU: {dict(TALLY)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    _long(float(sys.argv[1]))
