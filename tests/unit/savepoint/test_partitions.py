"""A savepoint of other partitions has the same rows, each once, where Spark looks for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.audit import digest_stores, doctor, verify
from statemaint.checkpoint import OpenCheckpoint
from statemaint.errors import ConfigError, DamagedError, UnsupportedError
from statemaint.fold.table import Spill
from statemaint.planning import scan_checkpoint
from statemaint.records.savepoints import Shape
from statemaint.savepoint import savepoint
from statemaint.storage import MemoryStorage, Storage
from tests.checkpoints.archive import contents
from tests.support.archived import archived
from tests.support.faults import Clock, each_crash
from tests.support.marks import long
from tests.support.reshaped import At, rows_of

JOIN = ("4.3.0", "join2")
CASES = [
    pytest.param((archive, kind), id=f"{archive} {kind}")
    for archive in ("3.3.4", "3.5.9", "4.3.0", "rocks-3.5.9", "rocks-4.0.5", "rocks-4.3.0")
    for kind in sorted(contents(archive))
    if kind != "limit" and not (archive == "rocks-4.0.5" and kind.endswith("-ids"))  # refused
]


@pytest.mark.parametrize("case", CASES)
def test_rows_are_the_same_in_any_number_of_partitions(case: tuple[str, str]) -> None:
    source = At(archived(case).files, "source")
    expected, before = rows_of(source), digest_stores(source)
    at: Storage = source
    for count in (5, 1, scan_checkpoint(source).partitions[0]):
        dest = At({}, str(count))
        savepoint(at, dest, shape=Shape(partitions=count))
        checkpoint = scan_checkpoint(dest)
        assert {*checkpoint.partitions.values()} == {count}
        assert rows_of(dest) == expected
        assert verify(dest, deep=True).findings == (), "among others: each row in its partition"
        assert doctor(dest).restarts
        at = dest
    assert digest_stores(at) == before, "there and back"


@pytest.mark.parametrize("case", [JOIN, long(("rocks-4.3.0", "rocks-aggregation-ids"))])
def test_a_killed_savepoint_of_other_partitions_is_completed(case: tuple[str, str]) -> None:
    source, clock, whole = At(archived(case).files, "source"), Clock(), 0
    expected = rows_of(source)
    empty = MemoryStorage(clock=clock)
    for _, left in each_crash(
        empty, clock, lambda dest: savepoint(source, dest, shape=Shape(partitions=3))
    ):
        startable = left.files.get("metadata", b"").startswith(b"{")
        whole += startable
        if not startable:
            savepoint(source, left, shape=Shape(partitions=3))
        assert rows_of(left) == expected
        assert verify(left, deep=True).findings == ()
    assert whole


@pytest.fixture
def source() -> At:
    return At(archived(JOIN).files, "source")


def refused(source: Storage, partitions: int = 3) -> str:
    dest = At({}, "dest")
    with pytest.raises((ConfigError, DamagedError, UnsupportedError)) as caught:
        savepoint(source, dest, shape=Shape(partitions=partitions))
    assert "metadata" not in dest.files or not dest.files["metadata"].startswith(b"{")
    return str(caught.value)


def test_a_row_in_the_wrong_partition_is_refused(source: At) -> None:
    other = {"state/0/0/": "state/0/1/", "state/0/1/": "state/0/0/"}
    swapped = {
        path if "_metadata" in path else other.get(path[:10], path[:10]) + path[10:]: content
        for path, content in source.files.items()
    }
    text = refused(At(swapped, "swapped"))
    assert "has a row that belongs to partition" in text


def test_a_query_that_may_shuffle_by_some_of_its_keys_is_refused(source: At) -> None:
    strict = b'"spark.sql.streaming.statefulOperator.useStrictDistribution":"true"'
    for path, content in [*source.files.items()]:
        if path.startswith("offsets/"):
            assert strict in content
            source.replace(path, [content.replace(strict, strict.replace(b"true", b"false"))])
    assert "began before Spark 3.3" in refused(source)


def test_no_partitions_are_refused(source: At) -> None:
    assert "0 partitions are not" in refused(source, 0)


def test_a_checkpoint_as_an_object_takes_a_shape(source: At) -> None:
    dest = OpenCheckpoint(At({}, "dest"))
    report = OpenCheckpoint(source).savepoint(dest, shape=Shape(partitions=3), dry_run=True)
    assert report.note.changes == ("partitions 2 to 3",)


def test_a_whole_savepoint_of_another_number_is_refused(source: At) -> None:
    dest = At({}, "dest")
    savepoint(source, dest, shape=Shape(partitions=3))
    files = dest.files
    savepoint(source, dest, batch=scan_checkpoint(source).committed, shape=Shape(partitions=3))
    with pytest.raises(ConfigError, match="already"):
        savepoint(source, dest, batch=scan_checkpoint(source).committed, shape=Shape(partitions=4))
    assert dest.files == files


ROWS = st.dictionaries(st.binary(max_size=12), st.binary(max_size=40), max_size=60)


@given(ROWS, st.integers(1, 5), st.integers(0, 600))
def test_a_spill_gives_back_every_row_once_in_order(
    rows: dict[bytes, bytes], partitions: int, held: int
) -> None:
    with Spill(partitions, bytes(16), held) as spill:
        for number, row in enumerate(rows.items()):
            spill.add([number % partitions], [row])
        digests = spill.end()
        found = [[*spill.rows(one)] for one in range(partitions)]
    assert [one.rows for one in digests] == [len(one) for one in found]
    assert all(one == sorted(one) for one in found)
    for number, some in enumerate(found):
        assert some == sorted([*rows.items()][number::partitions])
