"""A savepoint in other partitions by executors, with Spark's exchange played in this process."""

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from statemaint.audit import verify
from statemaint.codec.rows.murmur3 import partition_of
from statemaint.model.checkpoint import Provider
from statemaint.records.savepoints import Shape, read_savepoint
from statemaint.savepoint import savepoint
from statemaint.savepoint.run import UNFINISHED
from statemaint.spark.fleet import Target
from statemaint.spark.savepoints import QuerySave, _places, save_fleet
from statemaint.storage import LocalStorage
from tests.unit.cli.test_show import unpacked

PLACE = {"type": "struct", "fields": [{"name": "place", "type": "integer", "nullable": True}]}


class Frame:
    """A DataFrame: the Arrow batches of each partition; what executors run is pickled."""

    def __init__(self, partitions: list[list[pa.RecordBatch]], lost: Callable[[Any], bool]) -> None:
        self.partitions, self.lost = partitions, lost

    def mapInArrow(self, function: Any, schema: str) -> "Frame":  # noqa: N802
        del schema
        run = pickle.loads(pickle.dumps(function))  # noqa: S301 -- as Spark does
        return Frame([[*run(iter(one))] for one in self.partitions], self.lost)

    def rows(self) -> Iterator[dict[str, Any]]:
        for batch in (one for batches in self.partitions for one in batches):
            yield from batch.to_pylist()

    def repartition(self, number: int, column: str) -> "Frame":
        apart: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for row in self.rows():
            if not self.lost(row):
                apart[partition_of([row[column]], PLACE, number)].append(row)
        schema = next(batch.schema for one in self.partitions for batch in one)
        found = [apart[one] for one in range(number)]
        batches = [[pa.RecordBatch.from_pylist(one, schema=schema)] for one in found]
        return Frame(batches, self.lost)

    def sortWithinPartitions(self, *columns: str) -> "Frame":  # noqa: N802
        def key(row: dict[str, Any]) -> list[Any]:
            return [(row[one] is not None, row[one] or b"") for one in columns]

        for batches in self.partitions:
            rows = sorted(batches[0].to_pylist(), key=key)
            batches[:] = [pa.RecordBatch.from_pylist(rows, schema=batches[0].schema)]
        return self

    def select(self, *columns: str) -> "Frame":
        selected = ([one.select([*columns]) for one in batches] for batches in self.partitions)
        return Frame([*selected], self.lost)

    def collect(self) -> list[Any]:
        return [Collected(one) for one in self.rows()]


class Collected(dict[str, Any]):
    def asDict(self, *, recursive: bool) -> dict[str, Any]:  # noqa: N802
        del recursive
        return self


class Spark:
    """A session that does the work of executors when it is asked for it."""

    def __init__(self, lost: Callable[[Any], bool] = lambda _: False) -> None:
        self._lost, self.conf = lost, dict[str, str]()

    def range(self, start: int, end: int, step: int, partitions: int) -> Frame:
        batches = [[pa.RecordBatch.from_pydict({"id": [one]})] for one in range(start, end, step)]
        assert len(batches) == partitions
        return Frame(batches, self._lost)


CASES = [
    ("join2", Shape(partitions=5)),
    ("join2", Shape(partitions=3, provider=Provider.ROCKSDB, ids="v2")),
    ("rocks-timed", Shape(partitions=1, row_checksums=True)),
    ("join2", Shape(codec="zstd")),
]


@pytest.fixture
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    root = unpacked(getattr(request, "param", "join2"), tmp_path / "source")
    return Target("query", str(root), savepoint=str(tmp_path / "saved"))


def saved(target: Target, shape: Shape, spark: Spark | None = None) -> list[dict[str, Any]]:
    table = save_fleet(
        spark or Spark(), [target], "run", shape=shape, pin=True, tell=lambda _: None
    )
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


@pytest.mark.parametrize(("target", "shape"), CASES, indirect=["target"])
def test_executors_make_the_savepoint_that_one_process_makes(
    target: Target, shape: Shape, tmp_path: Path
) -> None:
    *stores, query = saved(target, shape)
    assert (query["exit_code"], query["error"]) == (0, None)
    done, alone = LocalStorage(tmp_path / "saved"), LocalStorage(tmp_path / "alone")
    expected = savepoint(LocalStorage(tmp_path / "source"), alone, shape=shape).note
    note = read_savepoint(done)
    assert note
    assert (note.before, note.shape) == (expected.before, expected.shape)
    known = [(one.directory, one.rows, one.digest) for one in note.stores]
    assert known == [(one.directory, one.rows, one.digest) for one in expected.stores]
    assert [row["rows"] for row in stores] == [one.rows for one in expected.stores]
    assert verify(done, deep=True).healthy
    assert not list(tmp_path.glob("saved/_statemaint/units/**"))


def test_a_store_that_spark_does_not_bring_fails_the_query(target: Target, tmp_path: Path) -> None:
    def lost(row: dict[str, Any]) -> bool:
        return row["key"] is None and b'"rows": 0' not in row["value"]

    *_, query = saved(target, Shape(partitions=3), Spark(lost))
    assert query["exit_code"] == 5
    assert "Spark has brought the rows of" in query["error"]
    assert (tmp_path / "saved/metadata").read_bytes() == UNFINISHED


def test_a_row_that_spark_does_not_bring_fails_the_query(target: Target, tmp_path: Path) -> None:
    *_, query = saved(target, Shape(partitions=3), Spark(lambda row: row["key"] is not None))
    assert query["exit_code"]
    assert (tmp_path / "saved/metadata").read_bytes() == UNFINISHED


def test_a_damaged_store_fails_the_query_with_its_error(target: Target, tmp_path: Path) -> None:
    delta = max((tmp_path / "source/state/0/1/left-keyToNumValues").glob("*.delta"))
    delta.write_bytes(delta.read_bytes()[:-3])
    *_, query = saved(target, Shape(partitions=3))
    assert query["exit_code"] == 3
    assert delta.name in query["error"]


def test_files_that_an_earlier_run_has_proved_are_not_written_again(
    target: Target, tmp_path: Path
) -> None:
    begun = QuerySave(target, "run", pin=True, shape=Shape(partitions=3))
    begun.begin()
    rows = begun.exchanged(Spark())
    assert len(rows) == 12
    begun.close()
    for claim in tmp_path.glob("saved/_statemaint/lease/*"):
        claim.unlink()  # as if it had expired
    again = QuerySave(target, "another", pin=True, shape=Shape(partitions=3))
    again.begin()
    assert again.exchanged(Spark()) == []
    again.go_on([])
    assert again.report
    assert again.report.continued == 12


@pytest.mark.parametrize("number", [0, 1, 2, 7, 64])
def test_each_place_has_a_partition_of_its_own(number: int) -> None:
    places = _places(number)
    assert {partition_of([one], PLACE, number) for one in places} == {*range(number)}
