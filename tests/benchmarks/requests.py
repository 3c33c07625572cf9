"""How many requests runs send to a bucket, counted by the server."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.report.run import Report
from statemaint.storage import LocalStorage
from tests.benchmarks.bench import Bench
from tests.benchmarks.far import FarBucket, far_bucket
from tests.benchmarks.tables import REQUESTS, seconds
from tests.support.checkpoints import write_checkpoint

SECTIONS = (REQUESTS,)
DELAY = 30
STORES, DELTAS, TRASH = 32, 40, 100_000
# What the runs may send, at most.
MOVES_OF_45, IDLE, WIDE, OF_A_TRASH = 200, 12, 1_620, 10
# What they may send more for each second that they take: pins, the lease, announcements.
A_SECOND = 2
_WIDE = Policy(min_deltas_for_snapshot=10, min_batches_to_retain=10, grace=0)
_MOVING = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0, trash_for=7 * 86400.0)


@contextmanager
def wide(delay: float = 0, trash: int = 0) -> Iterator[FarBucket]:
    """A bucket with 32 stores of 40 deltas, and so many files in its trash."""
    with _bucket(delay, trash, last=DELTAS, partitions=STORES) as bucket:
        yield bucket


@contextmanager
def moving(delay: float = 0) -> Iterator[FarBucket]:
    """A bucket with three stores, of each of which 15 deltas are no longer needed."""
    with _bucket(delay, last=24, partitions=3) as bucket:
        yield bucket


@contextmanager
def _bucket(delay: float, trash: int = 0, *, last: int, partitions: int) -> Iterator[FarBucket]:
    with TemporaryDirectory() as folder:
        write_checkpoint(LocalStorage(Path(folder)), last=last, partitions=partitions)
        with far_bucket(Path(folder), delay, trash) as bucket:
            yield bucket


def maintained(bucket: FarBucket) -> tuple[Report, int]:
    """Maintains the stores of `wide`; returns the report, and how many requests the server got."""
    return _run(bucket, _WIDE)


def moved(bucket: FarBucket) -> tuple[Report, int]:
    """Maintains the stores of `moving`; returns the same."""
    return _run(bucket, _MOVING)


def _run(bucket: FarBucket, policy: Policy) -> tuple[Report, int]:
    bucket.count_anew()
    report = maintain(bucket.storage(), policy)
    sent: int = sum(bucket.told()["requests"].values())
    if sum(report.requests.values()) != sent:
        raise AssertionError(f"{report.requests} are reported, and {sent} were sent")
    return report, sent


def run(bench: Bench) -> None:
    """Counts the requests of each run."""
    add = _Adding(bench)
    with moving(DELAY) as bucket:
        add("45 moves of 3 stores", MOVES_OF_45, lambda: moved(bucket)[1])
    with wide(DELAY) as bucket:
        add("32 stores of 40 deltas", WIDE, lambda: maintained(bucket)[1])
        idle = add("the same 32 stores, nothing to do", IDLE, lambda: maintained(bucket)[1])
    with wide(DELAY, TRASH) as bucket:
        maintained(bucket)
        more = f"the same beside a trash of {TRASH:,} files"
        add(more, idle + OF_A_TRASH, lambda: maintained(bucket)[1])


class _Adding:
    """Adds runs to the table."""

    def __init__(self, bench: Bench) -> None:
        self._results = bench.results

    def __call__(self, name: str, most: int, work: Callable[[], int]) -> int:
        self._results.say(name)
        began = time.perf_counter()
        sent = work()
        took = seconds(time.perf_counter() - began)
        self._results.add(REQUESTS, name, f"{sent:,}", f"{most:,}", took)
        return sent
