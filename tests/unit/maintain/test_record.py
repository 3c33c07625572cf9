"""The record of a query in its checkpoint."""

import pytest

from statemaint.maintain.record import PATH, read_record, trash_size, write_record
from statemaint.report.record import LastRun, next_record
from statemaint.storage import MemoryStorage


def test_it_is_read_as_it_was_written() -> None:
    storage = MemoryStorage()
    assert read_record(storage) is None
    record = next_record(None, LastRun("r", 5.0))
    write_record(storage, record)
    assert read_record(storage) == record


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"v": 2}', b'{"v": 1}', b"null"])
def test_one_that_is_none_of_ours_is_as_none(
    content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    storage = MemoryStorage()
    storage.write(PATH, [content])
    assert read_record(storage) is None
    assert "not a record of this version" in caplog.text


def test_the_trash_is_counted() -> None:
    storage = MemoryStorage()
    assert trash_size(storage) == (0, 0)
    storage.write("_statemaint/trash/r/state/0/0/1.delta", [b"1234"])
    assert trash_size(storage) == (1, 4)
