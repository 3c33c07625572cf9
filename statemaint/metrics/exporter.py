"""The metrics of all queries of a file, from records that are read in the background.

A scrape never waits for a storage: it shows the last reading. Each reading is one small file of
each checkpoint. A query whose record cannot be read keeps its series for a while, then loses them,
so that old values do not look new; `exporter_read_failed` reports it immediately.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from threading import Lock

from prometheus_client.metrics_core import Metric as Family

from statemaint.errors import NotFoundError, StatemaintError
from statemaint.maintain.record import record_in
from statemaint.metrics.families import about, families, family, problem_families
from statemaint.metrics.healthy import served
from statemaint.metrics.options import Named
from statemaint.metrics.page import Page, Rows, page_text, rows_of
from statemaint.records.runs import METRICS
from statemaint.storage import Storage, storage_around

READERS = 16
"""The number of records that are read at a time."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """A query, and the address of its checkpoint."""

    named: Named
    address: str


@dataclass(frozen=True, slots=True)
class RecordPlaces:
    """The queries to show, and the file that has them.

    Attributes:
        queries: the queries of this exporter.
        known: the number of queries in the file, those of other shards included.
        problems: the mistakes in it, as `problem_families` expects them.
        labels: the labels of the installation.
    """

    queries: tuple[RecordPlace, ...]
    known: int
    problems: Sequence[tuple[str, int, str]] = ()
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Reading:
    """The last reading of a query; a failed one has the series of the last that succeeded."""

    named: Named
    rows: Rows
    digest: bytes = b""
    time: float | None = None
    failed: bool = False


class Exporter:
    """The metrics of all queries of a file.

    `refresh` reads and `page` shows; they may run at the same time.

    Args:
        load: returns the queries, again before each reading.
        open_storage: opens a storage, which is kept open between readings.
        clock: the time, in seconds since the epoch.
        keep: the seconds for which a record that can no longer be read is shown.

    Attributes:
        page: the page to serve.
        ended: when the last reading ended; `None` before the first.
    """

    def __init__(
        self,
        load: Callable[[], RecordPlaces],
        open_storage: Callable[[str], Storage],
        clock: Callable[[], float],
        *,
        keep: float = 900.0,
    ) -> None:
        self._load, self._open, self._clock, self._keep = load, open_storage, clock, keep
        self._opening = Lock()
        self._storages: dict[str, Storage] = {}
        self._readings: dict[str, _Reading] = {}
        self.page = Page()
        self.ended: float | None = None

    def refresh(self) -> None:
        """Reads the record of every query; a query that is no longer in the file is forgotten."""
        places = self._load()
        with ThreadPoolExecutor(READERS, "statemaint-exporter") as readers:
            readings = [*readers.map(self._read, places.queries)]
        self._readings = {reading.named.query: reading for reading in readings}
        used = {storage_around(place.address)[0] for place in places.queries}
        self._storages = {root: one for root, one in self._storages.items() if root in used}
        ended = self._clock()
        rows = [rows_of(_own(places, readings, ended)), *map(self._rows, readings)]
        self.page, self.ended = Page(page_text(rows)), ended

    def _read(self, place: RecordPlace) -> _Reading:
        before = self._readings.get(place.named.query)
        before = before or _Reading(place.named, _without_record(place.named))
        try:
            content = self._content(place.address)
            digest = blake2b(content, digest_size=16).digest()
            same = (before.named, before.digest) == (place.named, digest)
            rows = before.rows if same else _rows(place.named, content)
        except StatemaintError as error:
            _log.warning("%s: %s: %s", place.named.query, error.code, error)
            return replace(before, failed=True)
        except Exception:  # noqa: BLE001 -- one query's fault must not stop the others
            _log.exception("%s", place.named.query)
            return replace(before, failed=True)
        return _Reading(place.named, rows, digest, self._clock())

    def _content(self, address: str) -> bytes:
        """Returns the content of a record; empty if there is none."""
        root, folder = storage_around(address)
        with self._opening:
            if root not in self._storages:
                self._storages[root] = self._open(root)
        try:
            return self._storages[root].read(f"{folder}/{METRICS}" if folder else METRICS)
        except NotFoundError:
            return b""

    def _rows(self, reading: _Reading) -> Rows:
        aged = reading.time is not None and self._clock() - reading.time > self._keep
        return _without_record(reading.named) if reading.failed and aged else reading.rows


def _own(places: RecordPlaces, readings: list[_Reading], ended: float) -> Iterator[Family]:
    yield family("exporter_queries", places.labels, [({}, places.known)])
    yield family("exporter_last_reading_timestamp_seconds", places.labels, [({}, ended)])
    yield from problem_families(places.problems, places.labels)
    failed = (({**_labels(one), "storage": one.named.storage}, one.failed) for one in readings)
    yield family("exporter_read_failed", {}, failed)
    times = ((_labels(one), one.time) for one in readings if one.time is not None)
    yield family("exporter_read_timestamp_seconds", {}, times)


def _labels(reading: _Reading) -> dict[str, str]:
    return reading.named.labels


def _rows(named: Named, content: bytes) -> Rows:
    record = record_in(content) if content else None
    return rows_of(served(families(named, record))) if record else _without_record(named)


def _without_record(named: Named) -> Rows:
    return rows_of(about(named))
