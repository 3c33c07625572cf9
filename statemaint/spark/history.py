"""The history of a fleet: the outcomes of its runs, as a Parquet dataset.

    <history>/date=<day, UTC>/<run>.parquet      all outcomes of one run of `maintain`
    <history>/date=<day, UTC>/<verb>-<run>.parquet      those of a run of another verb

A run is one file, which appears whole and in one step or not at all, by the same storages as
checkpoints. So a run that dies half-way leaves nothing that a reader sees, and another attempt at
a run replaces its file. No run rewrites the file of another. Days older than `keep` are deleted.
"""

import io
import logging
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemaint.errors import CodecError, ConfigError, NotFoundError, StorageError
from statemaint.maintain.bundles import Costs
from statemaint.model.ids import UnitId, run_folder
from statemaint.spark.frames import HISTORY, OUTCOMES, VERIFIED, arrow_schema, ddl
from statemaint.storage import LocalStorage, Storage, open_storage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger(__name__)
_PATH = re.compile(r"date=(\d{4}-\d{2}-\d{2})/([^/]+)\.parquet")
_OTHERS = ("verify-", "savepoint-")  # what the names of files of other verbs begin with
# The number of runs that are read for the time that a partition takes; most have every query.
_NEWEST = 3
_ATTEMPT = b"statemaint.attempt"
_COLUMNS = ["query", "operator", "partition", "unit", "weight", "seconds"]
_VIEWS = {
    "maintained": ("maintain", OUTCOMES),
    "saved": ("savepoint", OUTCOMES),
    "verified": ("verify", {"run": "string", **VERIFIED}),
}
# Files of a release without `verb` are of maintenance or of savepoints.
_VERB = "coalesce(verb, if(savepoint IS NULL, 'maintain', 'savepoint'))"


@dataclass(frozen=True, slots=True)
class History:
    """The history at an address.

    Attributes:
        storage: where it lives.
        keep: the seconds for which a run stays in it, to the end of its day; without it, for ever.
    """

    storage: Storage
    keep: float | None = None

    @classmethod
    def at(cls, address: str, keep: float | None = None) -> "History":
        """Returns the history at an address, which need not exist yet."""
        storage = open_storage(address)
        if isinstance(storage, LocalStorage):
            try:
                Path(storage.root).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ConfigError(f"{address}: the history's folder: {error.strerror}") from None
        return cls(storage, keep)

    def add(
        self, run: str, table: "pa.Table", now: float, *, attempt: int = 1, verb: str = "maintain"
    ) -> str:
        """Adds the outcomes of a run, replaces those of an earlier attempt, and returns the path.

        An attempt that ends after a later one, to which it lost its leases, adds nothing. Whoever
        adds deletes what is older than `keep`; what cannot be deleted is only logged.
        """
        import pyarrow.parquet as pq

        there = self._paths()
        name = f"{'' if verb == 'maintain' else f'{verb}-'}{run_folder(run)}.parquet"
        before = [path for path in there if path.endswith(f"/{name}")]
        if before and self._attempt(before[0]) > attempt:
            return before[0]
        path = before[0] if before else f"{_folder(now)}/{name}"
        content = io.BytesIO()
        rows = _widened(table, run, verb).replace_schema_metadata({_ATTEMPT: str(attempt)})
        pq.write_table(rows, content, compression="zstd")
        self.storage.replace(path, [content.getvalue()])
        if self.keep is not None:
            first = _folder(max(0.0, now - self.keep))
            self._delete(other for other in there if other != path and other < first)
        return path

    def _delete(self, paths: Iterable[str]) -> None:
        """Deletes files of runs; another table at the address may have days of the same names."""
        try:
            found = [path for path in paths if _ATTEMPT in (self._metadata(path) or {})]
            self.storage.delete_all(found)
            for folder in sorted({path.partition("/")[0] for path in found}):
                self.storage.delete_folders(folder)
        except StorageError as error:
            _log.warning("the history keeps days that are too old: %s", error)

    def costs(self) -> Mapping[str, Costs]:
        """Returns the cost of each partition of each query, in the newest run that had it.

        An unreadable file is ignored: the costs only make tasks more even.
        """
        costs: dict[str, dict[str, float]] = defaultdict(dict)
        try:
            paths = sorted(self._paths())
        except StorageError:
            return costs
        maintained = [path for path in paths if not path.partition("/")[2].startswith(_OTHERS)]
        for path in maintained[-_NEWEST:]:  # a newer one replaces the costs of an older one
            for row in self._rows(path):
                if row["unit"] and row["weight"] and row["seconds"]:
                    unit = UnitId(row["operator"], row["partition"])
                    costs[row["query"]][str(unit)] = row["seconds"] / row["weight"]
        return costs

    def _attempt(self, path: str) -> int:
        """Returns the number of the attempt that wrote a file; 0 if the file is not ours."""
        metadata = self._metadata(path)
        try:
            return 0 if metadata is None else int(metadata.get(_ATTEMPT, b"1"))
        except ValueError:
            return 0

    def _metadata(self, path: str) -> Mapping[bytes, bytes] | None:
        """Returns what a file says of itself; `None` if it is no Parquet file, or gone.

        Arrow's errors of damage are its own, and Python's.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return dict(pq.read_schema(io.BytesIO(self.storage.read(path))).metadata or {})
        except (NotFoundError, CodecError, pa.ArrowException, OSError, ValueError):
            return None

    def _rows(self, path: str) -> list[Mapping[str, Any]]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            content = io.BytesIO(self.storage.read(path))
            return [*pq.read_table(content, columns=_COLUMNS).to_pylist()]
        except (StorageError, CodecError, pa.ArrowException, OSError, ValueError):
            return []

    def _paths(self) -> list[str]:
        return [entry.path for entry in self.storage.list("") if _PATH.fullmatch(entry.path)]


def _folder(time: float) -> str:
    return f"date={datetime.fromtimestamp(time, UTC):%Y-%m-%d}"


def _widened(table: Any, run: str, verb: str) -> Any:
    import pyarrow as pa

    known = {name: table[name] for name in table.column_names}
    known |= {name: pa.repeat(text, len(table)) for name, text in (("run", run), ("verb", verb))}
    schema = arrow_schema(HISTORY)
    columns = [known.get(field.name, pa.nulls(len(table), field.type)) for field in schema]
    return pa.table(columns, schema=schema)


def read_history(spark: "SparkSession", address: str) -> "DataFrame":
    """Returns the rows of all runs, with the verb of each, and its day as `date`."""
    from pyspark.sql.functions import expr

    rows = spark.read.schema(f"{ddl(HISTORY)}, date date").parquet(address)
    return rows.withColumn("verb", expr(_VERB))


def history_views(spark: "SparkSession", address: str) -> None:
    """Makes temporary views of a history: `history`, and of it `maintained`, `saved`, `verified`.

    `history` has all columns; each of the others has those of its verb, and `date`.
    """
    history = read_history(spark, address)
    history.createOrReplaceTempView("history")
    for name, (verb, columns) in _VIEWS.items():
        rows = history.where(f"verb = '{verb}'").select("date", *columns)
        rows.createOrReplaceTempView(name)
