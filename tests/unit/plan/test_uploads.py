"""How far apart executors upload, as far as a listing and the ledger show it."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.model.checkpoint import Store
from statemaint.model.rocks import MOST_NOTED, NOTHING_SEEN, Upload, Uploads
from statemaint.plan.sst_files import executors_upload
from statemaint.plan.uploads import (
    MOST_INFERRED,
    _first_without,
    _shared_with_ours,
    _written_by,
    observed,
)
from statemaint.records.attestations import StoreNotes, parse_attestations, render_attestations
from tests.support.checkpoints import NOW, STORE, store, versions
from tests.support.rocks import rocks_store, table, window


def path(version: int) -> str:
    return f"{STORE.directory}/{version}.zip"


def noted(*found: int, widest: int = 0) -> Uploads:
    return Uploads(tuple(Upload(one, path(one)) for one in found), widest)


def gap(notation: str, **known: object) -> int:
    return observed(rocks_store(notation, **known)).widest_gap  # type: ignore[arg-type]


# -- gaps


def test_the_widest_gap_between_their_zips_counts() -> None:
    assert gap("300z 310z 600z 620z") == 290
    assert gap("620z 300z 600z 310z") == 290


def test_our_own_zips_neither_make_a_gap_nor_fill_one() -> None:
    assert gap("300z 310z 320z 600z", written=["310.zip", "320.zip"]) == 300
    assert gap("300z 310z 320z 900z", written=["310.zip", "320.zip", "900.zip"]) <= 300


def test_attempts_at_one_version_are_no_gap() -> None:
    assert gap("10_az 10_bz 20_cz", ids={10: "a", 20: "c"}) == 10


def test_what_was_noted_counts_though_it_is_gone() -> None:
    known = replace(rocks_store("900z"), uploads=noted(300, 600, widest=300))
    assert observed(known).widest_gap == 300
    later = replace(rocks_store("1300z"), uploads=noted(300, 600, widest=300))
    assert observed(later) == Uploads(
        (*noted(300, 600).newest, observed(later).newest[-1]), widest_gap=700
    )


def test_what_was_noted_is_not_noted_twice() -> None:
    first = rocks_store("300z 600z")
    known = observed(first)
    assert [one.version for one in known.newest] == [300, 600]
    assert observed(replace(first, uploads=known)) == known
    assert observed(replace(first, files=(), uploads=known)) == known


def test_the_versions_since_their_newest_are_no_gap() -> None:
    assert gap(f"90z 100z {versions('c', 101, 900)}") == 10


def test_of_many_the_newest_are_noted_and_the_widest_gap_of_all() -> None:
    notation = "100z 400z " + " ".join(f"{400 + one}z" for one in range(1, 201))
    known = observed(rocks_store(notation))
    assert [one.version for one in known.newest] == list(range(601 - MOST_NOTED, 601))
    assert known.widest_gap == 300
    assert observed(replace(rocks_store(notation), uploads=known)) == known


# -- one zip alone


def test_of_one_alone_that_we_find_nobody_knows_when_the_one_before_it_was_uploaded() -> None:
    """Spark's clean-up takes what lies below, whether that is changelogs alone or a zip as well."""
    assert gap(f"{versions('c', 1, 310)} 300z") == 300
    assert gap(f"{versions('c', 201, 310)} 300z") == 300
    assert gap("300z 301c") == 300


def test_the_gap_before_a_zip_reaches_back_to_where_we_looked_in_vain() -> None:
    assert gap(f"{versions('c', 201, 310)} 300z", since=60) == 240
    assert gap(f"{versions('c', 201, 310)} 300z", since=305) == 100


def test_no_wider_gap_is_inferred_of_a_query_that_was_neglected_for_a_year() -> None:
    assert gap(f"{versions('c', 1, 8760)} 8700z") == MOST_INFERRED


def test_what_was_inferred_of_one_outlives_the_changelogs() -> None:
    known = observed(rocks_store(f"{versions('c', 1, 310)} 300z"))
    left = replace(rocks_store(f"{versions('c', 290, 310)} 300z", since=310), uploads=known)
    assert observed(left).widest_gap == 300


# -- an upload after long silence


def quiet_years(zips: str, tables: str) -> str:
    """A store whose changelogs are a second apart, the newest one of second 0."""
    logs = " ".join(f"{version}c@{5000 - version}" for version in range(4900, 5001))
    return f"{logs} {zips} {tables}"


def returned(zips: str, tables: str) -> int:
    """Returns the gap of an executor that is back after executors were silent from 120 on."""
    found = rocks_store(quiet_years(zips, tables), written=["4950.zip"])
    return observed(replace(found, uploads=noted(100, 110, 120, widest=10))).widest_gap


def test_an_executor_that_began_with_a_zip_of_ours_makes_no_habit_of_the_silence() -> None:
    assert returned("4950z:a+b@50 4990z:a+c", "sa@50 sb@50 sc@5") == 40


def test_nothing_shared_means_that_it_may_have_held_its_tables_ever_since() -> None:
    assert returned("4950z:a+b@50 4990z:c", "sa@50 sb@50 sc@5") == 4870


def test_a_table_that_our_zip_shares_itself_with_an_older_one_is_as_old_as_it_is() -> None:
    assert returned("4950z:a+b@50 4990z:a+c", "sa@95 sb@50 sc@5") == 85
    assert returned("4950z:a+b@50 4990z:a+c", "sa@900 sb@50 sc@5") == 4870


def test_times_that_are_those_of_a_copy_say_nothing() -> None:
    for copied in ("sa@0 sb@0 sc@0", "sa@200 sb@200 sc@200"):
        assert returned("4950z:a+b@50 4990z:a+c", copied) == 4870
    logs = " ".join(f"{version}c@{version % 7}" for version in range(4900, 5001))
    found = rocks_store(f"{logs} 4950z:a@3 4990z:a@3 sa@3", written=["4950.zip"])
    assert observed(replace(found, uploads=noted(120))).widest_gap == 4870
    assert observed(replace(_timeless(found), uploads=noted(120))).widest_gap == 4870


def _timeless(found: Store) -> Store:
    files = (replace(one, entry=replace(one.entry, modified=None)) for one in found.files)
    return replace(found, files=tuple(files))


def test_without_the_times_of_changelogs_the_table_s_says_nothing() -> None:
    found = rocks_store(quiet_years("4950z:a@50 4990z:a", "sa@50"), written=["4950.zip"])
    files = tuple(
        one if "sst" in one.entry.path else replace(one, entry=replace(one.entry, modified=None))
        for one in found.files
    )
    assert observed(replace(found, files=files, uploads=noted(120))).widest_gap == 4870


# -- what the gap is for


def test_the_quiet_window_is_twice_the_widest_gap_of_all_time() -> None:
    ours = replace(rocks_store("900z", since=0, written=["900.zip"]), uploads=noted(300, 600))
    for widest, target, uploading in (
        (300, 1199, True), (300, 1200, False), (10, 620, False), (10, 619, True), (1, 620, False),
    ):  # fmt: skip
        known = replace(ours, uploads=replace(ours.uploads, widest_gap=widest))
        assert executors_upload(known, window(1, target)) == uploading


@given(st.sets(st.integers(1, 200), min_size=1), st.sets(st.integers(1, 200)), st.data())
def test_nothing_that_is_written_or_deleted_narrows_it(
    theirs: set[int], ours: set[int], data: st.DataObject
) -> None:
    notation = " ".join(f"{version}z" for version in sorted(theirs))
    before = rocks_store(f"{notation} {versions('c', 150, 200)}")
    known = observed(before)
    gone = data.draw(st.sets(st.sampled_from([one.entry.path for one in before.files])))
    added = rocks_store(
        " ".join(f"{one}z" for one in ours - theirs), written=[f"{one}.zip" for one in ours]
    )
    files = (*(one for one in before.files if one.entry.path not in gone), *added.files)
    assert before.rocks
    assert added.rocks
    after = replace(
        before, files=files, since=200, uploads=known,
        rocks=replace(before.rocks, ours=frozenset(path(one) for one in ours - theirs)),
    )  # fmt: skip
    assert observed(after).widest_gap >= known.widest_gap


def test_snapshots_of_an_hdfs_backed_store_are_noted_as_well() -> None:
    found = observed(replace(store("10s 20s 30s"), written=("state/0/0/20.snapshot",)))
    assert [one.version for one in found.newest] == [10, 30]


# -- in the ledger


def test_is_read_from_the_ledger_as_it_was_written() -> None:
    known = Uploads((Upload(300, path(300), 1.5), Upload(600, path(600), None)), 300)
    assert parse_attestations(render_attestations(StoreNotes(uploads=known))).uploads == known
    assert parse_attestations(render_attestations(StoreNotes())).uploads == NOTHING_SEEN


def test_does_not_depend_on_the_format_of_the_attestations() -> None:
    known = noted(300, 600, widest=300)
    stored = json.loads(render_attestations(StoreNotes((), (path(310),), 310, known)))
    found = parse_attestations(json.dumps({**stored, "format": 1}).encode())
    assert (found.uploads, found.written, found.since) == (known, (), None)


@pytest.mark.parametrize("of_ours", [{}, {"uploads": {}}])
def test_of_a_record_without_uploads_the_rest_is_read(of_ours: dict[str, object]) -> None:
    stored = json.loads(render_attestations(StoreNotes((), (path(310),), 310)))
    stored.pop("uploads", None)
    found = parse_attestations(json.dumps({**stored, **of_ours}).encode())
    assert (found.uploads, found.since, found.written) == (NOTHING_SEEN, 310, (path(310),))


@pytest.mark.parametrize(
    "broken",
    [
        7,
        {"newest": 7},
        {"newest": [7]},
        {"newest": [{"version": 3, "path": "state/0/0/3.zip"}]},
        {"newest": [{"version": 3, "path": "state/0/0/3.delta", "modified": 1.0}]},
        {"newest": [{"version": "3", "path": "state/0/0/3.zip", "modified": 1.0}]},
        {"newest": [{"version": 3, "path": "state/0/0/3.zip", "modified": "1"}]},
        {"widest_gap": -1},
        {"widest_gap": 1.5},
        {"widest_gap": True},
    ],
)
def test_what_is_broken_of_it_leaves_the_ledger_s_file_unread(broken: object) -> None:
    stored = json.loads(render_attestations(StoreNotes((), (path(310),), 310, noted(300))))
    content = json.dumps({**stored, "uploads": broken}).encode()
    found = parse_attestations(content)
    assert (found.uploads, found.since, found.written) == (NOTHING_SEEN, None, ())


def test_more_than_is_ever_noted_is_not_read() -> None:
    known = noted(*range(1, 200))
    found = parse_attestations(render_attestations(StoreNotes(uploads=known))).uploads
    assert [one.version for one in found.newest] == list(range(200 - MOST_NOTED, 200))


LOGS = "1c@90 2c@80 3c@70 4c@60"


@pytest.mark.parametrize(
    ("notation", "age", "version"),
    [
        (LOGS, 75, 2),
        (LOGS, 80, 2),  # at the very time
        (LOGS, 85, 1),
        (LOGS, 95, 0),  # all later
        (LOGS, 60, 0),  # none later
        ("1c@90 2c@60 3c@90 4c@60", 75, 0),  # the times go up and down
        ("1c@60 2c@60 3c@90", 75, 0),  # later ones first
        (LOGS + " 5c@50", 55, 0),  # above the file: it does not count
        ("1c@90", 75, 0),
        ("", 75, 0),
    ],
)
def test_the_newest_version_that_was_written_by_a_time(
    notation: str, age: int, version: int
) -> None:
    found = rocks_store(f"{notation} 4z:a sa".strip())
    zipped = next(iter(found.versions.snapshots.values()))
    assert _written_by(found, zipped, NOW - age) == version


def test_a_snapshot_is_noted_with_its_time() -> None:
    (upload,) = observed(rocks_store("1c 2c 2z:a@50 sa", since=1)).newest
    assert upload == Upload(2, path(2), NOW - 50)


@pytest.mark.parametrize(
    ("notation", "since", "first"),
    [
        ("5c 6c 7c 8c 8z", 9, 4),
        ("5c 6c 8c 8z", 9, 7),
        ("5c 6c 7c 8c 8z", 2, 2),
        ("8z", 9, 7),
        ("7c 8z", 9, 6),
    ],
)
def test_before_the_first_zip_executors_were_silent_since_the_log_begins_or_we_looked(
    notation: str, since: int, first: int
) -> None:
    one = rocks_store(notation, since=since)
    assert _first_without(one, one.versions.snapshots[8]) == first


def test_tables_are_shared_with_zips_of_ours_between_two_of_theirs() -> None:
    mine = ["3.zip", "5.zip", "8_x.zip"]
    one = rocks_store("3z:a 4z:c 5z:b 8z:a+b+c 8_xz:a", written=mine)
    assert one.rocks is not None
    file = next(file for file in one.theirs if file.version == 8)
    found = {since: _shared_with_ours(one, one.rocks, file, since) for since in (2, 3, 5)}
    assert found == {2: {table("a"), table("b")}, 3: {table("b")}, 5: set()}


@pytest.mark.parametrize(
    ("notation", "newest"), [("6c@90 7c@80 8c@10 8z", 7), ("6c@90 7c@80 8z", 0)]
)
def test_the_changelog_of_a_zip_s_own_version_shows_when_the_log_was_written(
    notation: str, newest: int
) -> None:
    one = rocks_store(notation)
    assert _written_by(one, one.versions.snapshots[8], NOW - 50) == newest
    timeless = tuple(replace(file, entry=replace(file.entry, modified=None)) for file in one.files)
    again = replace(one, files=timeless)
    assert _written_by(again, again.versions.snapshots[8], NOW - 50) == 0
