"""A base of ours is compared with the log beside it before deletions rely on it (S22)."""

from dataclasses import replace

import pytest

from statemaint.execute.bases import must_be_readable
from statemaint.execute.ledger import Known
from statemaint.listing import Entry
from statemaint.model.checkpoint import Store
from statemaint.model.files import Delta, Snapshot
from statemaint.model.ids import StoreId
from statemaint.model.proof import Attestation
from statemaint.model.rocks import Rocks
from statemaint.storage import MemoryStorage

HOME = "state/0/0"
SNAPSHOT, ZIP, DELTA = f"{HOME}/3.snapshot", f"{HOME}/3.zip", f"{HOME}/3.delta"
STORE = Store(
    StoreId(0, 0),
    (Delta(3, Entry(DELTA, 1, None)), Snapshot(3, Entry(SNAPSHOT, 1, None))),
)
IN_ROCKS = Store(
    StoreId(0, 0),
    (Delta(3, Entry(f"{HOME}/3.changelog", 1, None)), Snapshot(3, Entry(ZIP, 1, None))),
)


class Asked(MemoryStorage):
    """Remembers which files were compared."""

    def __init__(self) -> None:
        super().__init__()
        self.compared: list[tuple[str, str]] = []

    def check_readable(self, path: str, *, like: str) -> None:
        self.compared.append((path, like))


def proof(path: str, *, ours: bool = False, readable: bool = False) -> Attestation:
    return Attestation(path, 3, 1, None, "", 0, 0, ours=ours, readable=readable)


@pytest.mark.parametrize(
    ("store", "path", "ours", "written", "compared"),
    [
        (STORE, SNAPSHOT, True, set(), True),
        (STORE, SNAPSHOT, False, {SNAPSHOT}, True),
        (STORE, SNAPSHOT, False, set(), False),
        (replace(IN_ROCKS, rocks=Rocks(ours=frozenset({ZIP}))), ZIP, False, set(), True),
        (replace(IN_ROCKS, rocks=Rocks()), ZIP, False, {ZIP}, False),
    ],
    ids=["proved as ours", "written", "an executor's", "marked as ours", "an executor's zip"],
)
def test_a_snapshot_of_ours_is_compared_once(
    store: Store, path: str, written: set[str], *, ours: bool, compared: bool
) -> None:
    storage, known = Asked(), Known({path: proof(path, ours=ours)}, written=written)
    assert must_be_readable(storage, store, known, path) is compared
    assert [one for one, _ in storage.compared] == ([path] if compared else [])
    assert known.proofs[path].readable is compared
    assert not must_be_readable(Asked(), store, known, path) or not compared


def test_a_snapshot_known_to_be_readable_is_not_compared_again() -> None:
    storage = Asked()
    known = Known({SNAPSHOT: proof(SNAPSHOT, ours=True, readable=True)})
    assert not must_be_readable(storage, STORE, known, SNAPSHOT)
    assert storage.compared == []
