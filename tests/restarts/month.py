"""A month of an hourly query under `restart_within`, beside the default policy and the back-test.

The batches are written as Spark would, an update of some rows each; after each of them one run of
maintenance. On ten of the days a real Spark restarts a copy, in a new process.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import click
import numpy as np
from numpy.random import default_rng

from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.model.restart_time import Forecast
from statemaint.plan.backtest import Trial, back_test, history_of
from statemaint.planning import scan_checkpoint
from statemaint.scan.restart_evidence import with_record_size
from statemaint.storage import LocalStorage
from tests.benchmarks.inputs import store_folder
from tests.restarts.run import HEAP, PLACE, Bench
from tests.restarts.shapes import Shape, Writer, make, write_logs

SHAPE = Shape("hdfs", 4, 150_000, 0, 0, wide=False)
CHANGES = 15_000
MARGIN, WITHIN = 1.5, 0.05
_HOUR, _DAYS, _LOOKS = 3600.0, 30, 10
_EAGER = Policy(grace=0.0, orphan_age=0.0, rebase=False)


@dataclass(frozen=True, slots=True)
class Month:
    """What a policy did in the month."""

    policy: Policy
    written: int
    snapshots: int
    forecast: float  # the highest, at the high end, after a run
    spark: tuple[float, ...]  # seconds of Spark's restarts
    tried: Trial

    @property
    def off(self) -> float:
        """By how much of it the back-test misses the bytes that were written."""
        return abs(self.tried.written / self.written - 1) if self.written else 0.0

    def __str__(self) -> str:
        limit, spark = self.policy.restart_within, [f"{one:.1f}" for one in self.spark]
        return (
            f"restart_within {limit or 'off'}: {self.snapshots} snapshots, {self.written:,} bytes "
            f"(back-test {self.tried.written:,}), forecast up to {self.forecast:.1f} s, "
            f"Spark {', '.join(spark) or 'not asked'}"
        )


def run(bench: Bench, batches: int = _DAYS * 24, looks: int = _LOOKS) -> tuple[Month, Month]:
    """Returns the month under a limit, and that under the default policy."""
    seed = bench.begun(SHAPE)
    with _checkpoint(seed) as root:
        seen = scan_checkpoint(LocalStorage(root))
        forecast = Forecast.of(seen, bench.slots)
        least = forecast.seconds(forecast.load(seen.stores, seen.target)).high
    limited = replace(_EAGER, restart_within=round(MARGIN * least, 1), restart_slots=bench.slots)
    months = []
    for policy, asked in ((limited, looks), (_EAGER, 0)):
        with _checkpoint(seed) as root:
            months.append(_month(bench, root, policy, batches, asked))
    return months[0], months[1]


@contextmanager
def _checkpoint(seed: Path) -> Iterator[Path]:
    root = PLACE / "month"
    shutil.rmtree(root, ignore_errors=True)
    try:
        make(SHAPE, seed, root)
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _month(bench: Bench, root: Path, policy: Policy, batches: int, looks: int) -> Month:
    writer, rng = Writer(SHAPE, root, default_rng(2)), default_rng(3)
    written, snapshots, highest, spark = 0, 0, 0.0, list[float]()
    for version in range(2, batches + 2):
        ids = rng.choice(SHAPE.base, CHANGES, replace=False).astype(np.uint64)
        change = writer.change(version, ids)
        for partition in range(1, SHAPE.stores):
            shutil.copyfile(change, store_folder(root, partition) / change.name)
        write_logs(root, version)
        report = maintain(LocalStorage(root), policy)
        if report.exit_code:
            raise RuntimeError(report)
        written, snapshots = written + report.bytes_written, snapshots + report.snapshots_written
        forecast = report.plan.forecast.measured(report.after)
        load = forecast.load(report.after, report.plan.target)
        highest = max(highest, forecast.seconds(load).high)
        if looks and (version - 1) % (batches // looks) == 0:
            spark.append(bench.cold(SHAPE, root))
            click.echo(f"batch {version - 1}: {spark[-1]:.1f} s", err=True)
    storage = LocalStorage(root)
    seen = with_record_size(storage, scan_checkpoint(storage))
    history = history_of(seen, Forecast.of(seen, bench.slots))
    if history is None:
        raise RuntimeError("no history")
    hourly, days = replace(history, interval=_HOUR), batches / 24
    tried = back_test(hourly, policy, every=_HOUR, days=days)
    return Month(policy, written, snapshots, highest, tuple(spark), tried)


def failures(limited: Month, default: Month) -> Iterator[str]:
    limit = limited.policy.restart_within or 0.0
    if limited.forecast > limit or max(limited.spark, default=0.0) > limit:
        yield "the limit was exceeded"
    if limited.written >= default.written:
        yield "no fewer bytes were written"
    if max(limited.off, default.off) > WITHIN:
        yield "the back-test is further off than 5 %"


def bench_of(spark: str, slots: int) -> Bench:
    return Bench(spark, slots, HEAP, 1)
