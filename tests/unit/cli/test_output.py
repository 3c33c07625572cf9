"""Results that are printed while they are made."""

import json
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.cli.output import json_text, json_with_rows, print_pieces

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.no_cover
@given(VALUES)
def test_the_text_is_that_of_the_standard_library(value: Any) -> None:
    assert json_text(value) == json.dumps(value, indent=2)


@pytest.mark.no_cover
@given(st.lists(st.dictionaries(st.text(), VALUES, max_size=3), max_size=3))
def test_a_document_with_rows_is_printed_as_a_whole_one_is(rows: list[Any]) -> None:
    document = {"version": 3, "total": {"added": 1}}
    printed = "".join(json_with_rows(document, rows))
    assert printed == json.dumps({**document, "rows": rows}, indent=2) + "\n"


class Row(dict[str, int]):
    """A row whose end can be seen."""


def test_rows_are_let_go_once_they_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    alive: weakref.WeakValueDictionary[int, Row] = weakref.WeakValueDictionary()
    most = 0

    def rows() -> Iterator[Row]:
        nonlocal most
        for number in range(5000):
            row = Row(number=number)
            alive[number] = row
            most = max(most, len(alive))
            yield row

    print_pieces(json_with_rows({"version": 1}, rows()))
    assert most <= 3
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 5000


def pieces(count: int) -> Iterator[str]:
    for _ in range(count):
        yield "x" * 1024
    raise ValueError("too much")


def test_an_early_error_leaves_stdout_empty(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="too much"):
        print_pieces(pieces(1000))
    assert capsys.readouterr().out == ""


def test_a_long_text_is_printed_before_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="too much"):
        print_pieces(pieces(3000))
    assert len(capsys.readouterr().out) > 2 << 20
