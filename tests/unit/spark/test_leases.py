"""The leases that the driver holds for a run."""

import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from threading import Event, Semaphore

import pytest

from statemaint.errors import LeaseHeldError, LeaseLostError, StorageError
from statemaint.execute.lease import QUIET, acquire
from statemaint.model.findings import FindingCode
from statemaint.model.proof import FileRecord
from statemaint.records.claims import Holder
from statemaint.records.manifest import FOLDER, Note, manifest_path, render
from statemaint.spark.fleet import Target
from statemaint.spark.leases import Leases, Renewals
from statemaint.storage import MemoryStorage, Storage
from tests.support.checkpoints import write_checkpoint
from tests.support.faults import Clock, HookedStorage, refuse


@dataclass(frozen=True, slots=True)
class InMemory(Target):
    """A query whose checkpoint is in memory."""

    storage: MemoryStorage = field(default_factory=MemoryStorage, compare=False)

    def open(self) -> Storage:
        return self.storage


def query(clock: Clock) -> InMemory:
    return InMemory("query", "memory:", storage=MemoryStorage(clock=clock))


def taken(
    target: Target, holder: Holder, clock: Clock, wait: float = 0.0
) -> Mapping[str, Exception]:
    """Takes the lease of a query as a run does, and returns why it was refused."""

    def pause(seconds: float) -> None:
        clock.now += seconds

    with closing(Leases({target: holder}, pause, clock)) as held:
        held.begin()
        held.take([target], wait=wait)
        return dict(held.refused)


@pytest.mark.parametrize("wait", [0.0, 120.0])
def test_a_later_attempt_waits_until_the_earlier_ones_tasks_must_have_stopped(wait: float) -> None:
    clock = Clock()
    target = query(clock)
    acquire(target.storage, Holder("run"))
    before = clock.now
    assert taken(target, Holder("run", attempt=2), clock, wait) == {}
    assert QUIET <= clock.now - before < QUIET + 2


def test_a_lease_of_another_run_is_refused_unless_it_ends_in_time() -> None:
    clock = Clock()
    target = query(clock)
    lost, before = acquire(target.storage, Holder("lost")), clock.now
    assert list(map(type, taken(target, Holder("run"), clock).values())) == [LeaseHeldError]
    assert clock.now == before
    assert taken(target, Holder("run"), clock, wait=lost.seconds + 1) == {}


def test_a_run_right_after_another_waits_for_the_last_of_its_tasks() -> None:
    clock = Clock()
    target, first = query(clock), Holder("first")
    with closing(Leases({target: first})) as held:
        held.take([target])
        held.end({target: 0}, "first")
    with pytest.raises(LeaseHeldError, match=r"\(run first\) has ended; no other begins before"):
        acquire(target.storage, Holder("second"))
    assert taken(target, Holder("second"), clock) == {}


def test_a_run_waits_for_all_queries_together() -> None:
    clock = Clock()
    fleet = [InMemory(str(number), "memory:", storage=MemoryStorage(clock=clock))
             for number in range(40)]  # fmt: skip
    others = [acquire(one.storage, Holder("other")) for one in fleet]
    before = clock.now

    def pause(seconds: float) -> None:
        clock.now += seconds
        if clock.now - before >= 3:
            others[0].release()

    with closing(Leases({one: Holder(one.query) for one in fleet}, pause, clock)) as held:
        held.take(fleet, wait=10)
        assert set(held.leases) == {"0"}
        assert set(held.refused) == {one.query for one in fleet[1:]}
    assert clock.now - before == 10


def test_the_time_that_requests_take_is_waited() -> None:
    clock = Clock()
    storage = HookedStorage(clock=clock)
    acquire(storage, Holder("other"), seconds=1000.0)

    def slow(verb: str, _path: str) -> None:
        clock.now += 2.0 * (verb == "list")

    storage.before = slow
    target, before = InMemory("query", "memory:", storage=storage), clock.now
    assert list(map(type, taken(target, Holder("run"), clock, 30.0).values())) == [LeaseHeldError]
    assert 30 <= clock.now - before < 40


@pytest.mark.parametrize("refused", [False, True])
def test_the_end_of_a_run_tells_what_it_deleted_from_the_trash(*, refused: bool) -> None:
    clock = Clock()
    storage = write_checkpoint(HookedStorage(clock=clock))
    if refused:
        storage.before = refuse("delete", f"{FOLDER}/*")
    target = InMemory("query", "memory:", storage=storage)
    expired = Note(FileRecord("state/0/0/1.delta", 3, 1.0), clock.now - 1)
    target.storage.write(manifest_path("old", "0-0"), [render([expired])])
    target.storage.write(f"{FOLDER}/old/state/0/0/1.delta", [b"abc"])
    holder = Holder("run")
    with closing(Leases({target: holder})) as held:
        held.take([target])
        emptied = held.end({target: 0}, "run")[target]
    if refused:
        assert [one.code for one in emptied.findings] == [FindingCode.TRASH_NOT_EMPTIED]
        assert (emptied.files, emptied.bytes) == (0, 0)
    else:
        assert (emptied.files, emptied.bytes, emptied.findings) == (1, 3, ())
    clock.now += QUIET
    assert acquire(target.storage, Holder("next")).number  # the lease has ended


# -- renewing many


class Renewed:
    """A lease that counts how often it was renewed; `each` is called in the thread that does it."""

    def __init__(self, each: Callable[[], object], seconds: float = 0.03) -> None:
        self.seconds, self.count, self._each = seconds, 0, each

    def renew(self) -> None:
        self.count += 1
        self._each()


def renewing(*held: Renewed) -> Renewals:
    renewals = Renewals()
    for one in held:
        renewals.add(one)  # type: ignore[arg-type]
    return renewals


def test_a_few_threads_renew_the_leases_of_a_hundred_queries() -> None:
    again = Semaphore(0)
    held = [Renewed(again.release) for _ in range(100)]
    before = threading.active_count()
    renewals = renewing(*held)
    started = threading.active_count() - before
    while any(one.count < 3 for one in held):
        assert again.acquire(timeout=60)
    renewals.close()
    assert threading.active_count() == before
    assert 0 < started <= 16


def test_a_storage_that_hangs_keeps_no_other_lease_from_being_renewed() -> None:
    answered, again = Event(), Semaphore(0)
    hanging, other = Renewed(answered.wait), Renewed(again.release)
    renewals = renewing(hanging, other)
    for _ in range(5):
        assert again.acquire(timeout=60)
    assert hanging.count == 1
    answered.set()
    renewals.close()


@pytest.mark.parametrize(("error", "goes_on"), [
    (StorageError("state", "connection reset"), True),
    (LeaseLostError("memory:", 1, "another run has it"), False),
])  # fmt: skip
def test_only_a_lease_that_is_lost_is_renewed_no_more(error: Exception, *, goes_on: bool) -> None:
    again = Semaphore(0)

    def fail() -> None:
        raise error

    failing, other = Renewed(fail), Renewed(again.release)
    renewals = renewing(failing, other)
    while other.count < 5 or (goes_on and failing.count < 2):
        assert again.acquire(timeout=60)
    renewals.close()
    assert (failing.count > 1) == goes_on


def test_a_lease_that_its_run_ends_is_renewed_no_more() -> None:
    again = Semaphore(0)
    ended, other = Renewed(lambda: None, seconds=1e-6), Renewed(again.release)
    renewals = renewing(other)
    renewals.add(ended)  # type: ignore[arg-type]
    renewals.drop(ended)  # type: ignore[arg-type]
    assert again.acquire(timeout=60)
    counted = ended.count
    for _ in range(5):
        assert again.acquire(timeout=60)
    renewals.close()
    assert ended.count <= counted + 1
