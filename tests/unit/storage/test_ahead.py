"""Files fetched ahead: in their order, no more than wanted, and read as if they were not."""

from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import closing
from threading import Barrier
from threading import enumerate as running_threads

import pytest

from statemaint.errors import NotFoundError, StorageError
from statemaint.storage import MOST_AHEAD, Ahead, MemoryStorage, Stoppable
from tests.support.faults import HookedStorage, on

WAIT = 30
MIB = 1024 * 1024


def noted(names: str, size: int = 5) -> HookedStorage:
    return HookedStorage({name: name.encode() * size for name in names})


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(running_threads())
    yield
    assert before.issuperset(running_threads())


def content(storage: Ahead, path: str) -> bytes:
    with storage.open(path) as stream:
        return stream.read()


def ahead(storage: MemoryStorage, names: str, threads: int = 3, size: int = 5) -> "closing[Ahead]":
    return closing(Ahead(storage, [(name, size) for name in names], threads))


def test_each_file_is_opened_once_and_has_its_content() -> None:
    storage = noted("abcdefgh")
    with ahead(storage, "abcdefgh") as near:
        assert [content(near, name) for name in "abcdefgh"] == [
            name.encode() * 5 for name in "abcdefgh"
        ]
    assert sorted(storage.paths("open")) == list("abcdefgh")


def test_as_many_are_fetched_at_a_time_as_threads() -> None:
    met = Barrier(3)
    storage = noted("abcdef")
    # It breaks unless three are here together.
    storage.before = on("open", "*", lambda: met.wait(WAIT))
    with ahead(storage, "abcdef") as near:
        assert content(near, "a") == b"aaaaa"
        for name in "bcdef":
            content(near, name)


def test_no_more_bytes_are_fetched_than_may_be_held_but_always_one_file() -> None:
    size = MOST_AHEAD // 2
    storage = noted("abcd", size=size // 2)
    with ahead(storage, "abcd", threads=4, size=size) as near:
        content(near, "a")
        assert set(storage.paths("open")) <= set("abc")
        assert len(content(near, "b")) == size // 2
        content(near, "c")
        content(near, "d")
    assert sorted(storage.paths("open")) == list("abcd")


def test_a_large_file_is_left_to_the_storage() -> None:
    storage = noted("ab")
    with closing(Ahead(storage, [("a", 9 * MIB), ("b", 5)], 2)) as near:
        assert content(near, "b") == b"bbbbb"
        assert "a" not in storage.paths("open")
        assert content(near, "a") == b"aaaaa"


def test_a_file_that_grew_since_it_was_listed_is_read_by_the_storage() -> None:
    storage = noted("a", size=50)
    with ahead(storage, "a") as near:
        assert content(near, "a") == b"a" * 50
    assert storage.paths("open") == ["a", "a"]


def test_files_may_be_passed_over_read_again_and_be_others() -> None:
    storage = noted("abcdefx")
    with ahead(storage, "abcdef") as near:
        assert content(near, "c") == b"ccccc"
        assert content(near, "x") == b"xxxxx"
        assert content(near, "a") == b"aaaaa"  # dropped, and asked for again
        assert content(near, "c") == b"ccccc"
        assert [content(near, name) for name in "def"] == [b"ddddd", b"eeeee", b"fffff"]


def test_an_error_is_raised_where_its_file_is_opened() -> None:
    with ahead(noted("ac"), "abc") as near:
        assert content(near, "a") == b"aaaaa"
        with pytest.raises(NotFoundError):
            near.open("b")
        assert content(near, "c") == b"ccccc"


def test_a_storage_that_reads_ahead_writes_nothing() -> None:
    with ahead(noted("a"), "a") as near, pytest.raises(StorageError, match="read-only"):
        near.write("b", [b""])


def test_a_stopped_storage_answers_nothing_more_in_any_thread() -> None:
    storage = Stoppable(noted("a"))
    assert storage.read("a") == b"aaaaa"
    storage.stop()
    for ask in (storage.read, storage.open, storage.stat, storage.list):
        with pytest.raises(CancelledError):
            ask("a")
