"""Rows that Spark wrote, taken out and put back by `bootstrap`, are stored as Spark stored them."""

import pytest

from statemaint.audit import digest_stores, verify
from statemaint.codec.metadata.logs import parse_commit
from statemaint.model.ids import version_of
from statemaint.planning import scan_checkpoint
from statemaint.provider import Bootstrapped, LiveCheckpointError, bootstrap
from statemaint.storage import MemoryStorage
from tests.checkpoints.archive import contents
from tests.support.archived import archived
from tests.support.faults import Crash, CrashingStorage
from tests.support.restored import given_rows, operators_of, removed, take_out_and_put_back

CASES = [
    pytest.param((archive, kind), id=f"{archive} {kind}")
    for archive in ("3.5.9", "4.0.5", "4.3.0", "rocks-3.5.9", "rocks-4.0.5", "rocks-4.3.0")
    for kind in sorted(contents(archive))
    if kind != "limit"
]


@pytest.mark.parametrize("case", CASES)
def test_rows_that_are_put_back_have_the_bytes_that_spark_gave_them(case: tuple[str, str]) -> None:
    storage = archived(case)
    files, before = dict(storage.files), digest_stores(storage)
    batch = scan_checkpoint(storage).committed or 0
    batches = take_out_and_put_back(storage)
    # The counts, indexes and expiry orders beside the rows are among the stores' rows.
    assert digest_stores(storage)[1] == before[1]
    assert verify(storage, deep=True).healthy
    assert scan_checkpoint(storage).committed == batch + batches
    assert {path: storage.files[path] for path in files if "_statemaint" not in path} == files
    ids = [parse_commit(storage.read(f"commits/{batch + number}")) for number in (0, batches)]
    assert bool(ids[0]) == bool(ids[1]) == case[1].endswith("-ids")
    assert not ids[0] or ids[0] != ids[1]


def test_a_zip_that_an_uncommitted_batch_has_left_is_refused_and_nothing_is_written() -> None:
    """Spark would load it in place of the changelog beside it: the rows would be lost unnoticed."""
    storage = archived(("rocks-4.3.0", "rocks-zips"))
    version = version_of(scan_checkpoint(storage).committed or 0)
    left = f"state/0/1/{version + 1}.zip"
    storage.write(left, [storage.read(f"state/0/1/{version}.zip")])
    before = {path for path in storage.files if not path.startswith("_statemaint")}
    (operator,) = operators_of(storage)
    with pytest.raises(LiveCheckpointError, match=f"{left}: a snapshot of a batch that is not"):
        bootstrap(storage, removed(given_rows(storage, operator)))
    assert {path for path in storage.files if not path.startswith("_statemaint")} == before


@pytest.mark.parametrize("kind", ["rocks-aggregation", "rocks-aggregation-ids"])
def test_a_crash_leaves_the_committed_state_of_rocksdb_or_all_of_the_batch(kind: str) -> None:
    files = archived(("rocks-4.3.0", kind)).files
    before = digest_stores(MemoryStorage(files))
    (operator,) = operators_of(MemoryStorage(files))
    gone = removed(given_rows(MemoryStorage(files), operator))
    for at in range(0, 90, 3):
        storage = CrashingStorage(files, at=at, after=False)
        try:
            made: Bootstrapped | None = bootstrap(storage, gone)
        except Crash:
            made = None
        left = MemoryStorage(storage.files)
        assert {path: left.files[path] for path in files} == files
        version, stores = digest_stores(left)
        if version == before[0]:
            assert made is None
            assert stores == before[1]
        else:
            assert version == before[0] + 1
            assert not sum(digest.rows for _, digest in stores)
        if made:
            return
    pytest.fail("it never ended")
