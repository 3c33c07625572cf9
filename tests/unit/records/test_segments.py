"""Lines of JSON: each as it is stored, and none that a crash cut short."""

import io

import pytest

from statemaint.errors import CodecError
from statemaint.records.segments import (
    FOLDER,
    UNDO,
    Line,
    add_segment,
    page_of,
    read_lines,
    run_of_page,
    stored_lines,
    write_merged,
)
from statemaint.storage import MemoryStorage


def test_a_line_is_returned_as_it_is_stored_without_its_end() -> None:
    content = b'{"a": 1} \t\r\n[2]\n{"b": "X"}X\n{"c": 3}\n{"cut'
    assert list(stored_lines(io.BytesIO(content), "path")) == [
        (b'{"a": 1} \t', {"a": 1}),
        (b'{"c": 3}', {"c": 3}),
    ]


def test_a_line_that_is_too_long_is_refused() -> None:
    content = io.BytesIO(bytes(64 << 20))
    with pytest.raises(CodecError, match="a line has more than 64 MiB") as caught:
        list(stored_lines(content, "path"))
    assert (caught.value.offset, caught.value.path) == (0, "path")


def test_a_file_that_is_missing_has_no_lines() -> None:
    storage = MemoryStorage({"there": b'{"a": 1}\n'})
    assert read_lines(storage, "there") == [{"a": 1}]
    assert read_lines(storage, "gone") == []


def test_the_name_of_a_page_has_its_run_and_a_merged_segment_has_none() -> None:
    storage = MemoryStorage()
    add_segment(storage, UNDO, page_of("run-of-7", 3), [b"{}\n"])
    assert run_of_page(write_merged(storage, UNDO, [Line(b"{}", {})])) is None
    pages = {run_of_page(entry.path) for entry in storage.list(FOLDER)}
    assert pages == {"run-of-7", None}
