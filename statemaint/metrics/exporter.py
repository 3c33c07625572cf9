"""A server for scraping: the records of all queries of a file, read in the background.

A scrape never waits for a storage: it shows the last reading. Each reading is one small file of
each checkpoint. A query whose record cannot be read keeps its series for a while, then loses them,
so that old values do not look new; `exporter_read_failed` reports it immediately.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import Lock

from prometheus_client.metrics_core import Metric as Family

from statemaint.errors import StatemaintError
from statemaint.maintain.record import read_record
from statemaint.metrics.families import about, families, family, merged
from statemaint.metrics.options import Named
from statemaint.report.record import Record
from statemaint.storage import Storage

READERS = 8
"""The number of records that are read at a time."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """A query, and how its checkpoint is opened."""

    named: Named
    open: Callable[[], Storage]


@dataclass(frozen=True, slots=True)
class RecordPlaces:
    """The queries of a file, and the number of mistakes in it.

    Attributes:
        queries: the queries.
        problems: the number of mistakes.
        labels: the labels of the installation.
    """

    queries: tuple[RecordPlace, ...]
    problems: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecordReading:
    """The reading of a query.

    Attributes:
        named: the data of its metrics beyond its record.
        record: the record that was read last; `None` if there is none.
        time: when it was read; `None` before the first time.
        failed: whether the last reading failed.
    """

    named: Named
    record: Record | None = None
    time: float | None = None
    failed: bool = False


class Exporter:
    """The metrics of all queries of a file, as a collector of prometheus_client.

    `refresh` reads and `collect` shows; they may run at the same time.

    Args:
        load: returns the queries, again before each reading.
        clock: the time, in seconds since the epoch.
        keep: the seconds for which a record that can no longer be read is shown.
    """

    def __init__(
        self, load: Callable[[], RecordPlaces], clock: Callable[[], float], *, keep: float = 900.0
    ) -> None:
        self._load, self._clock, self._keep = load, clock, keep
        self._lock = Lock()
        self._readings: dict[str, RecordReading] = {}
        self._made: list[Family] = []

    def refresh(self) -> None:
        """Reads the record of every query; a query that is no longer in the file is forgotten."""
        sources = self._load()
        with ThreadPoolExecutor(READERS, "statemaint-exporter") as readers:
            readings = [*readers.map(self._read, sources.queries)]
        self._readings = {one.named.query: one for one in readings}
        made = [*self._all(readings, sources)]
        with self._lock:
            self._made = made

    def collect(self) -> Iterator[Family]:
        """Yields the families of all queries."""
        with self._lock:
            made = self._made
        yield from made

    def _all(self, readings: list[RecordReading], sources: RecordPlaces) -> Iterator[Family]:
        yield family("exporter_queries", sources.labels, [({}, len(readings))])
        yield family("exporter_problems", sources.labels, [({}, sources.problems)])
        yield from merged([*self._families(one)] for one in readings)

    def _read(self, source: RecordPlace) -> RecordReading:
        before = self._readings.get(source.named.query, RecordReading(source.named))
        try:
            record = read_record(source.open())
        except StatemaintError as error:
            _log.warning("%s: %s: %s", source.named.query, error.code, error)
            return replace(before, named=source.named, failed=True)
        except Exception:  # noqa: BLE001 -- one query's fault must not stop the others
            _log.exception("%s", source.named.query)
            return replace(before, named=source.named, failed=True)
        return RecordReading(source.named, record, self._clock())

    def _families(self, one: RecordReading) -> Iterator[Family]:
        common = one.named.labels
        failed = {**common, "storage": one.named.storage}
        yield family("exporter_read_failed", failed, [({}, one.failed)])
        if one.time is not None:
            yield family("exporter_read_timestamp_seconds", common, [({}, one.time)])
        if one.record and not self._outdated(one):
            yield from families(one.named, one.record)
        else:
            yield from about(one.named)

    def _outdated(self, one: RecordReading) -> bool:
        return one.failed and one.time is not None and self._clock() - one.time > self._keep
