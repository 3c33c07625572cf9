"""The history of a fleet: the outcomes of its runs, as a Parquet dataset.

    <history>/date=<day, UTC>/<run>.parquet      all outcomes of one run

A run is one file, which appears whole and in one step or not at all, by the same storages as
checkpoints. So a run that dies half-way leaves nothing that a reader sees, and another attempt at
a run replaces its file. No run rewrites the file of another.
"""

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from statemaint.errors import CodecError, ConfigError, NotFoundError, StorageError
from statemaint.maintain.bundles import Costs
from statemaint.model.ids import UnitId, run_folder
from statemaint.spark.columns import OUTCOMES, ddl
from statemaint.storage import LocalStorage, Storage, open_storage

_PATH = re.compile(r"date=(\d{4}-\d{2}-\d{2})/([^/]+)\.parquet")
# The number of runs that are read for the time that a partition takes; most have every query.
_NEWEST = 3
_ATTEMPT = b"statemaint.attempt"
_COLUMNS = ["query", "operator", "partition", "unit", "weight", "seconds"]


@dataclass(frozen=True, slots=True)
class History:
    """The history at an address.

    Attributes:
        storage: where it lives.
    """

    storage: Storage

    @classmethod
    def at(cls, address: str) -> "History":
        """Returns the history at an address, which need not exist yet."""
        storage = open_storage(address)
        if isinstance(storage, LocalStorage):
            try:
                Path(storage.root).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ConfigError(f"{address}: the history's folder: {error.strerror}") from None
        return cls(storage)

    def add(self, run: str, table: Any, now: float, *, attempt: int = 1) -> str:
        """Adds the outcomes of a run, replaces those of an earlier attempt, and returns the path.

        An attempt that ends after a later one, to which it lost its leases, adds nothing.
        """
        import pyarrow.parquet as pq

        before = [path for path in self._paths() if path.endswith(f"/{run_folder(run)}.parquet")]
        if before and self._attempt(before[0]) > attempt:
            return before[0]
        day = f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d}"
        path = before[0] if before else f"date={day}/{run_folder(run)}.parquet"
        content = io.BytesIO()
        pq.write_table(
            table.replace_schema_metadata({_ATTEMPT: str(attempt)}), content, compression="zstd"
        )
        self.storage.replace(path, [content.getvalue()])
        return path

    def costs(self) -> Mapping[str, Costs]:
        """Returns the cost of each partition of each query, in the newest run that had it.

        An unreadable file is ignored: the costs only make tasks more even.
        """
        costs: dict[str, dict[str, float]] = {}
        try:
            newest = sorted(self._paths())[-_NEWEST:]
        except StorageError:
            return costs
        for path in newest:  # a newer one replaces the costs of an older one
            for row in self._rows(path):
                if row["unit"] and row["weight"] and row["seconds"]:
                    unit = UnitId(row["operator"], row["partition"])
                    query = costs.setdefault(row["query"], {})
                    query[str(unit)] = row["seconds"] / row["weight"]
        return costs

    def _attempt(self, path: str) -> int:
        """Returns the number of the attempt that wrote a file; 0 if the file is not ours."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            metadata = pq.read_schema(io.BytesIO(self.storage.read(path))).metadata or {}
            return int(metadata.get(_ATTEMPT, b"1"))
        except (NotFoundError, CodecError, pa.ArrowException, ValueError):
            return 0

    def _rows(self, path: str) -> list[Mapping[str, Any]]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            content = io.BytesIO(self.storage.read(path))
            rows: list[Mapping[str, Any]] = pq.read_table(content, columns=_COLUMNS).to_pylist()
        except (StorageError, CodecError, pa.ArrowException):
            return []
        return rows

    def _paths(self) -> list[str]:
        """Returns the files of all runs, by day and run."""
        return [one.path for one in self.storage.list("") if _PATH.fullmatch(one.path)]


def read_history(spark: Any, address: str) -> Any:
    """Returns the outcomes of all runs, with the day of each as `date`.

    Args:
        spark: the session.
        address: the address of the history for Spark.
    """
    return spark.read.schema(f"{ddl(OUTCOMES)}, date date").parquet(address)
