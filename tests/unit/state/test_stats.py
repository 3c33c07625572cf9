"""What `state_stats` measures: by hand, against a plain count of everything, and on real state."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemaint.codec.rocksdb.changelog import DELETE, DELETE_RANGE, MERGE, PUT
from statemaint.codec.rocksdb.snapshot_zip import render
from statemaint.errors import CodecError, ConfigError
from statemaint.fold import Source
from statemaint.fold.rocksdb.fetch import read_zip
from statemaint.maintain import maintain
from statemaint.model.ids import StoreId
from statemaint.model.policy import PRESETS
from statemaint.plan.actions import Request
from statemaint.planning import scan_checkpoint
from statemaint.state import StateStats, read_state, state_stats
from statemaint.state.churn import Churn, Log
from statemaint.state.stats import Figures, NoticeCode, StoreStats, never_removes
from statemaint.storage import MemoryStorage
from tests.checkpoints.archive import contents
from tests.support.checkpoints import delta_bytes
from tests.support.long_rows import ROW_BYTES, Change, state_of, write_longs
from tests.support.merged_rows import with_one_more_version
from tests.unit.state.test_diff import FIVE, TIGHT

# Version 4 puts 3 anew, adds 5 and removes it; 3 was not there to be removed.
CHURN = Churn(puts=10, removes=3, added=6, removed=2, rewritten=3, carried=14, recent=2)


@pytest.mark.parametrize("rocks", [False, True])
def test_a_store_is_counted_by_hand(*, rocks: bool) -> None:
    found = state_stats(write_longs([FIVE], rocks=rocks))
    (one,) = found.stores
    size = 2 * ROW_BYTES + 2 * rocks
    assert (found.version, found.since) == (5, 1)
    assert one.store == StoreId(0, 0)
    # Each of the four keys that are left was put after version 1.
    assert one.figures == Figures(4, 4 * size, 5, CHURN, 0, 13 / 5)
    assert CHURN.removes_share == 3 / 13
    assert CHURN.rewritten_share == 3 / 14


def test_a_snapshot_begins_the_log() -> None:
    storage = write_longs([FIVE], snapshots=(2,))
    everything = state_stats(storage)
    assert everything.stores[0].figures.churn == CHURN
    storage.delete("state/0/0/1.delta")
    found = state_stats(storage)
    assert found.since == 3
    assert found.stores[0].figures == Figures(
        4,
        4 * 2 * ROW_BYTES,
        3,
        Churn(puts=5, removes=3, added=2, removed=2, rewritten=2, carried=11, recent=0),
        2,
        8 / 3,
    )


@pytest.mark.parametrize(("since", "untouched"), [(0, 0), (1, 0), (2, 1), (3, 2), (4, 3), (5, 4)])
def test_keys_that_nobody_put_since_a_version(since: int, untouched: int) -> None:
    found = state_stats(write_longs([FIVE]), since=since)
    figures = found.stores[0].figures
    assert (found.since, figures.untouched, figures.untouched_share) == (
        since, untouched, untouched / 4,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ({"since": 6}, "version 6 is not committed; the newest is 5"),
        ({"since": 1}, "all changes after version 1, it begins after version 2"),
        ({"operator": 1}, "no operator 1, partition .any., store .any."),
        ({"store": "left"}, "no operator .any., partition .any., store left"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_the_caller_s_fault(where: dict[str, Any], text: str) -> None:
    storage = write_longs([FIVE], snapshots=(2,))
    storage.delete("state/0/0/1.delta")
    with pytest.raises(ConfigError, match=text):
        state_stats(storage, **where)


def test_without_a_log_there_are_rows_and_nothing_else() -> None:
    storage = MemoryStorage(contents("rocks-4.3.0")["rocks-zips"])
    found = state_stats(storage)
    (operator,) = found.operators
    assert found.since is None
    assert (operator.figures.rows, operator.figures.versions) == (12, 0)
    assert operator.figures.churn is None
    assert operator.figures.untouched is None
    assert operator.figures.changes_per_version is operator.figures.untouched_share is None
    assert operator.largest
    assert state_stats(storage, since=13).operators[0].figures.untouched == 12
    with pytest.raises(ConfigError, match="the log no longer has all changes after version 12"):
        state_stats(storage, since=12)


def test_an_empty_state_has_no_shares() -> None:
    found = state_stats(write_longs([[[], []]]))
    (operator,) = found.operators
    assert operator.figures == Figures(0, 0, 2, Churn(), 0)
    assert operator.figures.untouched_share is None
    assert operator.figures.changes_per_version == 0
    assert operator.skew.ratio is None
    assert Churn().removes_share is Churn().rewritten_share is None


def test_partitions_are_measured_alone_and_together() -> None:
    small: list[list[Change]] = [[(7, 1)], [(7, None)], [(8, 1)], [(9, 1)], [(9, 2)]]
    found = state_stats(write_longs([FIVE, small]))
    (operator,) = found.operators
    one, two = (store.figures for store in found.stores)
    assert operator.figures == one + two
    assert operator.figures.versions == 5
    assert operator.figures.rows == 6
    assert operator.figures.churn == Churn(14, 4, 9, 3, 4, 18, 3)
    assert asdict(operator.skew) == {"partition": 0, "rows": 4, "mean": 3.0}
    assert operator.skew.ratio == 4 / 3
    assert state_stats(write_longs([FIVE, small]), partition=1).stores == found.stores[1:]


def test_the_changes_of_logs_of_different_lengths_are_those_of_one_version() -> None:
    ten: list[list[Change]] = [[(key, version) for key in range(10)] for version in range(20)]
    storage = write_longs([ten, ten], snapshots=(19,))
    for version in range(1, 20):
        storage.delete(f"state/0/1/{version}.delta")
    found = state_stats(storage)
    assert [store.figures.versions for store in found.stores] == [20, 1]
    assert [store.figures.changes_per_version for store in found.stores] == [10, 10]
    assert found.operators[0].figures.changes_per_version == 20


def test_the_largest_keys_come_first() -> None:
    storage = MemoryStorage(contents("rocks-4.3.0")["rocks-timed"])
    found = state_stats(storage, top=3)
    (operator,) = found.operators
    sizes = [key.bytes for key in operator.largest]
    assert sizes == sorted(sizes, reverse=True)
    assert [(key.store.partition, key.family, key.key) for key in operator.largest][:2] == [
        (0, "amounts", {"key": "k0"}), (0, "amounts", {"key": "k3"}),
    ]  # fmt: skip
    everything = state_stats(storage, top=1000)
    assert operator.largest == everything.operators[0].largest[:3]
    for one, whole in zip(found.stores, everything.stores, strict=True):
        assert len(whole.largest) == whole.figures.rows
        assert sum(key.bytes for key in whole.largest) == whole.figures.bytes
        assert one.largest == whole.largest[:3]
    assert all(not store.largest for store in state_stats(storage, top=0).stores)


def test_column_families_are_measured_apart() -> None:
    storage = MemoryStorage(contents("rocks-4.3.0")["rocks-timed"])
    found = state_stats(storage, partition=1)
    rows = {one.family: one.figures.rows for one in found.stores}
    assert rows == {
        family: len(list(read_state(storage, partition=1, family=family))) for family in rows
    }
    assert len(rows) == 6
    for one in found.stores:
        churn = one.figures.churn
        assert churn is not None
        assert churn.added - churn.removed == one.figures.rows


# -- at random


CHANGES = st.lists(st.tuples(st.integers(0, 5), st.none() | st.integers(0, 2)), max_size=6)


def counted(log: Sequence[Sequence[Change]]) -> Churn:
    """The same by looking at whole states: what each version begins and ends with."""
    found = Churn()
    for version, changes in enumerate(log, 1):
        before = state_of(log[: version - 1])
        found.carried += len(before)
        again = set()
        for at, (key, value) in enumerate(changes):
            there = key in state_of([*log[: version - 1], changes[:at]])
            own = [one for name, one in changes[:at] if name == key]
            found.puts += value is not None
            found.removes += value is None
            found.removed += value is None and there
            new = value is not None and not there
            found.added += new
            found.recent += new and 2 * version > len(log) + 1
            if value is not None and there and not own:
                again.add(key)
        found.rewritten += len(again)
    return found


def must_be_what_is_counted(storage: MemoryStorage, log: list[list[Change]], size: int) -> None:
    found = state_stats(storage, since=0)
    (figures,) = (one.figures for one in found.stores)
    state = state_of(log)
    assert (figures.rows, figures.bytes, figures.versions) == (
        len(state), size * len(state), len(log),
    )  # fmt: skip
    assert figures.churn == counted(log)
    for since in range(len(log) + 1):
        put = {key for changes in log[since:] for key, value in changes if value is not None}
        found = state_stats(storage, since=since)
        assert found.operators[0].figures.untouched == len(state.keys() - put)


@given(st.lists(CHANGES, min_size=1, max_size=6), st.sets(st.integers(1, 6)))
def test_everything_is_what_a_plain_count_says(
    log: list[list[Change]], snapshots: set[int]
) -> None:
    kept = [one for one in snapshots if one <= len(log)]
    must_be_what_is_counted(write_longs([log], snapshots=kept), log, 2 * ROW_BYTES)


@settings(max_examples=10)
@given(st.lists(CHANGES, min_size=1, max_size=4))
def test_everything_of_rocksdb_is_what_a_plain_count_says(log: list[list[Change]]) -> None:
    must_be_what_is_counted(write_longs([log], rocks=True), log, 2 * ROW_BYTES + 2)


# -- the log itself


def test_ranges_and_merges_are_counted_by_their_keys() -> None:
    log = Log("state/0/0", 1, 2)
    one, two = b"\1\0", b"\2\0"
    log.begin([one + b"a", one + b"b", two + b"b"], {1: "first", 2: "second"})
    first = [(PUT, one + b"c", b"1"), (MERGE, two + b"b", b"2"), (MERGE, two + b"d", b"3")]
    assert list(log.watch(1, iter(first))) == first
    second = [(DELETE_RANGE, one + b"a", one + b"c"), (DELETE, two + b"x", None)]
    assert list(log.watch(2, iter(second))) == second
    puts = dict(log.puts())
    assert log.families == {
        one: Churn(puts=1, removes=2, added=1, removed=2, rewritten=0, carried=5, recent=0),
        two: Churn(puts=2, removes=1, added=1, removed=0, rewritten=1, carried=3, recent=0),
    }
    assert puts == {one + b"c": 1, two + b"b": 1, two + b"d": 1}


def test_merges_and_ranges_of_rocksdb_are_counted() -> None:
    storage = with_one_more_version()
    before = state_stats(storage, partition=0, since=13)
    figures = {one.family: one.figures for one in before.stores}
    churn = figures["amounts"].churn
    earlier = state_stats(MemoryStorage(contents("rocks-4.3.0")["rocks-timed"]), partition=0)
    old = next(one.figures.churn for one in earlier.stores if one.family == "amounts")
    assert churn is not None
    assert old is not None
    # The key goes and comes back merged; an empty range takes nothing.
    assert (churn.puts, churn.removes) == (old.puts + 1, old.removes + 1)
    assert (churn.added, churn.removed) == (old.added + 1, old.removed + 1)
    assert figures["amounts"].untouched == figures["amounts"].rows - 1
    hours = figures["hours"]
    assert (hours.rows, hours.churn and hours.churn.removes) == (0, 28 + 4)


def test_maintenance_changes_no_rows() -> None:
    storage = MemoryStorage(contents("rocks-4.3.0")["rocks-aggregation-ids"])
    before = state_stats(storage)
    for batch in range(4, 8):
        storage.delete(f"commits/{batch}")
        storage.delete(f"offsets/{batch}")
    assert maintain(storage, TIGHT).files_deleted.total() > 0
    after = state_stats(storage)
    assert (after.since or 0) > (before.since or 0)
    assert rows(after) == rows(before)
    assert after.operators[0].largest == before.operators[0].largest


def rows(found: StateStats) -> dict[Any, Any]:
    figures = ((one.store, one.family, one.figures) for one in found.stores)
    return {(store, family): (one.rows, one.bytes) for store, family, one in figures if one.rows}


# -- what is worth a look


GROWS: list[list[Change]] = [[(number, 1), (0, number)] for number in range(1, 11)]


def notices(*partitions: list[list[Change]]) -> list[NoticeCode]:
    return [one.code for one in state_stats(write_longs(partitions)).notices]


def test_state_that_only_grows_is_told() -> None:
    (notice,) = state_stats(write_longs([GROWS, GROWS])).notices
    assert (notice.code, notice.operator, notice.store, notice.family) == (
        NoticeCode.NEVER_REMOVES, 0, "default", None,
    )  # fmt: skip
    assert notice.detail.startswith(
        "op 0 / default: 10 versions added 22 keys, 10 of them in the newer half of these, and "
        "removed none. State that only grows has no watermark, timeout or TTL"
    )


@pytest.mark.parametrize(
    "log",
    [
        GROWS[:9],
        [*GROWS[:9], [(9, None)]],
        [*GROWS[:9], [(77, None)]],
        [GROWS[number % 5] for number in range(10)],
        [[]] * 10,
    ],
    ids=["few versions", "removes", "tombstone of no key", "no new keys lately", "nothing"],
)
def test_state_that_may_not_only_grow_is_not_told(log: list[list[Change]]) -> None:
    assert notices(log) == []


def test_one_partition_that_removes_is_enough() -> None:
    assert notices(GROWS, [*GROWS[:9], [(1, None)]]) == []


def test_a_family_that_only_grows_is_told_by_its_name() -> None:
    found = state_stats(MemoryStorage(contents("rocks-4.3.0")["rocks-expiring"]))
    assert [(one.code, one.family) for one in found.notices] == [
        (NoticeCode.NEVER_REMOVES, "hours")
    ]


def test_what_spark_keeps_for_itself_is_not_told() -> None:
    figures = Figures(10, 100, 10, Churn(puts=10, added=10, recent=5), 0)
    one = StoreStats(StoreId(0, 0), "$ttl_hours", figures, ())
    assert list(never_removes([one])) == []
    assert len(list(never_removes([replace(one, family="hours")]))) == 1


def test_partitions_that_are_uneven_are_told() -> None:
    large: list[Change] = [(number, 0) for number in range(1000)]
    uneven = [[large], [large[:9]], [large[:9]], [large[:9]]]
    (notice,) = state_stats(write_longs(uneven)).notices
    assert (notice.code, notice.operator, notice.store) == (NoticeCode.SKEWED, 0, None)
    assert notice.detail.startswith("op 0: partition 0 has 1000 rows, 3.9 times the mean")
    assert notices([large[:999]], *uneven[1:]) == []
    assert notices([large], [large[:700]], [large[:9]], [large[:9]]) == []


def test_a_row_that_is_none_is_told_with_its_store() -> None:
    storage = write_longs([FIVE])
    storage.write("state/0/0/5.delta", [delta_bytes([(b"short", b"row")])], overwrite=True)
    with pytest.raises(CodecError, match=r"a row of version 5 in op 0 / part 0 / default: "):
        state_stats(storage)


def test_damage_is_told_with_its_file() -> None:
    storage = write_longs([FIVE])
    storage.write("state/0/0/3.delta", [b"LZ4Block"], overwrite=True)
    with pytest.raises(CodecError, match=r"state/0/0/3\.delta"):
        state_stats(storage)


def _as_operator(number: int, name: str) -> dict[str, bytes]:
    """The files of a query whose one operator has another number, in its metadata as well."""
    return {
        path.replace("state/0/", f"state/{number}/"): one.replace(
            b'"operatorId":0', b'"operatorId":%d' % number
        )
        for path, one in contents("4.3.0")[name].items()
    }


def test_operators_are_measured_apart() -> None:
    moved = {**_as_operator(1, "join2"), **_as_operator(2, "dedup")}
    storage = MemoryStorage({**moved, **contents("4.3.0")["aggregation2"]})
    found = state_stats(storage)
    assert [(one.operator, one.figures.rows) for one in found.operators] == [
        (0, 12), (1, 56), (2, 9),
    ]  # fmt: skip
    assert len(found.stores) == 2 + 8 + 2
    assert state_stats(storage, 1).operators == found.operators[1:2]
    assert {tuple(key.key) for key in found.operators[2].largest} == {("id", "at")}
    assert {tuple(key.key) for key in found.operators[0].largest} == {("window", "key")}
    assert {tuple(key.key) for key in found.operators[1].largest} == {("field0", "index")}
    some = state_stats(storage, 1, store="left-keyToNumValues")
    assert {one.store.store for one in some.stores} == {"left-keyToNumValues"}


def test_a_changelog_of_another_kind_of_store_is_damage() -> None:
    storage = with_one_more_version()
    path = "state/0/0/14.changelog"
    other = write_longs([[[(1, 1)]]], rocks=True).read("state/0/0/1.changelog")
    storage.write(path, [other], overwrite=True)
    with pytest.raises(CodecError, match=rf"{path}.*it has none of the column families"):
        state_stats(storage)


def test_a_column_family_that_the_oldest_zip_does_not_know_is_measured() -> None:
    storage = MemoryStorage(contents("rocks-4.3.0")["rocks-timed"])
    expected = state_stats(storage, partition=0)
    maintain(storage, PRESETS["safe"], request=Request(force_snapshot=True))
    store = scan_checkpoint(storage).stores[0]
    assert sorted(store.versions.snapshots) == [1, 13]
    oldest = read_zip(
        Source.of(storage, store, scan_checkpoint(storage)), store.versions.snapshots[1]
    )
    families = {name: one for name, one in oldest.metadata.families.items() if name != "hours"}
    metadata = replace(oldest.metadata, families=families)
    storage.write("state/0/0/1.zip", [render(oldest.members, metadata)], overwrite=True)
    assert state_stats(storage, partition=0) == expected
