"""Which runs take the lease, and which leave it and everything else alone."""

import pytest

from statemaint.errors import LeaseHeldError, UnsupportedError
from statemaint.execute.lease import QUIET, acquire
from statemaint.maintain import maintain
from statemaint.maintain.run import end_run
from statemaint.model.policy import Policy
from statemaint.planning import plan_checkpoint
from statemaint.records.claims import Holder
from statemaint.scan.scanner import scan
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import write_checkpoint
from tests.support.faults import Clock, HookedStorage, on
from tests.support.ledgers import ledger_lines

TIGHT = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=4, grace=0)


def checkpoint(clock: Clock) -> MemoryStorage:
    return write_checkpoint(MemoryStorage(clock=clock), last=10, batches=range(6, 10), partitions=1)


def test_a_plan_and_a_dry_run_take_no_lease_and_write_nothing(clock: Clock) -> None:
    storage = checkpoint(clock)
    acquire(storage, Holder("other"))
    before = storage.files
    plan_checkpoint(storage, TIGHT)
    assert maintain(storage, TIGHT, dry_run=True).exit_code == 0
    assert storage.files == before


def test_a_run_with_nothing_to_do_writes_nothing(clock: Clock) -> None:
    storage = checkpoint(clock)
    maintain(storage, TIGHT)
    acquire(storage, Holder("other"))
    before = storage.files
    assert maintain(storage, TIGHT).exit_code == 0
    assert storage.files == before


def test_a_run_that_finds_the_lease_held_changes_nothing(clock: Clock) -> None:
    storage = checkpoint(clock)
    acquire(storage, Holder("other"))
    before = storage.files
    with pytest.raises(LeaseHeldError):
        maintain(storage, TIGHT)
    assert storage.files == before


def test_a_run_of_the_same_id_is_another_run(clock: Clock) -> None:
    storage = checkpoint(clock)
    maintain(storage, TIGHT, run="nightly", holder=Holder("nightly"))
    storage.delete("state/0/0/10.snapshot")  # so that there is something to do again
    for holder in (None, Holder("nightly")):
        with pytest.raises(LeaseHeldError, match=r"\(run nightly\)"):
            maintain(storage, TIGHT, run="nightly", holder=holder)


def test_the_first_run_after_one_that_was_ended_plans_once(clock: Clock) -> None:
    """The lease was closed until every task must have noticed: none has been at work since."""
    storage, holder = checkpoint(clock), Holder("run")
    end_run(storage, holder, sound=True)
    clock.now += QUIET
    before = storage.requests
    maintain(storage, TIGHT)
    after = storage.requests
    other = checkpoint(clock)
    maintain(other, TIGHT)
    lists = other.requests["list"]
    assert after["list"] - before["list"] == lists


def test_a_run_that_began_before_the_tasks_must_have_noticed_plans_again(clock: Clock) -> None:
    storage, holder = checkpoint(clock), Holder("run")
    end_run(storage, holder, sound=True)

    def take_seconds() -> None:
        clock.now += QUIET

    slow = HookedStorage(storage, after=on("list", "state", take_seconds, once=True))
    maintain(slow, TIGHT)
    assert slow.paths("list").count("state") == 2


def test_a_kept_lease_is_ended_by_the_end_of_the_run(clock: Clock) -> None:
    storage = checkpoint(clock)
    holder = Holder("run")
    maintain(storage, TIGHT, run="run", holder=holder)
    with pytest.raises(LeaseHeldError):
        acquire(storage, Holder("other"))
    end_run(storage, holder, sound=True)
    clock.now += QUIET
    assert acquire(storage, Holder("other")).number == 3
    with pytest.raises(LeaseHeldError):
        end_run(storage, holder, sound=True)


def test_every_line_of_the_ledger_has_the_leases_number(clock: Clock) -> None:
    storage = checkpoint(clock)
    acquire(storage, Holder("other")).release()
    maintain(storage, TIGHT)
    assert {line["fence"] for line in ledger_lines(storage, "0/0")} == {2}


def test_a_run_plans_again_when_another_one_was_at_work_meanwhile(clock: Clock) -> None:
    storage = checkpoint(clock)
    other = Holder("other")
    acquire(storage, other)

    def overtake() -> None:
        """The other run does its work, and ends, after this one has listed the state."""
        maintain(storage, TIGHT, run="other", holder=other)
        acquire(storage, other).release()

    overtaken = HookedStorage(storage, after=on("list", "state", overtake, once=True))
    report = maintain(overtaken, TIGHT)
    assert (report.snapshots_written, report.files_deleted.total()) == (0, 0)
    assert overtaken.paths("list").count("state") == 2
    assert scan(storage).stores[0].foreign == ()


def test_a_storage_that_cannot_exclude_is_refused(clock: Clock) -> None:
    class Shared(MemoryStorage):
        exclusive = False

    files = checkpoint(clock).files
    shared = Shared(files, clock=clock)
    with pytest.raises(UnsupportedError) as refused:
        maintain(shared, TIGHT)
    assert refused.value.exit_code == 2
    assert "two writers can both create the same file" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert shared.files == files
