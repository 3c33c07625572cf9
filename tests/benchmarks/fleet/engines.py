"""The engines that are compared, each in processes of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from statemaint.report.task import dumped
from tests.benchmarks.far import FarBucket, far_bucket
from tests.benchmarks.fleet.child import THREADS, Job, Step, Took
from tests.benchmarks.fleet.cluster import cluster
from tests.benchmarks.fleet.shapes import WARM_UP, Fleet, copy_of, generate
from tests.support.paths import ROOT

ONE_CORE, TWO_CORES = "local[1]", "local[2]"
EIGHT_SLOTS = "local[8]"
"""More than the cores, for tasks that wait for a bucket."""
ONE_WORKER, CLUSTER = "cluster of one worker", "cluster of two workers"
_WORKERS = {ONE_WORKER: 1, CLUSTER: 2}
ENGINES = (THREADS, ONE_CORE, TWO_CORES, EIGHT_SLOTS, *_WORKERS)
VERBS = ("inventory", "plan", "maintain")
_FAR = "s3://far"
_SPARK = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}


@dataclass(frozen=True, slots=True)
class Place:
    """Where the engines work on fleets.

    Attributes:
        delay: milliseconds that each answer of a far bucket takes; `None` for the local disk.
    """

    delay: float | None = None

    def __str__(self) -> str:
        return "local disk" if self.delay is None else f"{self.delay:.0f} ms away"


DISK = Place()


def run(
    engine: str,
    fleets: Sequence[Fleet],
    folder: Path,
    *,
    place: Place = DISK,
    verbs: Iterable[str] = VERBS,
    warm: Fleet | None = None,
) -> list[Took]:
    """Returns what an engine takes to start, and then for each verb on each fleet.

    Args:
        engine: one of `ENGINES`.
        fleets: of which it is given copies; a far bucket holds only one.
        folder: where the generated fleets are.
        place: where the copies are.
        verbs: the verbs, in their order.
        warm: a fleet that is maintained before; a small one by default.
    """
    with ExitStack() as stack:
        first = stack.enter_context(copy_of(warm or generate(WARM_UP, folder)))
        if place.delay is None:
            copies = [stack.enter_context(copy_of(one)) for one in fleets]
            steps = [step(verb, one) for one in copies for verb in verbs]
            return work(engine, steps, warm=[step("maintain", first)])
        (fleet,) = fleets
        bucket = stack.enter_context(far_bucket(fleet.root, place.delay))
        steps = [step(verb, fleet, _FAR) for verb in verbs]
        return work(engine, steps, warm=[step("maintain", first)], bucket=bucket)


def step(verb: str, fleet: Fleet, base: str | None = None) -> Step:
    """Returns a verb on a fleet, on local disk or below another address."""
    return Step(verb, [dumped(one) for one in fleet.targets(base)])


def work(
    engine: str,
    steps: Sequence[Step],
    *,
    warm: Sequence[Step] = (),
    bucket: FarBucket | None = None,
) -> list[Took]:
    """Returns what an engine takes for some steps, in a process of its own."""
    environ = {**_SPARK, **(environ_of(bucket) if bucket else {})}
    port = bucket.port if bucket else None
    if engine not in _WORKERS:
        return _child(Job(engine, steps, warm, environ=environ, bucket=port))
    with TemporaryDirectory() as name, cluster(_WORKERS[engine], Path(name), environ) as running:
        return _child(Job(running.master, steps, warm, running.pids, environ, port))


def environ_of(bucket: FarBucket) -> Mapping[str, str]:
    """Returns the environment in which a bucket is reached."""
    return {
        "AWS_ACCESS_KEY_ID": "access",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "STATEMAINT_S3_ENDPOINT": f"http://127.0.0.1:{bucket.port}",
        "STATEMAINT_S3_PATH_STYLE": "true",
    }


def _child(job: Job) -> list[Took]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.fleet.child"],
        input=job.to_json(),
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, **job.environ},
    )
    if done.returncode:
        raise RuntimeError(f"the engine failed:\n{done.stderr[-4000:]}")
    return [Took(**one) for one in json.loads(done.stdout.splitlines()[-1])]
