"""Pins: what a pinned batch needs stays, whatever else maintenance deletes (S3)."""

import pytest

from statemaint.errors import ConfigError, DamagedError, StorageError, Superseded
from statemaint.execute.fence import PinWatch
from statemaint.execute.lease import QUIET, acquire
from statemaint.maintain import maintain
from statemaint.maintain.pins import end_pin_of, list_pins, pin_batch, pinned
from statemaint.model.findings import FindingCode
from statemaint.model.ids import version_of
from statemaint.model.policy import Policy
from statemaint.plan.actions import Request
from statemaint.planning import plan_checkpoint, scan_checkpoint
from statemaint.records.claims import Holder
from statemaint.records.pins import FOLDER, MOST_SECONDS, end_pin, write_pin
from tests.support.checkpoints import write_checkpoint
from tests.support.faults import Clock, HookedStorage, refuse
from tests.support.rocks import write_rocks_checkpoint

TIGHT = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=4, grace=0, orphan_age=0)
DAY = 86400.0


@pytest.fixture
def storage(clock: Clock) -> HookedStorage:
    """A checkpoint of versions 1 to 25, of which the commit log has 20 to 25."""
    return write_checkpoint(HookedStorage(clock=clock), batches=range(19, 25))


def loads(storage: HookedStorage, batch: int) -> bool:
    version = version_of(batch)
    stores = scan_checkpoint(storage).stores
    return all(version in one.versions.loadable(version, version) for one in stores)


def codes(storage: HookedStorage) -> set[FindingCode]:
    return {one.code for one in plan_checkpoint(storage, TIGHT)[1].all_findings}


def no_wait(_seconds: float) -> None:
    raise AssertionError("waited although no run holds the lease")


def test_maintenance_keeps_a_pinned_batch_until_the_pin_ends(
    storage: HookedStorage, clock: Clock
) -> None:
    pin = write_pin(storage, 9, by="test", seconds=DAY)
    assert plan_checkpoint(storage, TIGHT)[1].floor == 10
    report = maintain(storage, TIGHT)
    assert report.exit_code == 0
    assert report.files_deleted.total() > 0  # below the pinned version
    assert loads(storage, 9)
    assert not loads(storage, 8)
    clock.now += DAY - 1
    assert maintain(storage, TIGHT).files_deleted.total() == 0
    clock.now += 1
    assert plan_checkpoint(storage, TIGHT)[0].pins == ()
    assert maintain(storage, TIGHT).files_deleted.total() > 0
    assert not loads(storage, 9)
    assert pin.until == clock.now


@pytest.mark.parametrize("with_ids", [False, True])
def test_a_pinned_batch_of_rocksdb_keeps_all_that_it_is_loaded_from(
    clock: Clock, *, with_ids: bool
) -> None:
    storage = write_rocks_checkpoint(
        HookedStorage(clock=clock), batches=range(9, 25), with_ids=with_ids
    )
    maintain(storage, TIGHT, request=Request(target=15, force_snapshot=True))
    pin = write_pin(storage, 16, by="test", seconds=DAY)
    for batch in range(9, 20):
        storage.delete(f"commits/{batch}")
        storage.delete(f"offsets/{batch}")
    for _ in range(3):
        clock.now += 3600
        forced = Request(target=20, force_snapshot=True)
        assert maintain(storage, TIGHT, request=forced).exit_code == 0
        assert maintain(storage, TIGHT).exit_code == 0
    assert loads(storage, 16)
    end_pin(storage, pin)
    assert maintain(storage, TIGHT).files_deleted.total() > 0
    assert not loads(storage, 16)


def test_the_lowest_of_several_pins_counts(storage: HookedStorage) -> None:
    low, high = (write_pin(storage, batch, by="test", seconds=DAY) for batch in (7, 12))
    assert plan_checkpoint(storage, TIGHT)[1].floor == 8
    end_pin(storage, low)
    assert plan_checkpoint(storage, TIGHT)[1].floor == 13
    end_pin(storage, high)
    assert plan_checkpoint(storage, TIGHT)[1].floor == 20


def test_a_pin_above_the_floor_changes_no_plan(storage: HookedStorage) -> None:
    before = plan_checkpoint(storage, TIGHT)[1]
    write_pin(storage, 22, by="test", seconds=DAY)
    after = plan_checkpoint(storage, TIGHT)[1]
    assert (after.floor, after.actions) == (before.floor, before.actions)


@pytest.mark.parametrize("path", [f"{FOLDER}/that.json", f"{FOLDER}/a/b", f"{FOLDER}/notes.txt"])
def test_a_file_that_is_no_pin_keeps_every_version(
    storage: HookedStorage, clock: Clock, path: str
) -> None:
    storage.write(path, [b"{"])
    report = maintain(storage, TIGHT)
    assert report.files_deleted.total() == 0
    assert codes(storage) == {FindingCode.UNREADABLE_PIN}
    assert report.exit_code == 0
    assert loads(storage, 0)
    clock.now += MOST_SECONDS
    assert codes(storage) == set()
    assert maintain(storage, TIGHT).files_deleted.total() > 0
    assert path in storage.files


def test_what_a_write_leaves_beside_a_pin_is_no_pin(storage: HookedStorage) -> None:
    storage.write(f"{FOLDER}/.x.json.0f6d2b1c-5a3e-4c7d-9b8a-112233445566.tmp", [b""])
    assert plan_checkpoint(storage, TIGHT)[0].pins == ()


def test_a_batch_pinned_after_the_plan_is_kept_by_the_run(storage: HookedStorage) -> None:
    """The run looks again before it deletes, and its next plan heeds the pin."""

    def pin_before_the_second_look(verb: str, path: str) -> None:
        if (verb, path) == ("list", FOLDER) and storage.paths("list").count(FOLDER) == 2:
            write_pin(storage, 9, by="test", seconds=DAY)

    storage.before = pin_before_the_second_look
    report = maintain(storage, TIGHT)
    assert report.files_deleted.total() == 0
    assert {one.code for one in report.findings} == {FindingCode.SUPERSEDED}
    assert "pins batch 9" in report.findings[0].detail
    assert report.exit_code == 6
    assert maintain(storage, TIGHT).files_deleted.total() > 0
    assert loads(storage, 9)


def test_a_run_that_finds_a_file_that_is_no_pin_reports_that_it_pins_every_batch(
    storage: HookedStorage,
) -> None:
    storage.write(f"{FOLDER}/notes.txt", [b"{"])
    with pytest.raises(Superseded, match=r"notes\.txt: pins every batch, which the plan does not"):
        PinWatch(storage, 9).check()


def test_a_run_looks_for_pins_twice(storage: HookedStorage) -> None:
    """Once for the plan, and once for all pages of deletions within two seconds."""
    maintain(storage, TIGHT)
    assert storage.paths("list").count(FOLDER) == 2


def test_a_pinned_batch_that_spark_has_cleaned_away_halts_nothing(storage: HookedStorage) -> None:
    write_pin(storage, 9, by="a test", seconds=DAY)
    storage.write("state/0/0/11.snapshot", [b""])
    for version in range(1, 11):
        storage.delete(f"state/0/0/{version}.delta")
    decided = plan_checkpoint(storage, TIGHT)[1]
    (finding,) = decided.all_findings
    assert (finding.code, finding.damage) == (FindingCode.BROKEN_PIN, False)
    assert "state/0/0: version 10 of batch 9" in finding.detail
    assert not any(one.halted for one in decided.stores)
    assert decided.floor == 10


# -- pin, pins, and the pin that other work holds


def test_a_batch_is_pinned_for_a_while(storage: HookedStorage) -> None:
    pin = pin_batch(storage, 20, by="before 2.1", for_seconds=DAY, wait=no_wait)
    assert list_pins(storage) == (pin,)
    assert (pin.batch, pin.by, pin.until) == (20, "before 2.1", storage.now() + DAY)
    assert end_pin_of(storage, pin.id) == pin
    assert list_pins(storage) == ()
    with pytest.raises(ConfigError, match="there is no pin"):
        end_pin_of(storage, pin.id)


@pytest.mark.parametrize("batch", [9, 25])
def test_a_batch_that_is_not_in_the_commit_log_is_not_pinned(
    storage: HookedStorage, batch: int
) -> None:
    with pytest.raises(ConfigError, match="is not committed, the commit log has batches 19 to 24"):
        pin_batch(storage, batch, by="test", for_seconds=DAY)
    assert list_pins(storage) == ()


def test_a_batch_that_does_not_load_is_not_pinned(storage: HookedStorage) -> None:
    storage.delete("state/0/1/23.delta")
    with pytest.raises(DamagedError, match=r"batch 23 cannot be pinned: state/0/1/23.delta"):
        pin_batch(storage, 23, by="test", for_seconds=DAY)
    assert list_pins(storage) == ()


@pytest.mark.parametrize("seconds", [0.0, -1.0, MOST_SECONDS + 1])
def test_a_pin_has_bounds(storage: HookedStorage, seconds: float) -> None:
    with pytest.raises(ConfigError, match="more than 0s and at most 90d"):
        pin_batch(storage, 20, by="test", for_seconds=seconds)
    assert list_pins(storage) == ()


def test_who_pins_beside_a_run_waits_until_it_has_looked_again(storage: HookedStorage) -> None:
    acquire(storage, Holder("run"))
    waited: list[float] = []
    pin_batch(storage, 20, by="test", for_seconds=DAY, wait=waited.append)
    assert waited == [QUIET]


def test_a_held_pin_ends_with_its_block(storage: HookedStorage) -> None:
    with pinned(storage, 20, by="savepoint", wait=no_wait) as pin:
        assert list_pins(storage) == (pin,)
    assert list_pins(storage) == ()
    with pytest.raises(RuntimeError), pinned(storage, 20, by="savepoint", wait=no_wait):
        raise RuntimeError
    assert list_pins(storage) == ()


def test_a_place_that_takes_no_pin_is_reported_before_the_block() -> None:
    storage = HookedStorage(before=refuse("write", f"{FOLDER}/*"))
    with pytest.raises(StorageError), pinned(storage, 1, by="test"):
        raise AssertionError
