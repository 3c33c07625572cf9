"""Spark 4.2 and later pass over a bad snapshot by themselves, and older ones do not restart."""

from collections.abc import Callable

import pytest

from statemaint.audit import doctor
from statemaint.cli.doctor import doctor_json, lines
from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.storage import MemoryStorage
from tests.matrix.test_damage import HDFS, IDS, ROCKS, cut, empty, maintained, table, versions
from tests.support.checkpoints import snapshot_bytes, state_at, write_checkpoint

TIGHT = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0)
NEWEST = "state/0/0/20.snapshot"


@pytest.fixture
def storage() -> MemoryStorage:
    """Batches 16 to 24 are in the log of two partitions, one of which has a bad snapshot."""
    found = write_checkpoint(MemoryStorage())
    found.write(NEWEST, [snapshot_bytes(state_at(20))[:-30]])
    return found


def restart(storage: MemoryStorage) -> str:
    (line,) = [one for one in lines(doctor(storage)) if one.startswith("restart:")]
    return line.removeprefix("restart:").strip()


def test_a_bad_snapshot_above_a_whole_log_stops_older_sparks_only(storage: MemoryStorage) -> None:
    found = doctor(storage)
    assert (found.restarts, found.resumable) == (True, False)
    assert (found.restarts_since, found.passed_over) == ("4.2", (NEWEST,))
    assert restart(storage) == (
        "yes with Spark 4.2 and later, after batch 24 (state version 25), passing over "
        f"{NEWEST}; NO with older ones"
    )
    shown = doctor_json(found)
    assert (shown["restarts_since"], shown["passed_over"]) == ("4.2", [NEWEST])


def test_two_of_them_are_counted(storage: MemoryStorage) -> None:
    storage.write("state/0/1/20.snapshot", [b""])
    assert f"passing over {NEWEST} and 1 more; NO" in restart(storage)


@pytest.mark.parametrize("lost", ["state/0/0/3.delta", "state/0/0/20.delta", "state/0/0/24.delta"])
def test_where_the_log_is_not_whole_no_spark_restarts(storage: MemoryStorage, lost: str) -> None:
    storage.delete(lost)
    found = doctor(storage)
    assert (found.restarts, found.restarts_since, found.passed_over) == (False, None, ())


def test_an_older_snapshot_is_where_it_begins_then(storage: MemoryStorage) -> None:
    storage.write("state/0/0/18.snapshot", [snapshot_bytes(state_at(18))])
    for version in range(1, 18):
        storage.delete(f"state/0/0/{version}.delta")
    assert doctor(storage).restarts_since == "4.2"
    storage.write("state/0/0/18.snapshot", [b""], overwrite=True)
    assert not doctor(storage).restarts


def test_a_restart_past_a_bad_snapshot_replays_at_most_500_changes() -> None:
    storage = write_checkpoint(MemoryStorage(), last=501, batches=range(498, 501), partitions=1)
    storage.write("state/0/0/499.snapshot", [b""])
    assert not doctor(storage).restarts
    storage.write("state/0/0/2.snapshot", [snapshot_bytes(state_at(2))])
    assert doctor(storage).restarts_since == "4.2"


def test_a_directory_that_is_named_as_a_snapshot_ends_that(storage: MemoryStorage) -> None:
    storage.write("state/0/0/7.snapshot/file", [b"left"])
    assert not doctor(storage).restarts


def test_what_repair_mends_is_said_first(storage: MemoryStorage) -> None:
    assert doctor(storage).next == (
        "see what `statemaint repair` can repair from the log",
        "put the damaged files back from a copy",
    )


def test_two_commits_that_are_missing_make_the_newest_batch_run_again() -> None:
    storage = write_checkpoint(MemoryStorage())
    for batch in (23, 24):
        storage.delete(f"commits/{batch}")
    found = doctor(storage)
    assert (found.restarts, found.resumable) == (True, True)
    assert [one.code for one in found.findings if one.damage] == ["MISSING_COMMIT"]
    storage.delete("state/0/0/24.delta")
    assert not doctor(storage).restarts


@pytest.mark.parametrize("spoil", [cut, empty])
@pytest.mark.parametrize("kind", [HDFS, ROCKS, IDS])
def test_every_provider_has_it(kind: str, spoil: Callable[[bytes], bytes]) -> None:
    storage = MemoryStorage(dict(maintained(kind)))
    path = versions(dict(storage.files), "(?:snapshot|zip)")[-1]
    storage.write(path, [spoil(storage.files[path])], overwrite=True)
    found = doctor(storage)
    assert (found.resumable, found.restarts, found.passed_over) == (False, True, (path,))


@pytest.mark.parametrize("kind", [ROCKS, IDS])
def test_a_table_that_is_missing_spoils_its_zip(kind: str) -> None:
    files = dict(maintained(kind))
    (only,) = versions(files, "zip")[:1]
    storage = MemoryStorage(files)
    storage.delete(table(files))
    found = doctor(storage)
    assert set(found.passed_over) <= {only}
    assert maintain(storage, TIGHT).exit_code == 3
