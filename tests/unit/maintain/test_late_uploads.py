"""The hazard of SPARK-55892, step by step: a snapshot that is on its way names tables of old.

An executor has its database on local disk. A snapshot of it is made with a batch and uploaded up to
a minute later: new tables first, then a zip that also names tables which are in storage since an
earlier one. Whoever deletes those in between leaves a zip that no Spark loads.
"""

from dataclasses import replace

import pytest

from statemaint.errors import MissingSstError
from statemaint.maintain import maintain
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.policy import Policy
from statemaint.plan import facts, snapshots
from statemaint.storage import MemoryStorage
from tests.support.faults import Clock
from tests.support.rocks_query import Habits, Judge, Query, path_of, tables_of
from tests.support.simulate import left_long, unexplained

TIGHT = Policy(min_deltas_for_snapshot=2, min_batches_to_retain=2, grace=0, orphan_age=0)
EVERY = 10
ROWS = [(0, 0), (0, 1), (0, 2), (0, 3)]


class Scene:
    """A query whose executor snapshots every ten versions, and us beside it."""

    def __init__(self, *, ids: bool) -> None:
        clock = Clock()
        self.storage = MemoryStorage(clock=clock)
        self.query = Query(self.storage, Habits(window=2, ids=ids))
        self._clock = clock
        self._judge = Judge(self.storage, self.query)
        self.query.restart(EVERY)

    def batches(self, number: int) -> None:
        """Commits batches that change one row each: what was written first stays in use."""
        for _ in range(number):
            self._clock.now += 1
            self.query.commit(ROWS if self.query.target == 0 else [(0, 4)])

    def hold(self) -> set[str]:
        """Has the executor upload one snapshot, and hold the next; returns the old tables of it."""
        self.batches(EVERY)
        self.query.upload()
        self.batches(EVERY)
        assert self.query.executor.held
        old = set(self.query.executor.held.old)
        assert old <= self.storage.files.keys()
        return old

    def tables(self, version: int) -> set[str]:
        path = path_of(version, self.query.ever[version], "zip")
        return set(tables_of(self.storage.read(path)))

    def maintain(self) -> tuple[Finding, ...]:
        """Runs until there is nothing left to do."""
        self._clock.now += 3600
        found = [maintain(self.storage, TIGHT) for _ in range(3)]
        assert {one.exit_code for one in found} == {0}
        assert [(unexplained(one.plan), left_long(one)) for one in found] == [([], [])] * 3
        return found[-1].findings

    def look(self) -> None:
        """Every retained version loads the rows that it has to have."""
        self._judge.look()
        self._judge.fold()


@pytest.fixture(params=[False, True], ids=["V1", "V2"])
def scene(request: pytest.FixtureRequest) -> Scene:
    return Scene(ids=request.param)


def test_a_snapshot_that_is_uploaded_late_finds_the_tables_it_names(scene: Scene) -> None:
    old = scene.hold()
    assert old
    held = scene.query.executor.held
    assert held
    scene.maintain()
    assert old <= scene.storage.files.keys()
    scene.query.upload()
    assert held.path in scene.storage.files
    assert set(tables_of(scene.storage.read(held.path))) <= scene.storage.files.keys()
    scene.look()
    scene.query.restart(EVERY)
    scene.batches(1)
    scene.look()


def test_a_late_snapshot_of_an_executor_that_the_query_has_left_finds_its_tables(
    scene: Scene,
) -> None:
    old = scene.hold()
    scene.query.restart(None)
    scene.batches(3)
    scene.maintain()
    assert old <= scene.storage.files.keys()
    scene.query.come_late(0)
    scene.look()


def test_spark_deletes_no_table_of_it_because_of_zips_of_ours(scene: Scene) -> None:
    """Its clean-up takes ours for its executors' own, and keeps as many versions below them."""
    old = scene.hold()
    scene.maintain()
    scene.batches(1)
    scene.maintain()
    assert not old & scene.query.swept(retain=2)
    scene.query.upload()
    scene.look()


def test_without_that_rule_spark_deletes_them(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "overtakes", lambda *_: False)
    old = scene.hold()
    assert scene.query.swept(retain=2) == set()
    scene.maintain()
    assert old & scene.query.swept(retain=2)


def test_the_zip_it_began_with_stays_for_whoever_restarts_from_it(scene: Scene) -> None:
    scene.hold()
    uploaded = path_of(EVERY, scene.query.ever[EVERY], "zip")
    scene.maintain()
    assert uploaded in scene.storage.files


def test_we_say_that_executors_upload_and_what_to_set(scene: Scene) -> None:
    scene.hold()
    assert scene.maintain() == (), "it may have been before our time"
    scene.batches(EVERY)
    scene.query.upload()
    (found,) = scene.maintain()
    assert found.code is FindingCode.FOREIGN_MAINTAINER
    number = "500" if scene.query.habits.ids else "1000000"
    assert f"stateStore.minDeltasForSnapshot to {number} for" in found.detail


def test_changelogs_go_all_the_same(scene: Scene) -> None:
    scene.hold()
    scene.maintain()
    oldest = path_of(2, scene.query.ever[2], "changelog")
    assert oldest not in scene.storage.files


def test_once_executors_have_been_silent_for_long_the_tables_go(scene: Scene) -> None:
    old = scene.hold()
    scene.query.upload()
    scene.query.restart(None)
    for _ in range(9):
        scene.batches(5)
        scene.maintain()
    assert not old & scene.storage.files.keys()
    scene.look()


def test_a_clean_up_that_began_before_our_zip_deletes_no_table_of_it(scene: Scene) -> None:
    # 10 z    ours, with tables of its own
    # 11 15 z an executor's, which share none with it
    #         a clean-up lists 10, 11 and 15, and is to delete 10 with its tables
    # 60 z    ours, folded from 10, the newest that is proved
    #         the clean-up goes on
    keep = replace(TIGHT, min_batches_to_retain=100)
    scene.query.restart(None)
    scene.batches(10)
    maintain(scene.storage, keep)
    for _ in range(2):
        scene.query.executor.every = 4
        scene.batches(1)
        while not scene.query.executor.held:
            scene.batches(1)
        scene.query.upload()
    scene.query.executor.every = None
    scene.batches(60 - scene.query.target)
    doomed = scene.query.doomed(retain=2)
    tables = {path for path in doomed if path.endswith(".sst")}
    assert tables == set(tables_of(scene.storage.read(doomed[len(tables)])))
    assert maintain(scene.storage, keep).snapshots_written == 1
    for path in doomed:
        scene.storage.delete(path)
    scene.look()
    scene.query.restart(None)
    scene.batches(1)
    scene.look()


def test_our_next_zip_shares_tables_with_the_newest_and_no_clean_up_harms_it(
    scene: Scene,
) -> None:
    scene.query.restart(None)
    shared = []
    for newest in range(10, 70, 10):
        scene.batches(10)
        doomed = scene.query.doomed(retain=2)
        scene.maintain()
        for path in doomed:
            scene.storage.delete(path)
        scene.look()
        if newest > 10:
            shared.append(bool(scene.tables(newest) & scene.tables(newest - 10)))
    assert shared == [False, True, True, True, False]  # the second and the last are compacted


def test_without_the_rule_the_snapshot_that_comes_late_dangles(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scene is what it says it is: what the tests above show is the rule's doing."""
    monkeypatch.setattr(facts, "executors_upload", lambda *_: False)
    monkeypatch.setattr(snapshots, "overtakes", lambda *_: False)
    monkeypatch.setattr(facts, "settled", lambda _, window: window.target)
    old = scene.hold()
    scene.maintain()
    assert old - scene.storage.files.keys()
    scene.query.upload()
    with pytest.raises(MissingSstError):
        scene.look()
