"""One maintainer at a time: numbers, deadlines, and a maintainer that was paused (S8)."""

import json
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from statemaint.errors import (
    AlreadyExistsError,
    LeaseHeldError,
    LeaseLostError,
    NotFoundError,
    StorageError,
)
from statemaint.execute import lease as leases
from statemaint.execute.fence import TRUSTED
from statemaint.execute.lease import QUIET, Lease, acquire, check_free, end_earlier, leased
from statemaint.listing import Entry
from statemaint.model.policy import Policy
from statemaint.records import claims
from statemaint.records.claims import (
    FOLDER,
    LAST,
    SECONDS,
    STAYS,
    Claim,
    Holder,
    newest,
    newest_number,
    path_of,
)
from statemaint.storage import LocalStorage, MemoryStorage, Storage
from tests.support.checkpoints import NOW
from tests.support.faults import Clock, HookedStorage, on, refuse

TIGHT = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=4, grace=0)


@pytest.fixture
def storage(clock: Clock) -> MemoryStorage:
    return MemoryStorage(clock=clock)


def lease_files(storage: Storage) -> list[str]:
    return sorted(entry.path for entry in storage.list(FOLDER))


# -- who gets it


def test_numbers_grow_from_one(storage: MemoryStorage) -> None:
    numbers = []
    for run in "abc":
        with leased(storage, Holder(run)) as lease:
            numbers.append(lease.number)
    assert numbers == [1, 2, 3]


@pytest.mark.parametrize("ask", [acquire, check_free])
def test_a_second_run_is_told_who_holds_it_and_until_when(
    storage: MemoryStorage, ask: Callable[[Storage, Holder], object]
) -> None:
    with leased(storage, Holder("first")), pytest.raises(LeaseHeldError) as held:
        ask(storage, Holder("second"))
    error = held.value
    assert (error.run, error.owner, error.until) == ("first", claims.me(), NOW + SECONDS)
    assert error.exit_code == 4
    assert f"{claims.me()} (run first)" in str(error)
    assert "until 2033-05-18 03:34:20 UTC" in str(error)


def test_a_released_lease_lets_the_next_run_in_at_once(
    storage: MemoryStorage, caplog: pytest.LogCaptureFixture
) -> None:
    with leased(storage, Holder("first")):
        pass
    assert acquire(storage, Holder("second")).number == 2
    assert caplog.messages == []


def test_a_lease_is_released_when_the_work_fails(storage: MemoryStorage) -> None:
    with pytest.raises(ZeroDivisionError), leased(storage, Holder("first")):
        raise ZeroDivisionError
    assert acquire(storage, Holder("second")).number == 2


def test_an_expired_lease_is_taken_over_and_that_is_logged(
    storage: MemoryStorage, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    acquire(storage, Holder("dead"))
    clock.now += SECONDS - 0.5
    with pytest.raises(LeaseHeldError):
        acquire(storage, Holder("next"))
    clock.now += 0.5
    with caplog.at_level(logging.WARNING):
        assert acquire(storage, Holder("next")).number == 2
    assert [f"took over the lease of {claims.me()} (run dead)" in one for one in caplog.messages]
    assert len(caplog.messages) == 1


def test_the_tasks_of_one_run_share_its_lease(storage: MemoryStorage, clock: Clock) -> None:
    holder = Holder("run")
    first = acquire(storage, holder)
    clock.now += 40
    second = acquire(storage, holder)
    clock.now += 40
    assert (first.number, second.number) == (1, 1)
    first.must_hold()
    with pytest.raises(LeaseHeldError):
        acquire(storage, Holder("other"))


def test_two_runs_of_one_name_are_two_holders(storage: MemoryStorage) -> None:
    """The id of an Airflow run is the same in every DAG of its schedule."""
    first = acquire(storage, Holder("scheduled__2026-01-01T00:00:00+00:00"))
    before = storage.files
    for attempt in (1, 0):
        with pytest.raises((LeaseHeldError, LeaseLostError)) as refused:
            acquire(storage, Holder("scheduled__2026-01-01T00:00:00+00:00", attempt=attempt))
        assert refused.value.exit_code == 4
    assert storage.files == before
    first.must_hold()


def test_a_lease_of_an_earlier_build_is_shared_with_nobody(
    storage: MemoryStorage, clock: Clock
) -> None:
    content = {"number": 1, "run": "run", "owner": "a host", "deadline": clock.now + SECONDS}
    storage.write(path_of(1), [json.dumps(content).encode()])
    for holder in (Holder("run"), Holder("run", attempt=0), Holder("run", attempt=2)):
        with pytest.raises(LeaseHeldError, match=r"a host \(run run\)"):
            acquire(storage, holder)
    clock.now += SECONDS
    assert acquire(storage, Holder("run")).number == 2


def test_a_claim_says_in_its_file_all_that_it_is(storage: MemoryStorage) -> None:
    whole = Claim(3, Holder("run", 2, "nonce"), "a host", NOW + 3, ended=True)
    storage.write(whole.path, [whole.content])
    assert newest(storage) == whole


def test_an_ended_lease_is_released_once_its_time_is_over(
    storage: MemoryStorage, clock: Clock
) -> None:
    acquire(storage, Holder("run")).end()
    clock.now += QUIET
    found = newest(storage)
    assert found is not None
    assert (found.number, found.deadline, found.ended) == (2, 0.0, True)


def test_the_lease_of_a_run_that_was_just_ended_is_refused_until_it_is_quiet(
    storage: MemoryStorage,
) -> None:
    acquire(storage, Holder("first")).end()
    ended = r"\(run first\) has ended; no other begins before"
    with pytest.raises(LeaseHeldError, match=ended) as held:
        acquire(storage, Holder("second"))
    assert held.value.until == NOW + QUIET


def test_a_run_that_comes_back_after_its_deadline_has_not_been_taken_over(
    storage: MemoryStorage, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    holder = Holder("run")
    first = acquire(storage, holder)
    clock.now += SECONDS
    assert acquire(storage, holder).number == 2
    assert caplog.messages == []
    first.must_hold()  # a task of the same run goes on under the new number
    assert first.number == 2


@pytest.mark.parametrize("noticed", [True, False])
def test_a_claim_that_is_cleared_away_while_it_is_written_is_made_again(*, noticed: bool) -> None:
    """A local disk looks at the file once more after it has its name."""

    def clear_away() -> None:
        cleared.delete(path_of(1))
        if noticed:
            raise NotFoundError(path_of(1))

    cleared = HookedStorage(after=on("write", path_of(1), clear_away, once=True))
    assert acquire(cleared, Holder("a")).number == 1
    assert lease_files(cleared) == ["_statemaint/lease/0000000001.json"]


@pytest.mark.parametrize("kind", ["local", "memory"])
def test_of_many_that_ask_at_once_one_gets_each_number(tmp_path: Path, kind: str) -> None:
    storage: Storage = LocalStorage(tmp_path) if kind == "local" else MemoryStorage()
    start, holding = threading.Barrier(8), threading.Lock()
    numbers: list[int] = []
    faults: list[BaseException] = []

    def work(name: str) -> None:
        start.wait()
        try:
            for turn in range(12):
                try:
                    lease = acquire(storage, Holder(f"{name}-{turn}"))
                except LeaseHeldError:
                    continue
                assert holding.acquire(blocking=False), "two hold it at once"
                numbers.append(lease.number)
                holding.release()
                lease.release()
        except BaseException as error:  # noqa: BLE001 -- of a thread, told below
            faults.append(error)

    threads = [threading.Thread(target=work, args=(str(number),)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert numbers
    assert set(Counter(numbers).values()) == {1}


def test_a_claim_stays_for_a_while_after_the_next_one(storage: MemoryStorage, clock: Clock) -> None:
    for run in "abc":
        acquire(storage, Holder(run)).release()
    assert lease_files(storage) == [path_of(1), path_of(2), path_of(3)]
    clock.now += STAYS
    acquire(storage, Holder("d")).release()
    assert lease_files(storage) == [path_of(3), path_of(4)]


class Meanwhile(MemoryStorage):
    """Runs come and go during one listing, which misses what they create and delete."""

    runs = ""

    def list(self, prefix: str) -> Iterator[Entry]:
        before, runs = [*super().list(prefix)], self.runs
        self.runs = ""
        for run in runs:
            acquire(self, Holder(run)).release()
        after = {one.path for one in super().list(prefix)}
        yield from (one for one in before if not runs or one.path in after)


@pytest.mark.parametrize("pause", [0.0, STAYS])
def test_a_listing_that_misses_what_comes_and_goes_gives_no_number_twice(
    clock: Clock, pause: float
) -> None:
    """A run is paused before it creates a number, which other runs take, and then delete."""
    storage = Meanwhile(clock=clock)
    for run in "abcd":
        acquire(storage, Holder(run)).release()
        clock.now += pause
    storage.runs = "ef"
    number_of_b = Claim(2, Holder("paused"), "a host", clock.now + SECONDS)
    with pytest.raises((AlreadyExistsError, LeaseLostError)):
        Lease(storage, number_of_b, SECONDS).created()
    assert acquire(storage, Holder("next")).number == 7
    assert (path_of(2) in lease_files(storage)) is (pause == 0)


def test_a_number_that_is_created_again_is_deleted_again(
    storage: MemoryStorage, clock: Clock
) -> None:
    """Its first holder, if it were still at work, would take it for its own."""
    for run in "abcde":
        acquire(storage, Holder(run)).release()
        clock.now += STAYS
    before = lease_files(storage)
    again = Claim(2, Holder("paused"), "a host", clock.now + SECONDS)
    with pytest.raises(LeaseLostError):
        Lease(storage, again, SECONDS).created()
    assert lease_files(storage) == before


def test_only_claims_below_a_number_or_without_a_next_one_are_deleted(
    storage: MemoryStorage, clock: Clock
) -> None:
    for number in (1, 2, 3, 4):
        storage.write(path_of(number), [b"{}"])
        clock.now += 2 * STAYS
    claims.forget_before(storage, 2)
    for number in (2, 3, 4):
        claims.take_back(storage, number)
    assert lease_files(storage) == [path_of(2), path_of(3), path_of(4)]


def test_where_another_run_has_deleted_all_claims_no_request_fails(storage: MemoryStorage) -> None:
    claims.forget_before(storage, 2)
    claims.take_back(storage, 2)
    assert storage.requests == {"list": 2}


# -- files of leases


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b'{"run": "r", "owner": "o"}', b"\xff", b"[" * 100_000,
     b'{"run": "r", "owner": "o", "deadline": 1e400}',
     b'{"run": "r", "owner": "o", "deadline": 1e99}',
     b'{"run": "r", "owner": "o", "deadline": NaN}',
     b'{"run": "r", "owner": "o", "deadline": -1}',
     b'{"run": "r", "owner": "o", "deadline": null}'],
)  # fmt: skip
def test_an_unreadable_lease_counts_as_held_and_then_expires(
    storage: MemoryStorage, clock: Clock, content: bytes
) -> None:
    storage.write(path_of(7), [content])
    with pytest.raises(LeaseHeldError, match="an unreadable lease file"):
        acquire(storage, Holder("next"))
    clock.now += SECONDS
    assert acquire(storage, Holder("next")).number == 8


def test_an_unreadable_lease_from_the_epoch_does_not_hold_for_ever() -> None:
    storage = MemoryStorage({path_of(1): b"?"})  # some file systems stamp everything with 0
    clock = Clock()
    later = MemoryStorage(clock=clock)
    later._files = storage._files
    assert acquire(later, Holder("next")).number == 2


def test_an_unreadable_lease_is_of_nobody_who_could_share_it(storage: MemoryStorage) -> None:
    storage.write(path_of(7), [b"?"])
    nobody = Holder("", 0, "")
    assert claims.claim_of(storage, 7) == Claim(7, nobody, "an unreadable lease file", NOW + 60)


def test_a_lease_of_an_earlier_build_is_of_no_attempt_and_no_nonce(storage: MemoryStorage) -> None:
    storage.write(path_of(1), [b'{"run": "run", "owner": "a host", "deadline": 5}'])
    assert claims.claim_of(storage, 1) == Claim(1, Holder("run", 0, ""), "a host", 5.0)


@pytest.mark.parametrize(
    ("deadline", "counts"), [(249_999_999_999.0, True), (250_000_000_000.0, False), (0.0, True)]
)
def test_a_deadline_is_before_the_end_of_time(deadline: float, *, counts: bool) -> None:
    storage = MemoryStorage(clock=Clock(deadline))
    storage.write(path_of(1), [Claim(1, Holder("run"), "a host", deadline).content])
    assert (claims.claim_of(storage, 1).owner == "a host") is counts


def test_a_deadline_that_is_near_is_not_cut_short_however_old_the_file_is(
    storage: MemoryStorage, clock: Clock
) -> None:
    """Some storages keep the time of the first write."""
    near = Claim(1, Holder("run"), "a host", clock.now + 7200 + 600)
    far = Claim(2, Holder("run"), "a host", clock.now + 7200 + 601)
    for claim in (near, far):
        storage.write(claim.path, [claim.content])
    clock.now += 7200
    assert claims.claim_of(storage, 1) == near
    assert claims.claim_of(storage, 2).deadline == NOW + 3600


def test_a_lease_that_is_taken_over_between_two_looks_is_looked_for_again() -> None:
    """Another run takes over after the first listing."""
    storage = MemoryStorage({path_of(3): b"{}"})

    def take_over() -> None:
        storage.write(path_of(4), [Claim(4, Holder("next"), "a host", NOW).content])
        storage.delete(path_of(3))

    found = newest(HookedStorage(storage, before=on("read", path_of(3), take_over)))
    assert found is not None
    assert (found.number, found.holder.name) == (4, "next")


def test_a_later_attempt_at_the_same_run_follows_and_nothing_else() -> None:
    second = Holder("run", 2)
    assert second.follows(Holder("run", 1))
    assert not second.follows(Holder("run", 2))
    assert not second.follows(Holder("run", 3))
    assert not second.follows(Holder("other", 1))


def test_a_later_attempt_ends_the_lease_of_the_one_before(
    storage: MemoryStorage, caplog: pytest.LogCaptureFixture
) -> None:
    acquire(storage, Holder("run"))
    second = Holder("run", 2)
    with caplog.at_level(logging.WARNING):
        end_earlier(storage, second)
        end_earlier(storage, Holder("run", 3))  # it is ended already
    claim = newest(storage)
    assert claim == Claim(2, second, claims.me(), NOW + QUIET, ended=True)
    assert lease_files(storage) == [path_of(1), path_of(2)]
    assert caplog.messages == [
        f"{storage.root}: ended the lease of {claims.me()}, attempt 1 at run run; this is attempt 2"
    ]


@pytest.mark.parametrize("run", ["other", None])
def test_a_lease_of_another_run_or_none_is_left_alone(
    storage: MemoryStorage, run: str | None
) -> None:
    if run:
        acquire(storage, Holder(run))
    before = storage.files
    end_earlier(storage, Holder("run", 2))
    assert storage.files == before


def test_nothing_ends_the_last_lease(storage: MemoryStorage) -> None:
    last = Claim(LAST, Holder("run"), "a host", NOW + SECONDS)
    storage.write(last.path, [last.content])
    end_earlier(storage, Holder("run", 2))
    assert lease_files(storage) == [last.path]


def test_other_files_in_the_folder_are_no_leases(storage: MemoryStorage) -> None:
    names = (".0000000009.json.tmp", "0000000009.json.bak", "x.json", "\u0664.json", "5.json")
    for name in (*names, "99999999999.json", "a/0000000009.json"):
        storage.write(f"{FOLDER}/{name}", [b"?"])
    assert newest_number(storage) == 0
    assert newest(storage) is None


@pytest.mark.parametrize("ahead", [7200.0, 31_536_000.0, 200_000_000_000.0])
def test_a_lease_that_a_wrong_clock_stamped_ends_an_hour_after_it_was_written(
    storage: MemoryStorage, clock: Clock, ahead: float
) -> None:
    claim = Claim(3, Holder("gone"), "a host with a wrong clock", clock.now + ahead)
    storage.write(claim.path, [claim.content])
    with pytest.raises(LeaseHeldError) as held:
        acquire(storage, Holder("next"))
    assert held.value.until == NOW + 3600
    clock.now += 3600
    assert acquire(storage, Holder("next")).number == 4


def test_no_lease_follows_the_last_number(storage: MemoryStorage) -> None:
    storage.write(path_of(9_999_999_999), [b'{"run": "", "owner": "", "deadline": 0}'])
    with pytest.raises(StorageError, match=r"9999999999\.json: no lease can follow it"):
        acquire(storage, Holder("next"))


def test_old_leases_are_cleared_away_the_oldest_first(storage: MemoryStorage, clock: Clock) -> None:
    for number in range(1, 6):
        storage.write(path_of(number), [b'{"run": "", "owner": "", "deadline": 0}'])
    clock.now += STAYS

    watched = HookedStorage(storage)
    acquire(watched, Holder("next"))
    assert watched.paths("delete") == [path_of(number) for number in range(1, 5)]
    assert lease_files(storage) == [path_of(5), path_of(6)]


def test_threads_that_wait_for_the_lease_share_one_look_at_it(clock: Clock) -> None:
    """Each would otherwise ask after the other, while its store waits."""
    told = threading.Semaphore(0)

    class Telling(MemoryStorage):
        def now(self) -> float:
            told.release()
            return super().now()

    storage = Telling(clock=clock)
    lease = acquire(storage, Holder("run"))
    clock.now += TRUSTED
    before = storage.requests
    threads = [threading.Thread(target=lease.check) for _ in range(8)]
    with lease._lock:
        while told.acquire(blocking=False):
            pass
        for thread in threads:
            thread.start()
        for _ in range(2 * len(threads)):  # each has asked for the time twice: is the answer old?
            assert told.acquire(timeout=60)
    for thread in threads:
        thread.join()
    asked = {verb: count - before.get(verb, 0) for verb, count in storage.requests.items()}
    assert asked["read"] == 2, "the next number, and its own"


def test_a_deletion_relies_on_a_look_that_began_after_it_asked(clock: Clock) -> None:
    """Threads that came while a look was on its way share the next one, not that one."""
    looking, told = threading.Semaphore(0), threading.Semaphore(0)
    go_on = threading.Event()

    def wait() -> None:
        looking.release()
        assert go_on.wait(timeout=60)

    storage = HookedStorage(clock=clock)
    lease = acquire(storage, Holder("run"))
    storage.before = on("read", path_of(1), wait)

    def asks() -> None:
        told.release()
        lease.must_hold()

    before = storage.requests.get("read", 0)
    threads = [threading.Thread(target=asks) for _ in range(8)]
    for thread in threads[:1]:
        thread.start()
    assert looking.acquire(timeout=60)
    for thread in threads[1:]:
        thread.start()
    for _ in threads:
        assert told.acquire(timeout=60)
    go_on.set()
    for thread in threads:
        thread.join()
    assert 2 * 2 <= storage.requests["read"] - before < 2 * len(threads)


def test_an_answer_that_has_become_old_is_not_shared(storage: MemoryStorage, clock: Clock) -> None:
    lease = acquire(storage, Holder("run"))
    lease.must_hold()
    before = storage.requests["read"]
    lease._looks -= 1  # as a thread sees it that came before the look
    lease.must_hold()
    assert storage.requests["read"] == before
    clock.now += TRUSTED
    lease.must_hold()
    assert storage.requests["read"] == before + 2


def test_a_lease_is_lost_where_all_was_deleted_and_numbers_began_again(clock: Clock) -> None:
    storage = MemoryStorage(clock=clock)
    paused = acquire(storage, Holder("paused"))
    clock.now += 3 * 86400
    storage.delete(path_of(1))  # as the expiry of a savepoint does, once nothing else is left
    for ended in (False, True):
        other = acquire(storage, Holder(f"other {ended}"))
        content = storage.read(path_of(1))
        if ended:
            other.release()
            content = storage.read(path_of(1))
        for look in (paused.must_hold, paused.check, paused.renew):
            with pytest.raises(LeaseLostError):
                look()
        assert storage.read(path_of(1)) == content, "the other's"
        storage.delete(path_of(1))


def test_a_lease_of_which_nothing_is_left_is_lost(storage: MemoryStorage, clock: Clock) -> None:
    zombie = acquire(storage, Holder("zombie"))
    for run in "abcd":
        clock.now += SECONDS
        acquire(storage, Holder(run))
    assert path_of(1) not in storage.files
    assert path_of(2) not in storage.files
    for ask in (zombie.must_hold, zombie.check, zombie.renew):
        with pytest.raises(LeaseLostError):
            ask()
    assert LeaseLostError.exit_code == 4


# -- heartbeat


def test_renewing_moves_the_deadline_on(storage: MemoryStorage, clock: Clock) -> None:
    lease = acquire(storage, Holder("run"))
    for _ in range(10):
        clock.now += SECONDS - 1
        lease.renew()
    assert json.loads(storage.read(path_of(1)))["deadline"] == clock.now + SECONDS
    assert lease.number == 1


def test_a_lease_that_ended_goes_on_under_a_new_number(
    storage: MemoryStorage, clock: Clock
) -> None:
    lease = acquire(storage, Holder("run"))
    clock.now += SECONDS
    lease.check()
    assert lease.number == newest_number(storage) == 2
    with pytest.raises(LeaseHeldError):
        acquire(storage, Holder("other"))


def test_of_two_runs_that_take_one_number_the_first_keeps_it(
    storage: MemoryStorage, clock: Clock
) -> None:
    """A task of the run and another run look at the same moment, and both find the number free."""
    lease = acquire(storage, Holder("run"))
    clock.now += SECONDS
    other = acquire(storage, Holder("other"))
    before = storage.files[path_of(2)]
    with pytest.raises(LeaseLostError):
        lease._go_on(replace(lease._claim, number=2))
    assert storage.files[path_of(2)] == before
    with pytest.raises(LeaseLostError):
        lease._end()
    assert storage.files[path_of(2)] == before
    other.must_hold()


def test_a_lease_that_goes_on_again_and_again_leaves_three_files(
    storage: MemoryStorage, clock: Clock
) -> None:
    lease = acquire(storage, Holder("run"))
    for number in (2, 3, 4):
        clock.now += SECONDS
        lease.must_hold()
        kept = range(max(1, number - 2), number + 1)
        assert lease_files(storage) == [path_of(one) for one in kept]


@pytest.mark.parametrize(("skew", "pause"), [(400.0, 500.0), (-400.0, 0.0), (0.0, 7.0)])
def test_a_pause_while_the_lease_is_written_hides_no_skew(skew: float, pause: float) -> None:
    clock = Clock()

    class Asleep(MemoryStorage):
        def now(self) -> float:
            return clock.now

        def write(self, path: str, chunks: Iterable[bytes], **how: Any) -> Entry:
            entry = super().write(path, chunks, **how)
            clock.now += pause
            return entry

    lease = acquire(Asleep(clock=lambda: clock.now + skew), Holder("run"))
    assert lease.skew == (skew or -pause)


def test_the_clock_of_a_storage_without_times_has_no_skew() -> None:
    class Timeless(MemoryStorage):
        def write(self, *args: Any, **options: Any) -> Entry:
            return replace(super().write(*args, **options), modified=None)

    assert acquire(Timeless(), Holder("run")).skew == 0.0


def test_an_earlier_attempt_is_told_that_a_later_one_has_begun(storage: MemoryStorage) -> None:
    acquire(storage, Holder("run", 2))
    with pytest.raises(LeaseLostError, match="attempt 2 at its run has begun"):
        acquire(storage, Holder("run", 1))


class Turns:
    """Stands for the event that ends the heartbeat: it is set after some turns."""

    def __init__(self, turns: int) -> None:
        self.left = turns
        self.waited: list[float] = []

    def wait(self, seconds: float) -> bool:
        self.waited.append(seconds)
        self.left -= 1
        return self.left < 0


def beat(lease: Lease, turns: int) -> Turns:
    done = Turns(turns)
    leases._beat(lease.renew, lease.seconds, "lease", done)  # type: ignore[arg-type]
    return done


def test_the_heartbeat_renews_three_times_as_often_as_it_must(storage: MemoryStorage) -> None:
    lease = acquire(storage, Holder("run"))
    writes = storage.requests["write"]
    assert beat(lease, 4).waited == [SECONDS / 3] * 5
    assert storage.requests["write"] == writes + 4


def test_the_heartbeat_outlives_a_storage_that_fails(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    storage = HookedStorage(clock=clock)
    lease = acquire(storage, Holder("run"))
    storage.before = refuse("write", error="connection reset")
    beat(lease, 2)
    assert [one.endswith("connection reset") for one in caplog.messages] == [True, True]
    storage.works_again()
    clock.now += 10
    beat(lease, 1)
    assert json.loads(storage.read(path_of(1)))["deadline"] == clock.now + SECONDS


def test_the_heartbeat_ends_once_the_lease_is_lost(
    storage: MemoryStorage, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    lease = acquire(storage, Holder("run"))
    clock.now += SECONDS
    acquire(storage, Holder("other"))
    caplog.clear()
    assert len(beat(lease, 5).waited) == 1
    assert len(caplog.messages) == 1
    clock.now = NOW  # even where its own deadline has not passed
    with pytest.raises(LeaseLostError):
        lease.check()


def test_a_thread_renews_it_as_long_as_the_block_runs(clock: Clock) -> None:
    renewed = threading.Event()

    def renew(_verb: str, path: str) -> None:
        if watched.paths("write").count(path) > 1:
            renewed.set()

    watched = HookedStorage(after=renew, clock=clock)
    with leased(watched, Holder("run"), seconds=0.03):
        assert renewed.wait(60)
        alive = [one.name for one in threading.enumerate()]
    assert "statemaint-lease" in alive
    assert "statemaint-lease" not in [one.name for one in threading.enumerate()]


def test_a_released_lease_is_not_renewed_again(storage: MemoryStorage) -> None:
    lease = acquire(storage, Holder("run"))
    lease.release()
    before = storage.files
    lease.renew()
    assert storage.files == before
    assert json.loads(storage.read(path_of(1)))["deadline"] == 0


def test_a_directory_of_a_leases_name_is_an_error_and_no_end(tmp_path: Path) -> None:
    (tmp_path / path_of(1)).mkdir(parents=True)
    with pytest.raises(StorageError, match="something that is not a lease has its name") as error:
        acquire(LocalStorage(tmp_path), Holder("run"))
    assert path_of(1) in str(error.value)


def test_a_lease_that_is_listed_and_never_there_is_an_error(
    storage: MemoryStorage, waited: list[float]
) -> None:
    storage.write(path_of(3), [b"{}"])
    ghostly = HookedStorage(storage, before=refuse("read", error=NotFoundError(path_of(3))))
    with pytest.raises(StorageError, match="listed, and cannot be read"):
        newest(ghostly)
    assert waited


# -- listings that lag


class Lagging(MemoryStorage):
    """Its listings of the lease are some listings old; what is read by its name is as it is."""

    def __init__(self, files: dict[str, bytes], *, clock: Clock, behind: int) -> None:
        super().__init__(files, clock=clock)
        self._seen = [[*super().list(FOLDER)]] * behind

    def list(self, prefix: str) -> Iterator[Entry]:
        if prefix != FOLDER:
            return super().list(prefix)
        self._seen.append([*super().list(prefix)])
        return iter(self._seen.pop(0))


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses, none of which is made."""
    seconds: list[float] = []
    monkeypatch.setattr(claims, "pause", seconds.append)
    return seconds


def test_a_lease_whose_listing_lags_for_seconds_is_acquired(
    clock: Clock, waited: list[float]
) -> None:
    for behind in (1, 3, 10):
        lagging = Lagging({}, clock=clock, behind=behind)
        lease = acquire(lagging, Holder("run"))
        lease.must_hold()
        assert (lease.number, len(lease_files(MemoryStorage(lagging.files)))) == (1, 1)
    assert 0 < max(waited) <= 0.5


@pytest.mark.parametrize("earlier", [0, 1, 2])
def test_a_lease_of_another_run_that_is_not_listed_yet_is_respected_at_once(
    clock: Clock, waited: list[float], earlier: int
) -> None:
    storage = MemoryStorage(clock=clock)
    for _ in range(earlier):
        acquire(storage, Holder("earlier")).release()
    lagging = Lagging(storage.files, clock=clock, behind=100)
    acquire(storage, Holder("first"))
    lagging._files = storage._files
    with pytest.raises(LeaseHeldError) as held:
        acquire(lagging, Holder("second"))
    assert (held.value.run, sum(waited) < 0.1) == ("first", True)


def test_a_lease_of_an_earlier_attempt_is_ended_at_once_under_a_number_not_listed_yet(
    clock: Clock, waited: list[float]
) -> None:
    storage = MemoryStorage(clock=clock)
    lease = acquire(storage, Holder("run"))
    lagging = Lagging(storage.files, clock=clock, behind=100)
    clock.now += SECONDS
    lease.check()
    lagging._files = storage._files
    second = Holder("run", 2)
    end_earlier(lagging, second)
    assert newest(storage) == Claim(3, second, claims.me(), clock.now + QUIET, ended=True)
    assert sum(waited) < 0.1


def test_a_claim_that_no_listing_shows_is_taken_back_and_blocks_no_run(
    clock: Clock, waited: list[float]
) -> None:
    lagging = Lagging({}, clock=clock, behind=10_000)
    with pytest.raises(StorageError, match="listings do not show it") as error:
        acquire(lagging, Holder("run"))
    assert error.value.exit_code == 5
    assert 5 < sum(waited) < 30
    assert lagging.requests["write"] == 2  # the claim, and its end
    # The next run, whose listings are as they should be, does not wait for a minute.
    healthy = MemoryStorage(clock=clock)
    healthy._files = lagging._files
    assert claims.claim_of(healthy, 1).deadline == 0.0
    assert acquire(healthy, Holder("next")).number == 2
