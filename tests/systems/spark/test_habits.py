"""An executor of Spark 4.3 that uploads every 300 versions, and our maintenance in between.

Its database is Spark's own, and so is every table and zip that it uploads; only the commit log is
ours. It never loads anything meanwhile, so that what it uploads names tables of long ago. 4.3 can
upload these again with the zip that names them (SPARK-55892), and go on from an older zip where the
newest does not load. Neither is on here, as in every Spark before 4.2.
"""

from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from statemaint.codec.rocksdb import snapshot_zip
from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.storage import LocalStorage
from tests.support.checkpoints import COMMIT, offsets_bytes
from tests.support.rocks import PROVIDER
from tests.support.spark_rocks import SparkRocks

EVERY, LATE, RETAINED = 300, 5, 100
_STATE = "spark.sql.streaming.stateStore"
FAMILIES = {"default": 0}
# As by default, but that files are as old as they have to be right away.
POLICY = replace(Policy(), grace=0.0, orphan_age=0.0)


class Query:
    """The batches of a query with one store, and what is true of it."""

    def __init__(self, spark: SparkSession, root: Path, every: int) -> None:
        self.root, self.version = root, 0
        self.truth: dict[bytes, bytes] = {}
        self._spark = spark
        self.executor = self.started(every)
        for log in ("commits", "offsets"):
            (root / log).mkdir(parents=True)
        (root / "metadata").write_bytes(b'{"id":"11111111-2222-3333-4444-555555555555"}')

    def started(self, every: int) -> SparkRocks:
        """Returns a new executor, which has nothing loaded."""
        conf = {
            f"{_STATE}.minDeltasForSnapshot": str(every),
            f"{_STATE}.autoSnapshotRepair.enabled": "false",
            f"{_STATE}.rocksdb.checkStaleReusedFilesInSnapshot": "false",
        }
        return SparkRocks(self._spark, self.root, conf, families=False)

    def restart(self, every: int) -> None:
        self.executor.close()
        self.executor = self.started(every)

    def batches(self, last: int) -> None:
        """Commits batches up to a version; most rows are of the first one."""
        while self.version < last:
            self.executor.load(self.version)
            self.version += 1
            keys = range(50) if self.version == 1 else [self.version % 5]
            rows = {b"\0key %02d" % key: b"\0value of %d" % self.version for key in keys}
            for key, value in rows.items():
                self.executor.put(key, value)
            self.executor.write()
            self.truth |= rows
            self._commit(self.version - 1)

    def _commit(self, batch: int) -> None:
        (self.root / f"offsets/{batch}").write_bytes(offsets_bytes({"providerClass": PROVIDER}))
        (self.root / f"commits/{batch}").write_bytes(COMMIT)
        for log in ("commits", "offsets"):
            (self.root / log / str(batch - RETAINED - 1)).unlink(missing_ok=True)

    def maintained(self, last: int) -> None:
        """Commits batches up to a version, with a run of ours after every tenth."""
        storage = LocalStorage(self.root)
        while self.version < last:
            self.batches(min(self.version + 10, last))
            report = maintain(storage, POLICY)
            assert report.exit_code == 0, report.findings

    def tables(self, version: int) -> set[str]:
        """Returns the names of the tables that a zip names."""
        content = (self.root / f"state/0/0/{version}.zip").read_bytes()
        return {one.stored for one in snapshot_zip.parse_metadata(content).ssts}

    def must_restart(self) -> None:
        """Another executor loads the newest version from the newest zip, with the right rows."""
        self.restart(EVERY)
        self.executor.load(self.version)
        rows = {key[2:]: value for key, value in self.executor.rows(FAMILIES).items()}
        assert rows == self.truth


def test_an_executor_that_uploads_every_300_versions_finds_the_tables_that_it_names(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = Query(spark, tmp_path, EVERY)
    for version in (300, 600):
        query.batches(version + LATE)
        query.executor.maintain()
        assert (tmp_path / f"state/0/0/{version}.zip").exists()
    old = query.tables(600)
    query.maintained(895)
    query.batches(900 + LATE)
    query.executor.maintain()
    assert query.tables(900) & old, "it names tables that it had uploaded 300 versions ago"
    query.must_restart()
    query.executor.close()


def test_an_executor_that_began_with_a_zip_of_ours_names_its_tables(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = Query(spark, tmp_path, EVERY)
    query.maintained(20)
    query.restart(3)
    query.batches(24)
    query.executor.maintain()
    assert query.tables(23) & query.tables(20)
    query.executor.close()
