"""DataFrames of work and its outcomes.

`mapInArrow` spreads the work; Spark Connect has it as well. PySpark requires pandas for it, but the
driver only checks that it is installed; a classic session without pandas uses an RDD instead.
Neither contains state: pieces of work go to the executors, and rows of outcomes come back.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from statemaint.spark.columns import arrow_schema, batch, ddl

Work = Callable[[str], Iterable[Mapping[str, Any]]]
# Rows of a batch that returns to the JVM.
_ROWS = 2000
_TASKS_WITHOUT_A_WORD = 8


def spread(
    spark: Any, tasks: Sequence[Sequence[str]], work: Work, columns: Mapping[str, str]
) -> Any:
    """Returns the DataFrame of the rows of some work, computed when an action requests it.

    Args:
        spark: the session.
        tasks: the pieces of work of each task, in order; Spark starts the first task first.
        work: yields the rows of a piece, on an executor; importable there by its name.
        columns: the columns of the rows.
    """
    if not tasks:
        return spark.createDataFrame([], ddl(columns))
    task, context = _Task(work, columns), context_of(spark)
    if context is not None and find_spec("pandas") is None:
        rows = context.parallelize([list(one) for one in tasks], len(tasks)).flatMap(task.tuples)
        return spark.createDataFrame(rows, ddl(columns), verifySchema=False)
    units = [
        (number, place, piece)
        for number, pieces in enumerate(tasks)
        for place, piece in enumerate(pieces)
    ]
    frame = spark.createDataFrame(units, "task int, place int, piece string")
    # As many ranges as numbers: each task has its own partition, in this order.
    return frame.repartitionByRange(len(tasks), "task").mapInArrow(task.batches, ddl(columns))


class _Task:
    """The work of an executor."""

    def __init__(self, work: Work, columns: Mapping[str, str]) -> None:
        self._work, self._columns = work, columns

    def tuples(self, pieces: Iterable[str]) -> Iterator[tuple[Any, ...]]:
        """Yields the rows of the pieces of a task."""
        for row in self._rows(pieces):
            yield tuple(row.get(name) for name in self._columns)

    def batches(self, units: Iterable[Any]) -> Iterator[Any]:
        """Yields the rows of the pieces of a task, as Arrow batches."""
        rows = [row for one in units for row in one.to_pylist()]
        held: list[Mapping[str, Any]] = []
        ordered = sorted(rows, key=lambda one: (one["task"], one["place"]))
        for row in self._rows(one["piece"] for one in ordered):
            held.append(row)
            if len(held) == _ROWS:
                yield batch(self._columns, held)
                held = []
        if held:
            yield batch(self._columns, held)

    def _rows(self, pieces: Iterable[str]) -> Iterator[Mapping[str, Any]]:
        for piece in pieces:
            yield from self._work(piece)


def collected(frame: Any, columns: Mapping[str, str]) -> Any:
    """Returns the rows of a DataFrame as an Arrow table.

    Spark has an action for it from 4.0 on, which may also require pandas.
    """
    import pyarrow as pa

    if hasattr(frame, "toArrow") and find_spec("pandas"):
        return frame.toArrow().cast(arrow_schema(columns))
    rows = [row.asDict(recursive=True) for row in frame.collect()]
    return pa.Table.from_pylist(rows, schema=arrow_schema(columns))


def frame_of(spark: Any, table: Any, columns: Mapping[str, str]) -> Any:
    """Returns an Arrow table as a DataFrame: nothing is computed again."""
    if hasattr(spark.range(0), "toArrow") and find_spec("pandas"):  # both since Spark 4.0
        return spark.createDataFrame(table, ddl(columns))
    rows = [tuple(row.values()) for row in table.to_pylist()]
    return spark.createDataFrame(rows, ddl(columns))


def context_of(spark: Any) -> Any:
    """Returns the session's SparkContext; `None` with Spark Connect, which has none."""
    return getattr(spark, "_sc", None)


def cores_of(spark: Any) -> int:
    """Returns the number of tasks that the cluster runs at a time, if the session knows it.

    A cluster whose executors are not up yet reports too few: set `spark.default.parallelism`.
    """
    context = context_of(spark)
    if context is not None:
        return max(1, int(context.defaultParallelism))
    parallelism = spark.conf.get("spark.default.parallelism", None)
    return int(parallelism) if parallelism else _TASKS_WITHOUT_A_WORD
