"""Restarts of a grid of checkpoints by a real Spark, kept in a file as they are measured.

A line of the file is a point: the Spark, warm or cold, the slots, the shape, what of it a restart
reads, and the seconds. A point that is in the file is not measured again.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import product, zip_longest
from pathlib import Path
from typing import IO, Any

import click
from numpy.random import Generator, default_rng

from tests.checkpoints.environments import python_of, variables
from tests.restarts.shapes import Shape, make
from tests.restarts.slow_machine import forget, slow_machine
from tests.support.paths import ROOT

PLACE = ROOT / ".run" / "restarts"
SPARKS = ("3.5.9", "4.3.0")
PROVIDERS = ("hdfs", "rocksdb")
HEAP = "8g"
_SIDE = "tests.restarts.spark_side"
_CLASS = "org.apache.spark.sql.execution.streaming.state.{}StateStoreProvider"
_CLASSES = {"hdfs": _CLASS.format("HDFSBacked"), "rocksdb": _CLASS.format("RocksDB")}
_STORES = (1, 2, 4, 8, 16, 50, 200)
_CHAINS = (0, 1, 3, 10, 30, 100, 250, 500)
_CHANGES = (2, 10, 100, 1_000, 10_000, 50_000)
_BASES = (0, 10, 1_000, 30_000, 300_000, 1_000_000, 3_000_000)
# What one restart may read, so that a point takes seconds.
_FILES, _RECORDS, _PAYLOAD = 8_000, 5_000_000, 600_000_000
# A restart after another settles once the JVM has compiled what it runs.
_WARM_UP = (
    Shape("", 8, 20_000, 10, 1_000, wide=False),
    Shape("", 2, 200_000, 10, 5_000, wide=False),
    Shape("", 4, 1_000, 100, 500, wide=True),
)
_WARM_UPS = 3
_A_PROCESS = 12  # points: what has restarted a hundred queries is faster than any in production


class RestartError(Exception):
    """A Spark did not restart a query as it has to."""


@dataclass(frozen=True, slots=True)
class Point:
    """One restart to be measured."""

    spark: str
    warm: bool
    slots: int
    shape: Shape
    slow: bool = False  # on the slow machine

    @property
    def key(self) -> str:
        mode = f"{'slow-' * self.slow}{'warm' if self.warm else 'cold'}"
        return f"{self.spark}/{mode}/{self.slots}/{self.shape.key}"

    @property
    def earlier(self) -> "Point":
        """Returns the restart of the same query when its chains were half as long."""
        return replace(self, shape=replace(self.shape, deltas=(self.shape.deltas + 1) // 2))


def grid(provider: str, count: int, seed: int) -> list[Shape]:
    """Returns shapes that are spread over the whole range, always the same for a seed."""
    rng, shapes = default_rng(seed), dict[Shape, None]()
    while len(shapes) < count:
        shape = _shape(provider, rng)
        if _fits(shape):
            shapes[shape] = None
    return list(shapes)


def _shape(provider: str, rng: Generator) -> Shape:
    stores, base, deltas, changes = (
        int(rng.choice(values)) for values in (_STORES, _BASES, _CHAINS, _CHANGES)
    )
    return Shape(provider, stores, base, deltas, changes if deltas else 0, bool(rng.random() < 0.4))


def _fits(shape: Shape) -> bool:
    return (
        0 < shape.last
        and shape.files <= _FILES
        and shape.records <= _RECORDS
        and shape.payload <= _PAYLOAD
    )


def points(
    sparks: Iterable[str], warm: int, cold: int, slots: int, seed: int, *, slow: bool = False
) -> list[Point]:
    """Returns so many points of each Spark and provider."""
    return [
        Point(spark, is_warm, slots, shape, slow)
        for spark, is_warm in product(sparks, (True, False))
        for provider in PROVIDERS
        for shape in grid(provider, warm if is_warm else cold, seed + (0 if is_warm else 1000))
    ]


def measure(wanted: Iterable[Point], kept: Path, *, repeat: int = 2, heap: str = HEAP) -> None:
    """Measures the points that a file does not have yet, and adds them to it."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    known = {line["key"] for line in lines(kept)}
    missing = [point for point in wanted if point.key not in known]
    click.echo(f"{len(missing)} points to measure", err=True)
    with kept.open("a") as stream:
        for spark in dict.fromkeys(point.spark for point in missing):
            of_spark = [point for point in missing if point.spark == spark]
            for slots in dict.fromkeys(point.slots for point in of_spark):
                mine = [point for point in of_spark if point.slots == slots]
                with _machine(slow=mine[0].slow) as prefix:
                    for line in Bench(spark, slots, heap, repeat, prefix).measured(mine):
                        stream.write(f"{json.dumps(line)}\n")
                        stream.flush()


@contextmanager
def _machine(*, slow: bool) -> Iterator[list[str]]:
    if not slow:
        yield []
        return
    PLACE.mkdir(parents=True, exist_ok=True)
    with slow_machine(PLACE) as prefix:
        yield prefix


def lines(kept: Path) -> list[dict[str, Any]]:
    """Returns the measured points of a file."""
    return [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []


@dataclass(slots=True)
class Bench:
    """A Spark of some slots, and the checkpoints that it restarts."""

    spark: str
    slots: int
    heap: str
    repeat: int
    prefix: Sequence[str] = ()  # of the slow machine
    _restarts: int = field(default=0, init=False)

    def measured(self, points: list[Point]) -> Iterator[dict[str, Any]]:
        apart = [
            [point for point in points if point.warm and point.shape.provider == provider]
            for provider in PROVIDERS
        ]
        warm = [point for pair in zip_longest(*apart) for point in pair if point]
        providers = [provider for provider, some in zip(PROVIDERS, apart, strict=True) if some]
        warm_up = [replace(shape, provider=one) for shape in _WARM_UP for one in providers]
        with self._process() as process:
            for shape in (*warm_up, *(point.shape for point in points)):
                self._begin(process, shape)
        for first in range(0, len(warm), _A_PROCESS):
            with self._process() as process:
                for shape in warm_up * _WARM_UPS:
                    with self._made(shape) as (made, _):
                        self._restart(process, shape, made)
                for point in warm[first : first + _A_PROCESS]:
                    yield self._point(point, [process] * self.repeat)
        for point in points:
            if not point.warm:
                with self._process() as process:
                    yield self._point(point, [process])

    def begun(self, shape: Shape) -> Path:
        """Returns the checkpoint of a first batch."""
        with self._process() as process:
            self._begin(process, shape)
        return self._seed(shape)

    def cold(self, shape: Shape, made: Path) -> float:
        """Returns the seconds of a restart of a copy in a new process."""
        with self._process() as process:
            return float(self._restart(process, shape, made)["seconds"])

    def _point(self, point: Point, processes: list["_Process"]) -> dict[str, Any]:
        line = self._line(point, processes)
        if point.slow and point.warm:
            line["past"] = self._line(point.earlier, processes)
        elif point.slow:
            with self._process() as process:
                line["past"] = self._line(point.earlier, [process])
        return line

    def _line(self, point: Point, processes: list["_Process"]) -> dict[str, Any]:
        with self._made(point.shape) as (root, work):
            results = [self._restart(process, point.shape, root) for process in processes]
        took = [result["seconds"] for result in results]
        click.echo(f"{point.key}: {', '.join(f'{one:.2f}' for one in took)} s", err=True)
        phases = results[0]["phases"]
        return {"key": point.key, **asdict(point), "work": work, "seconds": took, "phases": phases}

    @contextmanager
    def _made(self, shape: Shape) -> Iterator[tuple[Path, dict[str, int]]]:
        root = PLACE / f"made-{self.spark}"
        shutil.rmtree(root, ignore_errors=True)
        try:
            yield root, make(shape, self._seed(shape), root)
        finally:
            shutil.rmtree(root, ignore_errors=True)

    def _restart(self, process: "_Process", shape: Shape, made: Path) -> dict[str, Any]:
        """Restarts a copy. No two of a process share a folder: Spark would remember its state."""
        self._restarts += 1
        root = PLACE / f"restart-{self.spark}-{self._restarts}"
        shutil.rmtree(root, ignore_errors=True)
        # A slow disk has to read each file of its own.
        shutil.copytree(made, root, copy_function=shutil.copyfile if self.prefix else os.link)
        if self.prefix:
            forget(root)
        try:
            result: dict[str, Any] = process.do({"restart": str(root), "wide": shape.wide})
        finally:
            shutil.rmtree(root, ignore_errors=True)
        # The batch adds a few rows of its own.
        rows = shape.rows * shape.stores
        if not 0 <= result["rows"] - rows <= 100 or result["batches"] != 1:
            raise RestartError(f"{shape.key}: {result}, not {rows} rows")
        return result

    def _seed(self, shape: Shape) -> Path:
        name = f"{self.spark}-{shape.provider}-{shape.stores}-{int(shape.wide)}"
        return PLACE / "seeds" / name

    def _begin(self, process: "_Process", shape: Shape) -> None:
        """Makes the checkpoint of a first batch, if it is not there yet."""
        root = self._seed(shape)
        if (root / "commits" / "0").exists():
            return
        shutil.rmtree(root, ignore_errors=True)
        conf = {
            "spark.sql.shuffle.partitions": str(shape.stores),
            "spark.sql.streaming.stateStore.providerClass": _CLASSES[shape.provider],
        }
        process.do({"begin": str(root), "conf": conf, "wide": shape.wide})

    @contextmanager
    def _process(self) -> Iterator["_Process"]:
        python, log = python_of(self.spark), PLACE / f"spark-{self.spark}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        command = [*self.prefix, str(python), "-m", _SIDE, str(self.slots), self.heap]
        with (
            log.open("a") as told,
            subprocess.Popen(
                command,
                cwd=PLACE,
                env=variables(python),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=told,
                text=True,
            ) as process,
        ):
            assert process.stdin
            assert process.stdout
            yield _Process(process.stdin, process.stdout, log)
            process.stdin.close()
            process.wait()


@dataclass(frozen=True, slots=True)
class _Process:
    """A JVM that does one job after the other."""

    jobs: IO[str]
    results: IO[str]
    log: Path

    def do(self, job: dict[str, Any]) -> Any:
        self.jobs.write(f"{json.dumps(job)}\n")
        self.jobs.flush()
        answer = self.results.readline()
        if not answer:
            raise RestartError(f"{self.log}: {self.log.read_text()[-2000:]}")
        result = json.loads(answer)
        if result and "failed" in result:
            raise RestartError(f"{job}: {result['failed']}")
        return result
