"""Executors that upload rarely: what we have once seen of it holds, whatever is deleted later.

Versions of `slow`, whose executor snapshots every 300 and uploads some batches late:

    0 -------- 300 -------- 600 ---+-------------------------- 900 ---
               zip          zip    |  our zips, one a run      zip, names tables of 600.zip
                                   our first run
"""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.records.attestations import attestation_path
from statemaint.scan.scanner import scan
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import STORE
from tests.support.faults import Clock, Crash, CrashingStorage
from tests.support.in_memory import in_memory
from tests.support.marks import long
from tests.support.rocks_query import Habits, Judge, Query, path_of, tables_of
from tests.support.simulate import left_long, unexplained

DEFAULT = Policy()
EVERY, LATE = 300, 5
MINUTES = 600.0  # a batch each: tables are older than `orphan_age` before the next zip comes
LEDGER = attestation_path(STORE)


class Slow:
    """A query whose executors snapshot every 300 versions, and upload a little later."""

    def __init__(self, *, ids: bool) -> None:
        self.clock = Clock()
        self.storage = MemoryStorage(clock=self.clock)
        self.query = Query(self.storage, Habits(window=100, ids=ids, latest=10**6))
        self.judge = Judge(self.storage, self.query)
        self.query.restart(EVERY)

    def batches(self, last: int) -> None:
        """Commits batches up to a version; what was written first stays in use."""
        while self.query.target < last:
            self.clock.now += MINUTES
            rows = [(0, 0), (0, 1), (0, 2), (0, 3)] if self.query.target == 0 else [(0, 4)]
            self.query.commit(rows)

    def uploads(self, version: int) -> str:
        """Lets the executor snapshot a version, and upload it late; returns the zip's path."""
        self.batches(version + LATE)
        held = self.query.executor.held
        assert held is not None
        assert held.version == version
        self.query.upload()
        return held.path

    def maintain(self, policy: Policy = DEFAULT) -> None:
        report = maintain(self.storage, policy)
        assert (report.exit_code, unexplained(report.plan), left_long(report)) == (0, [], [])

    def maintained(self, last: int) -> None:
        """Commits batches up to a version, with a run of maintenance after every tenth."""
        while self.query.target < last:
            self.batches(min(self.query.target + 10, last))
            self.maintain()

    @property
    def gap(self) -> int:
        return int(json.loads(self.storage.read(LEDGER))["uploads"]["widest_gap"])


@pytest.fixture(autouse=True)
def _fast() -> Iterator[None]:
    with in_memory():
        yield


@pytest.fixture(params=[long(False, id="V1"), pytest.param(True, id="V2")])
def slow(request: pytest.FixtureRequest) -> Slow:
    return Slow(ids=request.param)


def must_restart_from(slow: Slow, path: str) -> None:
    """The query restarts from a zip, and every version that it retains has its rows."""
    assert set(tables_of(slow.storage.read(path))) <= slow.storage.files.keys()
    slow.judge.look()
    slow.query.restart(EVERY)
    slow.batches(slow.query.target + 1)
    slow.judge.look()
    slow.judge.fold(every=20)


def test_our_first_write_does_not_end_the_wait_for_executors_that_upload_rarely(
    slow: Slow,
) -> None:
    slow.uploads(300)
    slow.uploads(600)
    slow.maintained(900 + LATE)
    assert slow.query.executor.held
    old = slow.query.executor.held.old
    assert old, "the zip to come names tables that are in storage since an earlier one"
    must_restart_from(slow, slow.uploads(900))


def test_a_zip_deleted_between_two_runs_does_not_end_the_wait_for_executors(
    slow: Slow,
) -> None:
    first = slow.uploads(300)
    slow.maintained(330)
    slow.uploads(600)
    assert slow.query.clean_up(retain=1)
    assert first not in slow.storage.files
    slow.maintained(900 + LATE)
    must_restart_from(slow, slow.uploads(900))
    assert slow.gap == 300


def test_one_upload_is_enough_to_wait_for_executors(slow: Slow) -> None:
    slow.uploads(300)
    slow.maintained(600 + LATE)
    must_restart_from(slow, slow.uploads(600))
    assert slow.gap == 300


def test_once_they_are_silent_for_twice_their_gap_zips_and_tables_go() -> None:
    """V1 only: with unique ids no query can be silent for so long, its lineages do not fit."""
    slow = Slow(ids=False)
    zips = [slow.uploads(300), slow.uploads(600)]
    tables = {table for path in zips for table in tables_of(slow.storage.read(path))}
    for last in (905, 1195):
        slow.query.restart(None)
        slow.maintained(last)
    assert tables <= slow.storage.files.keys()
    slow.maintained(1360)
    assert not {*zips, *tables} & slow.storage.files.keys()
    assert slow.gap == 300, "their gap is remembered all the same"
    slow.judge.look()


def test_a_crash_at_any_change_of_our_first_run_leaves_their_gap_in_the_ledger() -> None:
    slow = Slow(ids=False)
    slow.uploads(300)
    slow.uploads(600)
    before = {path for path in slow.storage.files if path.startswith("state/")}
    for at in range(100):
        storage = CrashingStorage(slow.storage.files, at=at, after=True, clock=slow.clock)
        try:
            maintain(storage, DEFAULT)
        except Crash:
            acted = {path for path in storage.files if path.startswith("state/")} != before
            assert not acted or scan(storage).stores[0].uploads.widest_gap == 300
            continue
        break
    assert scan(storage).stores[0].uploads.widest_gap == 300
    assert at > 2


def test_their_zips_are_noted_when_they_are_first_seen_where_there_is_nothing_to_do(
    slow: Slow,
) -> None:
    """The older of the two may be deleted before we have written or deleted anything."""
    slow.uploads(300)
    slow.uploads(600)
    before = {path for path in slow.storage.files if path.startswith("state/")}
    slow.maintain(keep_all := replace(DEFAULT, min_batches_to_retain=10_000))
    assert {path for path in slow.storage.files if path.startswith("state/")} == before
    assert slow.gap == 300
    again = dict(slow.storage.files)
    slow.maintain(keep_all)
    assert slow.storage.files == again, "and then there is nothing to note"


def a_zip_a_version() -> Slow:
    """A store of 30 zips and no changelog, with the last few commits: nothing for us to write."""
    slow = Slow(ids=False)
    slow.query.restart(1)
    for _ in range(30):
        slow.batches(slow.query.target + 1)
        slow.query.upload()
    slow.storage.delete_all([path for path in slow.storage.files if path.endswith(".changelog")])
    slow.storage.delete_all([f"{log}/{one}" for log in ("commits", "offsets") for one in range(25)])
    return slow


KEEP_FEW = replace(DEFAULT, min_batches_to_retain=3, grace=0.0)


def test_their_zips_are_noted_before_the_first_deletion_where_we_never_write() -> None:
    slow = a_zip_a_version()
    for at in range(60):
        storage = CrashingStorage(slow.storage.files, at=at, after=True, clock=slow.clock)
        try:
            report = maintain(storage, KEEP_FEW)
        except Crash:
            gone = path_of(1, None, "zip") not in storage.files
            noted = [one.version for one in scan(storage).stores[0].uploads.newest]
            assert not gone or noted == list(range(1, 31))
            continue
        break
    assert report.snapshots_written == 0
    assert report.files_deleted["below_base"] == 25
    assert [one.version for one in scan(storage).stores[0].uploads.newest] == list(range(1, 31))


def test_zips_that_came_since_the_base_was_proved_are_noted_before_a_deletion() -> None:
    slow = a_zip_a_version()
    proved = maintain(slow.storage, replace(KEEP_FEW, max_deletes_per_run=1))
    assert proved.files_deleted.total() == 1
    newest = slow.storage.read(path_of(30, None, "zip"))
    slow.storage.write(path_of(31, None, "zip"), [newest])
    report = maintain(slow.storage, KEEP_FEW)
    assert report.snapshots_written == 0
    assert report.files_deleted["below_base"] == 24
    assert scan(slow.storage).stores[0].uploads.newest[-1].version == 31
