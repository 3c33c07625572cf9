"""RocksDB: changelogs to a snapshot, by Spark's own provider and by ours, on the same files.

Spark's part is what its maintenance does with a store that it has not loaded: load the version from
its files, make a snapshot of it, upload that. Ours builds the snapshot and writes its files; to
read them back whole and compare, which Spark does not do, is counted by itself.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from statemaint.codec.compression.base import decode, encode
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.hdfs import records
from statemaint.codec.rocksdb import changelog
from statemaint.codec.rocksdb.changelog import DELETE, PUT, Change, Header
from tests.benchmarks import ours
from tests.benchmarks.bench import Bench
from tests.benchmarks.cases import Case
from tests.benchmarks.inputs import Input, copy_of, prepare, state_files, store_folder
from tests.benchmarks.measure import Seconds, median_of, timed
from tests.benchmarks.rows import KINDS
from tests.benchmarks.side_by_side import HEAP, SPARK_WARM_UP
from tests.benchmarks.spark import Spark, SparkSeconds
from tests.benchmarks.tables import ROCKS, mib, seconds, steps, times

_LZ4 = COMPRESSIONS["lz4"]


@dataclass(frozen=True, slots=True)
class Ours:
    """What our build and write takes, and the reading back."""

    write: Seconds
    read_back: Seconds


def run(bench: Bench, case: Case) -> None:
    """Measures a case whole."""
    given = changelogs(case, bench.folder, say=bench.results.say)
    bench.results.say(f"{case.name}: ours")
    taken = [_ours(given) for _ in range(1 + bench.repeat)][1:]
    write = median_of(one.write for one in taken)
    read_back = median_of(one.read_back for one in taken)
    _add(bench, given, Ours(write, read_back), _spark(bench, given))


def changelogs(case: Case, folder: Path, *, say: Callable[[str], object]) -> Input:
    """Returns a case's checkpoint with changelogs, generated where it is not there yet."""
    say(f"{case.name}: preparing")
    given = prepare(case, folder)
    root, noted = folder / f"rocks-{case.key}", folder / f"rocks-{case.key}.json"
    if not noted.exists():
        shutil.rmtree(root, ignore_errors=True)
        store_folder(root).mkdir(parents=True)
        stored = sum(_convert(file, store_folder(root)) for file in state_files(given.root))
        noted.write_text(json.dumps(stored))
    facts = replace(given.facts, stored=json.loads(noted.read_text()))
    return Input(case, root, facts)


def _convert(delta: Path, folder: Path) -> int:
    """Writes a delta's records as a changelog, and returns its size."""
    target = folder / f"{delta.stem}.changelog"
    with delta.open("rb") as stream, target.open("wb") as changed:
        payload = changelog.encode(Header(1), _changes(records.decode(decode(_LZ4, stream))))
        changed.writelines(encode(_LZ4, payload))
    return target.stat().st_size


def _changes(found: Iterator[records.Record]) -> Iterator[Change]:
    return ((PUT if value is not None else DELETE, key, value) for key, value in found)


def _ours(given: Input) -> Ours:
    version = given.case.last
    with copy_of(given) as root, TemporaryDirectory(dir=root.parent) as place:
        write = timed(ours.write_rocks, root, version, Path(place, "build"))
        return Ours(write, timed(ours.rocks_digest, root, version))


def _spark(bench: Bench, given: Input) -> SparkSeconds | None:
    """Returns Spark's median, once its snapshot was found to hold the same rows as ours."""
    if bench.sparks is None:
        return None
    spark = bench.sparks.with_heap(HEAP)
    bench.results.say(f"{given.case.name}: Spark")
    with copy_of(given) as root, TemporaryDirectory(dir=root.parent) as place:
        expected = ours.write_rocks(root, given.case.last, Path(place, "build"))
    _once(spark, given, expected)
    samples = [_once(spark, given) for _ in range(SPARK_WARM_UP + bench.repeat)]
    return sorted(samples[SPARK_WARM_UP:], key=lambda one: one.total)[bench.repeat // 2]


def _once(spark: Spark, given: Input, expected: str | None = None) -> SparkSeconds:
    """Returns what Spark takes once; its snapshot must have the expected digest."""
    version = given.case.last
    with copy_of(given) as root:
        spark.collect()
        took = spark.snapshot_rocks(root, KINDS[given.case.kind], version=version)
        if expected and (found := ours.rocks_digest(root, version)) != expected:
            raise AssertionError(f"{given.case.name}: Spark wrote {found}, we wrote {expected}")
    return took


def _add(bench: Bench, given: Input, took: Ours, spark: SparkSeconds | None) -> None:
    facts, both = given.facts, took.write.wall + took.read_back.wall
    bench.results.add(
        ROCKS,
        given.case.name,
        f"{facts.rows:,}",
        f"{facts.records:,}",
        mib(facts.stored),
        steps(spark.load.wall, spark.write.wall) if spark else "-",
        seconds(took.write.wall),
        steps(took.write.wall, took.read_back.wall),
        *(times(spark.total / one) if spark else "-" for one in (took.write.wall, both)),
        times((spark.load + spark.write).cpu / took.write.cpu) if spark else "-",
    )
