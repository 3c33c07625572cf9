"""Rows that Spark wrote, taken out and put back by `bootstrap`, are stored as Spark stored them."""

import pytest

from statemaint.audit import digest_stores, verify
from statemaint.codec.metadata.logs import parse_commit
from statemaint.planning import scan_checkpoint
from tests.checkpoints.archive import contents
from tests.support.archived import archived
from tests.support.restored import take_out_and_put_back

CASES = [
    pytest.param((archive, kind), id=f"{archive} {kind}")
    for archive in ("4.0.5", "4.3.0", "rocks-4.0.5", "rocks-4.3.0")
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
