"""How many requests a run sends, counted by the server.

The server is the one in memory of the benchmarks (`tests/benchmarks/far_server.py`), for moto needs
half a minute for 1,600 requests. It has the settings of a new bucket of AWS. `maintained` and
`moved` compare each count with what the report says. A run looks for pins, and whether its lease
and what it announced still stand, every two seconds, so a slow run sends more than a fast one.
"""

from collections.abc import Iterator

import pytest

from statemaint.audit import verify
from tests.benchmarks.far import FarBucket
from tests.benchmarks.requests import (
    A_SECOND,
    IDLE,
    MOVES_OF_45,
    OF_A_TRASH,
    STORES,
    TRASH,
    WIDE,
    maintained,
    moved,
    moving,
    wide,
)


@pytest.fixture(scope="module")
def bucket() -> Iterator[FarBucket]:
    with wide() as found:
        yield found


def test_32_stores_of_40_deltas_take_1620_requests_and_the_next_run_12(bucket: FarBucket) -> None:
    report, sent = maintained(bucket)
    assert report.snapshots_written == 2 * STORES
    assert sum(report.files_deleted.values()) == STORES * 29
    assert sent <= WIDE + A_SECOND * report.seconds
    report, sent = maintained(bucket)
    assert (report.snapshots_written, report.files_deleted) == (0, {})
    assert sent <= IDLE + A_SECOND * report.seconds
    bucket.count_anew()
    assert verify(bucket.storage()).healthy
    assert sum(bucket.told()["requests"].values()) <= STORES * 9 + 8  # nine deltas of each store


def test_45_moves_of_three_stores_take_200_requests() -> None:
    with moving() as bucket:
        report, sent = moved(bucket)
        assert (report.files_deleted.total(), report.snapshots_written) == (45, 6)
        assert sent <= MOVES_OF_45 + A_SECOND * report.seconds


def test_a_trash_of_100000_files_adds_10_requests_to_a_run_with_nothing_to_do() -> None:
    with wide(trash=TRASH) as bucket:
        maintained(bucket)
        _, beside = maintained(bucket)
        bucket.reset()
        bucket.storage().delete_all([one.path for one in bucket.storage().list("_statemaint")])
        maintained(bucket)
        assert maintained(bucket)[1] < beside <= maintained(bucket)[1] + OF_A_TRASH
