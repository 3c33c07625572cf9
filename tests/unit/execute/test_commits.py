"""Whether a query was rewound since a run was planned, once the commit that tells is purged."""

from collections.abc import Mapping
from dataclasses import replace
from threading import Event, Semaphore, Thread
from time import sleep

import pytest

from statemaint.errors import NotFoundError, Superseded
from statemaint.execute.fence import SharedLook, must_stand
from statemaint.listing import Entry
from statemaint.model.checkpoint import Store
from statemaint.model.files import Delta
from statemaint.scan.scanner import scan
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import COMMIT, delta_bytes, drop, write_checkpoint
from tests.support.faults import HookedStorage, on
from tests.support.rocks_query import Habits, Query

HOME = "state/0/0"
PURGED = Entry("commits/2", 1, 0.0)


@pytest.fixture
def storage() -> MemoryStorage:
    found = MemoryStorage()
    query = Query(found, Habits(window=2, ids=True))
    query.restart(10)
    for number in range(6):
        query.commit([(0, number)])
    return found


def planned(storage: MemoryStorage) -> Store:
    (store,) = (one for one in scan(storage).stores if one.id.partition == 0)
    return store


def with_ids(store: Store, ids: Mapping[int, str]) -> Store:
    assert store.rocks is not None
    return replace(store, rocks=replace(store.rocks, ids=ids))


def test_a_query_that_has_only_gone_on_is_where_it_was(storage: MemoryStorage) -> None:
    assert "commits/2" not in storage.files
    must_stand(storage, PURGED, planned(storage))
    must_stand(storage, PURGED)


def test_a_changelog_that_has_appeared_since_was_written_by_a_rewound_query(
    storage: MemoryStorage,
) -> None:
    store = planned(storage)
    storage.write(f"{HOME}/3_{'0' * 8}-0000-4000-8000-{'0' * 12}.changelog", [b"late"])
    with pytest.raises(Superseded, match=r"3_0.*the query was rewound"):
        must_stand(storage, PURGED, store)


def test_a_changelog_without_an_id_that_has_appeared_since_is_of_a_rewound_query() -> None:
    plain = write_checkpoint(MemoryStorage(), last=6, batches=range(4, 6))
    store = planned(plain)
    plain.write(f"{HOME}/6.delta", [delta_bytes([(b"above", b"target")])], overwrite=True)
    must_stand(plain, PURGED, store)
    plain.write(f"{HOME}/3.delta", [delta_bytes([(b"other", b"input")])], overwrite=True)
    with pytest.raises(Superseded, match=f"{HOME}/3.delta: was written after the run was planned"):
        must_stand(plain, PURGED, store)


def test_a_store_that_is_not_there_any_more_tells_nothing(storage: MemoryStorage) -> None:
    store = planned(storage)
    drop(storage, "state")
    with pytest.raises(Superseded, match=HOME):
        must_stand(storage, PURGED, store)


def test_what_counts_now_must_have_counted_then(storage: MemoryStorage) -> None:
    store = planned(storage)
    assert store.rocks is not None
    other = {**store.rocks.ids, 3: "another"}
    with pytest.raises(Superseded, match="3_another: counted when the run was planned and no"):
        must_stand(storage, PURGED, with_ids(store, other))
    must_stand(storage, PURGED, with_ids(store, {**store.rocks.ids, 4: "above the target"}))


def test_where_nothing_tells_what_counts_attempts_may_not_be_dead(storage: MemoryStorage) -> None:
    store = planned(storage)
    assert any(isinstance(one, Delta) and one.version <= 3 for one in store.files)
    with pytest.raises(Superseded, match="no commit records any longer which attempts count"):
        must_stand(storage, PURGED, with_ids(store, {9: "far above"}))


def test_an_empty_log_purged_nothing_not_even_its_first_entry() -> None:
    with pytest.raises(Superseded, match="commits/0: was removed after the run was planned"):
        must_stand(MemoryStorage(), Entry("commits/0", 1, 0.0))


def test_an_entry_that_comes_back_under_our_eyes_was_not_purged() -> None:
    """It is put back after the look at it."""
    storage = MemoryStorage({"commits/3": b"{}"})
    put_back = on("list", "*", lambda: storage.write(PURGED.path, [b"{}"]), once=True)
    with pytest.raises(Superseded, match="commits/2: was removed after the run was planned"):
        must_stand(HookedStorage(storage, before=put_back), PURGED)
    assert PURGED.path in storage.files


def test_dead_attempts_are_fine_where_commits_say_what_counts(storage: MemoryStorage) -> None:
    storage.write(f"{HOME}/3_{'0' * 8}-0000-4000-8000-{'0' * 12}.changelog", [b"dead"])
    store = planned(storage)
    assert store.rocks is not None
    dead = [one for one in store.files if isinstance(one, Delta) and not store.rocks.counts(one)]
    assert [one.version for one in dead] == [3]
    must_stand(storage, PURGED, store)


def test_without_ids_every_attempt_counts() -> None:
    plain = MemoryStorage()
    query = Query(plain, Habits(window=2))
    query.restart(10)
    for number in range(6):
        query.commit([(0, number)])
    store = planned(plain)
    assert store.rocks is not None
    assert not store.rocks.ids
    must_stand(plain, PURGED, store)


def test_a_dead_attempt_at_the_very_target_is_one(storage: MemoryStorage) -> None:
    for path in [one for one in storage.files if one.startswith(f"{HOME}/")]:
        if not path.startswith((f"{HOME}/3_", f"{HOME}/4_", f"{HOME}/SSTs")):
            storage.delete(path)
    store = planned(storage)
    with pytest.raises(Superseded, match="no commit records any longer which attempts count"):
        must_stand(storage, PURGED, with_ids(store, {9: "far above"}))


def test_threads_that_wait_for_each_other_share_a_look_that_began_after_they_came() -> None:
    looking, go_on, came = Semaphore(0), Event(), Semaphore(0)

    def wait() -> None:
        looking.release()
        assert go_on.wait(timeout=60)

    storage = HookedStorage({"commits/1": COMMIT}, before=on("stat", "*", wait))
    look = SharedLook()

    def ask() -> None:
        came.release()
        assert look.at(storage, "commits/1").size == len(COMMIT)

    first, *others = [Thread(target=ask) for _ in range(8)]
    first.start()
    assert looking.acquire(timeout=60)
    for thread in others:
        thread.start()
    for _ in range(8):
        assert came.acquire(timeout=60)
    sleep(0.1)  # they wait by now; one that does not makes a look of its own
    go_on.set()
    for thread in (first, *others):
        thread.join()
    assert 2 <= storage.requests["stat"] < 8
    storage.replace("commits/1", [b"another"])
    assert look.at(storage, "commits/1").size == len(b"another")


def test_a_look_that_failed_is_not_shared() -> None:
    look, storage = SharedLook(), MemoryStorage({"commits/1": COMMIT})
    look.at(storage, "commits/1")
    storage.delete("commits/1")
    with pytest.raises(NotFoundError):
        look.at(storage, "commits/1")
    storage.write("commits/1", [COMMIT])
    assert look.at(storage, "commits/1").path == "commits/1"
