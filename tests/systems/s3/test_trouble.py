"""Whole runs on a bucket that fails in the middle: told, nothing lost, and no lock left behind."""

from collections.abc import Callable

import pytest

from statemaint.audit import verify
from statemaint.errors import StorageError
from statemaint.maintain import maintain
from statemaint.storage import MemoryStorage, Storage
from tests.support.checkpoints import TIGHT, state, write_checkpoint
from tests.support.fault_proxy import Answer, Fault, FaultProxy, Lost, Seen, about, error
from tests.support.s3 import Moto, Place

MANY = 10_000
DENIED = Answer(403, error("AccessDenied", "no"))


def snapshot(seen: Seen) -> bool:
    return seen.target.partition("?")[0].endswith(".snapshot")


TROUBLE: dict[str, tuple[str, Fault, Callable[[Seen], bool]]] = {
    "no rights to delete": ("POST", DENIED, about("delete")),
    "throttled while it deletes": ("POST", Answer(503, error("SlowDown")), about("delete")),
    "no rights to write a snapshot": ("PUT", DENIED, snapshot),
    "the server dies while it takes a snapshot": ("PUT", Lost(), snapshot),
    "a snapshot cannot be read back": ("GET", Answer(500, error("InternalError")), snapshot),
    "a delta cannot be read": ("GET", Answer(500, error("InternalError")), about("20.delta")),
    "the ledger cannot be written": ("PUT", DENIED, about("_statemaint/ledger")),
    "no rights to take a lease": ("PUT", DENIED, about("_statemaint/lease")),
    "the state cannot be listed": ("GET", DENIED, about("state%2F")),
}


def exit_code(storage: Storage) -> int:
    try:
        return maintain(storage, TIGHT, run="one").exit_code
    except StorageError as told:
        return told.exit_code if len(str(told).splitlines()) == 1 else 1


@pytest.mark.parametrize("kind", TROUBLE)
def test_trouble_is_told_and_the_next_run_goes_on(
    broken: Place, proxy: FaultProxy, moto_place: Moto, kind: str
) -> None:
    storage, untroubled = broken.storage(), MemoryStorage()
    write_checkpoint(untroubled)
    moto_place.fill(storage.root, untroubled.files)
    maintain(untroubled, TIGHT)
    method, fault, when = TROUBLE[kind]
    proxy.fail(method, fault, times=MANY, when=when)
    if kind == "no rights to delete":  # neither in bulk nor one by one
        proxy.fail("DELETE", DENIED, times=MANY, when=about("/state/"))
    assert exit_code(storage) == 5
    healthy = moto_place.storage(storage.root)
    assert verify(healthy, deep=True).healthy
    # Another run, which a lease that was left behind would keep out.
    assert maintain(healthy, TIGHT, run="two").exit_code == 0
    assert state(healthy) == state(untroubled)
