"""Verbs on a bucket far away: what counts is how many requests wait for one another."""

import json
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import boto3

from statemaint.audit import digest_stores, doctor, verify
from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.planning import plan_checkpoint
from statemaint.recover import plan_repair
from statemaint.state import diff_state, read_state, state_stats
from statemaint.storage import Storage
from statemaint.storage.s3.options import S3Options
from statemaint.storage.s3.storage import S3Storage
from tests.benchmarks.bench import Bench
from tests.benchmarks.cases import Case
from tests.benchmarks.tables import DISTANCE, seconds

DELAYS = (1, 10, 30, 100)
# Snapshots at target and floor, and nothing to delete: both are too young to rely on.
_POLICY = Policy(min_deltas_for_snapshot=10, min_batches_to_retain=10)
_GRACELESS = replace(_POLICY, grace=0)
AGAIN = "maintain again"  # what the run before has left: it deletes what lies below the floor
VERBS: dict[str, Callable[[Storage], object]] = {
    "plan": lambda storage: plan_checkpoint(storage, _POLICY),
    "verify": verify,
    "doctor": doctor,
    "digest": digest_stores,
    "show": lambda storage: deque(read_state(storage), maxlen=0),
    "diff": lambda storage: diff_state(storage).compare(),
    "stats": state_stats,
    "repair": plan_repair,
    "maintain": lambda storage: maintain(storage, _POLICY),
    AGAIN: lambda storage: maintain(storage, _GRACELESS),
}


@dataclass(frozen=True, slots=True)
class FarBucket:
    """A bucket of a server at a distance, which holds a checkpoint.

    Attributes:
        port: where the server listens.
    """

    port: int

    def storage(self, folder: str = "") -> S3Storage:
        """Returns a checkpoint, by a client that has asked nothing yet."""
        session = boto3.Session("access", "secret", region_name="us-east-1")
        endpoint = f"http://127.0.0.1:{self.port}"
        address = f"s3://far/{folder}".rstrip("/")
        return S3Storage(address, S3Options(endpoint=endpoint, session=session, path_style=True))

    def told(self) -> dict[str, Any]:
        """Returns how many requests there were by their methods, and how many at once at most."""
        found: dict[str, Any] = json.loads(self._ask("GET"))
        return found

    def reset(self) -> None:
        """Puts the bucket back to what it was."""
        self._ask("DELETE")

    def count_anew(self) -> None:
        """Forgets how many requests there were."""
        self._ask("POST")

    def _ask(self, method: str) -> bytes:
        connection = HTTPConnection("127.0.0.1", self.port)
        connection.request(method, "/")
        answer = connection.getresponse().read()
        connection.close()
        return answer


@contextmanager
def far_bucket(root: Path, delay: float, trash: int = 0) -> Iterator[FarBucket]:
    """A bucket whose answers come so many milliseconds late, with a checkpoint and its trash."""
    arguments = [str(delay), str(root), str(trash)]
    server = [sys.executable, "-m", "tests.benchmarks.far_server", *arguments]
    with subprocess.Popen(server, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield FarBucket(int(process.stdout.readline()))
        finally:
            process.terminate()


def run(
    bench: Bench,
    case: Case,
    delays: tuple[int, ...] = DELAYS,
    verbs: Collection[str] = VERBS.keys(),
) -> None:
    """Measures verbs once at each distance."""
    given = bench.prepare(case)
    for delay in delays:
        with far_bucket(given.root, delay) as bucket:
            for name in verbs:
                bench.results.say(f"{case.name}: {name} at {delay} ms")
                _add(bench, (case.name, f"{delay} ms", name), bucket, VERBS[name])


def run_all(
    bench: Bench, cases: Iterable[Case], delays: tuple[int, ...], verbs: Collection[str]
) -> None:
    """Measures some verbs on each case."""
    for case in cases:
        run(bench, case, delays, verbs)


def _add(
    bench: Bench, row: tuple[str, ...], bucket: FarBucket, verb: Callable[[Storage], object]
) -> None:
    if verb is not VERBS[AGAIN]:
        bucket.reset()
    storage = bucket.storage()
    bucket.count_anew()
    storage.now()  # its first connection, and boto3's own start
    began, used = time.perf_counter(), time.process_time()
    verb(storage)
    took = time.perf_counter() - began, time.process_time() - used
    told = bucket.told()
    asked = sum(told["requests"].values())
    bench.results.add(DISTANCE, *row, *map(seconds, took), f"{asked:,}", str(told["at once"]))
