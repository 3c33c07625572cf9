"""Rows are corrected at a known batch, in place or in another folder, and taken back."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.audit import digest_stores, doctor, verify
from statemaint.errors import ConfigError
from statemaint.maintain import list_runs, undo
from statemaint.planning import scan_checkpoint
from statemaint.provider import LiveCheckpointError, bootstrap
from statemaint.recover.rollback import plan_rollback, rollback
from statemaint.savepoint import savepoint
from statemaint.savepoint.catalog import SavepointState, look
from statemaint.savepoint.run import UNFINISHED
from statemaint.state.arrow import read_table
from statemaint.storage import MemoryStorage
from tests.support.archived import archived
from tests.support.faults import Clock, each_crash
from tests.support.restored import given_rows, operators_of, removed
from tests.unit.provider.test_bootstrap import ROWS, checkpoint, join_files, of_query
from tests.unit.savepoint.test_run import Source, may_start

KINDS = [
    ("4.3.0", "aggregation2"),
    ("rocks-4.3.0", "rocks-aggregation"),
    ("rocks-4.3.0", "rocks-aggregation-ids"),
    ("rocks-4.3.0", "rocks-zips"),
]
DAY = 86400.0


def removal(storage: MemoryStorage) -> Any:
    (operator,) = operators_of(storage)
    return removed(given_rows(storage, operator))


# -- at a batch


def test_rows_become_the_batch_that_they_were_read_for() -> None:
    storage = MemoryStorage(checkpoint())
    assert bootstrap(storage, ROWS, at=3).batch == 3
    files = of_query(storage.files)
    for at in (2, 3, 5):
        with pytest.raises(LiveCheckpointError) as refused:
            bootstrap(storage, ROWS, at=at)
        text = f"batch 3 is the newest now, and rows at batch {at} are to follow {at - 1}"
        assert str(refused.value) == f"memory:: {text}; show and edit the rows again"
    assert of_query(storage.files) == files


def test_a_dry_run_checks_all_and_writes_nothing() -> None:
    storage = MemoryStorage(files := checkpoint())
    made = bootstrap(storage, ROWS, dry_run=True)
    assert (made.batch, made.version, made.stores, made.run) == (3, 4, 2, "")
    assert sum(made.rows.values()) == 4
    with pytest.raises(ConfigError, match="row 0"):
        bootstrap(storage, [(("a",), ("x",))], dry_run=True)
    assert storage.files == files


COUNTS = st.dictionaries(
    st.sampled_from([f"b{number}" for number in range(12)]),
    st.none() | st.integers(-(2**63), 2**63 - 1),
)


@given(changes=COUNTS)
def test_an_edited_table_is_read_back_as_it_was_edited(changes: dict[str, int | None]) -> None:
    storage = MemoryStorage(checkpoint())
    table = read_table(storage)
    edited = {row["key"]["k"]: row["value"] for row in table.to_pylist()}
    edited |= {key: None if n is None else {"count": n} for key, n in changes.items()}
    rows = [{"partition": 0, "key": {"k": key}, "value": value} for key, value in edited.items()]
    bootstrap(storage, pa.Table.from_pylist(rows, table.schema), at=3)
    found = {row["key"]["k"]: row["value"] for row in read_table(storage).to_pylist()}
    assert found == {key: value for key, value in edited.items() if value is not None}


# -- taken back


@pytest.mark.parametrize("case", KINDS)
def test_a_rollback_takes_the_rows_back_and_its_undo_brings_them_again(
    case: tuple[str, str],
) -> None:
    storage = archived(case)
    before, batch = digest_stores(storage), scan_checkpoint(storage).committed or 0
    files = dict(storage.files)
    made = bootstrap(storage, removal(storage))
    (run,) = list_runs(storage)
    assert (run.run, run.batch) == (made.run, batch + 1)
    done = rollback(storage, batch, trash_for=DAY)
    assert digest_stores(storage) == before
    assert of_query(storage.files).keys() == of_query(files).keys()
    assert doctor(storage).restarts
    undo(storage, done.run)
    version, stores = digest_stores(storage)
    assert (version, sum(digest.rows for _, digest in stores)) == (before[0] + 1, 0)
    rollback(storage, batch, trash_for=DAY)
    assert bootstrap(storage, [], at=batch + 1).batch == batch + 1
    assert digest_stores(storage)[1] == before[1]


def test_a_rollback_removes_what_a_killed_bootstrap_has_begun() -> None:
    whole = MemoryStorage(checkpoint(), clock=Clock())
    bootstrap(whole, ROWS)
    whole.delete("commits/3")
    assert "offsets/3" in {step.path for step in plan_rollback(whole, 2).actions}
    rollback(whole, 2, trash_for=DAY)
    assert of_query(whole.files) == checkpoint()


def test_offsets_of_a_batch_that_read_something_stay() -> None:
    """A query reads the same input again, so that what it has put out is not put out otherwise."""
    storage = MemoryStorage(checkpoint())
    assert "offsets/2" not in {step.path for step in plan_rollback(storage, 1).actions}
    storage.write("offsets/2", [storage.read("offsets/1")], overwrite=True)
    assert "offsets/2" not in {step.path for step in plan_rollback(storage, 1).actions}
    bootstrap(storage, ROWS)
    storage.write("offsets/3", [b"%s of a query" % storage.read("offsets/2")], overwrite=True)
    assert "offsets/3" not in {step.path for step in plan_rollback(storage, 2).actions}


def test_equal_offsets_stay_where_a_restart_without_them_would_lack_those_before() -> None:
    storage = MemoryStorage(checkpoint())
    bootstrap(storage, ROWS)
    storage.delete("offsets/1")
    assert "offsets/3" not in {step.path for step in plan_rollback(storage, 2).actions}


# -- in another folder


@pytest.mark.parametrize("case", KINDS)
def test_another_folder_has_the_rows_and_the_checkpoint_stays_as_it_is(
    case: tuple[str, str],
) -> None:
    source, dest = Source(archived(case).files), MemoryStorage()
    before, batch = digest_stores(source), scan_checkpoint(source).committed or 0
    rows = removal(source)
    files = dict(source.files)
    made = bootstrap(source, rows, to=dest)
    assert source.files == files
    assert (made.batch, scan_checkpoint(dest).committed) == (batch + 1, batch + 1)
    assert digest_stores(dest, version=batch + 1) == before
    assert not sum(digest.rows for _, digest in digest_stores(dest)[1])
    assert verify(dest, deep=True).findings == ()
    assert [run.batch for run in list_runs(dest)] == [batch + 1]
    listed = look(dest, dest.root)
    assert listed
    assert listed.state is SavepointState.STARTED  # so that it never expires
    rollback(dest, batch, trash_for=DAY)
    assert digest_stores(dest) == before


def test_rows_of_any_committed_batch_follow_it_while_the_query_runs() -> None:
    source = Source({**checkpoint(), "offsets/3": b"of a batch that runs"})
    with pytest.raises(LiveCheckpointError):
        bootstrap(source, ROWS)
    for at in (2, 3):
        dest = MemoryStorage()
        assert bootstrap(source, ROWS, to=dest, at=at).batch == at
        assert scan_checkpoint(dest).committed == at
    with pytest.raises(ConfigError, match="batch 3 is not committed"):
        bootstrap(source, ROWS, to=MemoryStorage(), at=4)


def test_rows_that_do_not_fit_are_refused_before_anything_is_written() -> None:
    source, dest = Source(checkpoint()), MemoryStorage()
    with pytest.raises(ConfigError, match="row 0"):
        bootstrap(source, [(("a",), ("x",))], to=dest)
    made = bootstrap(source, ROWS, to=dest, dry_run=True)
    assert (made.batch, made.run) == (3, "")
    assert dest.files == {}
    assert source.files == checkpoint()
    join = Source(join_files())  # whose state, and not the schema, shows that there is no such row
    with pytest.raises(ConfigError, match="has no row here to correct"):
        bootstrap(join, {"left-keyWithIndexToValue": [(("a", 0), (1,))]}, to=dest)
    assert dest.files == {}


def test_a_folder_with_a_savepoint_or_other_files_is_refused() -> None:
    source, dest = Source(checkpoint()), MemoryStorage()
    savepoint(source, dest)
    for dry_run in (True, False):
        with pytest.raises(ConfigError, match="it has the savepoint of batch 2 already; give"):
            bootstrap(source, ROWS, to=dest, dry_run=dry_run)
        with pytest.raises(ConfigError, match="not empty"):
            bootstrap(source, ROWS, to=MemoryStorage({"a": b""}), dry_run=dry_run)


@pytest.mark.parametrize("after", [False, True])
def test_no_query_starts_from_a_killed_one_and_the_same_call_completes_it(*, after: bool) -> None:
    clock, source = Clock(), Source(checkpoint())
    rows, whole, unfinished = removal(source), 0, 0
    empty = MemoryStorage(clock=clock)
    for _, left in each_crash(
        empty, clock, lambda dest: bootstrap(source, rows, to=dest), after=after
    ):
        if left.files.get("metadata", UNFINISHED) == UNFINISHED:
            unfinished += 1
            assert not may_start(left)
            bootstrap(source, rows, to=left)
        whole += 1
        version, stores = digest_stores(left)
        assert version == (scan_checkpoint(source).committed or 0) + 2
        assert not sum(digest.rows for _, digest in stores)
        assert verify(left, deep=True).findings == ()
    assert whole > unfinished > 10


def test_a_savepoint_that_is_completed_without_the_rows_has_none_of_them() -> None:
    clock, source = Clock(), Source(checkpoint())
    for _, left in each_crash(
        MemoryStorage(clock=clock), clock, lambda dest: bootstrap(source, ROWS, to=dest)
    ):
        if "offsets/3" in left.files and left.files["metadata"] == UNFINISHED:
            savepoint(source, left)
            assert scan_checkpoint(left).committed == 2
            assert "offsets/3" not in left.files
            return
    pytest.fail("no crash was after the rows' offsets")


# -- the log of a file sink


def test_the_batch_is_added_to_the_log_of_the_sink_if_that_ends_with_the_one_before() -> None:
    storage, sink = MemoryStorage(checkpoint()), MemoryStorage()
    with pytest.raises(ConfigError, match="no entries, where batch 3 follows batch 2"):
        bootstrap(storage, ROWS, sink=sink)
    assert of_query(storage.files) == of_query(checkpoint())
    sink = MemoryStorage({f"_spark_metadata/{batch}": b"v1" for batch in range(3)})
    bootstrap(storage, ROWS, sink=sink, dry_run=True)
    assert len(sink.files) == 3
    assert bootstrap(storage, ROWS, sink=sink).batch == 3
    assert sink.files["_spark_metadata/3"] == b"v1"


def test_the_sink_of_another_folder_is_empty_and_gets_a_log_up_to_the_batch() -> None:
    source, sink = Source(checkpoint()), MemoryStorage({"part-0.json": b"{}"})
    with pytest.raises(ConfigError, match="the folder of the sink is not empty"):
        bootstrap(source, ROWS, to=MemoryStorage(), sink=sink)
    bootstrap(source, ROWS, to=MemoryStorage(), sink=(sink := MemoryStorage()))
    assert sink.files == {f"_spark_metadata/{batch}": b"v1" for batch in range(4)}
