"""The DataFrames of a fleet: their columns, and work spread evenly over Spark's tasks.

`docs/spark.md` has the units of the columns. `mapInArrow` spreads the work; Spark Connect has it
too. PySpark requires pandas for it, on the driver only to check that it is installed; a classic
session without pandas uses an RDD instead. No state is in either: pieces of work go to the
executors, and rows of outcomes come back.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import chain, groupby, islice
from typing import Any

from statemaint.errors import ConfigError
from statemaint.maintain.bundles import PER_UNIT, deal
from statemaint.workers import in_order, nothing

# The units of a query are at most a core's even share of all work, divided by this.
TASKS_A_CORE = 4
# Tasks for each core: enough that the last ones end together. Spark spends about 50 ms of a core on
# each task with Python in it, whatever the task does.
_MOST_TASKS_A_CORE = 4
Work = Callable[[str], Iterable[Mapping[str, Any]]]
# Pieces of a task that are worked on at a time where each mostly waits.
_WAITING_AT_A_TIME = 4
# Rows that are Python objects at a time.
_ROWS = 2000
# Characters of all pieces of work up to which each task receives them all: a shuffle, which gives
# each task only its own, costs Spark two more jobs.
_SMALL = 4_000_000
_TASKS_WITHOUT_A_WORD = 8

# -- columns, with their types


def _columns(text: str) -> Mapping[str, str]:
    parts = (column.partition(" ") for column in text.split(", "))
    return {name: kind for name, _, kind in parts}


_FINDINGS = "array<struct<code:string,detail:string>>"
_QUERY = "query string, checkpoint string"
_STORE = f"{_QUERY}, operator int, partition int, store string"
_RESULT = f"findings {_FINDINGS}, exit_code int, error string"

NAMES_OF_SPARK = {"operatorId": "operator", "partitionId": "partition", "storeName": "store"}
"""Columns that DataFrames have besides: what Spark's tables of state call a column of ours."""
INVENTORY = _columns(
    f"{_STORE}, provider string, target_version bigint, first_version bigint, last_version bigint, "
    f"snapshots array<bigint>, chain_length int, files bigint, bytes bigint, {_RESULT}"
)
PLAN = _columns(
    f"{_STORE}, action string, version bigint, path string, bytes bigint, reason string, "
    "detail string, exit_code int"
)
OUTCOMES = _columns(
    f"run string, {_STORE}, outcome string, version bigint, chain_before int, chain_after int, "
    "files bigint, bytes bigint, snapshots_written int, bytes_written bigint, "
    "files_deleted bigint, bytes_deleted bigint, reclaimable_bytes bigint, rows bigint, "
    f"digest string, {_RESULT}, unit string, weight double, started double, seconds double, "
    "savepoint string"
)
# Other messages of a task to the driver: JSON, in rows without a store.
NOTED: Mapping[str, str] = {**OUTCOMES, "note": "string"}
VERIFIED = _columns(
    f"{_QUERY}, share int, verdict string, looked_at string, healthy boolean, stores bigint, "
    f"versions_checked bigint, {_RESULT}"
)
# Of a history: the outcomes of maintenance and savepoints, and the results of verifications.
HISTORY: Mapping[str, str] = {"verb": "string", **OUTCOMES, **VERIFIED}


def ddl(columns: Mapping[str, str]) -> str:
    return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())


def arrow_schema(columns: Mapping[str, str]) -> Any:
    import pyarrow as pa

    finding = pa.struct([("code", pa.string()), ("detail", pa.string())])
    kinds = {
        "string": pa.string(),
        "binary": pa.binary(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "array<bigint>": pa.list_(pa.int64()),
        _FINDINGS: pa.list_(finding),
    }
    return pa.schema([(name, kinds[kind]) for name, kind in columns.items()])


def batch(columns: Mapping[str, str], rows: Iterable[Mapping[str, Any]]) -> Any:
    """Returns rows as an Arrow batch; a column that a row lacks is null."""
    import pyarrow as pa

    return pa.RecordBatch.from_pylist(list(rows), schema=arrow_schema(columns))


# -- work


def spread(
    spark: Any,
    pieces: Sequence[tuple[str, float]],
    work: Work,
    columns: Mapping[str, str],
    *,
    waits: Callable[[str], object] = nothing,
    tasks: int | None = None,
) -> Any:
    """Returns the DataFrame of the rows that some work yields, computed by an action.

    Spark starts the heaviest of the pieces first. The work yields the rows of a piece, on an
    executor, and is importable there by its name. Of pieces that mostly wait, a task works on
    several at a time.
    """
    if not pieces:
        return spark.createDataFrame([], ddl(columns))
    dealt = deal(pieces, tasks or cores_of(spark) * _MOST_TASKS_A_CORE)
    task, context = _Task(work, columns, waits), context_of(spark)
    if context is not None and find_spec("pandas") is None:
        rows = context.parallelize(dealt, len(dealt)).flatMap(task.tuples)
        return spark.createDataFrame(rows, ddl(columns), verifySchema=False)
    if sum(len(piece) for piece, _ in pieces) <= _SMALL:
        numbers = spark.range(0, len(dealt), 1, len(dealt))
        return numbers.mapInArrow(partial(task.small_batches, dealt), ddl(columns))
    frame = spark.createDataFrame([*enumerate(dealt)], "task int, pieces array<string>")
    # As many ranges as rows, so a range has one row; the partitions are in the order of the tasks.
    apart = frame.repartitionByRange(len(dealt), "task")
    return apart.mapInArrow(task.batches, ddl(columns))


@dataclass(frozen=True, slots=True)
class _Task:
    """The function that an executor runs, on Arrow batches or on an RDD."""

    work: Work
    columns: Mapping[str, str]
    waits: Callable[[str], object]

    def tuples(self, pieces: Iterable[str]) -> Iterator[tuple[Any, ...]]:
        for row in self._rows(pieces):
            yield tuple(row.get(name) for name in self.columns)

    def batches(self, tasks: Iterable[Any]) -> Iterator[Any]:
        for rows in tasks:
            for pieces in rows.column("pieces").to_pylist():
                yield from self._batches_of(pieces)

    def small_batches(
        self, tasks: Sequence[Sequence[str]], numbers: Iterable[Any]
    ) -> Iterator[Any]:
        """Yields the rows of the tasks with some numbers; each executor receives all tasks."""
        for rows in numbers:
            for number in rows.column("id").to_pylist():
                yield from self._batches_of(tasks[number])

    def _batches_of(self, pieces: Iterable[str]) -> Iterator[Any]:
        rows = self._rows(pieces)
        while held := [*islice(rows, _ROWS)]:
            yield batch(self.columns, held)

    def _rows(self, pieces: Iterable[str]) -> Iterator[Mapping[str, Any]]:
        for waiting, some in groupby(pieces, key=self.waits):
            # The rows of a large piece, such as those of a whole store, are not held together.
            jobs = (partial(self._done if waiting else self.work, piece) for piece in some)
            threads = _WAITING_AT_A_TIME if waiting else 1
            yield from chain.from_iterable(in_order(jobs, threads=threads))

    def _done(self, piece: str) -> list[Mapping[str, Any]]:
        return [*self.work(piece)]


def collected(frame: Any, columns: Mapping[str, str]) -> Any:
    """Returns some columns of a DataFrame's rows as an Arrow table.

    Spark has an action for it from 4.0 on, which may also require pandas.
    """
    import pyarrow as pa

    frame = frame.select(*columns)
    if hasattr(frame, "toArrow") and find_spec("pandas"):
        return frame.toArrow().cast(arrow_schema(columns))
    rows = [row.asDict(recursive=True) for row in frame.collect()]
    return pa.Table.from_pylist(rows, schema=arrow_schema(columns))


def computed(
    spark: Any,
    pieces: Sequence[tuple[str, float]],
    work: Work,
    columns: Mapping[str, str],
    waits: Callable[[str], object],
) -> Any:
    if not pieces:
        return arrow_schema(columns).empty_table()
    return collected(spread(spark, pieces, work, columns, waits=waits), columns)


def rows_of(table: Any) -> Iterator[dict[str, Any]]:
    """Yields the rows of an Arrow table, of which few are in memory at a time."""
    for some in table.to_batches(max_chunksize=_ROWS):
        yield from some.to_pylist()


def outcomes(tables: Iterable[Any], rows: Iterable[Mapping[str, Any]]) -> Any:
    """Returns tables, and rows, as one Arrow table of outcomes."""
    import pyarrow as pa

    queries = pa.Table.from_pylist(list(rows), schema=arrow_schema(OUTCOMES))
    return pa.concat_tables([*(table.select(list(OUTCOMES)) for table in tables), queries])


def frame_of(spark: Any, table: Any, columns: Mapping[str, str]) -> Any:
    """Returns an Arrow table as a DataFrame that holds it: nothing is computed again."""
    if hasattr(spark.range(0), "toArrow") and find_spec("pandas"):  # both since Spark 4.0
        # PySpark 4.3 leaves out what comes after a batch without rows.
        return spark.createDataFrame(table.combine_chunks(), ddl(columns))
    rows = [tuple(row.values()) for row in table.to_pylist()]
    return spark.createDataFrame(rows, ddl(columns))


def must_be_new(spark: Any, output: str) -> None:
    """Checks before any work that a dataset can be written to an address, as far as Spark says."""
    try:
        spark.read.schema("query string").parquet(output).schema  # noqa: B018 -- Spark looks now
    except Exception as error:  # noqa: BLE001 -- of Py4J, of Spark Connect, of the file system
        why = str(error)
        if "PATH_NOT_FOUND" in why or "Path does not exist" in why:
            return
        raise ConfigError(f"--output {output}: {first_line(why)}; nothing was done") from None
    raise ConfigError(f"--output {output}: it exists, give a new one; nothing was done")


def not_written(frame: Any, output: str) -> str | None:
    """Writes rows to a new dataset; returns why that failed, as the work is done by then."""
    try:
        frame.write.parquet(output)
    except Exception as error:  # noqa: BLE001 -- as above
        return f"OUTPUT: --output {output} is not written: {first_line(str(error))}"
    return None


def first_line(why: str) -> str:
    """Returns the first line of Spark's words that is not only the name of Py4J's call."""
    lines = [" ".join(line.split()) for line in why.splitlines() if line.strip()]
    return next((line for line in lines if not line.startswith("An error occurred")), "it failed")


def context_of(spark: Any) -> Any:
    """Returns the session's SparkContext; `None` with Spark Connect, which has none."""
    return getattr(spark, "_sc", None)


def cores_of(spark: Any) -> int:
    """Returns the number of tasks that the cluster runs at a time, as far as the session knows.

    A cluster whose executors have not started reports too few: set `spark.default.parallelism`.
    """
    context = context_of(spark)
    if context is not None:
        return max(1, int(context.defaultParallelism))
    parallelism = spark.conf.get("spark.default.parallelism", None)
    return int(parallelism) if parallelism else _TASKS_WITHOUT_A_WORD


def shares(weights: Mapping[str, float], cores: int) -> dict[str, int]:
    """Returns the number of units into which the work of each query is split.

    A unit is at most a task's even share of all work, so that the others wait for no query's unit;
    and small work is not split.
    """
    most = max(sum(weights.values()) / (cores * TASKS_A_CORE), PER_UNIT)
    return {query: max(1, -(-int(weight) // int(most))) for query, weight in weights.items()}
