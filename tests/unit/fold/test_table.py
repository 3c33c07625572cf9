"""The rows of a store in bounded memory, against a dictionary."""

import tempfile
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.codec.hdfs.records import Record, apply
from statemaint.errors import StorageError
from statemaint.fold.table import SortedEvents, SortedTable

KEYS = st.binary(max_size=2)
CHANGES = st.lists(st.tuples(KEYS, st.one_of(st.none(), st.binary(max_size=40))), max_size=60)
HELD = st.sampled_from([0, 400, 2000, 1 << 20])


def expected(changes: list[Record]) -> list[tuple[bytes, bytes]]:
    state: dict[bytes, bytes] = {}
    apply(state, changes)
    return sorted(state.items())


@given(CHANGES, HELD)
def test_rows_are_those_of_a_dictionary_in_the_order_of_their_keys(
    changes: list[Record], held: int
) -> None:
    table = SortedTable(held)
    table.apply(changes)
    assert list(table.rows()) == expected(changes)


@given(CHANGES, CHANGES, HELD)
def test_a_fork_keeps_its_rows(first: list[Record], second: list[Record], held: int) -> None:
    table = SortedTable(held)
    table.apply(first)
    fork = table.fork()
    table.apply(second)
    both = zip(fork.rows(), table.rows(), strict=False)  # side by side, as a diff reads them
    assert list(both) == list(zip(expected(first), expected([*first, *second]), strict=False))
    assert list(fork.rows()) == expected(first)


def test_a_removal_reaches_rows_that_are_on_disk() -> None:
    table = SortedTable(0)
    table.apply([(b"a", b"1"), (b"b", b"2"), (b"a", None)])
    assert list(table.rows()) == [(b"b", b"2")]


def runs_of(keys: int, changes: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Returns the number of temporary files that a table writes."""
    files: list[object] = []

    def counted() -> object:
        files.append(1)
        return tempfile.TemporaryFile()

    monkeypatch.setattr("statemaint.fold.table.TemporaryFile", counted)
    table = SortedTable(50_000)
    table.apply((b"%d" % (one % keys), bytes(100)) for one in range(changes))
    assert sum(1 for _ in table.rows()) == min(keys, changes)
    return len(files)


def test_a_small_state_never_leaves_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    assert runs_of(50, 20_000, monkeypatch) == 0


def test_more_runs_than_files_may_be_open_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    assert runs_of(20_000, 20_000, monkeypatch) > 64


def test_a_full_temporary_directory_is_a_storage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(StorageError, match="the temporary directory: No such file"):
        SortedTable(0).apply([(b"a", b"1")])


# -- what happened to keys


EVENTS = st.lists(st.tuples(KEYS, st.binary(min_size=1, max_size=4)), max_size=60)


@given(EVENTS, HELD)
def test_the_events_of_a_key_come_in_their_order(
    events: list[tuple[bytes, bytes]], held: int
) -> None:
    expected: dict[bytes, bytes] = {}
    table = SortedEvents(held)
    for key, event in events:
        expected[key] = expected.get(key, b"") + event
        table.add(key, event)
    found: dict[bytes, bytes] = {}
    keys = []
    for key, some in table.by_key():
        keys.append(key)
        found[key] = found.get(key, b"") + some
    assert found == expected
    assert keys == sorted(keys)


def test_events_in_many_runs_are_merged() -> None:
    table = SortedEvents(2000)
    for one in range(3000):
        table.add(b"%04d" % (one % 1000), b"%d" % (one // 1000))
    found = [(key, b"".join(some for _, some in group))
             for key, group in groupby(table.by_key(), key=itemgetter(0))]  # fmt: skip
    assert found == [(b"%04d" % one, b"012") for one in range(1000)]
