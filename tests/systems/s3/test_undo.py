"""What a run moved to the trash of a failing bucket comes back, whichever request failed (S17)."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count, product

import pytest

from statemaint.errors import StatemaintError
from statemaint.maintain import maintain, undo
from statemaint.recover import rollback
from statemaint.storage import MemoryStorage, S3Storage
from tests.support.checkpoints import of_the_query, write_checkpoint
from tests.support.fault_proxy import Answer, Fault, FaultProxy, Lost, Seen, error, fault_proxy
from tests.support.marks import undo_cases
from tests.support.s3 import Place
from tests.support.undone import KEEPING, must_be_whole, undo_all

# Minutes on both servers; `tests/unit/undo/test_undo_halfway.py` has each step in memory.
pytestmark = pytest.mark.long
MANY = 10_000
When = Callable[[Seen], bool]


def _names(part: str, *, copy: bool = False) -> When:
    def names(seen: Seen) -> bool:
        return part in seen.target and copy == ("x-amz-copy-source" in _lower(seen))

    return names


def _lower(seen: Seen) -> set[str]:
    return {name.lower() for name in seen.headers}


COPIED = _names("/_statemaint/trash/", copy=True)


def _trashed(word: str) -> When:
    return lambda seen: "/_statemaint/trash/" in seen.target and word in seen.target


STEPS: dict[str, tuple[str, When]] = {
    "COPY": ("PUT", lambda seen: COPIED(seen) and "partNumber" not in seen.target),
    "COPY of a part": ("PUT", lambda seen: COPIED(seen) and "partNumber" in seen.target),
    "Create": ("POST", _trashed("uploads")),
    "Complete": ("POST", _trashed("uploadId")),
    "DELETE": ("DELETE", lambda seen: "/state/" in seen.target and "/trash/" not in seen.target),
    "DELETE of a page": ("POST", lambda seen: "?delete" in seen.target),
    "PUT of the ledger": ("PUT", _names("/_statemaint/ledger/")),
    "PUT of the manifest": ("PUT", _names("/manifest/")),
    "PUT of a snapshot": ("PUT", lambda seen: ".snapshot" in seen.target),
}
FAULTS: dict[str, Fault] = {
    "denied": Answer(403, error("AccessDenied", "no")),
    "throttled": Answer(503, error("SlowDown")),
    "lost": Lost(),
    "repeated": Lost(),
    "answered with an error": Answer(200, error("InternalError")),
}
IN_PARTS = ("COPY of a part", "Create", "Complete")
ONCE = ("DELETE of a page", "PUT of the ledger", "PUT of the manifest", "PUT of a snapshot")
CASES = [
    (step, fault)
    for step in STEPS
    for fault in FAULTS
    if fault != "answered with an error" or step in ("COPY", "Complete")
]


@pytest.fixture
def beside(place: Place) -> Iterator[tuple[FaultProxy, Place]]:
    """A proxy in front of each of the servers, and the server behind it."""
    with fault_proxy(place.url) as proxy:
        yield proxy, Place(proxy.url, place.access_key, place.secret_key)


def nth(number: int, when: When) -> When:
    """Returns what holds for the n-th request for which something else holds."""
    seen_before = count(1)
    return lambda seen: when(seen) and next(seen_before) == number


def neglected(place: Place) -> S3Storage:
    memory, storage = MemoryStorage(), place.storage()
    write_checkpoint(memory, last=10, batches=range(6, 10), partitions=1)
    place.fill(storage.root, memory.files)
    return storage


@pytest.mark.parametrize(("step", "fault"), undo_cases(CASES, 5))
def test_every_file_comes_back_after_a_request_that_failed(
    place: Place, beside: tuple[FaultProxy, Place], step: str, fault: str
) -> None:
    """In either order: the newest run first in every second case."""
    proxy, broken = beside
    healthy = neglected(place)
    before = of_the_query(healthy)
    if step in IN_PARTS:  # as on a server that cannot copy whole objects
        method, when = STEPS["COPY"]
        proxy.fail(method, Answer(501, error("NotImplemented")), times=MANY, when=when)
    if step == "DELETE":  # as on a server that deletes no page
        method, when = STEPS["DELETE of a page"]
        proxy.fail(method, Answer(501, error("NotImplemented")), times=MANY, when=when)
    method, when = STEPS[step]
    for number in (1,) if step in ONCE else (2, 3):
        proxy.fail(method, FAULTS[fault], when=nth(number, when))
    storage = broken.storage(healthy.root, attempts=2 if fault == "repeated" else 1)
    with suppress(StatemaintError):
        maintain(storage, KEEPING)
    assert proxy.used >= 1 + (step in IN_PARTS or step == "DELETE")
    maintain(healthy, KEEPING)
    newest_first = CASES.index((step, fault)) % 2 == 0
    assert undo_all(healthy, newest_first=newest_first)
    must_be_whole(healthy, before)


@pytest.mark.parametrize(("step", "fault"), undo_cases([*product(("COPY", "DELETE"), FAULTS)], 3))
def test_an_undo_whose_request_failed_is_done_again(
    place: Place, beside: tuple[FaultProxy, Place], step: str, fault: str
) -> None:
    proxy, broken = beside
    healthy = neglected(place)
    before = of_the_query(healthy)
    run = maintain(healthy, KEEPING).run
    method = STEPS[step][0]
    proxy.fail(method, FAULTS[fault], when=nth(2, _names("/state/", copy=step == "COPY")))
    with suppress(StatemaintError):
        undo(broken.storage(healthy.root), run)
    assert proxy.used
    undo_all(healthy)
    must_be_whole(healthy, before)


def _of_log(seen: Seen) -> bool:
    return "/commits/" in seen.target and "/trash/" not in seen.target


ROLLBACK: dict[str, tuple[str, When]] = {
    "COPY of a change": ("PUT", lambda seen: COPIED(seen) and "/state/" in seen.target),
    "COPY of a commit": ("PUT", lambda seen: COPIED(seen) and "/commits/" in seen.target),
    "DELETE of a change": STEPS["DELETE"],
    "DELETE of a commit": ("DELETE", _of_log),
    "PUT of the ledger": ("PUT", _names("/_statemaint/ledger/rollback/")),
    "PUT of the manifest": STEPS["PUT of the manifest"],
}
ROLLBACK_CASES = [
    (step, fault) for step in ROLLBACK for fault in FAULTS if fault != "answered with an error"
]


@pytest.mark.parametrize(("step", "fault"), undo_cases(ROLLBACK_CASES, 5))
def test_a_rollback_whose_request_failed_is_undone(
    place: Place, beside: tuple[FaultProxy, Place], step: str, fault: str
) -> None:
    proxy, broken = beside
    healthy = neglected(place)
    before = of_the_query(healthy)
    method, when = ROLLBACK[step]
    proxy.fail(method, FAULTS[fault], when=nth(1, when))
    storage = broken.storage(healthy.root, attempts=2 if fault == "repeated" else 1)
    with suppress(StatemaintError):
        rollback(storage, 8, trash_for=86_400.0)
    assert proxy.used
    undo_all(healthy, newest_first=True)
    must_be_whole(healthy, before)
