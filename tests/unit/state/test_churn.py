"""What a log did to each key, against a plain dictionary of all keys; and in how much memory."""

import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.codec.rocksdb.changelog import DELETE, DELETE_RANGE, MERGE, PUT, Change
from statemaint.errors import UnsupportedError
from statemaint.fold.table import SortedEvents
from statemaint.state import diff_state, read_state, state_stats
from statemaint.state.churn import MOST_RANGES, Churn, Log
from statemaint.state.diff import Counts
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import delta_bytes
from tests.support.long_rows import Change as LongChange
from tests.support.long_rows import long, write_longs

FIRST = 3
KEYS = st.sampled_from([number + key for number in (b"\1\0", b"\2\0") for key in (b"", b"a", b"b")])
CHANGES = st.one_of(
    st.tuples(st.sampled_from([PUT, MERGE]), KEYS, st.just(b"value")),
    st.tuples(st.just(DELETE), KEYS, st.none()),
    st.tuples(st.just(DELETE_RANGE), KEYS, KEYS),
)


def plainly(
    before: set[bytes], versions: Sequence[Sequence[Change]]
) -> tuple[dict[bytes, int], dict[bytes, Churn]]:
    """Returns the version that put each key last, and the churn of each family."""
    put, churns = dict.fromkeys(before, FIRST - 1), defaultdict[bytes, Churn](Churn)
    last = FIRST + len(versions) - 1
    for version, changes in enumerate(versions, FIRST):
        for key in put:
            churns[key[:2]].carried += 1
        for kind, key, value in changes:
            if kind == DELETE_RANGE:
                gone = [one for one in put if key <= one < (value or b"")]
            else:
                gone = [key] if kind == DELETE else []
            for one in gone:
                churns[one[:2]].removes += 1
                churns[one[:2]].removed += put.pop(one, None) is not None
            if kind in (PUT, MERGE):
                churn, at = churns[key[:2]], put.get(key)
                put[key] = version
                churn.puts += 1
                churn.added += at is None
                churn.recent += at is None and 2 * version > FIRST + last
                churn.rewritten += at is not None and at < version
    return put, churns


@given(
    st.sets(KEYS),
    st.lists(st.lists(CHANGES, max_size=8), min_size=1, max_size=5),
    st.sampled_from([0, 1000, 1 << 20]),
)
def test_each_key_has_the_fate_that_a_plain_count_gives_it(
    before: set[bytes], versions: list[list[Change]], held: int
) -> None:
    log = Log("state/0/0", FIRST, FIRST + len(versions) - 1, SortedEvents(held))
    log.begin(sorted(before), {1: "one", 2: "two"})
    for version, changes in enumerate(versions, FIRST):
        assert list(log.watch(version, iter(changes))) == changes
    put, churns = plainly(before, versions)
    assert list(log.puts()) == sorted(put.items())
    nothing = Churn()
    found = {number: one for number, one in log.families.items() if one != nothing}
    assert found == {number: one for number, one in churns.items() if one != nothing}


def test_more_ranges_than_memory_is_meant_for_are_refused() -> None:
    log = Log("state/0/7", 1, 1)
    ranges = ((DELETE_RANGE, b"%d" % one, b"x") for one in range(MOST_RANGES + 1))
    with pytest.raises(UnsupportedError, match=r"state/0/7: a log with more than 100,000 deleted"):
        for _ in log.watch(1, ranges):
            pass


# -- memory


ROWS = 60_000


@pytest.fixture(scope="module")
def large() -> MemoryStorage:
    """A store of two versions: all rows come in the first, and half are put again in the second."""
    none: list[LongChange] = []
    storage = write_longs([[none, none]])
    for version, step in ((1, 1), (2, 2)):
        rows = ((long(key), long(key + version % 2)) for key in range(0, ROWS, step))
        storage.write(f"state/0/0/{version}.delta", [delta_bytes(rows)], overwrite=True)
    return storage


def peak(read: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        read()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# In memory as a whole `show` takes 9 MB for these rows, `stats` and `diff` take 15 MB and more.
HELD = 1024 * 1024
BOUND = 7_000_000


@pytest.fixture
def small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("statemaint.fold.table.HELD", HELD)


@pytest.mark.long
@pytest.mark.no_cover
@pytest.mark.usefixtures("small_tables")
def test_figures_take_memory_that_does_not_grow_with_the_keys(large: MemoryStorage) -> None:
    assert peak(lambda: state_stats(large)) < BOUND
    (found,) = (one.figures for one in state_stats(large).stores)
    assert (found.rows, found.untouched) == (ROWS, ROWS // 2)
    assert found.churn == Churn(
        puts=ROWS + ROWS // 2, added=ROWS, rewritten=ROWS // 2, carried=ROWS, recent=0
    )


@pytest.mark.long
@pytest.mark.no_cover
@pytest.mark.usefixtures("small_tables")
def test_a_comparison_takes_memory_that_does_not_grow_with_the_keys(large: MemoryStorage) -> None:
    diff = diff_state(large)
    assert peak(lambda: diff.compare(limit=0)) < BOUND
    assert diff.compare(limit=0).total == Counts(0, ROWS // 2, 0, 0)
    assert diff_state(large, (0, 2)).compare(limit=0).total == replace(Counts(), added=ROWS)


@pytest.mark.no_cover
@pytest.mark.usefixtures("small_tables")
@pytest.mark.parametrize("workers", [1, pytest.param(4, marks=pytest.mark.long)])
def test_rows_take_memory_that_does_not_grow_with_the_state(
    large: MemoryStorage, workers: int
) -> None:
    assert peak(lambda: sum(1 for _ in read_state(large, workers=workers))) < BOUND
