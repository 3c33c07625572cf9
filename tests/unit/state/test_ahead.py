"""Stores that are read ahead: in their order, within memory, and ended with their reader."""

from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from threading import Barrier, Event, Lock
from threading import enumerate as running_threads

import pytest

from statemaint.errors import CodecError
from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store
from statemaint.model.files import Delta
from statemaint.model.ids import StoreId
from statemaint.state import diff_state, read_state, select_state, state_stats
from statemaint.state.ahead import AHEAD, StoreReading, need_of, opened_ahead
from statemaint.storage import MemoryStorage, Storage
from tests.checkpoints.archive import contents
from tests.support.long_rows import Change, write_longs

WAIT = 30
STORAGE = MemoryStorage({"a": b"1"})


class Watched:
    """Readings that note what is open; each gives its number."""

    def __init__(self) -> None:
        self.opened: list[int] = []
        self.open, self.most, self._lock = set[int](), 0, Lock()

    def reading(
        self, number: int, need: int = 0, before: Callable[[Storage], object] = lambda _: None
    ) -> StoreReading[int]:
        @contextmanager
        def opened(storage: Storage) -> Iterator[int]:
            with self._lock:
                self.opened.append(number)
            before(storage)
            with self._lock:
                self.open.add(number)
                self.most = max(self.most, len(self.open))
            try:
                yield number
            finally:
                self.open.discard(number)

        return StoreReading(opened, need)


@pytest.mark.parametrize("workers", [1, 2, 7])
@pytest.mark.parametrize("slowly", [False, True])
def test_all_come_in_their_order_and_are_closed(workers: int, *, slowly: bool) -> None:
    watched, threads = Watched(), set(running_threads())
    readings = [watched.reading(one) for one in range(20)]
    found = []
    for one in opened_ahead(STORAGE, readings, workers=workers, slowly=slowly):
        assert one in watched.open
        found.append(one)
    assert found == list(range(20))
    assert sorted(watched.opened) == found
    assert watched.most <= workers
    assert not watched.open
    assert threads.issuperset(running_threads())


def test_as_many_are_read_at_once_as_there_are_workers() -> None:
    watched, meet = Watched(), Barrier(3)
    readings = [watched.reading(one, before=lambda _: meet.wait(WAIT)) for one in range(6)]
    assert list(opened_ahead(STORAGE, readings, workers=3)) == list(range(6))


@pytest.mark.parametrize("workers", [2, 16])
def test_what_waits_fits_in_memory(workers: int) -> None:
    watched = Watched()
    readings = [watched.reading(one, AHEAD // 4) for one in range(16)]
    assert list(opened_ahead(STORAGE, readings, workers=workers)) == list(range(16))
    assert watched.most <= min(workers, 4)


def test_one_that_never_fits_is_read_alone() -> None:
    watched = Watched()
    readings = [watched.reading(one, 2 * AHEAD) for one in range(3)]
    assert list(opened_ahead(STORAGE, readings, workers=3)) == [0, 1, 2]
    assert watched.most == 1


def test_a_reader_that_may_not_want_all_of_it_begins_with_one() -> None:
    watched = Watched()
    found = opened_ahead(
        STORAGE, [watched.reading(one) for one in range(9)], workers=8, slowly=True
    )
    assert next(found) == 0
    found.close()
    assert watched.opened == [0]


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_an_error_comes_in_its_turn_and_closes_the_others(workers: int) -> None:
    def damaged(_: Storage) -> None:
        raise CodecError("broken", offset=0)

    watched, threads = Watched(), set(running_threads())
    readings = [watched.reading(one, before=damaged if one == 2 else print) for one in range(6)]
    found = opened_ahead(STORAGE, readings, workers=workers)
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(CodecError):
        next(found)
    assert not watched.open
    assert threads.issuperset(running_threads())


def test_readers_end_before_their_next_file_when_the_caller_stops() -> None:
    watched, began, refused = Watched(), Event(), list[str]()

    def reads(storage: Storage) -> None:
        began.set()
        try:
            for _ in range(1_000_000):
                with storage.open("a") as stream:
                    assert stream.read() == storage.read("a")
        except CancelledError:
            refused.append("at its next file")
            raise

    readings = [watched.reading(0), watched.reading(1, before=reads)]
    found = opened_ahead(STORAGE, readings, workers=2)
    assert next(found) == 0
    assert began.wait(WAIT)
    found.close()
    assert refused == ["at its next file"]
    assert not watched.open


def test_an_interrupt_of_the_caller_ends_all_of_it() -> None:
    watched, threads = Watched(), set(running_threads())
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 -- as a loop over rows is
        for _ in opened_ahead(STORAGE, map(watched.reading, range(9)), workers=3):
            raise KeyboardInterrupt
    assert not watched.open
    assert threads.issuperset(running_threads())


def test_the_estimate_grows_with_the_files_up_to_what_a_table_holds() -> None:
    def chain(size: int) -> Chain:
        return Chain(1, None, (Delta(1, Entry("1.delta", size, None)),))

    store = Store(StoreId(0, 0))
    sizes = [need_of(store, chain(size)) for size in (0, 10_000, 10**9, 10**12)]
    assert sizes == sorted(sizes)
    assert sizes[2] == sizes[3] < AHEAD
    assert need_of(store, chain(10_000), tables=3) > sizes[1]


# -- the verbs


LOG: list[list[Change]] = [[(key, version) for key in range(version)] for version in range(1, 6)]


@pytest.mark.parametrize("workers", [2, 5])
@pytest.mark.parametrize("rocks", [False, True])
def test_rows_changes_and_figures_are_those_of_one_worker(workers: int, *, rocks: bool) -> None:
    storage = write_longs([LOG[one:] + LOG[:one] for one in range(5)], rocks=rocks)
    alone = list(read_state(storage, workers=1))
    assert list(read_state(storage, workers=workers)) == alone
    assert {one.store.partition for one in alone} == set(range(5))
    diff = diff_state(storage, (2, 5))
    assert diff.compare(workers=workers) == diff.compare(workers=1)
    assert diff.compare(limit=3, workers=workers) == diff.compare(limit=3, workers=1)
    assert state_stats(storage, workers=workers) == state_stats(storage, workers=1)


@pytest.mark.parametrize("kind", ["rocks-join4-ids", "rocks-expiring"])
def test_databases_are_opened_in_one_thread_and_read_in_another(kind: str) -> None:
    storage = MemoryStorage(dict(contents("rocks-4.3.0")[kind]))
    assert list(read_state(storage, workers=3)) == list(read_state(storage, workers=1))
    found = read_state(storage, workers=3)
    next(found)
    found.close()  # type: ignore[attr-defined]


def test_damage_of_a_later_store_comes_after_the_rows_of_those_before() -> None:
    storage = write_longs([LOG] * 4)
    storage.write("state/0/2/3.delta", [b"LZ4Block"], overwrite=True)
    found = select_state(storage).rows(workers=4)
    seen: list[int] = []
    with pytest.raises(CodecError, match=r"state/0/2/3\.delta"):
        seen.extend(one.store.partition for one in found)
    assert set(seen) == {0, 1}
    with pytest.raises(CodecError, match=r"state/0/2/3\.delta"):
        diff_state(storage).compare(workers=4)
    with pytest.raises(CodecError, match=r"state/0/2/3\.delta"):
        state_stats(storage, workers=4)
