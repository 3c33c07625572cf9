"""What is reported of a savepoint, and noted in the record of its query."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from math import ceil
from statistics import median_low

from statemaint.maintain.record import note_savepoint
from statemaint.records.savepoints import SavepointNote
from statemaint.report.record import LastSavepoint
from statemaint.savepoint.plan import committed_batches
from statemaint.storage import Storage
from statemaint.wording import Displayed, counted, quoted

_IDS = "spark.sql.streaming.stateStore.checkpointFormatVersion"


@dataclass(frozen=True, slots=True)
class PartitionSizes:
    """The bytes of keys and values in the partitions of an operator."""

    partitions: int
    largest: int
    median: int

    @classmethod
    def of(cls, sizes: Collection[int]) -> "PartitionSizes":
        return cls(len(sizes), max(sizes), median_low(sizes))


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorForecast:
    """What the savepoint of an operator would take."""

    operator: int
    rows: int
    bytes: int  # of all keys and values
    stores: int  # to be written
    memory: int  # the most bytes that rows take while one of its stores is written
    spill: int  # the most bytes that rows of all its stores take in the temporary directory
    before: PartitionSizes
    after: PartitionSizes


@dataclass(frozen=True, slots=True, repr=False)
class SavepointReport(Displayed):
    """A savepoint, as it is or, of a dry run, as it would be."""

    dest: str  # its address
    note: SavepointNote  # without stores and logs if it was not written
    stores: int
    read: int = 0  # the stored bytes of the chains that its stores are folded from
    continued: int = 0  # the stores that an earlier, killed run had written
    starts: int = 1  # how often it was begun, as the query cleaned up what was being read
    dry_run: bool = False
    found: bool = False  # whether it was whole before
    unchecked: tuple[str, ...] = ()  # the sources that may be unable to go on; none if complete
    operators: tuple[OperatorForecast, ...] = ()  # of a dry run that has counted rows

    def _facts(self) -> Iterator[str]:
        yield quoted(self.dest)
        yield f"batch {self.note.batch}"
        yield counted(self.stores, "store")
        if self.dry_run:
            yield "dry run"

    @property
    def code(self) -> tuple[str, ...]:
        """Returns the lines of the query's code that have it start from here.

        The offset log binds everything else of a shape, whatever the session has
        (`OffsetSeqMetadata.setSessionConf`), but the structure, which only Spark 4.3 takes from the
        commit log.
        """
        ids = self.note.after.ids
        other = ids is not None and ids != self.note.before.ids
        setting = (f'spark.conf.set("{_IDS}", "{str(ids)[1:]}")',) if other else ()
        return (*setting, f'.option("checkpointLocation", "{self.dest}")')

    def partitions_of(self, size: int) -> int:
        """Returns the number of partitions that have at most `size` bytes of rows on average.

        The largest operator decides, but for those that always have one partition.
        """
        count = self.note.before.partitions
        sizes = (each.bytes for each in self.operators if each.before.partitions == count)
        return max(1, ceil(max(sizes, default=0) / size))

    @property
    def rows(self) -> int:
        return sum(store.rows for store in self.note.stores)

    @property
    def written(self) -> int:
        return sum(self.note.files.values())


def note_in_record(source: Storage, report: SavepointReport) -> LastSavepoint | None:
    """Adds a savepoint to the record of its query, which metrics show; a failure is only logged.

    A fork is not a savepoint of the query. One that was whole before is as good as a new one if the
    query has committed no batch since.
    """
    note = report.note
    if report.dry_run or note.ended is None or note.forked:
        return None
    if report.found and note.batch < max(committed_batches(source), default=0):
        return None
    seconds = note.ended - note.begun
    newest = LastSavepoint(source.now(), note.batch, report.written, seconds)
    note_savepoint(source, newest)
    return newest
