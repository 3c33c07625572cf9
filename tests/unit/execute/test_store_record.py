"""What a run knows of a store before it begins, and notes while it works."""

import json
from dataclasses import replace

import pytest

from statemaint.errors import Superseded
from statemaint.execute.fence import Fence, PinWatch
from statemaint.execute.ledger import Ledger
from statemaint.execute.store_record import RunContext, StoreRecord
from statemaint.fold import ClearEngine
from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store
from statemaint.model.proof import Attestation, Outdated
from statemaint.model.rocks import Upload, Uploads
from statemaint.plan.actions import WriteSnapshot
from statemaint.plan.reasons import SnapshotReason
from statemaint.records.attestations import attestation_path, read_attestations
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import STORE, files

HOME = STORE.directory
FILES = files("1d 2d 2s 3d 3s")


def proof(version: int) -> Attestation:
    return Attestation(f"{HOME}/{version}.snapshot", version, 100, 1.0, "0" * 32, 1, 2)


def context(storage: MemoryStorage | None = None) -> RunContext:
    place = storage or MemoryStorage()
    return RunContext(
        place, ClearEngine(), Ledger(place, "run"), Fence(), PinWatch(place, None), target=9
    )


def record(store: Store | None = None) -> StoreRecord:
    return StoreRecord.of(context(), store or Store(STORE, FILES))


def test_all_that_the_ledger_has_of_a_store_is_known() -> None:
    former = Outdated(proof(1), ())
    uploads = Uploads((Upload(3, f"{HOME}/3.snapshot", 5.0),), 2)
    store = Store(
        STORE, FILES, attestations=(proof(2), proof(7)), written=(f"{HOME}/2.snapshot",),
        since=4, outdated=(Outdated(proof(3), ()),), former=(former,), uploads=uploads,
    )  # fmt: skip
    known = record(store)
    assert known.proofs == {f"{HOME}/{one}.snapshot": proof(one) for one in (2, 3)}
    assert known.former == {f"{HOME}/1.snapshot": proof(1)}
    assert (known.written, known.since) == ({f"{HOME}/2.snapshot"}, 4)
    assert known.uploads.newest[0] == Upload(3, f"{HOME}/3.snapshot", 5.0)
    assert record(store).noted == uploads


def test_the_proof_of_a_replaced_file_stays_in_the_ledger_until_there_is_a_new_one() -> None:
    former = proof(1)
    one = record(Store(STORE, FILES, former=(Outdated(former, ()),)))
    one.note()
    assert stored_proofs(one) == (former,)
    newer = one.proofs[former.path] = replace(former, digest="cd" * 16)
    one.note()
    assert stored_proofs(one) == (newer,)


def stored_proofs(one: StoreRecord) -> tuple[Attestation, ...]:
    return read_attestations(one.context.storage, attestation_path(STORE)).proofs


def noted(one: StoreRecord) -> tuple[list[str], int | None]:
    found = json.loads(one.context.storage.read(attestation_path(STORE)))
    return found["written"], found["since"]


def test_uploads_are_known_from_the_target_of_the_first_note_on() -> None:
    one = record()
    one.note()
    assert noted(one) == ([], 9)
    assert one.noted == one.uploads
    one.since = 4
    one.note()
    assert noted(one) == ([], 4)


def snapshot(version: int) -> WriteSnapshot:
    path = f"{HOME}/{version}.snapshot"
    return WriteSnapshot(STORE, path, Chain(version, None, ()), next(iter(SnapshotReason)))


def test_with_the_first_snapshot_those_from_before_are_none_of_executors() -> None:
    one = record()
    one.since = 4
    one.announce([snapshot(5)])
    assert noted(one) == ([f"{HOME}/{version}.snapshot" for version in (2, 3, 5)], 9)


def test_later_ones_are_announced_alone() -> None:
    one = record(Store(STORE, FILES, written=(f"{HOME}/2.snapshot",), since=4))
    one.announce([snapshot(5)])
    assert noted(one) == ([f"{HOME}/{version}.snapshot" for version in (2, 5)], 4)


def test_files_are_found_among_the_listed_and_the_new() -> None:
    new = Entry("a.sst", 1, None)
    one = record()
    assert one.listed(["a.sst", f"{HOME}/1.delta"], (new,)) == (new, FILES[0].entry)
    assert one.listed([]) == ()
    assert one.tables_of(f"{HOME}/2.snapshot") == ()


def test_a_snapshot_that_came_since_is_noticed() -> None:
    storage = MemoryStorage()
    one = StoreRecord.of(context(storage), Store(STORE, ()))
    storage.write(f"{HOME}/4.delta", [b"?"])
    one.must_have_no_newcomer()
    storage.write(f"{HOME}/4.snapshot", [b"?"])
    with pytest.raises(Superseded, match=r"4\.snapshot.* appeared after the run was planned"):
        one.must_have_no_newcomer()
    one.placed.append(storage.stat(f"{HOME}/4.snapshot"))
    one.must_have_no_newcomer()
