"""Which proofs count, given the files that are listed now."""

import json
from dataclasses import replace

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.errors import StorageError
from statemaint.listing import Entry
from statemaint.model.checkpoint import Store
from statemaint.model.files import StateFile, classify
from statemaint.model.ids import StoreId
from statemaint.model.proof import Attestation, FileRecord
from statemaint.model.rocks import Upload, Uploads
from statemaint.records.attestations import StoreNotes, parse_attestations, render_attestations
from statemaint.scan.proofs import fingerprint, with_proofs
from statemaint.storage import MemoryStorage

HOME = "state/0/0"
SNAPSHOT = f"{HOME}/3.snapshot"
LATER = 1_000_000.0


class Reading(MemoryStorage):
    """Counts what is opened."""

    def __init__(self, time: float, *, tagged: bool) -> None:
        super().__init__(clock=lambda: self.time, tagged=tagged)
        self.time = time
        self.opened: list[str] = []

    def open(self, path: str):  # type: ignore[no-untyped-def]
        self.opened.append(path)
        return super().open(path)


def written(time: float = 1000.5, *, tagged: bool = False) -> Reading:
    """Three deltas and a snapshot, of one moment."""
    storage = Reading(time, tagged=tagged)
    for name in ("1.delta", "2.delta", "3.delta", "3.snapshot"):
        storage.write(f"{HOME}/{name}", [f"bytes of {name}".encode()])
    return storage


def record(storage: MemoryStorage, name: str) -> FileRecord:
    path = f"{HOME}/{name}"
    return FileRecord.of(storage.stat(path), {path: google_crc32c.value(storage.files[path])})


def proof_of(storage: MemoryStorage, at: float = LATER) -> Attestation:
    own = record(storage, "3.snapshot")
    return Attestation(
        path=SNAPSHOT, version=3, size=own.size, modified=own.modified, digest="ab" * 16, rows=1,
        bytes=2, files=3, tag=own.tag, sum=own.sum, at=at, ours=True,
        inputs=tuple(record(storage, f"{version}.delta") for version in (1, 2, 3)),
    )  # fmt: skip


def listed(storage: MemoryStorage) -> Store:
    files: list[StateFile] = [classify(entry) for entry in storage.list("state")]
    return Store(StoreId(0, 0), tuple(files))


def seen(storage: MemoryStorage, proof: Attestation, at: float = LATER) -> Store:
    return with_proofs(storage, listed(storage), [proof], at)


def again(storage: Reading, name: str, content: bytes | None = None, time: float = 2000.5) -> None:
    """Writes a file again, with other bytes of the same size unless they are given."""
    path = f"{HOME}/{name}"
    storage.time = time
    storage.write(path, [content or bytes(len(storage.files[path]))], overwrite=True)


@pytest.mark.parametrize("tagged", [True, False])
def test_a_proof_of_the_listed_files_counts_and_costs_no_read(*, tagged: bool) -> None:
    storage = written(tagged=tagged)
    proof = proof_of(storage)
    found = seen(storage, proof)
    assert (found.attestations, found.outdated, found.lapsed) == ((proof,), (), frozenset())
    assert storage.opened == []


@pytest.mark.parametrize("tagged", [True, False])
def test_an_input_of_other_bytes_makes_it_outdated(*, tagged: bool) -> None:
    storage = written(tagged=tagged)
    proof = proof_of(storage)
    again(storage, "2.delta")
    found = seen(storage, proof)
    assert found.attestations == ()
    (one,) = found.outdated
    assert (one.proof, [entry.name for entry in one.replaced]) == (proof, ["2.delta"])


def test_an_input_of_the_same_bytes_and_another_time_is_read_and_counts() -> None:
    storage = written()
    proof = proof_of(storage)
    again(storage, "2.delta", storage.files[f"{HOME}/2.delta"])
    found = seen(storage, proof)
    assert storage.opened == [f"{HOME}/2.delta"]
    (counts,) = found.attestations
    assert counts.inputs[1] == proof.inputs[1]._replace(modified=2000.5)
    storage.opened.clear()
    assert seen(storage, counts).attestations == (counts,)
    assert storage.opened == [], "the new identity is known"


def test_a_tag_is_enough_where_both_have_one() -> None:
    storage = written(tagged=True)
    proof = proof_of(storage)
    for name in ("1.delta", "2.delta", "3.delta", "3.snapshot"):
        again(storage, name, storage.files[f"{HOME}/{name}"])
    assert len(seen(storage, proof).attestations) == 1
    assert storage.opened == []


def test_an_input_that_is_missing_was_not_replaced() -> None:
    storage = written()
    proof = proof_of(storage)
    storage.delete(f"{HOME}/1.delta")
    assert seen(storage, proof).attestations == (proof,)
    storage.write(f"{HOME}/1.delta", [b"of a query that was started over"])
    (one,) = seen(storage, proof).outdated
    assert [entry.path for entry in one.replaced] == [f"{HOME}/1.delta"]


@pytest.mark.parametrize(("at", "reads"), [(1000.0, 4), (1301.0, 4), (1302.5, 0)])
def test_a_young_file_of_a_whole_second_is_read(at: float, reads: int) -> None:
    """It may have been replaced within the second in which it was read."""
    storage = written(1000.0)
    proof = proof_of(storage, at)
    assert len(seen(storage, proof).attestations) == 1
    assert len(storage.opened) == reads
    again(storage, "3.delta", time=1000.0)
    found = seen(storage, proof)
    assert len(found.outdated) == (1 if reads else 0), "old files are taken by their identity"


def test_a_file_without_a_time_is_read() -> None:
    storage = written()
    timeless = Entry("state/0/0/1.delta", 16, None)
    assert not FileRecord.of(timeless, {}).identifies(timeless, LATER)
    assert FileRecord.of(storage.stat(SNAPSHOT), {}).identifies(storage.stat(SNAPSHOT), 0.0)


def test_a_snapshot_of_other_bytes_has_no_proof() -> None:
    storage = written()
    proof = proof_of(storage)
    again(storage, "3.snapshot")
    found = seen(storage, proof)
    assert (found.attestations, found.outdated) == ((), ())
    assert found.lapsed == {SNAPSHOT}


def test_a_table_of_other_bytes_or_none_lets_the_proof_lapse() -> None:
    storage = written()
    table = f"{HOME}/9.delta"  # any file that is listed beside it
    storage.write(table, [b"table"])
    proof = replace(proof_of(storage), parts=(record(storage, "9.delta"),))
    assert len(seen(storage, proof).attestations) == 1
    again(storage, "9.delta")
    assert seen(storage, proof).lapsed == {SNAPSHOT}
    storage.delete(table)
    assert seen(storage, proof).lapsed == {SNAPSHOT}


def test_a_proof_of_a_snapshot_that_is_missing_is_dropped() -> None:
    storage = written()
    proof = proof_of(storage)
    storage.delete(SNAPSHOT)
    found = seen(storage, proof)
    assert (found.attestations, found.outdated, found.lapsed) == ((), (), frozenset())


def test_a_file_that_goes_while_it_is_looked_at_was_not_replaced() -> None:
    storage = written()
    proof = proof_of(storage)
    again(storage, "2.delta")
    store = listed(storage)
    storage.delete(f"{HOME}/2.delta")
    assert len(with_proofs(storage, store, [proof], LATER).attestations) == 1


def test_a_file_that_cannot_be_read_is_an_error_and_never_a_proof() -> None:
    class Refusing(Reading):
        def open(self, path: str):  # type: ignore[no-untyped-def]
            raise StorageError(path, "no permission")

    whole = written()
    proof = proof_of(whole)
    refusing = Refusing(2000.5, tagged=False)
    for path, content in whole.files.items():
        refusing.write(path, [content])
    with pytest.raises(StorageError, match="no permission"):
        seen(refusing, proof)


def test_what_another_file_took_the_place_of_still_says_what_was_replaced() -> None:
    storage = written()
    proof = proof_of(storage)
    again(storage, "3.snapshot")
    assert [one.replaced for one in seen(storage, proof).former] == [()]
    again(storage, "2.delta")
    (former,) = seen(storage, proof).former
    assert (former.proof, [one.name for one in former.replaced]) == (proof, ["2.delta"])


def test_a_doubted_file_is_accepted_as_it_is_and_as_it_was() -> None:
    storage = written()
    proof, original = proof_of(storage), storage.files[f"{HOME}/2.delta"]
    again(storage, "2.delta")
    doubting = proof_of(storage).doubting(proof, [record(storage, "2.delta")])
    assert doubting.inputs[1] == proof.inputs[1]
    assert seen(storage, doubting).attestations == (doubting,)
    again(storage, "2.delta", b"neither of 2.del", 3000.5)
    assert len(seen(storage, doubting).outdated) == 1
    again(storage, "2.delta", original, 4000.5)
    (back,) = seen(storage, doubting).attestations
    assert back.doubted == doubting.doubted
    assert back.inputs[1].modified == 4000.5
    assert back.inputs[1].sum == google_crc32c.value(original)


def test_the_fingerprint_is_of_all_bytes() -> None:
    storage = written()
    assert fingerprint(storage, SNAPSHOT) == (19, google_crc32c.value(b"bytes of 3.snapshot"))
    assert fingerprint(storage, "nothing") is None


# -- as they are stored

_RECORDS = st.builds(
    FileRecord,
    st.sampled_from([f"{HOME}/{name}" for name in ("1.delta", "2.delta", "SSTs/1-a.sst")]),
    st.integers(0, 1 << 40),
    st.none() | st.floats(allow_nan=False) | st.integers(0, 1 << 33),
    st.none() | st.text(max_size=8),
    st.none() | st.integers(0, (1 << 32) - 1),
)
_LISTS = st.lists(_RECORDS, max_size=4).map(tuple)
_PROOFS = st.builds(
    Attestation, st.just(SNAPSHOT), st.just(3), st.integers(0, 9), st.floats(0, 9),
    st.just("ab"), st.integers(0, 9), st.integers(0, 9), at=st.floats(0, 9), ours=st.booleans(),
    inputs=_LISTS, parts=_LISTS, doubted=_LISTS,
)  # fmt: skip


@given(st.lists(_PROOFS, max_size=3))
def test_what_is_stored_is_read_as_it_was_written(proofs: list[Attestation]) -> None:
    assert parse_attestations(render_attestations(StoreNotes(tuple(proofs)))) == StoreNotes(
        tuple(proofs)
    )


def test_two_proofs_share_the_records_of_their_files() -> None:
    storage = written()
    proof = proof_of(storage)
    stored = json.loads(render_attestations(StoreNotes((proof, replace(proof, version=4)))))
    assert [row[0] for row in stored["files"]] == ["1.delta", "2.delta", "3.delta"]


def test_proofs_that_name_no_inputs_count_as_none_and_the_rest_is_kept() -> None:
    old = {
        "format": 3,
        "attestations": [{"path": SNAPSHOT, "version": 3}],
        "written": [SNAPSHOT],
        "since": 3,
        "uploads": {"newest": [{"version": 3, "path": SNAPSHOT, "modified": 5}], "widest_gap": 2},
    }
    uploads = Uploads((Upload(3, SNAPSHOT, 5.0),), 2)
    assert parse_attestations(json.dumps(old).encode()) == StoreNotes((), (SNAPSHOT,), 3, uploads)


@pytest.mark.parametrize(
    "change",
    [
        {"files": [["1.delta", "16", 1.5, None, 0]]},
        {"files": [["1.delta", 16, 1.5, None]]},
        {"files": [[1, 16, 1.5, None, 0]]},
        {"files": [["1.delta", 16, 1.5, None, True]]},
        {"files": [["1.delta", 16, 1.5, 7, 0]]},
        {"files": []},
        {"files": None},
    ],
)
def test_records_of_other_types_are_no_proof(change: dict[str, object]) -> None:
    stored = json.loads(render_attestations(StoreNotes((proof_of(written()),))))
    assert parse_attestations(json.dumps({**stored, **change}).encode()) == StoreNotes()


@pytest.mark.parametrize("place", [-1, 3, "0", None, 1.0])
def test_places_that_are_not_in_the_table_are_no_proof(place: object) -> None:
    stored = json.loads(render_attestations(StoreNotes((proof_of(written()),))))
    stored["attestations"][0]["inputs"] = [place]
    assert parse_attestations(json.dumps(stored).encode()) == StoreNotes()
