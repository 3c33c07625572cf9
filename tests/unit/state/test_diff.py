"""What `diff_state` says became of rows: by hand, at random, and against the rows of both sides."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemaint.errors import CodecError, ConfigError, DamagedError
from statemaint.maintain import maintain
from statemaint.model.ids import StoreId
from statemaint.model.policy import PRESETS
from statemaint.planning import scan_checkpoint
from statemaint.state import read_state
from statemaint.state.diff import ChangedRow, Counts, KeyChange, StateDiff, diff_state, pairs
from statemaint.storage import MemoryStorage
from tests.checkpoints.archive import contents
from tests.support.checkpoints import delta_bytes
from tests.support.long_rows import Change, state_of, write_longs
from tests.support.merged_rows import with_one_more_version

TIGHT = PRESETS["safe"].override(min_deltas_for_snapshot=3, min_batches_to_retain=3, grace=0.0)
Found = tuple[str, int, int | None, int | None]


def numbers(found: StateDiff) -> list[Found]:
    return [(row.fate.value, key_of(row), number(row.before), number(row.after))
            for row in found.rows]  # fmt: skip


def number(value: Any) -> int | None:
    return None if value is None else value["v"]


FIVE: list[list[Change]] = [
    [(1, 10), (2, 20), (3, 30)],
    [(1, 11), (4, 40)],
    [(2, 20), (3, None)],
    [(3, None), (3, 30), (5, 50), (5, None)],
    [(4, 41), (4, 40)],
]


@pytest.mark.parametrize("rocks", [False, True])
@pytest.mark.parametrize(
    ("versions", "rows", "counts"),
    [
        ((0, 1), [("added", 1, None, 10), ("added", 2, None, 20), ("added", 3, None, 30)],
         Counts(added=3)),
        ((1, 2), [("changed", 1, 10, 11), ("added", 4, None, 40)], Counts(added=1, changed=1)),
        ((2, 3), [("removed", 3, 30, None)], Counts(removed=1, rewritten=1)),
        ((3, 4), [("added", 3, None, 30)], Counts(added=1)),
        ((4, 5), [], Counts(rewritten=1)),
        ((1, 4), [("changed", 1, 10, 11), ("added", 4, None, 40)],
         Counts(added=1, changed=1, rewritten=2)),
        ((1, 5), [("changed", 1, 10, 11), ("added", 4, None, 40)],
         Counts(added=1, changed=1, rewritten=2)),
        ((3, 3), [], Counts()),
    ],
)  # fmt: skip
def test_each_key_is_told_once(
    versions: tuple[int, int], rows: list[Found], counts: Counts, *, rocks: bool
) -> None:
    found = diff_state(write_longs([FIVE], rocks=rocks), versions).compare()
    assert sorted(numbers(found), key=lambda row: row[1]) == rows
    assert found.total == counts
    assert (found.older, found.newer) == versions


def test_by_default_the_newest_version_is_compared_with_the_one_before_it() -> None:
    storage = write_longs([FIVE])
    assert (diff_state(storage).older, diff_state(storage).newer) == (4, 5)
    assert (diff_state(storage, (None, 3)).older, diff_state(storage, (2, None)).newer) == (2, 5)
    one = diff_state(write_longs([FIVE[:1]])).compare()
    assert (one.older, one.newer, one.total.added) == (0, 1, 3)


@pytest.mark.parametrize("snapshots", [(2,), (3,), (4,), (1, 2, 3, 4, 5)])
def test_a_snapshot_between_changes_nothing(snapshots: tuple[int, ...]) -> None:
    plain = diff_state(write_longs([FIVE]), (1, 4)).compare()
    assert diff_state(write_longs([FIVE], snapshots=snapshots), (1, 4)).compare() == plain


@pytest.mark.parametrize("gone", [2, 3, 4])
def test_without_the_log_between_both_states_are_compared(gone: int) -> None:
    storage = write_longs([FIVE], snapshots=(1, 4))
    expected = diff_state(storage, (1, 4)).compare()
    storage.delete(f"state/0/0/{gone}.delta")
    found = diff_state(storage, (1, 4)).compare()
    assert found.rows == expected.rows
    assert found.total == Counts(added=1, changed=1, rewritten=None)


def test_the_log_outside_is_not_asked_for() -> None:
    storage = write_longs([FIVE], snapshots=(2,))
    storage.delete("state/0/0/1.delta")
    storage.delete("state/0/0/2.delta")
    assert diff_state(storage, (2, 3)).compare().total == Counts(removed=1, rewritten=1)


def test_stores_are_counted_apart_and_in_all() -> None:
    storage = write_longs([FIVE, [[(7, 1)], [(7, 2)], [(8, 1)], [], []]])
    found = diff_state(storage, (1, 3)).compare()
    assert [(one.store, one.family, one.counts) for one in found.stores] == [
        (StoreId(0, 0), None, Counts(added=1, changed=1, removed=1, rewritten=1)),
        (StoreId(0, 1), None, Counts(added=1, changed=1)),
    ]
    assert found.total == Counts(added=2, changed=2, removed=1, rewritten=1)
    only = diff_state(storage, (1, 3), partition=1).compare()
    assert only.stores == found.stores[1:]


def test_the_limit_and_the_key_are_for_rows_and_not_for_counts() -> None:
    storage = write_longs([FIVE, FIVE])
    found = diff_state(storage, (0, 5))
    everything = found.compare()
    assert len(everything.rows) == 8
    for limit in (0, 1, 5):
        some = found.compare(limit=limit)
        assert (some.rows, some.stores) == (everything.rows[:limit], everything.stores)
    some = found.compare(lambda row: row.key["k"] == 4)
    assert numbers(some) == [("added", 4, None, 40)] * 2
    assert some.stores == everything.stores
    assert len(found.compare(lambda row: row.key["k"] == 4, 1).rows) == 1


def key_of(row: ChangedRow) -> int:
    key = row.key["k"]
    assert isinstance(key, int)
    return key


# -- at random


CHANGES = st.lists(st.tuples(st.integers(0, 5), st.none() | st.integers(0, 2)), max_size=6)
LOGS = st.lists(CHANGES, min_size=1, max_size=6)


def applied(state: dict[int, int], rows: Sequence[ChangedRow]) -> dict[int, int]:
    after = dict(state)
    for row in rows:
        key, old, new = key_of(row), number(row.before), number(row.after)
        assert after.get(key) == old
        assert old != new
        assert row.fate is (
            KeyChange.ADDED
            if old is None
            else KeyChange.REMOVED
            if new is None
            else KeyChange.CHANGED
        )
        if new is None:
            del after[key]
        else:
            after[key] = new
    return after


def must_lead_from_one_to_the_other(storage: MemoryStorage, log: list[list[Change]]) -> None:
    for older in range(len(log) + 1):
        for newer in range(older, len(log) + 1):
            if not newer:
                continue
            found = diff_state(storage, (older, newer)).compare()
            before, after = state_of(log[:older]), state_of(log[:newer])
            assert applied(before, found.rows) == after
            put = {key for changes in log[older:newer] for key, one in changes if one is not None}
            same = [key for key in put if before.get(key) == after.get(key) and key in after]
            kinds = [row.fate for row in found.rows]
            assert found.total == Counts(
                kinds.count(KeyChange.ADDED),
                kinds.count(KeyChange.CHANGED),
                kinds.count(KeyChange.REMOVED),
                len(same),
            )


@given(LOGS, st.sets(st.integers(1, 6)))
def test_a_diff_leads_from_one_state_to_the_other(
    log: list[list[Change]], snapshots: set[int]
) -> None:
    kept = [one for one in snapshots if one <= len(log)]
    must_lead_from_one_to_the_other(write_longs([log], snapshots=kept), log)


@settings(max_examples=8)
@given(st.lists(CHANGES, min_size=1, max_size=3))
def test_a_diff_of_rocksdb_leads_from_one_state_to_the_other(log: list[list[Change]]) -> None:
    must_lead_from_one_to_the_other(write_longs([log], rocks=True), log)


STATES = st.dictionaries(st.binary(max_size=2), st.binary(max_size=1), max_size=6)


@given(STATES, STATES)
def test_pairs_have_every_key_once_in_order(
    one: dict[bytes, bytes], two: dict[bytes, bytes]
) -> None:
    found = list(pairs(iter(sorted(one.items())), iter(sorted(two.items()))))
    keys = sorted({*one, *two})
    assert found == [(key, one.get(key), two.get(key)) for key in keys]


# -- what Spark wrote


KINDS = [
    ("4.3.0", "aggregation2-rowchecksum"), ("4.3.0", "join2"), ("4.3.0", "pandas-state-timeout"),
    ("rocks-4.3.0", "rocks-zips"), ("rocks-4.3.0", "rocks-join4-ids"),
    ("rocks-4.3.0", "rocks-timed"), ("rocks-4.3.0", "rocks-expiring-ids"),
    ("rocks-3.5.9", "rocks-session-window"), ("rocks-4.0.5", "rocks-timed"),
]  # fmt: skip


def by_key(
    storage: MemoryStorage, version: int, family: str | None = None
) -> dict[tuple[Any, ...], Any]:
    rows = read_state(storage, version=version, family=family)
    return {(row.store, row.family, json.dumps(row.key)): row.value for row in rows}


def must_be_the_difference(found: StateDiff, before: dict[Any, Any], after: dict[Any, Any]) -> None:
    keys = {key for key in {*before, *after} if before.get(key) != after.get(key)}
    assert {
        (row.store, row.family, json.dumps(row.key)): (row.before, row.after) for row in found.rows
    } == {key: (before.get(key), after.get(key)) for key in keys}
    assert found.total.added == len(keys - before.keys())
    assert found.total.removed == len(keys - after.keys())
    assert found.total.changed == len(keys & before.keys() & after.keys())


@pytest.mark.parametrize(("archive", "kind"), KINDS, ids="/".join)
def test_a_diff_is_the_difference_of_the_rows_that_show_has(archive: str, kind: str) -> None:
    storage = MemoryStorage(contents(archive)[kind])
    target = scan_checkpoint(storage).target or 0
    for older, newer in ((target - 3, target - 2), (target - 8, target - 1)):
        found = diff_state(storage, (older, newer)).compare()
        assert found.rows
        must_be_the_difference(found, by_key(storage, older), by_key(storage, newer))


@pytest.mark.parametrize(
    ("archive", "kind"),
    [("4.3.0", "aggregation2"), ("rocks-4.3.0", "rocks-join2"), ("rocks-4.3.0", "rocks-timed-ids")],
)
def test_maintenance_changes_no_diff(archive: str, kind: str) -> None:
    storage = MemoryStorage(contents(archive)[kind])
    target = scan_checkpoint(storage).target or 0
    for batch in range(target - 4):
        for log in ("commits", "offsets"):
            if f"{log}/{batch}" in storage.files:
                storage.delete(f"{log}/{batch}")
    ends = [(older, target - 1) for older in range(target - 3, target)]
    before = [diff_state(storage, one).compare() for one in ends]
    assert maintain(storage, TIGHT).snapshots_written > 0
    assert [diff_state(storage, one).compare() for one in ends] == before


def test_a_column_family_is_all_that_is_compared() -> None:
    storage = MemoryStorage(contents("rocks-4.3.0")["rocks-timed"])
    found = diff_state(storage, (5, 9), family="hours").compare()
    assert {one.family for one in found.stores} == {row.family for row in found.rows} == {"hours"}
    everything = diff_state(storage, (5, 9)).compare()
    assert found.rows == tuple(row for row in everything.rows if row.family == "hours")
    counters = diff_state(storage, (5, 9), family="$rowCounter_amounts").compare()
    sides = (by_key(storage, one, "$rowCounter_amounts") for one in (5, 9))
    must_be_the_difference(counters, *sides)
    assert counters.total == Counts(added=2, changed=3, removed=2)


def test_merged_lists_are_one_value() -> None:
    storage = MemoryStorage(contents("rocks-4.3.0")["rocks-timed"])
    row, *_ = diff_state(storage, (5, 9), family="amounts").compare(limit=1).rows
    assert row.fate is KeyChange.CHANGED
    assert isinstance(row.before, list)
    assert isinstance(row.after, list)
    assert all(isinstance(one["amount"], int) for one in row.after)


def test_a_list_that_was_merged_anew_is_rewritten_and_an_empty_range_is_nothing() -> None:
    found = diff_state(with_one_more_version(), partition=0).compare()
    assert (found.older, found.newer) == (13, 14)
    counts = {one.family: one.counts for one in found.stores}
    assert counts["amounts"] == Counts(rewritten=1)
    assert counts["hours"] == Counts(removed=4)
    assert counts["total"] == Counts()


def test_a_column_family_that_came_later_was_added() -> None:
    storage = MemoryStorage(contents("rocks-4.3.0")["rocks-timed"])
    found = diff_state(storage, (0, 5), family="hours")
    expected = found.compare()
    assert expected.total.added > 0
    parts = tuple((replace(older, layouts={}), newer) for older, newer in found.parts)
    assert replace(found, parts=parts).compare() == expected


# -- what cannot be had


@pytest.mark.parametrize(
    ("versions", "where", "text"),
    [
        ((4, 2), {}, "version 4 is above version 2; the older one comes first"),
        ((6, None), {}, "version 6 is above version 5"),
        ((1, 6), {}, "version 6 is not committed; the newest is 5"),
        ((-1, 2), {}, "version -1 is below 0, the empty state"),
        ((1, 2), {"operator": 3}, "no operator 3, partition .any., store .any."),
        ((1, 2), {"family": "nix"}, "no column family nix in operator 0; there are none"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_the_caller_s_fault(
    versions: tuple[int | None, int | None], where: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        diff_state(write_longs([FIVE]), versions, **where)


def test_version_0_of_a_difference_is_the_start_and_no_batch() -> None:
    storage = write_longs([FIVE])
    assert "(the start to the start, 0 added" in repr(diff_state(storage, (0, 0)).compare())
    assert "(the start to batch 0, " in repr(diff_state(storage, (0, 1)).compare())


def purge(storage: MemoryStorage) -> None:
    storage.delete("commits/0")
    storage.delete("state/0/0/1.delta")


def lose(storage: MemoryStorage) -> None:
    storage.delete("state/0/0/3.delta")


@pytest.mark.parametrize(
    ("spoil", "kind", "text"),
    [
        (purge, ConfigError, "version 1 no longer loads, state/0/0/1.delta is missing"),
        (lose, DamagedError, "3.delta"),
    ],
)  # fmt: skip
def test_a_version_that_does_not_load_is_told_as_show_tells_it(
    spoil: Callable[[MemoryStorage], None], kind: type[Exception], text: str
) -> None:
    storage = write_longs([FIVE], snapshots=() if spoil is lose else (2,))
    spoil(storage)
    version = 4 if spoil is lose else 1
    with pytest.raises(kind, match=text) as caught:
        diff_state(storage, (version, 5))
    with pytest.raises(kind) as shown:
        read_state(storage, version=version)
    assert str(caught.value) == str(shown.value)


def test_damage_is_told_with_its_file() -> None:
    storage = write_longs([FIVE])
    storage.write("state/0/0/3.delta", [b"LZ4Block"], overwrite=True)
    with pytest.raises(CodecError, match=r"state/0/0/3\.delta"):
        diff_state(storage, (1, 5)).compare()


def test_a_row_that_is_none_is_told_with_its_store() -> None:
    storage = write_longs([FIVE])
    storage.write("state/0/0/5.delta", [delta_bytes([(b"short", b"row")])], overwrite=True)
    with pytest.raises(CodecError, match=r"a row of version 5 in op 0 / part 0 / default: "):
        diff_state(storage, (4, 5)).compare()
