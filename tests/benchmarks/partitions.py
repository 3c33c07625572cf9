"""`python -m tests.benchmarks.partitions`: state in another number of partitions, beside Spark.

A real query of Spark makes the state, in RocksDB: an aggregation with values of 4 KB. Each way of
moving it has processes of its own. Writes its part of docs/benchmarks.md.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from tests.benchmarks import machine
from tests.benchmarks.fleet.cluster import cluster
from tests.benchmarks.tables import Results, Section, seconds, times
from tests.support.documents import commit, of_commits, rewrite
from tests.support.paths import ROOT

_BEFORE, _AFTER = 20, 64
_ROWS_OF_A_GIGABYTE = 250_000
OURS, SPARKS = "savepoint", "Spark's own repartition"
_STORE = "spark.sql.streaming.stateStore"
_CONF = {
    "spark.sql.shuffle.partitions": str(_BEFORE),
    f"{_STORE}.providerClass":
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "4g",
}  # fmt: skip
# 64 bytes of each hash, as text: hardly compressible.
_VALUE = "concat_ws('', transform(sequence(1, 32), one -> sha2(concat_ws(',', id, one), 512)))"
MOVED = Section(
    "Another number of partitions",
    f"From {_BEFORE} to {_AFTER} partitions, RocksDB: rows of 4 KB, which are put apart, written, "
    "and read back; *÷ 1* is by one core, which then is all that driver and JVMs have as well. "
    "*CPU* is that of all processes, without the start of Spark's session; *peak* is the most that "
    "our process, or the largest Python worker, had resident. Goals: 1 GB at most; a fifth of the "
    "CPU of Spark's own repartition (4.3, in place); 1.6 times as fast by two cores or workers.",
    ("state", "by", "seconds", "CPU seconds", "CPU ÷ Spark's", "÷ 1", "peak, MiB"),
)
_SPARK = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}


@click.command()
@click.option("--gigabytes", "sizes", multiple=True, type=float, default=(1.0, 4.0),
              show_default=True, help="Of state; repeatable.")  # fmt: skip
@click.option("--folder", default=ROOT / ".run" / "bench-partitions", show_default=True,
              type=click.Path(path_type=Path), help="Where the states are.")  # fmt: skip
@click.option("--write/--no-write", default=True, help="Whether to write docs/benchmarks.md.")
def main(sizes: tuple[float, ...], folder: Path, *, write: bool) -> None:
    """Measures savepoints in another number of partitions beside Spark's own repartition."""
    results = Results(sections=(MOVED,))
    for size in sizes:
        results.say(f"{size} GB: made by Spark")
        state = folder / f"state-{size}"
        if not state.exists():
            _child("make", "local[2]", folder / "making", size)
            (folder / "making").rename(state)
        _measure(results, state, f"{size:g} GB", spread=size == max(sizes))
    if write:
        text = f"{machine.described(spark=True)}. {of_commits([commit()])}."
        text = f"{text}\n\n{results.markdown()}"
        rewrite(ROOT / "docs" / "benchmarks.md", text, by="make bench-partitions")


def _measure(results: Results, state: Path, name: str, *, spread: bool) -> None:
    """Measures each way; those of a fleet's Spark only where it is `spread`, too."""
    took = {SPARKS: _moved("spark", "local[2]", state), OURS: _moved("ours", "", state)}
    for number in (1, 2) if spread else ():
        with _cores(number):
            took[f"{OURS}, local[{number}]"] = _moved("exchange", f"local[{number}]", state)
    for workers in (1, 2) if spread else ():
        with (
            TemporaryDirectory() as place,
            _cores(workers),
            cluster(workers, Path(place), _SPARK) as running,
        ):
            by = f"{OURS}, cluster of {workers}"
            took[by] = _moved("exchange", running.master, state, *running.pids)
    for by, one in took.items():
        alone = took.get({"local[2]": f"{OURS}, local[1]", "cluster of 2": f"{OURS}, cluster of 1"}
                         .get(by.rpartition(", ")[2], ""))  # fmt: skip
        results.add(
            MOVED, name, by, seconds(one["seconds"]), seconds(one["cpu"]),
            times(one["cpu"] / took[SPARKS]["cpu"]),
            times(alone["seconds"] / one["seconds"]) if alone else "", f"{one['peak']:,.0f}",
        )  # fmt: skip


@contextmanager
def _cores(number: int) -> Iterator[None]:
    """Gives all that is started meanwhile so many cores: a JVM uses more than its tasks need."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:number])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _moved(way: str, master: str, state: Path, *pids: int) -> Mapping[str, float]:
    """Moves a copy of the state, as Spark's own repartition writes to the checkpoint itself."""
    place = state.with_name("copy")
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(state, place)
    try:
        return _child(way, master, place, *pids)
    finally:
        shutil.rmtree(place)


def _child(way: str, master: str, place: Path, *more: float) -> Mapping[str, float]:
    module = "from tests.benchmarks.partitions import child; child()"
    done = subprocess.run(
        [sys.executable, "-c", module, way, master, str(place), *map(str, more)],
        check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT,
        env={**os.environ, **_SPARK},
    )  # fmt: skip
    told: Mapping[str, float] = json.loads(done.stdout.splitlines()[-1])
    return told


# -- in a process of its own


def child() -> None:
    """Does one of the ways, and prints what it took."""
    way, master, place, *more = sys.argv[1:]
    work, pids = _WAYS[way](master, Path(place), more)
    from tests.benchmarks.fleet.usage import WORKER, watched  # noqa: PLC0415
    from tests.benchmarks.processes import peak_mib  # noqa: PLC0415

    with watched((os.getpid(), *pids)) as used:
        began = time.perf_counter()
        work()
        took = time.perf_counter() - began
    usage = used()
    peak = usage.peak[WORKER] if way == "exchange" else peak_mib()
    sys.stdout.write(f"\n{json.dumps({'seconds': took, 'cpu': usage.all, 'peak': peak})}\n")


_Way = tuple[Callable[[], object], tuple[int, ...]]


def _make(master: str, place: Path, more: list[str]) -> _Way:
    spark = _session(master)
    rows = int(float(more[0]) * _ROWS_OF_A_GIGABYTE)

    def work() -> None:
        spark.range(rows).write.parquet(str(place / "input"))
        ids = spark.readStream.schema("id LONG").parquet(str(place / "input"))
        summed = ids.selectExpr("id", f"{_VALUE} AS value").groupBy("id").agg({"value": "max"})
        writer = summed.writeStream.outputMode("update").format("noop")
        writer = writer.option("checkpointLocation", str(place / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    return work, ()


def _spark(master: str, place: Path, _: list[str]) -> _Way:
    manager = _session(master)._streamingCheckpointManager
    return lambda: manager.repartition(str(place / "checkpoint"), _AFTER), ()


def _ours(_master: str, place: Path, _: list[str]) -> _Way:
    from statemaint.records.savepoints import Shape  # noqa: PLC0415
    from statemaint.savepoint import savepoint  # noqa: PLC0415
    from statemaint.storage import LocalStorage  # noqa: PLC0415

    source, to = (LocalStorage(place / name) for name in ("checkpoint", "dest"))
    return lambda: savepoint(source, to, shape=Shape(partitions=_AFTER)), ()


def _exchange(master: str, place: Path, more: list[str]) -> _Way:
    from statemaint.records.savepoints import Shape  # noqa: PLC0415
    from statemaint.spark import savepoint_fleet  # noqa: PLC0415
    from statemaint.spark.session import session  # noqa: PLC0415

    spark = session(master, None)
    spark.range(100).repartition(2).count()
    shape, to = Shape(partitions=_AFTER), str(place / "dest")
    fleet = {"query": str(place / "checkpoint")}

    def work() -> None:
        rows = savepoint_fleet(spark, fleet, shape=shape, to=to).collect()
        if any(row["exit_code"] for row in rows):
            raise RuntimeError("the savepoint failed")

    return work, tuple(map(int, more))


def _session(master: str) -> Any:
    from pyspark.sql import SparkSession  # noqa: PLC0415

    builder = SparkSession.builder.master(master)
    for key, value in _CONF.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


_WAYS: Mapping[str, Callable[[str, Path, list[str]], _Way]] = {
    "make": _make,
    "spark": _spark,
    "ours": _ours,
    "exchange": _exchange,
}

if __name__ == "__main__":
    main()
