"""Tables: a small one by Rich, a large one in plain columns."""

from collections.abc import Iterator

import pytest

from statemaint.cli import tables

COLUMNS = ("store", "files", "bytes")


def printed(capsys: pytest.CaptureFixture[str], count: int, last: str = "1 kB") -> list[str]:
    tables.print_table(COLUMNS, ((f"part {one}", str(one), last) for one in range(count)))
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("count", [3, 200, 201, 12_000])
def test_columns_are_aligned(capsys: pytest.CaptureFixture[str], count: int) -> None:
    lines = printed(capsys, count)
    assert len(lines) == count + 1
    assert lines[0].split() == [*COLUMNS]
    first = lines[1 : min(count, 5000) + 1]
    assert {line.index("1 kB") for line in first} == {lines[0].index("bytes")}
    assert [line.split()[1] for line in lines[1:]] == [str(one) for one in range(count)]


@pytest.mark.parametrize("count", [2, 300])
def test_cells_are_plain_text(capsys: pytest.CaptureFixture[str], count: int) -> None:
    for text in ("[red]x[/red]", ":smile:", "a\\[b", "[/]"):
        assert all(text in line for line in printed(capsys, count, text)[1:])


def test_a_long_cell_moves_only_its_own_line(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("x" * (500 if one == 7 else 5), "1", "2") for one in range(300)]
    tables.print_table(COLUMNS, rows)
    lengths = [len(line) for line in capsys.readouterr().out.splitlines()]
    assert lengths[8] > 500
    assert max(lengths[:8] + lengths[9:]) < 100


def test_wide_characters_count_twice(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("\u6f22\u5b57" if one % 2 else "abcd", "1", "2") for one in range(300)]
    tables.print_table(COLUMNS, rows)
    _, plain, wide, *_ = capsys.readouterr().out.splitlines()
    assert plain.index("1") == wide.index("1") + 2


def test_a_large_table_is_printed_as_its_rows_come(capsys: pytest.CaptureFixture[str]) -> None:
    shown = 0

    def rows() -> Iterator[tuple[str, str, str]]:
        nonlocal shown
        for one in range(12_000):
            shown += capsys.readouterr().out.count("\n") if one == 11_000 else 0
            yield str(one), "1", "2"

    tables.print_table(COLUMNS, rows())
    assert shown >= 10_000
