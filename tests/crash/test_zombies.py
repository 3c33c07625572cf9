"""Tasks that live on after their run: they stop before they delete or publish again (S8)."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from statemaint.audit import verify
from statemaint.errors import LeaseHeldError, LeaseLostError
from statemaint.execute.fence import TRUSTED
from statemaint.execute.lease import QUIET, Lease, acquire, end_earlier
from statemaint.maintain import maintain
from statemaint.maintain.run import end_run
from statemaint.model.policy import Policy
from statemaint.records.claims import LAST, SECONDS, Claim, Holder, newest_number, path_of
from statemaint.storage import MemoryStorage, Storage
from tests.support.checkpoints import write_checkpoint
from tests.support.faults import Clock, HookedStorage, PausingStorage, SlowStorage, on
from tests.support.rocks import write_rocks_checkpoint

TIGHT = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=2, grace=0)
TRASH = TIGHT.override(trash_for=9e9)
PAGE = 200
SHARED, AGAIN = Holder("run"), Holder("run", attempt=2)
End = Callable[[Storage], None]


def report(beside: Storage) -> None:
    end_run(beside, SHARED, sound=True)


def plan_again(beside: Storage) -> None:
    end_earlier(beside, AGAIN)


def hdfs_backed(*, last: int = 6) -> dict[str, bytes]:
    found = MemoryStorage(clock=Clock())
    write_checkpoint(found, last=last, batches=range(last - 3, last), partitions=1)
    return found.files


def rocks() -> dict[str, bytes]:
    found = MemoryStorage(clock=Clock())
    write_rocks_checkpoint(found, last=9, batches=range(6, 9), partitions=1)
    return found.files


def task(storage: Storage, policy: Policy) -> None:
    """What a mapped task does; a zombie's failure is nobody's business."""
    with suppress(LeaseLostError, LeaseHeldError):
        maintain(storage, policy, run="run", holder=SHARED)


def changed(storage: PausingStorage, since: int = 0) -> list[tuple[str, str]]:
    verbs = ("delete", "move", "write")
    calls = storage.calls[since:]
    return [(verb, path) for verb, path in calls if verb in verbs and path.startswith("state/")]


def deletions(files: dict[str, bytes], policy: Policy) -> list[int]:
    """Returns which requests of a task delete state, when nothing disturbs it."""
    storage = PausingStorage(files, clock=Clock(), pauses={})
    task(storage, policy)
    removes = enumerate(storage.calls)
    return [at for at, call in removes if call[0] in ("delete", "move") and "state/" in call[1][:6]]


@pytest.mark.parametrize("end", [report, plan_again])
@pytest.mark.parametrize("policy", [TIGHT, TRASH])
def test_a_zombie_whose_run_was_ended_deletes_no_further_page(policy: Policy, end: End) -> None:
    files = hdfs_backed(last=3 * PAGE)
    usual = deletions(files, policy)
    assert len(usual) > 2 * PAGE
    # No time passes: neither a deadline nor a heartbeat tells it.
    storage = PausingStorage(files, clock=Clock(), pauses={usual[0]: end})
    task(storage, policy)
    gone = [call for call in changed(storage) if call[0] in ("delete", "move")]
    assert len(gone) == PAGE
    assert verify(storage, deep=True).healthy


@pytest.mark.parametrize(
    ("policy", "made", "end"),
    [
        pytest.param(TIGHT, hdfs_backed, report, id="delete"),
        pytest.param(TIGHT, hdfs_backed, plan_again, id="delete, planned again"),
        pytest.param(TRASH, hdfs_backed, report, id="trash"),
        pytest.param(TRASH, hdfs_backed, plan_again, id="trash, planned again"),
        pytest.param(TIGHT.override(orphan_age=0), rocks, report, id="rocks"),
    ],
)
def test_by_the_time_another_run_gets_the_lease_a_zombie_changes_nothing(
    policy: Policy, made: Callable[[], dict[str, bytes]], end: End
) -> None:
    files = made()
    counting = PausingStorage(files, clock=Clock(), pauses={})
    task(counting, policy)
    begun = counting.calls.index(("write", path_of(1)))
    assert len(counting.calls) - begun >= 15
    for at in range(begun, len(counting.calls)):
        clock, others = Clock(), list[Lease]()

        def pause(beside: Storage, clock: Clock = clock, others: list[Lease] = others) -> None:
            end(beside)
            clock.now += QUIET
            others.append(acquire(beside, Holder("another")))

        storage = PausingStorage(files, clock=clock, pauses={at: pause})
        task(storage, policy)
        assert changed(storage, since=at + 1) == [], at
        others[0].must_hold()
        assert verify(storage).healthy


@pytest.mark.parametrize("made", [hdfs_backed, rocks])
def test_what_a_zombie_had_begun_to_write_does_not_appear(
    made: Callable[[], dict[str, bytes]],
) -> None:
    """A zip would come after its tables, which the other run may have deleted as orphans."""
    files = made()
    counting = SlowStorage(files, clock=Clock(), pauses={})
    task(counting, TIGHT)
    written = [at for at, (verb, path) in enumerate(counting.calls) if verb == "write"
               and path.startswith("state/")]  # fmt: skip
    assert len(written) >= (1 if made is hdfs_backed else 2)
    for at in written:
        clock = Clock()

        def pause(beside: Storage, clock: Clock = clock) -> None:
            clock.now += SECONDS
            acquire(beside, Holder("another"))

        storage = SlowStorage(files, clock=clock, pauses={at: pause})
        task(storage, TIGHT)
        assert storage.calls[at][1] not in storage.files


@pytest.mark.parametrize("end", [report, plan_again])
def test_nobody_gets_a_lease_that_was_ended_before_its_tasks_must_have_noticed(end: End) -> None:
    clock = Clock()
    storage = MemoryStorage(clock=clock)
    zombie = acquire(storage, SHARED)
    end(storage)
    for waited in (0.0, TRUSTED, QUIET - TRUSTED - 0.1):
        clock.now += waited
        for holder in (Holder("another"), SHARED, AGAIN):
            with pytest.raises((LeaseHeldError, LeaseLostError)):
                acquire(storage, holder)
    clock.now += 0.1
    assert acquire(storage, Holder("another")).number == 3
    with pytest.raises(LeaseLostError):
        zombie.check()


def test_a_look_at_the_lease_counts_for_two_seconds_and_no_request_is_made_meanwhile() -> None:
    clock = Clock()
    storage = MemoryStorage(clock=clock)
    zombie = acquire(storage, SHARED)
    zombie.must_hold()
    before = storage.requests
    report(storage)
    looks = {verb: count - before.get(verb, 0) for verb, count in storage.requests.items()}
    zombie.check()
    clock.now += TRUSTED - 0.01
    before = storage.requests
    assert zombie.is_fresh
    zombie.check()
    assert storage.requests == before
    clock.now += 0.01
    with pytest.raises(LeaseLostError):
        zombie.check()
    assert sum(looks.values()) < 20


def test_a_quick_page_of_deletions_asks_for_the_lease_once() -> None:
    storage = PausingStorage(hdfs_backed(last=2 * PAGE + 50), clock=Clock(), pauses={})
    task(storage, TIGHT)
    following = "_statemaint/lease/0000000002.json"
    first = next(at for at, call in enumerate(storage.calls) if call[0] == "delete")
    asked = [call for call in storage.calls[first:] if call == ("read", following)]
    pages = -(-len(deletions(hdfs_backed(last=2 * PAGE + 50), TIGHT)) // PAGE)
    assert pages > 1
    assert len(asked) == pages - 1  # that of the first page came before its first deletion


def test_a_slow_page_asks_for_the_lease_again() -> None:
    clock = Clock()

    class Slow(PausingStorage):
        """A move takes a second, and the run is ended after the tenth."""

        moves = 0

        def move(self, path: str, to: str, *, like: str | None = None) -> None:
            clock.now += 1
            super().move(path, to, like=like)
            self.moves += 1
            if self.moves == 10:
                report(self.beside)

    storage = Slow(hdfs_backed(last=60), clock=clock, pauses={})
    task(storage, TRASH)
    assert 10 <= storage.moves <= 10 + TRUSTED


def test_a_snapshot_that_takes_long_to_fold_does_not_appear_once_the_run_was_ended() -> None:
    clock = Clock()
    files = hdfs_backed(last=12)
    usual = PausingStorage(files, clock=clock, pauses={})
    task(usual, TIGHT)
    assert ("write", "state/0/0/12.snapshot") in changed(usual)
    folding = usual.calls.index(("write", "state/0/0/12.snapshot")) - 1

    def pause(beside: Storage) -> None:
        report(beside)
        clock.now += TRUSTED

    storage = PausingStorage(files, clock=clock, pauses={folding: pause})
    task(storage, TIGHT)
    assert changed(storage) == []


def test_a_task_that_begins_late_works_under_a_lease_of_its_own_again() -> None:
    """As a task does that somebody cleared in Airflow once the run had ended."""
    clock = Clock()
    storage = MemoryStorage(hdfs_backed(), clock=clock)
    acquire(storage, SHARED)
    report(storage)
    clock.now += QUIET
    task(storage, TIGHT)
    assert newest_number(storage) == 3
    with pytest.raises(LeaseHeldError):
        acquire(storage, Holder("another"))


def test_a_mark_is_made_once_however_many_end_a_run() -> None:
    storage = MemoryStorage(clock=Clock())
    first, second = acquire(storage, SHARED), acquire(storage, SHARED)
    first.end()
    second.end()
    plan_again(storage)
    assert newest_number(storage) == 2


@pytest.mark.parametrize("end", [report, plan_again])
def test_what_goes_on_under_a_new_number_is_ended_all_the_same(end: End) -> None:
    """Between the look and the mark a task renews a lease whose deadline has passed."""
    clock = Clock()
    beside = MemoryStorage(clock=clock)
    zombie = acquire(beside, SHARED)

    def renew() -> None:
        clock.now += SECONDS
        zombie.renew()

    end(HookedStorage(beside, before=on("write", path_of(2), renew, once=True)))
    assert zombie.number == 2
    assert newest_number(beside) == 3
    with pytest.raises(LeaseLostError):
        zombie.must_hold()


def test_a_run_is_not_ended_where_another_one_was_quicker() -> None:
    clock = Clock()
    beside = MemoryStorage(clock=clock)
    zombie = acquire(beside, SHARED)
    others: list[Lease] = []

    def take() -> None:
        clock.now += SECONDS
        others.append(acquire(beside, Holder("another")))

    plan_again(HookedStorage(beside, before=on("write", path_of(2), take, once=True)))
    zombie.end()
    others[0].must_hold()
    assert newest_number(beside) == 2


def test_no_mark_follows_the_last_number() -> None:
    last = Claim(LAST, SHARED, "a host", 0.0)
    storage = MemoryStorage({last.path: last.content})
    plan_again(storage)
    assert list(storage.files) == [last.path]
