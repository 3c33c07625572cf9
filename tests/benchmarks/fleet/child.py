"""One engine on some fleets: `python -m tests.benchmarks.fleet.child`, which reads a `Job` as JSON.

Prints, as its last line, what each step took.
"""

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from statemaint.maintain import maintain
from statemaint.planning import plan_checkpoint, scan_checkpoint
from statemaint.report.task import loaded
from statemaint.spark import Target, inventory, maintain_fleet, plan_fleet
from statemaint.spark.frames import INVENTORY, OUTCOMES, PLAN, collected
from statemaint.spark.outcomes import inventory_rows, plan_rows
from statemaint.spark.session import session
from statemaint.workers import Workers
from tests.benchmarks.far import FarBucket
from tests.benchmarks.fleet.usage import Usage, watched

THREADS = "threads"


@dataclass(frozen=True, slots=True)
class Step:
    """A verb on a fleet.

    Attributes:
        verb: `inventory`, `plan` or `maintain`.
        fleet: the queries, as `dumped` encodes them.
    """

    verb: str
    fleet: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Job:
    """What a process does.

    Attributes:
        engine: the master of a Spark, or `threads`.
        steps: what is measured, one after the other.
        warm: what is done before it.
        others: processes besides its own descendants, which work for it.
        environ: the environment that storages need.
        bucket: the port of the far bucket that counts the requests.
    """

    engine: str
    steps: Sequence[Step]
    warm: Sequence[Step] = ()
    others: Sequence[int] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    bucket: int | None = None

    def to_json(self) -> str:
        """Returns the job as its process reads it."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Job":
        """Returns the job that `to_json` encoded."""
        fields = json.loads(text)
        steps, warm = ([Step(**one) for one in fields.pop(name)] for name in ("steps", "warm"))
        return cls(steps=steps, warm=warm, **fields)


@dataclass(frozen=True, slots=True)
class Took:
    """What a step took.

    Attributes:
        verb: the verb; `start` for the session and what warms it up.
        seconds: by the clock.
        cpu: seconds of the processor, by the kinds of processes.
        peak: the most memory in MiB, by the same.
        asked: the requests of a far bucket, by their kinds.
    """

    verb: str
    seconds: float
    cpu: Mapping[str, float]
    peak: Mapping[str, float]
    asked: Mapping[str, int]

    @property
    def usage(self) -> Usage:
        """Returns the processor and the memory."""
        return Usage(self.cpu, self.peak)


Verb = Callable[[Sequence[Target]], object]


def _of_spark(master: str) -> dict[str, Verb]:
    spark = session(master, None)

    def computed(frame: Any) -> None:
        frame.write.format("noop").mode("overwrite").save()

    return {
        "inventory": lambda fleet: computed(inventory(spark, fleet)),
        "plan": lambda fleet: computed(plan_fleet(spark, fleet)),
        "maintain": lambda fleet: _sound(
            collected(maintain_fleet(spark, fleet), OUTCOMES), len(fleet)
        ),
    }


def _sound(table: Any, queries: int) -> None:
    """Checks an Arrow table of outcomes, as the program collects it: `Row`s take 2 KB a store."""
    of_queries = table.filter(table["store"].is_null())
    done = Counter(of_queries["exit_code"].to_pylist())
    if done != {0: queries}:
        failed = {*table["error"].drop_null().to_pylist()}
        raise RuntimeError(f"not all of {queries} queries ended with 0: {done}, {failed}")


def _inventory(fleet: Sequence[Target]) -> None:
    for one in fleet:
        rows = [*inventory_rows(one, scan_checkpoint(one.open()))]
        must_fit(rows, INVENTORY)


def _plan(fleet: Sequence[Target]) -> None:
    for one in fleet:
        must_fit([*plan_rows(one, plan_checkpoint(one.open(), one.policy)[1])], PLAN)


def _maintain(fleet: Sequence[Target]) -> None:
    for one in fleet:
        if maintain(one.open(), one.policy, workers=Workers()).exit_code:
            raise RuntimeError(f"{one.query} did not end with 0")


def must_fit(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> None:
    """Checks that rows have only known columns."""
    if any(not row.keys() <= columns.keys() for row in rows):
        raise RuntimeError("a row has an unknown column")


_OF_THREADS: dict[str, Verb] = {"inventory": _inventory, "plan": _plan, "maintain": _maintain}


def main() -> None:
    """Does what the job on stdin says."""
    job = Job.from_json(sys.stdin.read())
    os.environ.update(job.environ)
    measure = _Measure((os.getpid(), *job.others), job.bucket)
    verbs: dict[str, Verb] = {}

    def start() -> None:
        verbs.update(_OF_THREADS if job.engine == THREADS else _of_spark(job.engine))
        for step in job.warm:
            verbs[step.verb](_fleet(step))

    told = [measure.of("start", start)]
    told += [measure.of(one.verb, partial(verbs[one.verb], _fleet(one))) for one in job.steps]
    sys.stdout.write(f"\n{json.dumps([asdict(one) for one in told])}\n")


def _fleet(step: Step) -> list[Target]:
    return [loaded(Target, one) for one in step.fleet]


@dataclass(frozen=True, slots=True)
class _Measure:
    """How steps are measured: the processes to look at, and the bucket to ask."""

    roots: tuple[int, ...]
    bucket: int | None

    def of(self, name: str, work: Callable[[], object]) -> Took:
        if self.bucket:
            FarBucket(self.bucket).count_anew()
        with watched(self.roots) as used:
            began = time.perf_counter()
            work()
            seconds = time.perf_counter() - began
        usage = used()
        asked = FarBucket(self.bucket).told()["requests"] if self.bucket else {}
        return Took(name, seconds, usage.cpu, usage.peak, asked)


if __name__ == "__main__":
    main()
