"""What whoever is on call is told."""

import json

import pytest

from statemaint.cli.doctor import doctor_json, lines
from statemaint.maintain import doctor, maintain
from statemaint.model.policy import Policy
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import snapshot_bytes, state_at, write_checkpoint
from tests.unit.test_damage import CASES, Damage, maintained, spoiled

TIGHT = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0)


@pytest.fixture
def storage() -> MemoryStorage:
    """Batches 16 to 24 are in the log of two partitions."""
    found = MemoryStorage()
    write_checkpoint(found)
    return found


def said(storage: MemoryStorage) -> dict[str, str]:
    """Returns the lines that have a label, by it."""
    labelled = (line.partition(":") for line in lines(doctor(storage)) if line[0] != " ")
    return {label: text.strip() for label, _, text in labelled}


def test_a_neglected_checkpoint_restarts_and_should_be_maintained(storage: MemoryStorage) -> None:
    found = doctor(storage)
    assert (found.restarts, found.loadable) == (True, tuple(range(16, 25)))
    text = said(storage)
    assert text["restart"] == "yes, behind batch 24 (state version 25)"
    assert text["batches"] == "16 to 24 load in every store"
    assert text["chain"].startswith("at most 25 files of changes behind a snapshot (op 0 / part ")
    assert text["damage"] == "none"
    assert text["next"].startswith("run `statemaint maintain`")


def test_a_maintained_one_has_nothing_to_do(storage: MemoryStorage) -> None:
    maintain(storage, TIGHT)
    text = said(storage)
    assert text["next"] == "nothing"
    assert text["chain"].startswith("at most 0 files")
    assert len(list(lines(doctor(storage)))) <= 10


def test_what_lies_behind_a_lost_delta_is_left_out(storage: MemoryStorage) -> None:
    storage.delete("state/0/1/22.delta")
    found = doctor(storage)
    assert (found.restarts, found.loadable) == (False, tuple(range(16, 21)))
    text = said(storage)
    assert text["restart"] == "NO: the state of batch 24, the last committed one, does not load"
    assert text["batches"] == "16 to 20 load in every store; 4 more in the commit log do not"
    assert text["damage"] == "BROKEN_CHAIN (1)"
    assert found.goes_back_to == 20
    assert found.next[-1] == (
        "or go back: `statemaint rollback --to-batch 20`, the newest batch that loads in every "
        "store"
    )


def test_two_damaged_files_of_a_store_are_both_named(storage: MemoryStorage) -> None:
    for version in (18, 23):
        storage.write(f"state/0/0/{version}.delta", [b"nothing of the kind"], overwrite=True)
    found = doctor(storage)
    assert found.loadable == (16,)
    assert {one.path for one in found.findings} == {"state/0/0/18.delta", "state/0/0/23.delta"}


def test_a_hole_between_batches_is_shown_as_one(storage: MemoryStorage) -> None:
    maintain(storage, TIGHT)
    storage.delete("state/0/1/20.delta")
    assert said(storage)["batches"] == (
        "16 to 18, 24 load in every store; 5 more in the commit log do not"
    )
    assert doctor(storage).restarts


def test_logs_that_a_restart_reads_first_stop_it(storage: MemoryStorage) -> None:
    storage.delete("offsets/18")
    assert doctor(storage).restarts, "an older batch is only for going back"
    storage.delete("offsets/23")
    assert said(storage)["restart"] == "NO: MISSING_OFFSET"


def test_an_older_commit_stops_no_restart_and_the_newest_does(storage: MemoryStorage) -> None:
    storage.write("commits/18", [b"v1\n{"], overwrite=True)
    assert doctor(storage).restarts
    storage.write("commits/24", [b"v1\n{"], overwrite=True)
    assert said(storage)["restart"] == "NO: UNREADABLE_COMMIT"


def test_a_restart_that_would_be_silently_wrong_is_none(storage: MemoryStorage) -> None:
    storage.write("state/0/0/26.snapshot", [snapshot_bytes(state_at(25))])
    assert said(storage)["restart"] == "NO: SNAPSHOT_ABOVE_TARGET"


def test_before_the_first_commit_there_is_nothing_to_lose(storage: MemoryStorage) -> None:
    for batch in range(16, 25):
        storage.delete(f"commits/{batch}")
    text = said(storage)
    assert text["restart"] == "yes, from the beginning: nothing is committed yet"
    assert text["chain"] == "none to read"


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0].name}, {case[1]}")
def test_it_has_an_answer_to_every_damage(case: tuple[Damage, str]) -> None:
    damage, kind = case
    healthy = doctor(MemoryStorage(maintained(kind)))
    assert healthy.restarts
    storage, _ = spoiled(damage, kind)
    found = doctor(storage, deep=True)
    assert found.counts
    assert set(found.loadable) <= set(healthy.loadable)
    assert found.next != ("nothing",)
    assert 4 < len(list(lines(found))) <= 12
    assert json.loads(json.dumps(doctor_json(found)))["restarts"] is found.restarts
