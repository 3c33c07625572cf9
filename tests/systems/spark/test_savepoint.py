"""A query that is started from a savepoint continues as the undisturbed one does.

Each query has run eleven batches; its source's log was compacted at every fourth entry. The session
that starts from the savepoint would compact at every second one. `make test-shapes` has more kinds
of queries, and `make test-savepoint-sparks` every one.
"""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from statemaint.audit import doctor, verify
from statemaint.savepoint import savepoint
from statemaint.savepoint.run import UNFINISHED
from statemaint.storage import LocalStorage
from tests.checkpoints.rocks_queries import EVOLVES
from tests.support.marks import long
from tests.systems.spark.runner import KIND, Runner, newest_batch

FIRST, MORE = 11, 10
_INTERVAL = "spark.sql.streaming.fileSource.log.compactInterval"
SCHEMAS = "checkpoint/state/*/_stateSchema/*/[0-9]*"
_ALL = os.environ.get("STATEMAINT_SHAPES") == "all"
_MORE_NAMES = ("rocks-aggregation-ids", "session-window", "join2")
NAMES = (
    "chained",
    "rocks-join4",
    "rocks-timed-ids",
    long("rocks-evolving-ids"),
    *(_MORE_NAMES if _ALL else ()),
)


@dataclass(frozen=True)
class Query:
    """A query after its first batches.

    Attributes:
        runner: runs it.
        root: where all that belongs to it lies.
        newest: its newest batch.
    """

    runner: Runner
    root: Path
    newest: int

    @property
    def restarted(self) -> Runner:
        return replace(self.runner, conf={_INTERVAL: "2"})

    def saved(self, name: str, batch: int | None = None, *, sink: bool = False) -> Path:
        """Returns the root of a query whose checkpoint is a savepoint of this one's."""
        other = self.root.with_name(name)
        source, to = (LocalStorage(root / "checkpoint") for root in (self.root, other))
        savepoint(source, to, batch=batch, sink=LocalStorage(other / "sink") if sink else None)
        return other


def begun(spark: SparkSession, name: str, place: Path) -> Query:
    runner, root = Runner(spark, KIND[name], {_INTERVAL: "4"}), place / "original"
    if "evolving" in name:
        runner.run(root, EVOLVES)
    runner.run(root, FIRST)
    return Query(runner, root, newest_batch(root))


@pytest.fixture(scope="module", params=NAMES)
def query(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Query:
    return begun(spark, request.param, tmp_path_factory.mktemp("saved"))


def files(checkpoint: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in checkpoint.rglob("*") if path.is_file()}


def test_ten_batches_after_the_restart_are_those_of_the_undisturbed_query(query: Query) -> None:
    before = files(query.root)
    other = query.saved("copy")
    assert files(query.root) == before

    query.runner.run(query.root, FIRST + MORE)
    shutil.move(query.root / "checkpoint", query.root / "aside")  # nobody reads it from now on
    query.restarted.run(other, FIRST + MORE)
    shutil.move(query.root / "aside", query.root / "checkpoint")
    assert newest_batch(other) == newest_batch(query.root)
    assert query.runner.output(other) == query.runner.output(query.root, above=query.newest)
    theirs, ours = query.runner.states(query.root), query.runner.states(other)
    assert ours.keys() == theirs.keys()
    for store, batches in ours.items():
        common = batches.keys() & theirs[store].keys()
        assert len(common) > 7
        assert [batches[one] for one in common] == [theirs[store][one] for one in common]
    schemas = [{one.name for one in root.glob(SCHEMAS)} for root in (other, query.root)]
    assert schemas[0] == schemas[1], "Spark has found the schemas, so it has compared its own"
    storage = LocalStorage(other / "checkpoint")
    assert doctor(storage).restarts
    assert verify(storage, deep=True).healthy


# -- what a copy made by hand gets wrong


@pytest.fixture(scope="module")
def summing(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Query:
    return begun(spark, "aggregation2", tmp_path_factory.mktemp("summing"))


def test_a_savepoint_of_an_earlier_batch_comes_to_the_same_state(
    summing: Query, tmp_path: Path
) -> None:
    earlier = summing.newest - 2
    other = summing.saved(tmp_path.name, earlier)
    summing.restarted.run(other, FIRST)
    assert newest_batch(other) == summing.newest
    assert summing.runner.output(other) == summing.runner.output(summing.root, above=earlier)
    assert summing.runner.state(other) == summing.runner.state(summing.root)


def without(name: str) -> Callable[[Path], None]:
    return lambda checkpoint: (checkpoint / name).unlink()


def unfinished(checkpoint: Path) -> None:
    (checkpoint / "metadata").write_bytes(UNFINISHED)


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (without(f"offsets/{FIRST - 1}"), f"batch {FIRST - 1} doesn't exist"),
        (without(f"commits/{FIRST}"), r"\.delta.* does not exist"),
        (without("sources/0/3.compact"), "9.compact.*doesn't exist"),
        (unfinished, "JsonParseException"),
    ],
    ids=["the offsets before", "the commit", "what keeps the interval", "the true metadata"],
)
def test_spark_refuses_a_savepoint_without(
    summing: Query, tmp_path: Path, spoil: Callable[[Path], None], error: str
) -> None:
    other = summing.saved(tmp_path.name)
    spoil(other / "checkpoint")
    with pytest.raises(Exception, match=error):
        summing.restarted.run(other, FIRST + 1)


def test_spark_reads_again_what_the_log_of_its_source_has_lost(
    summing: Query, tmp_path: Path
) -> None:
    whole, other = (summing.saved(f"{tmp_path.name}-{name}") for name in ("whole", "lost"))
    log = other / "checkpoint" / "sources" / "0" / "7.compact"
    log.write_text("\n".join(one for one in log.read_text().split("\n") if "003.json" not in one))
    for root, again in ((whole, False), (other, True)):
        summing.restarted.run(root, FIRST + 1)
        entries = (root / "checkpoint" / "sources" / "0").glob("1[1-9]*")
        lines = {line for entry in entries for line in entry.read_text().split("\n")}
        numbers = [json.loads(line)["batchId"] for line in lines if "003.json" in line]
        assert any(number >= FIRST for number in numbers) is again


def test_a_new_file_sink_needs_the_log_of_the_batches_before(
    summing: Query, tmp_path: Path
) -> None:
    bare = summing.saved(f"{tmp_path.name}-bare")
    logged = summing.saved(f"{tmp_path.name}-logged", sink=True)
    with pytest.raises(Exception, match=r"BATCH_METADATA_NOT_FOUND.*_spark_metadata/9\.compact"):
        summing.restarted.run_to_files(bare, FIRST + MORE)
    summing.restarted.run_to_files(logged, FIRST + MORE)
    assert (logged / "sink" / "_spark_metadata" / "19.compact").exists()
    assert list((logged / "sink").glob("part-*.json"))
