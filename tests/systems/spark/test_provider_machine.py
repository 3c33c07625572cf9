"""Our providers beside Spark's own, step by step: the same rows in the same order, the same errors.

Each works in a folder of its own and does what the other does. Between two versions they may
exchange folders, so that each continues from what the other wrote; after maintenance both read
every version in both folders. Settings are drawn once an example. `make test-provider-machine` has
200 examples of 40 steps.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from statemaint.codec.rows.state_row import KeyEncoder, NoPrefix, PrefixScan, RangeScan
from statemaint.codec.rows.unsafe_write import encode_row
from statemaint.errors import ConfigError
from statemaint.model.ids import StoreId
from statemaint.provider import (
    CannotLoadStateStoreError,
    HDFSBackedStateStoreProvider,
    RocksDBStateStoreProvider,
    StateStoreConf,
)
from statemaint.storage import LocalStorage
from tests.support.spark_providers import (
    HDFS,
    ROCKSDB,
    STATE,
    Pair,
    SparkProvider,
    pairs,
    unpacked,
    values,
)

KEY = StructType().add("k", "string").add("at", "long").add("x", "double")
VALUE, NAME = StructType().add("n", "long"), StructType().add("k", "string")
EXAMPLES = int(os.environ.get("STATEMAINT_MACHINE", "3"))
STEPS = 40 if EXAMPLES > 3 else 20
RETAINED = 3

ROWS = st.sampled_from(
    [
        encode_row((name, at, x), KEY.jsonValue())
        for name in ("a", "b", None)
        for at in (-1, 2)
        for x in (-1.5, -0.0, 0.0, None)
    ]
)
ROW, NUMBER = encode_row(("a", 2, 0.0), KEY.jsonValue()), encode_row((5,), VALUE.jsonValue())
NUMBERS = st.integers(0, 9).map(lambda number: encode_row((number,), VALUE.jsonValue()))
REFUSALS = (Py4JJavaError, PySparkException)
FAMILIES = st.sampled_from(["default", "list", "plain"])
PREFIXES = {
    PrefixScan(1): [encode_row((k,), NAME.jsonValue()) for k in ("a", None, "c")],
    RangeScan((2, 1)): [
        encode_row((x, at), StructType([KEY["x"], KEY["at"]]).jsonValue())
        for x in (0.0, None)
        for at in (-1, 2)
    ],
}


@dataclass(frozen=True, slots=True)
class Attempt:
    """A committed version: its unique id in each folder, and its column families."""

    version: int
    ids: tuple[str | None, str | None] = (None, None)
    families: frozenset[str] = frozenset()


class BesideSpark(RuleBasedStateMachine):
    """Our provider and Spark's, each with a store that is open for changes."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        super().__init__()
        self.spark, self.root = spark, root

    @initialize(
        provider=st.sampled_from([ROCKSDB, ROCKSDB, ROCKSDB, HDFS]),
        ids=st.sampled_from([1, 2]),
        changelogs=st.booleans(),
        checksums=st.booleans(),
        codec=st.sampled_from(["lz4", "zstd", "snappy"]),
        encoder=st.sampled_from([NoPrefix(), PrefixScan(1), RangeScan((2, 1))]),
        families=st.booleans(),
        operator=st.sampled_from(["1", "2"]),
    )
    def begin(  # noqa: PLR0913 -- the settings
        self,
        *,
        provider: str,
        ids: int,
        changelogs: bool,
        checksums: bool,
        codec: str,
        encoder: KeyEncoder,
        families: bool,
        operator: str,
    ) -> None:
        self.hdfs = provider == HDFS
        self.ids = 1 if self.hdfs else ids
        self.encoder = NoPrefix() if self.hdfs and isinstance(encoder, RangeScan) else encoder
        self.has_families = families and not self.hdfs
        self.conf = {
            f"{STATE}.providerClass": provider,
            f"{STATE}.checkpointFormatVersion": str(self.ids),
            f"{STATE}.rocksdb.changelogCheckpointing.enabled": str(changelogs).lower(),
            f"{STATE}.rocksdb.mergeOperatorVersion": operator,
            f"{STATE}.rowChecksum.enabled": str(checksums).lower(),
            f"{STATE}.compression.codec": codec,
            f"{STATE}.minDeltasForSnapshot": "2",
            "spark.sql.streaming.minBatchesToRetain": str(RETAINED),
            "spark.sql.streaming.ratioExtraSpaceAllowedInCheckpoint": "0",
            f"{STATE}.coordinatorReportSnapshotUploadLag": "false",
            f"{STATE}.forceSnapshotUploadOnLag": "false",
        }
        self.folders = [self.root / "0", self.root / "1"]
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        self.mine = 0  # the number of our folder
        self.committed = [Attempt(0)]
        self.start()
        self.open(self.committed[0])

    def start(self) -> None:
        self.ours = self.our_provider(self.folders[self.mine])
        self.theirs = self.spark_provider(self.folders[1 - self.mine])

    def our_provider(self, folder: Path) -> Any:
        storage, conf = LocalStorage(folder), StateStoreConf.of(self.conf)
        key = KEY.jsonValue()
        if self.hdfs:
            columns = int(isinstance(self.encoder, PrefixScan))
            return HDFSBackedStateStoreProvider(
                StoreId(0, 0), storage, conf, key_schema=key, num_cols_prefix_key=columns
            )
        return RocksDBStateStoreProvider(
            StoreId(0, 0),
            storage,
            conf,
            key_schema=key,
            key_encoder=self.encoder,
            use_column_families=self.has_families,
        )

    def spark_provider(self, folder: Path) -> SparkProvider:
        return SparkProvider(
            self.spark,
            folder,
            self.conf,
            key=KEY,
            value=VALUE,
            encoder=self.encoder,
            families=self.has_families,
        )

    # -- stores

    def open(self, attempt: Attempt) -> None:
        """Opens an attempt; without unique ids what is above it is first taken away."""
        if self.ids == 1 and attempt != self.committed[-1]:
            self.stop()
            self.committed = [each for each in self.committed if each.version <= attempt.version]
            for folder in self.folders:
                rewind(folder, attempt.version)
            self.start()
        self.at, self.families = attempt, {*attempt.families}
        self.store = self.our_store(self.ours, attempt, self.mine)
        self.spark_store = self.their_store(self.theirs, attempt, 1 - self.mine)

    def our_store(self, provider: Any, attempt: Attempt, folder: int) -> Any:
        if self.hdfs:
            return provider.get_store(attempt.version)
        store = provider.get_store(attempt.version, attempt.ids[folder])
        for name in sorted(attempt.families):
            store.create_col_family_if_absent(name, use_multiple_values_per_key=name == "list")
        return store

    def their_store(self, provider: SparkProvider, attempt: Attempt, folder: int) -> Any:
        store = provider.store(attempt.version, attempt.ids[folder])
        for name in sorted(attempt.families):
            provider.add_family(store, name, many=name == "list")
        return store

    def stop(self) -> None:
        self.ours.close()
        self.theirs.close()

    def drop(self) -> None:
        self.store.abort()
        self.spark_store.abort()

    def teardown(self) -> None:
        if hasattr(self, "spark_store"):
            with suppress(*REFUSALS):  # a rule has failed
                self.spark_store.abort()
            self.judge()
            self.stop()

    # -- changes and reads

    def both(self, ours: Callable[[], object], theirs: Callable[[], object]) -> None:
        """Has both do the same, and compares what they return, or their refusals."""
        mine, spark = outcome(ours, ConfigError), outcome(theirs, *REFUSALS)
        if isinstance(mine, ConfigError):
            assert isinstance(spark, REFUSALS), (mine, spark)
            assert self.said_by_spark(str(mine)) in str(spark)
        else:
            assert mine == spark

    def said_by_spark(self, text: str) -> str:
        """Returns the text of Spark 4.3, which is not that of our Spark for all refusals."""
        if "after already committed" in text and not self.hdfs:
            return "[STATE_STORE_"  # INVALID_STAMP, or OPERATION_OUT_OF_ORDER
        return {"Prefix scan is not supported!": 'the method "prefixScan"'}.get(text, text)

    def named(self, family: str) -> tuple[str, ...]:
        return () if self.hdfs else (family,)

    @rule(row=ROWS, number=NUMBERS, family=FAMILIES)
    def put(self, row: bytes, number: bytes, family: str) -> None:
        key, value = self.theirs.key(row), self.theirs.value(number)
        if not self.hdfs or family == "default":
            self.both(
                lambda: self.store.put(row, number, *self.named(family)),
                lambda: self.spark_store.put(key, value, family),
            )

    @precondition(lambda self: not self.hdfs)
    @rule(row=ROWS, number=NUMBERS, family=FAMILIES)
    def merge(self, row: bytes, number: bytes, family: str) -> None:
        key, value = self.theirs.key(row), self.theirs.value(number)
        self.both(
            lambda: self.store.merge(row, number, family),
            lambda: self.spark_store.merge(key, value, family),
        )

    @rule(row=ROWS, family=FAMILIES)
    def remove(self, row: bytes, family: str) -> None:
        if not self.hdfs or family == "default":
            self.both(
                lambda: self.store.remove(row, *self.named(family)),
                lambda: self.spark_store.remove(self.theirs.key(row), family),
            )

    @rule(row=ROWS, family=FAMILIES)
    def get(self, row: bytes, family: str) -> None:
        if not self.hdfs or family == "default":
            self.both(
                lambda: self.store.get(row, *self.named(family)),
                lambda: bytes_of(self.spark_store.get(self.theirs.key(row), family)),
            )

    @precondition(lambda self: not self.hdfs)
    @rule(row=ROWS, family=FAMILIES)
    def values(self, row: bytes, family: str) -> None:
        self.both(
            lambda: [*self.store.values_iterator(row, family)],
            lambda: values(self.spark_store.valuesIterator(self.theirs.key(row), family)),
        )

    @rule(family=FAMILIES)
    def iterate(self, family: str) -> None:
        if not self.hdfs or family == "default":
            self.both(
                lambda: self.ordered(self.store.iterator(*self.named(family))),
                lambda: self.ordered(pairs(self.spark_store.iterator(family))),
            )

    def ordered(self, rows: Iterable[Pair]) -> list[Pair]:
        """The HDFS-backed provider promises no order."""
        return sorted(rows) if self.hdfs else [*rows]

    @rule(data=st.data())
    def prefix_scan(self, data: st.DataObject) -> None:
        some = PREFIXES.get(self.encoder, PREFIXES[PrefixScan(1)])
        prefix = data.draw(st.sampled_from(some))
        columns = 2 if isinstance(self.encoder, RangeScan) else 1
        row = self.theirs.row(prefix, columns)
        self.both(
            lambda: self.ordered(self.store.prefix_scan(prefix)),
            lambda: self.ordered(pairs(self.spark_store.prefixScan(row, "default"))),
        )

    @precondition(lambda self: not self.hdfs)
    @rule(start=st.none() | ROWS, end=st.none() | ROWS)
    def range_scan(self, start: bytes | None, end: bytes | None) -> None:
        bounds = [self.theirs.some(row and self.theirs.key(row)) for row in (start, end)]
        self.both(
            lambda: [*self.store.range_scan(start, end)],
            lambda: pairs(self.spark_store.rangeScan(*bounds, "default")),
        )

    # -- column families

    @precondition(lambda self: not self.hdfs)
    @rule(name=st.sampled_from(["list", "plain", "default", "", " list", "$list"]))
    def create_family(self, name: str) -> None:
        many = name == "list"
        self.both(
            lambda: self.store.create_col_family_if_absent(name, use_multiple_values_per_key=many),
            lambda: self.theirs.add_family(self.spark_store, name, many=many),
        )
        if self.has_families and name in ("list", "plain"):
            self.families.add(name)

    @precondition(lambda self: not self.hdfs)
    @rule(name=st.sampled_from(["list", "plain", "default", "", "$list"]))
    def remove_family(self, name: str) -> None:
        self.both(
            lambda: self.store.remove_col_family_if_exists(name),
            lambda: self.spark_store.removeColFamilyIfExists(name),
        )
        self.families.discard(name)

    # -- versions

    @rule(rows=st.lists(ROWS, min_size=1, max_size=4))
    def batches(self, rows: list[bytes]) -> None:
        for row in rows:
            self.put(row, NUMBER, "default")
            self.commit(again=False, late=None)

    @rule(again=st.booleans(), late=st.sampled_from([None, "put", "remove", "commit", "abort"]))
    def commit(self, *, again: bool, late: str | None) -> None:
        """Commits a version, and goes on from it or begins another attempt at it."""
        version, before = self.store.commit(), self.at
        assert version == self.spark_store.commit() == before.version + 1
        self.misuse(late)
        if self.ids == 1:
            self.committed = [each for each in self.committed if each.version < version]
        self.committed.append(Attempt(version, self.new_ids(), frozenset(self.families)))
        self.open(before if again else self.committed[-1])

    def new_ids(self) -> tuple[str | None, str | None]:
        if self.ids == 1:
            return None, None
        mine, spark = self.store.state_store_checkpoint_info, self.theirs.info(self.spark_store)
        assert (mine.partition_id, mine.batch_version) == (
            spark.partitionId(),
            spark.batchVersion(),
        )
        assert mine.base_state_store_ckpt_id == self.at.ids[self.mine]
        assert unpacked(spark.baseStateStoreCkptId()) == self.at.ids[1 - self.mine]
        both = [str(mine.state_store_ckpt_id), unpacked(spark.stateStoreCkptId())]
        return both[self.mine], both[1 - self.mine]

    @rule(late=st.sampled_from([None, "put", "remove", "commit"]), data=st.data())
    def abort(self, late: str | None, data: st.DataObject) -> None:
        self.drop()
        self.misuse(late)
        self.open(data.draw(st.sampled_from(self.committed)))

    def misuse(self, late: str | None) -> None:
        """Uses stores that were committed or aborted."""
        key, value = self.theirs.key(ROW), self.theirs.value(NUMBER)
        ours, theirs = self.store, self.spark_store
        calls: dict[str | None, tuple[Callable[[], object], Callable[[], object]]] = {
            "put": (lambda: ours.put(ROW, NUMBER), lambda: theirs.put(key, value, "default")),
            "remove": (lambda: ours.remove(ROW), lambda: theirs.remove(key, "default")),
            "commit": (ours.commit, theirs.commit),
            "abort": (ours.abort, theirs.abort),
        }
        if late:
            self.both(*calls[late])

    @rule(exchange=st.booleans())
    def restart(self, *, exchange: bool) -> None:
        """Begins new providers, each perhaps in the folder of the other."""
        self.drop()
        self.stop()
        if exchange:
            self.mine = 1 - self.mine
        self.start()
        self.open(self.at)

    # -- maintenance

    @precondition(lambda self: self.at.version)
    @rule()
    def maintain(self) -> None:
        self.drop()
        folder, copy = self.folders[self.mine], self.root / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        before = files_of(folder)
        self.ours.do_maintenance()
        after = files_of(folder)
        for name in after - before:  # a snapshot that was due
            (copy / name).parent.mkdir(exist_ok=True)
            shutil.copy(folder / name, copy / name)
        spark = self.spark_provider(copy)
        spark.maintain()
        spark.close()
        assert not (before - after) & files_of(copy)  # Spark would have deleted them as well
        self.theirs.maintain()
        self.judge()
        self.open(self.at if self.at in self.committed else self.committed[-1])

    def judge(self) -> None:
        """Has both read every version in both folders; those that are lost are forgotten."""
        left = [*zip(*(self.judged(number) for number in (0, 1)), strict=True)]
        for attempt, loads in zip(self.committed, left, strict=True):
            if attempt.version >= self.oldest_retained(self.folders[self.mine]):
                assert loads[self.mine]
        pairs = zip(self.committed, left, strict=True)
        self.committed = [attempt for attempt, loads in pairs if all(loads)]

    def judged(self, number: int) -> Iterator[bool]:
        """Yields whether each version loads from a folder, which both must agree about."""
        folder = self.folders[number]
        ours, theirs = self.our_provider(folder), self.spark_provider(folder)
        for attempt in self.committed:
            try:
                store = self.our_store(ours, attempt, number)
            except CannotLoadStateStoreError:
                with pytest.raises(REFUSALS):
                    self.their_store(theirs, attempt, number)
                yield False
                continue
            spark_store = self.their_store(theirs, attempt, number)
            for family in ("default", *attempt.families):
                rows = self.ordered(store.iterator(*self.named(family)))
                assert rows == self.ordered(pairs(spark_store.iterator(family)))
                for key in (key for key, _ in rows if family == "list"):
                    some = spark_store.valuesIterator(theirs.key(key), family)
                    assert [*store.values_iterator(key, family)] == values(some)
            store.abort()
            spark_store.abort()
            yield True
        theirs.close()

    def oldest_retained(self, folder: Path) -> int:
        newest = {name: version_of(Path(name)) for name in files_of(folder)}
        if self.hdfs:
            return max(newest.values(), default=0) - RETAINED
        zips = (version for name, version in newest.items() if name.endswith(".zip"))
        return max(zips, default=0) - RETAINED + 1


def version_of(file: Path) -> int:
    """Returns the version in the name of a store's file; 0 for SST files."""
    number = re.match(r"[1-9][0-9]*(?=[._])", file.name)
    return int(number[0]) if number else 0


def files_of(folder: Path) -> set[str]:
    """Returns the files of a store without checksums."""
    files = (file for file in folder.rglob("*") if file.is_file() and file.suffix != ".crc")
    return {file.relative_to(folder).as_posix() for file in files}


def rewind(folder: Path, version: int) -> None:
    """Deletes what is above a version, but not the changes of the next one, to be replaced.

    Spark would load a snapshot there in place of what is written.
    """
    for file in folder.glob("state/0/0/*"):
        above = version_of(file) - version
        if above > 1 or (above == 1 and file.suffix in (".zip", ".snapshot")):
            file.unlink()
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def bytes_of(row: Any) -> bytes | None:
    return None if row is None else bytes(row.getBytes())


def outcome(call: Callable[[], object], *refusals: type[Exception]) -> object:
    try:
        return call()
    except refusals as error:
        return error


def test_both_do_the_same_step_by_step(spark: SparkSession, tmp_path: Path) -> None:
    class Machine(BesideSpark):
        def __init__(self) -> None:
            super().__init__(spark, tmp_path)

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=[*HealthCheck],
            print_blob=True,
        ),
    )
