"""What a listing alone shows of a store, word by word: users read it, and act on it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import StoreId, batch_of
from statemaint.model.pins import Pin
from statemaint.plan.findings.health import batches_through, diagnose
from tests.support.checkpoints import NOW, STORE, checkpoint, store
from tests.support.rocks import rocks_checkpoint, rocks_store

HOME = STORE.directory


def of(notation: str, batches: range = range(5), **more: object) -> tuple[Finding, ...]:
    one = store(notation)
    logs = {"batches": tuple(batches), "stores": (one,), **more}
    return diagnose(one, Checkpoint("memory:", **logs))  # type: ignore[arg-type]


def above(version: int, name: str, target: int) -> Finding:
    path = f"{HOME}/{name}"
    detail = (
        f"{path} is above version {target}, the last committed one; Spark would load it although"
        " its batch runs again. Move it away if the query was rewound; it is kept, and this store"
        " is halted"
    )
    return Finding(FindingCode.SNAPSHOT_ABOVE_TARGET, detail, STORE, version, path)


# -- gaps


@pytest.mark.parametrize(
    ("notation", "batches", "more"),
    [
        ("1d 2d 4d 5d", (2, 3, 4), " and 2 later ones do"),
        ("1d 2d 4d 5s", (2, 3), " and 1 later ones do"),
        ("1d 2d 4s 5d", (2,), " does"),
    ],
)
def test_a_gap_names_the_file_and_how_many_versions_need_it(
    notation: str, batches: tuple[int, ...], more: str
) -> None:
    (found,) = of(notation)
    assert found == Finding(
        FindingCode.BROKEN_CHAIN,
        f"{HOME}/3.delta is missing (1 in all), so version 3 (batch 2){more} not load; "
        "restore it, nothing is deleted until then",
        STORE,
        3,
        f"{HOME}/3.delta",
    )
    assert found.batches == batches


@pytest.mark.parametrize(
    ("partitions", "has"),
    [({0: 1, 1: 7}, "1 partition"), ({0: 2}, "2 partitions"), ({}, "0 partitions")],
)
def test_an_empty_store_says_what_the_query_reads(partitions: dict[int, int], has: str) -> None:
    (found,) = of("", range(2, 5), partitions=partitions)
    assert found == Finding(
        FindingCode.BROKEN_CHAIN,
        f"{HOME} is missing or empty, and the query reads it (operator 0 has {has}): no batch"
        " loads; put the folder back from a copy, nothing is deleted until then",
        STORE,
        3,
        HOME,
    )
    assert found.batches == (2, 3, 4)


def test_of_rocksdb_a_changelog_is_missing_and_with_ids_a_lineage() -> None:
    plain = rocks_store("1c 2c 4c 5c")
    (found,) = diagnose(plain, rocks_checkpoint(plain, batches=range(5)))
    assert (found.code, found.path) == (FindingCode.BROKEN_CHAIN, f"{HOME}/3.changelog")
    for ids, code in (
        ({3: "x"}, FindingCode.LINEAGE_BROKEN),
        ({}, FindingCode.BROKEN_CHAIN),
    ):
        empty = rocks_store("", ids=ids)
        (found,) = diagnose(empty, rocks_checkpoint(empty, batches=range(2, 5)))
        assert (found.code, found.path) == (code, HOME)


def test_a_partition_that_a_repartition_left_behind_lacks_nothing() -> None:
    """The batches 2 and 3 have two partitions, those before them four."""
    old = store("1d 2d", StoreId(0, 3))
    counts = {0: 4, 1: 4, 2: 2, 3: 2}
    whole = Checkpoint("memory:", batches=tuple(range(4)), stores=(old,), counts=counts)
    assert diagnose(old, whole) == ()
    (found,) = diagnose(old, replace(whole, counts={}))
    assert found.code is FindingCode.BROKEN_CHAIN


def test_a_snapshot_that_the_query_cannot_read_spoils_the_batches_that_load_from_it() -> None:
    one = store("1d 2d 3d 3s 4d 5d")
    path = f"{HOME}/3.snapshot"
    refused = replace(one, unreadable={path: f"{path} has mode 600"})
    (found,) = diagnose(refused, checkpoint(refused, batches=range(1, 5)))
    detail = f"{path} has mode 600; nothing is deleted until it can be read"
    assert found == Finding(FindingCode.UNREADABLE_BY_QUERY, detail, STORE, 3, path)
    assert found.batches == (2, 3, 4)
    assert diagnose(refused, checkpoint(refused, batches=range(2))) == (above(3, "3.snapshot", 2),)


# -- files of other kinds


@pytest.mark.parametrize(
    ("name", "harm"),
    [("foo.bar", "; it stops Spark's own maintenance"), ("foo", ""), ("a.b.c", "")],
)
def test_an_unknown_file_is_named_and_what_it_does_to_spark(name: str, harm: str) -> None:
    (found,) = of(f"1d 2d 3d 4d 5d x:{name}")
    detail = f"{HOME}/{name}: not a file that Spark writes{harm}; it is kept"
    assert found == Finding(FindingCode.UNKNOWN_FILE, detail, STORE, None, f"{HOME}/{name}")


# -- snapshots above the newest committed version


def test_each_snapshot_above_the_last_commit_is_named() -> None:
    found = of("1d 2s 3d 4s 6s", range(3))
    assert found == (above(4, "4.snapshot", 3), above(6, "6.snapshot", 3))


def test_before_the_first_commit_each_snapshot_is_above() -> None:
    assert of("1s", range(0), offsets=(0,)) == (above(1, "1.snapshot", 0),)
    assert of("1s", range(0)) == ()


def test_that_of_the_running_batch_is_in_order_and_those_above_it_are_not() -> None:
    plan = Entry("offsets/3", 1, NOW - 90)
    assert of("1d 2s 3d 4d@80 4s@70", range(3), running=plan) == ()
    found = of("1d 2s 3d 4d@80 4s@70 5s@60", range(3), running=plan)
    assert found == (above(5, "5.snapshot", 3),)
    late = of("1d 2s 3d 4d@80 4s@85", range(3), running=plan)
    assert late == (above(4, "4.snapshot", 3),)
    assert of("1d 2s 3d 4d@80 4s@70", range(3)) == (above(4, "4.snapshot", 3),)
    assert of("1d 2s 3d 4s@70", range(3), running=plan) == (above(4, "4.snapshot", 3),)


def test_where_each_batch_writes_a_zip_one_above_the_last_commit_is_in_order() -> None:
    for notation, expected in (
        ("2z 3z", ()),
        ("2z 3z 4z", (above(4, "4.zip", 2),)),
        ("2z 3c 3z", (above(3, "3.zip", 2),)),
        ("2c 2z 3z", (above(3, "3.zip", 2),)),
    ):
        one = rocks_store(notation)
        assert diagnose(one, rocks_checkpoint(one, batches=[1])) == expected
    first = rocks_store("1z")
    begun = replace(rocks_checkpoint(first, batches=[]), offsets=(0,))
    assert diagnose(first, begun) == ()


def test_that_of_a_repartition_that_has_not_ended_is_in_order() -> None:
    unfinished = Finding(FindingCode.UNFINISHED_REPARTITION, "it has begun")
    assert of("1d 2d 3s", range(2)) == (above(3, "3.snapshot", 2),)
    assert of("1d 2d 3s", range(2), findings=(unfinished,)) == ()
    assert of("1d 2d 4s", range(2), findings=(unfinished,)) == (above(4, "4.snapshot", 2),)


# -- zips


def test_a_zip_that_lacks_a_table_spoils_the_batches_that_load_from_it() -> None:
    one = rocks_store("1c 2c 3z:a 4c 5c sa")
    assert diagnose(one, rocks_checkpoint(one, batches=range(2, 5))) == ()
    lacking = rocks_store("1c 2c 3z:a+b 4c 5c sa")
    (found,) = diagnose(lacking, rocks_checkpoint(lacking, batches=range(2, 5)))
    path = f"{HOME}/3.zip"
    detail = (
        f"{path} needs {HOME}/SSTs/b.sst, which does not exist; nothing is deleted until it is "
        "whole again"
    )
    assert found == Finding(FindingCode.MISSING_SST, detail, STORE, 3, path)
    assert found.batches == (2, 3, 4)


def test_an_empty_store_of_a_query_that_has_not_begun_is_in_order() -> None:
    empty = Store(STORE, ())
    assert diagnose(empty, checkpoint(empty, batches=())) == ()


# -- pins


def test_a_pin_below_the_log_whose_version_does_not_load_is_named() -> None:
    """The log has batches 3 to 5; batch 2 has one partition, and batches 0 and 1 are cleaned up."""
    left = store("3d 4d 5d", StoreId(0, 1))
    pins = tuple(
        Pin(f"pins/{batch}.json", batch, created=0.0, until=NOW + 1, by="a report")
        for batch in (None, 3, 5, 2, 0)
    )
    counts = {0: 2, 2: 1, 3: 2, 4: 2, 5: 2}
    logs = Checkpoint("memory:", batches=(3, 4, 5), stores=(left,), counts=counts, pins=pins)
    named = Finding(
        FindingCode.BROKEN_PIN,
        "state/0/1: version 1 of batch 0, which pins/0.json pins (a report), does not load: Spark's"
        " own clean-up heeds no pin. If no copy has its files, end it: `statemaint pins` with "
        "--end 0",
        StoreId(0, 1),
        1,
        "pins/0.json",
    )
    for whole in (logs, replace(logs, batches=(), pins=pins[-1:])):
        found = [one for one in diagnose(left, whole) if one.code is FindingCode.BROKEN_PIN]
        assert found == [named]


# -- which batches need a file

FILES = st.sets(st.sampled_from([f"{version}{kind}" for version in range(1, 9) for kind in "ds"]))


@given(FILES, st.integers(0, 9), st.integers(0, 9))
def test_a_batch_needs_the_files_of_its_chain_and_no_other(
    files: set[str], first: int, last: int
) -> None:
    one = store(" ".join(sorted(files)))
    needs: dict[str, list[int]] = {file.entry.path: [] for file in one.files}
    for version in sorted(one.versions.loadable(first, last)):
        chain = one.versions.chain(version)
        assert isinstance(chain, Chain)
        for path in chain.paths:
            needs[path].append(batch_of(version))
    found = {path: [*batches_through(one.versions, path, first, last)] for path in needs}
    assert found == needs
