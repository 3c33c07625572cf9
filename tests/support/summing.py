"""A query that sums up amounts by key, a file of input for each batch, with no watermark.

What its state must be after a batch is arithmetic; what it is, Spark's own reader says.
"""

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.checkpoints.queries import IDS, STATE_STORE

Sums = dict[str, tuple[int, int]]
States = dict[int, Sums]

RETAINED = 8
_ROCKS = {
    f"{STATE_STORE}.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    f"{STATE_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
}
PROVIDERS: Mapping[str, Mapping[str, str]] = {
    "hdfs": {},
    "rocks": _ROCKS,
    "rocks-ids": {**_ROCKS, IDS: "2"},
}
_CONF = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.minBatchesToRetain": str(RETAINED),
    # To compile code for a few rows would be most of the work.
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
}


def rows(batch: int, corrected: range) -> Iterator[tuple[str, int]]:
    """Yields keys of all batches, of this one alone, and of it and a neighbour."""
    more = 1000 if batch in corrected else 0
    for number in range(4):
        yield f"alone {batch}-{number}", batch * 37 + number + more
        yield f"pair {(batch + 1) // 2}-{number}", batch * 11 + number + more
    yield "all", batch + more


def write_input(folder: Path, batches: Iterable[int], corrected: range) -> None:
    """Writes a file for each batch."""
    folder.mkdir(parents=True, exist_ok=True)
    for batch in batches:
        lines = [
            json.dumps({"key": key, "amount": amount}) for key, amount in rows(batch, corrected)
        ]
        (folder / f"{batch:03d}.json").write_text("\n".join(lines))
        # Spark takes the oldest file first.
        os.utime(folder / f"{batch:03d}.json", (1_700_000_000 + batch,) * 2)


def truth(batches: Iterable[int], corrected: range) -> States:
    """Returns what each batch must leave behind: how many rows of a key, and their sum."""
    wanted, sums, found = tuple(batches), dict[str, tuple[int, int]](), States()
    for batch in range(max(wanted) + 1):
        for key, amount in rows(batch, corrected):
            count, total = sums.get(key, (0, 0))
            sums[key] = count + 1, total + amount
        found[batch] = dict(sums)
    return {batch: found[batch] for batch in wanted}


@dataclass(frozen=True)
class Job:
    """The query, with all that belongs to it below one root; a copy goes on by itself.

    Attributes:
        spark: what it runs in, in a session of its own.
        conf: of that session, besides what all have.
        root: where its input, its output and its checkpoint lie.
        corrected: the batches whose input is another one from now on.
    """

    spark: SparkSession = field(repr=False)
    conf: Mapping[str, str] = field(repr=False)
    root: Path
    corrected: range = range(0)

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    @property
    def uri(self) -> str:
        return str(self.checkpoint)

    @property
    def batches(self) -> list[int]:
        return sorted(int(path.name) for path in (self.checkpoint / "commits").glob("[0-9]*"))

    @property
    def output(self) -> States:
        """Returns what each batch has put out: the sums that it changed."""
        files = (self.root / "output").glob("*.json")
        return {
            int(file.stem): {
                key: (count, total) for key, count, total in json.loads(file.read_text())
            }
            for file in files
        }

    def go_on(self, end: int) -> None:
        """Runs all batches before `end` that are not committed yet."""
        begin = max(self.batches, default=-1) + 1 if self.checkpoint.exists() else 0
        write_input(self.root / "input", range(begin, end), self.corrected)
        files = self._session().readStream.schema("key STRING, amount LONG")
        files = files.option("maxFilesPerTrigger", 1).option("fileNameOnly", "true")
        rows = files.json(str(self.root / "input" / "*.json"))
        summed = rows.groupBy("key").agg(f.count("*").alias("rows"), f.sum("amount").alias("total"))
        writer = summed.writeStream.outputMode("update").foreachBatch(self._put_out)
        writer = writer.option("checkpointLocation", self.uri)
        writer.trigger(availableNow=True).start().awaitTermination()
        assert self.batches[-1] == end - 1

    def _put_out(self, changed: DataFrame, batch: int) -> None:
        (self.root / "output").mkdir(exist_ok=True)
        lines = [list(row) for row in changed.collect()]
        (self.root / "output" / f"{batch}.json").write_text(json.dumps(lines))

    def read(self) -> States:
        """Returns what Spark's own reader finds after each batch of the commit log."""
        states = map(self._load, self.batches)
        found: States = {batch: {} for batch in self.batches}
        for batch, key, count, total in reduce(DataFrame.union, states).collect():
            found[batch][key] = count, total
        return found

    def _load(self, batch: int) -> DataFrame:
        reader = self._session().read.format("statestore").option("batchId", batch)
        return reader.load(self.uri).select(f.lit(batch), "key.key", "value.*")

    def _session(self) -> SparkSession:
        session = self.spark.newSession()
        for key, value in {**_CONF, **self.conf}.items():
            session.conf.set(key, value)
        return session

    def copy(self, root: Path) -> "Job":
        shutil.copytree(self.root, root)
        return replace(self, root=root)

    def take_back(self, batches: Iterable[int]) -> None:
        """Does what an operator does to run batches again: of their state he knows nothing."""
        again = frozenset(map(str, batches))
        for folder in ("commits", "offsets", "sources/0"):
            for path in (self.checkpoint / folder).iterdir():
                if path.name.removeprefix(".").partition(".")[0] in again:
                    path.unlink()

    def wrong(self) -> list[int]:
        """Returns the batches of the commit log of which Spark's reader finds wrong rows."""
        found, right = self.read(), truth(self.batches, self.corrected)
        return [batch for batch in self.batches if found[batch] != right[batch]]


def changes(batches: Iterable[int], corrected: range) -> States:
    """Returns what each batch must put out."""
    return {
        batch: {key: sums[key] for key, _ in rows(batch, corrected)}
        for batch, sums in truth(batches, corrected).items()
    }
