"""How many requests a run sends, counted by the server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from statemaint.audit import verify
from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.report import Report
from statemaint.storage import LocalStorage
from tests.benchmarks.far import FarBucket, far_bucket
from tests.support.checkpoints import write_checkpoint

STORES, DELTAS = 32, 40
POLICY = Policy(min_deltas_for_snapshot=10, min_batches_to_retain=10, grace=0)


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FarBucket]:
    root: Path = tmp_path_factory.mktemp("checkpoint")
    write_checkpoint(LocalStorage(root), last=DELTAS, partitions=STORES)
    with far_bucket(root, 0) as found:
        yield found


def maintained(bucket: FarBucket) -> tuple[Report, int]:
    """Returns the report of a run, and the number of its requests."""
    bucket.count_anew()
    report = maintain(bucket.storage(), POLICY)
    sent = sum(bucket.told()["requests"].values())
    assert sum(report.requests.values()) == sent, "what the report says is what was sent"
    return report, sent


def test_a_run_costs_little_beside_the_files_and_the_next_one_12_requests(
    bucket: FarBucket,
) -> None:
    report, sent = maintained(bucket)
    assert report.snapshots_written == 2 * STORES
    assert sum(report.files_deleted.values()) == STORES * 29
    # every delta is read; each snapshot is written, looked at and read back; one deletion a store
    unavoidable = STORES * (DELTAS + 2 * 3 + 1)
    # a store: settings to copy 3, announced and proved 2, one page of the ledger, base, commit
    assert sent <= unavoidable + STORES * 8 + 80
    report, sent = maintained(bucket)
    assert (report.snapshots_written, report.files_deleted) == (0, {})
    assert sent <= 12
    bucket.count_anew()
    assert verify(bucket.storage()).healthy
    assert sum(bucket.told()["requests"].values()) <= STORES * 9 + 7  # nine deltas of each store
