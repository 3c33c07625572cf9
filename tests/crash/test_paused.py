"""A maintainer that is paused, whose lease is taken over meanwhile, deletes nothing more (S8)."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from statemaint.audit import verify
from statemaint.errors import LeaseHeldError, LeaseLostError
from statemaint.execute.lease import Lease, acquire
from statemaint.maintain import maintain, undo
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from statemaint.records.attestations import attestation_path, parse_attestations
from statemaint.records.claims import SECONDS, Holder, newest_number
from statemaint.storage import MemoryStorage, Storage
from tests.support.checkpoints import write_checkpoint
from tests.support.faults import Clock, PausingStorage, SlowStorage
from tests.support.going_on import run
from tests.support.marks import long

NOTED = attestation_path(StoreId(0, 0))
TIGHT = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=2, grace=0)
Work = Callable[[Storage], object]


def to_maintain() -> MemoryStorage:
    return write_checkpoint(MemoryStorage(clock=Clock()), last=6, batches=range(3, 6), partitions=1)


def to_undo() -> MemoryStorage:
    found = to_maintain()
    maintain(found, TIGHT.override(trash_for=9e9), run="run")
    return found


def deleting(storage: Storage) -> object:
    return maintain(storage, TIGHT, run="paused")


def trashing(storage: Storage) -> object:
    return maintain(storage, TIGHT.override(trash_for=9e9), run="paused")


def undoing(storage: Storage) -> object:
    return undo(storage, "run")


class Others:
    """Maintainers that take the lease over, one after the other; the last one keeps it."""

    def __init__(self, clock: Clock, times: int) -> None:
        self._clock, self._times = clock, times
        self.last: Lease | None = None

    def __call__(self, beside: Storage) -> None:
        for number in range(self._times):
            self._clock.now += SECONDS
            self.last = acquire(beside, Holder(f"other-{number}"))


def requests_of(work: Work, files: dict[str, bytes]) -> int:
    storage = PausingStorage(files, clock=Clock(), pauses={})
    work(storage)
    return len(storage.calls)


def check(work: Work, files: dict[str, bytes], at: int, times: int, asleep: int | None) -> None:
    """Pauses before one request, for the others; and before an earlier one, for a while only."""
    clock = Clock()
    others = Others(clock, times)

    def sleep(_beside: Storage) -> None:
        clock.now += SECONDS

    pauses: dict[int, Callable[[Storage], None]] = {at: others}
    if asleep is not None:
        pauses[asleep] = sleep
    storage = PausingStorage(files, clock=clock, pauses=pauses)
    with suppress(LeaseHeldError, LeaseLostError):
        work(storage)
    if others.last is None:  # it was done before
        return
    # What was let through before the pause is request `at` itself.
    after = [
        (verb, path)
        for verb, path in storage.calls[at + 1 :]
        if verb in ("delete", "move") and "state/" in path
    ]
    assert after == []
    assert newest_number(storage) == others.last.number
    others.last.must_hold()
    assert verify(storage, deep=True).healthy


CASES = [
    pytest.param(deleting, to_maintain, id="delete"),
    pytest.param(trashing, to_maintain, id="trash"),
    pytest.param(undoing, to_undo, id="undo"),
]


@pytest.mark.parametrize("times", [1, 2, 5])
@pytest.mark.parametrize(("work", "made"), CASES)
def test_paused_before_any_request_it_deletes_nothing_more(
    work: Work, made: Callable[[], MemoryStorage], times: int
) -> None:
    files = made().files
    requests = requests_of(work, files)
    assert requests >= 15
    for at in range(requests):
        check(work, files, at, times, None)


@pytest.mark.parametrize(
    ("work", "made", "times"),
    [
        pytest.param(trashing, to_maintain, 1, id="trash, one"),
        pytest.param(undoing, to_undo, 5, id="undo, five"),
        long(deleting, to_maintain, 1, id="delete, one"),
        long(deleting, to_maintain, 5, id="delete, five"),
        long(trashing, to_maintain, 5, id="trash, five"),
        long(undoing, to_undo, 1, id="undo, one"),
    ],
)
def test_paused_again_while_it_renews_it_deletes_nothing_more(
    work: Work, made: Callable[[], MemoryStorage], times: int
) -> None:
    files = made().files
    for asleep in range(requests_of(work, files)):
        for at in range(asleep + 1, asleep + 12):
            check(work, files, at, times, asleep)


@pytest.mark.parametrize("paused", [PausingStorage, SlowStorage])
def test_what_another_run_notes_meanwhile_is_not_forgotten(paused: type[PausingStorage]) -> None:
    """Else a snapshot of ours counts as an executor's, and is compared with nothing."""
    files = to_maintain().files
    for at in range(requests_of(deleting, files)):
        clock = Clock()

        def maintained(beside: Storage, clock: Clock = clock) -> None:
            assert isinstance(beside, MemoryStorage)
            clock.now += SECONDS
            run(beside, 6, 9)
            maintain(beside, TIGHT, run="other")

        storage = paused(files, clock=clock, pauses={at: maintained})
        with suppress(LeaseHeldError, LeaseLostError):
            deleting(storage)
        # No storage can make the last look and the file's appearance one step.
        if paused is SlowStorage or storage.calls[at] != ("write", NOTED):
            known = parse_attestations(storage.files[NOTED])
            assert "state/0/0/10.snapshot" in known.written, storage.calls[at]


@pytest.mark.parametrize(("work", "made"), CASES)
def test_a_pause_in_which_nobody_came_costs_nothing(
    work: Work, made: Callable[[], MemoryStorage]
) -> None:
    files = made().files
    undisturbed = MemoryStorage(files, clock=Clock())
    work(undisturbed)
    goal = {path for path in undisturbed.files if path.startswith("state/")}
    for at in range(requests_of(work, files)):
        clock = Clock()

        def sleep(_beside: Storage, clock: Clock = clock) -> None:
            clock.now += SECONDS

        storage = PausingStorage(files, clock=clock, pauses={at: sleep})
        work(storage)
        assert {path for path in storage.files if path.startswith("state/")} == goal
