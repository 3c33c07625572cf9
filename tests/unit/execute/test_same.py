"""Whether a file is the one that a run saw."""

from collections.abc import Iterable

import google_crc32c
import pytest

from statemaint.execute.deeds import Deeds, RestoreNote
from statemaint.execute.manifest import Contents, Seen
from statemaint.execute.same import Same, equal
from statemaint.execute.world import fingerprint, is_same
from statemaint.listing import Entry
from statemaint.storage import MemoryStorage
from tests.support.faults import Clock

PATH, TRASHED = "state/0/0/3.delta", "_statemaint/trash/run/state/0/0/3.delta"
LONG = bytes(3 << 20)


def same(
    content: bytes, *, trashed: bytes | None = None, notes: Iterable[RestoreNote] = ()
) -> Same:
    files = {PATH: content} | ({TRASHED: trashed} if trashed is not None else {})
    storage = MemoryStorage(files, clock=Clock(50.0))
    there = {one.path: one for one in storage.list("_statemaint")}
    found = Contents("run", (), {PATH: there[TRASHED]} if there else {})
    return Same(storage, found, Deeds("run", {PATH: tuple(notes)}))


def entry(size: int = 3, modified: float | None = 2.0) -> Entry:
    return Entry(PATH, size, modified)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (b"", b"", True),
        (b"abc", b"abc", True),
        (b"abc", b"abx", False),
        (b"abc", b"ab", False),
        (LONG, LONG, True),
        (LONG, LONG[:-1] + b"x", False),
    ],
    ids=["empty", "same", "other bytes", "other size", "long", "long, other end"],
)
def test_two_files_are_equal_by_their_bytes(one: bytes, other: bytes, *, expected: bool) -> None:
    assert equal(MemoryStorage({"a": one, "b": other}), "a", "b") is expected


def test_a_fingerprint_is_of_all_bytes() -> None:
    for content in (b"", b"123456789", LONG + b"x"):
        assert fingerprint(MemoryStorage({"a": content}), "a") == google_crc32c.value(content)


def test_two_listings_are_of_the_same_file_by_size_and_time() -> None:
    assert is_same(entry(), entry())
    assert not is_same(entry(), entry(size=4))
    assert not is_same(entry(), entry(modified=3.0))
    assert not is_same(entry(), Entry("other", 3, 2.0))


def test_the_time_tells_where_no_bytes_were_noted() -> None:
    assert same(b"abc")(Seen(entry()), entry())
    assert not same(b"abc")(Seen(entry()), entry(modified=2.5))
    assert not same(b"abc")(Seen(entry()), entry(size=4))
    assert not same(b"abc")(Seen(entry(modified=None)), entry(modified=None))


def test_the_bytes_tell_where_they_were_noted_whatever_the_time() -> None:
    crc32c = google_crc32c.value(b"abc")
    assert same(b"abc")(Seen(entry(), crc32c), entry(modified=9.0))
    assert not same(b"abx")(Seen(entry(), crc32c), entry())


def test_the_bytes_tell_where_the_trash_has_them_whatever_the_time() -> None:
    assert same(b"abc", trashed=b"abc")(Seen(entry()), entry(modified=9.0))
    assert not same(b"abc", trashed=b"abx")(Seen(entry()), entry())


@pytest.mark.parametrize(
    ("size", "modified", "content", "expected"),
    [
        (3, 2.0, b"abc", True),
        (3, 2.0, b"abx", False),
        (4, 2.0, b"abc", False),
        (3, 2.5, b"abc", False),
        (3, 2.0, None, False),
    ],
)
def test_a_file_that_an_undo_brought_back_is_told_by_its_note(
    size: int, modified: float, content: bytes | None, *, expected: bool
) -> None:
    crc32c = None if content is None else google_crc32c.value(content)
    unread = RestoreNote("other", 3, 2.0, None, 7.0)
    note = RestoreNote("other", size, modified, crc32c, 7.0)
    found = same(b"abc", notes=(unread, note))
    assert found(Seen(entry()), entry(modified=9.0)) is expected
