"""Whether a file is the one that a run saw."""

from collections.abc import Iterable

import google_crc32c
import pytest

from statemaint.listing import Entry
from statemaint.model.proof import FileRecord
from statemaint.records.manifest import Contents, Note
from statemaint.scan.proofs import crc32c_of, equal, is_same
from statemaint.storage import MemoryStorage
from statemaint.undo.history import FileIdentity, FileNote, LedgerHistory
from tests.support.faults import Clock

PATH, TRASHED = "state/0/0/3.delta", "_statemaint/trash/run/state/0/0/3.delta"
LONG = bytes(3 << 20)


def same(
    content: bytes, *, trashed: bytes | None = None, notes: Iterable[FileNote] = ()
) -> FileIdentity:
    files = {PATH: content} | ({TRASHED: trashed} if trashed is not None else {})
    storage = MemoryStorage(files, clock=Clock(50.0))
    there = {one.path: one for one in storage.list("_statemaint")}
    found = Contents("run", (), {PATH: there[TRASHED]} if there else {})
    return FileIdentity(storage, found, LedgerHistory("run", {PATH: tuple(notes)}))


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
        assert crc32c_of(MemoryStorage({"a": content}), "a") == google_crc32c.value(content)


def test_two_listings_are_of_the_same_file_by_size_and_time() -> None:
    assert is_same(entry(), entry())
    assert not is_same(entry(), entry(size=4))
    assert not is_same(entry(), entry(modified=3.0))
    assert not is_same(entry(), Entry("other", 3, 2.0))


def test_the_time_tells_where_no_bytes_were_noted() -> None:
    assert same(b"abc")(FileRecord.of(entry(), {}), entry())
    assert not same(b"abc")(FileRecord.of(entry(), {}), entry(modified=2.5))
    assert not same(b"abc")(FileRecord.of(entry(), {}), entry(size=4))
    assert not same(b"abc")(FileRecord.of(entry(modified=None), {}), entry(modified=None))


def test_the_bytes_tell_where_they_were_noted_whatever_the_time() -> None:
    crc32c = google_crc32c.value(b"abc")
    assert same(b"abc")(FileRecord.of(entry(), {PATH: crc32c}), entry(modified=9.0))
    assert not same(b"abx")(FileRecord.of(entry(), {PATH: crc32c}), entry())


def test_the_bytes_tell_where_the_trash_has_them_whatever_the_time() -> None:
    assert same(b"abc", trashed=b"abc")(FileRecord.of(entry(), {}), entry(modified=9.0))
    assert not same(b"abc", trashed=b"abx")(FileRecord.of(entry(), {}), entry())


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
    unread = FileNote("other", 0, 3, 2.0, None, 7.0)
    note = FileNote("other", 0, size, modified, crc32c, 7.0)
    found = same(b"abc", notes=(unread, note))
    assert found(FileRecord.of(entry(), {}), entry(modified=9.0)) is expected


# -- a file that a later run removed from the same path

LATER = "_statemaint/trash/later/state/0/0/3.delta"


def removed(
    files: dict[str, bytes],
    modified: float | None = 8.0,
    *,
    restored: tuple[int, str] | None = None,
    more: tuple[FileNote, ...] = (),
) -> FileIdentity:
    """Returns the comparison of a run that moved `abc` with what a later run removed."""
    storage = MemoryStorage({TRASHED: b"abc", **files}, clock=Clock(50.0))
    notes = {PATH: Note(FileRecord.of(entry(), {}), 99.0)}
    found = Contents("run", (), {PATH: storage.stat(TRASHED)}, notes)
    back = (FileNote(restored[1], restored[0], 3, 8.0, None, 0.0),) if restored else ()
    removals = (FileNote("run", 2, 3, 2.0), FileNote("later", 3, 3, modified), *more)
    return FileIdentity(storage, found, LedgerHistory("run", {PATH: back}, {PATH: removals}))


@pytest.mark.parametrize(
    ("files", "modified", "again"),
    [
        ({LATER: b"abc"}, 8.0, False),
        ({LATER: b"abx"}, 2.0, True),
        ({}, 2.0, False),
        ({}, 8.0, True),
        ({}, None, True),
        ({PATH: b"abc"}, 8.0, True),  # whatever is there now, another file was removed
    ],
)
def test_a_later_run_removed_the_same_file_by_its_bytes_or_else_by_its_time(
    files: dict[str, bytes], modified: float | None, *, again: bool
) -> None:
    assert removed(files, modified).written_again(PATH) is again


@pytest.mark.parametrize(
    ("restored", "again"),
    [((4, "later"), False), ((4, "other"), True), ((3, "later"), True), (None, True)],
)
def test_what_its_undo_restored_is_compared_in_its_place(
    restored: tuple[int, str] | None, *, again: bool
) -> None:
    assert removed({PATH: b"abc"}, restored=restored).written_again(PATH) is again
    assert removed({PATH: b"abx"}, restored=restored).written_again(PATH)


@pytest.mark.parametrize(
    ("content", "modified", "again"),
    [(b"abc", 50.0, False), (b"abx", 50.0, True), (b"abc", 49.0, True), (b"abc", None, True)],
)
def test_what_a_later_run_did_not_come_to_remove_is_compared_in_its_place(
    content: bytes, modified: float | None, *, again: bool
) -> None:
    """Its time, 50, is that of an undo: only the ledger's line of that later run has it too."""
    assert removed({PATH: content}, modified).written_again(PATH) is again


@pytest.mark.parametrize(
    ("content", "modified", "again"),
    [(b"abc", 8.0, False), (b"abx", 8.0, True), (b"abc", 9.0, True)],
)
def test_what_a_third_run_removed_in_its_place_is_compared_in_the_trash_of_that_run(
    content: bytes, modified: float, *, again: bool
) -> None:
    third = FileNote("third", 4, 3, modified)
    files = {LATER.replace("later", "third"): content}
    later = removed(files, more=(third,)).history.removed[PATH][1]
    assert removed(files, more=(third,))._is_mine(PATH, later) is not again


def test_without_a_later_removal_nothing_was_written_again() -> None:
    assert not same(b"abc", trashed=b"abc").written_again(PATH)


@pytest.mark.parametrize(
    ("size", "modified", "crc32c", "earlier"),
    [
        (3, 9.0, None, True),
        (3, 8.0, None, False),
        (4, 9.0, None, False),
        (3, None, None, False),
        (3, 8.0, google_crc32c.value(b"abc"), True),
        (3, 9.0, google_crc32c.value(b"abx"), False),
    ],
)
def test_the_undo_of_an_earlier_run_restored_a_file_by_its_time_or_its_bytes(
    size: int, modified: float | None, crc32c: int | None, *, earlier: bool
) -> None:
    storage = MemoryStorage({PATH: b"abc"})
    note = FileNote("earlier", 3, size, modified, crc32c, 0.0)
    other = (FileNote("run", 2),)
    for first, found in ((1, earlier), (3, False)):
        history = LedgerHistory(
            "run", {PATH: (note,)}, {PATH: (FileNote("earlier", first),), "x": other}
        )
        compare = FileIdentity(storage, Contents("run", (), {}), history)
        assert compare.is_of_earlier(entry(modified=9.0)) is found
