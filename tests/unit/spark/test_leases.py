"""The leases that the driver holds for a run."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from statemaint.errors import LeaseHeldError
from statemaint.execute import QUIET, Holder
from statemaint.execute.lease import acquire
from statemaint.spark.fleet import Target
from statemaint.spark.leases import leases
from statemaint.storage import MemoryStorage, Storage
from tests.support.faults import Clock


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

    with leases(pause) as held:
        held.begin({target: holder})
        held.take({target: holder}, wait=wait)
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

    with leases(pause) as held:
        held.take({one: Holder(one.query) for one in fleet}, wait=10)
        assert set(held.leases) == {"0"}
        assert set(held.refused) == {one.query for one in fleet[1:]}
    assert clock.now - before == 10
