"""Real queries of every kind, each run batch by batch in the tests' own session."""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.checkpoints import state_reader
from tests.checkpoints.queries import KINDS, Kind, write_input
from tests.checkpoints.rocks_queries import EVOLVING_KINDS, ROCKS_KINDS, UNARCHIVED_KINDS

KIND = {kind.name: kind for kind in (*KINDS, *ROCKS_KINDS, *UNARCHIVED_KINDS, *EVOLVING_KINDS)}
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_MANAGERS = "org.apache.spark.sql.execution.streaming.checkpointing"
SPARKS_OWN = f"{_MANAGERS}.FileContextBasedCheckpointFileManager"
RETAINED = 8
"""The batches below the newest whose state stays."""
_CONF = {
    "spark.sql.streaming.minBatchesToRetain": str(RETAINED),
    # To compile code for a few rows would be most of the work.
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    # Hadoop starts up to twenty processes for a file of a local disk; with this, two.
    MANAGER: f"{_MANAGERS}.FileSystemBasedCheckpointFileManager",
}


@dataclass(frozen=True)
class Runner:
    """Runs a query for some batches, and keeps the rows that each batch has put out."""

    spark: SparkSession
    kind: Kind
    conf: Mapping[str, str] = field(default_factory=dict)

    def run(self, root: Path, batches: int) -> None:
        """Runs until so many files of the input are read, and keeps the rows of each batch."""
        (root / "output").mkdir(parents=True, exist_ok=True)

        def put_out(rows: DataFrame, batch: int) -> None:
            row = f.to_json(f.struct(*rows.columns), {"ignoreNullFields": "false"})
            lines = sorted(found[0] for found in rows.select(row).collect())
            (root / "output" / f"{batch}.json").write_text(json.dumps(lines))

        self._run(root, batches, lambda writer: writer.foreachBatch(put_out))

    def run_to_files(self, root: Path, batches: int) -> None:
        """Runs likewise, and puts out to a file sink."""
        self._run(
            root, batches, lambda writer: writer.format("json").option("path", f"{root}/sink")
        )

    def _run(
        self, root: Path, batches: int, to: Callable[[DataStreamWriter], DataStreamWriter]
    ) -> None:
        write_input(root.parent / "input", range(batches))
        session = self.session()
        writer = self.kind.query(session, root.parent / "input").writeStream.outputMode("append")
        writer = to(writer).option("checkpointLocation", str(root / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    def session(self) -> SparkSession:
        """Returns a session with the settings of the query."""
        session = self.spark.newSession()
        for key, value in {**_CONF, **self.kind.conf, **self.conf}.items():
            session.conf.set(key, value)
        return session

    def output(self, root: Path, above: int = -1) -> list[str]:
        """Returns the rows that the batches above one have put out, sorted."""
        files = (file for file in (root / "output").glob("*.json") if int(file.stem) > above)
        return sorted(line for file in files for line in json.loads(file.read_text()))

    def states(
        self, root: Path, newest: int | None = None, *, placed: bool = True
    ) -> dict[str, dict[str, Any]]:
        """Returns what Spark's own reader finds at the newest batches, or at each, by store."""
        return state_reader.read(self.spark, root / "checkpoint", newest, placed=placed)

    def state(self, root: Path) -> dict[str, Any]:
        """What Spark's own reader finds at the newest batch, by store."""
        found = self.states(root, newest=1)
        return {name: only for name, batches in found.items() for only in batches.values()}


def newest_batch(root: Path) -> int:
    return max(int(path.name) for path in (root / "checkpoint" / "commits").glob("[0-9]*"))


def copied(root: Path, name: str) -> Path:
    """Copies a query to a place that its operators' metadata knows."""
    other = Path(shutil.copytree(root, root.with_name(name)))
    for path in other.glob("checkpoint/state/*/_metadata/v2/[0-9]*"):
        path.write_text(path.read_text().replace(str(root), str(other)))
        path.with_name(f".{path.name}.crc").unlink()
    return other
