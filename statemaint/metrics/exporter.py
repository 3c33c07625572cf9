"""The metrics of all queries of a file, from records that are read in the background.

A scrape never waits for a storage: it shows the last reading. Each reading is one small file of
each checkpoint. A query whose record cannot be read keeps its series for a while, then loses them,
so that old values do not look new; `exporter_read_failed` reports it immediately.

The page is text of Prometheus's format, made once for each reading. The series of a query are kept
as text, because those of thousands change rarely, and the page is kept compressed, as Prometheus
requests it. A push must write zeros, because they replace what the last push wrote. The page is a
whole picture, so it leaves out the zeros of which the dashboards know that they are zeros
(`helm/dashboards/promql.py`), and the details of what is well. Everything unknown stays as it is.
"""

import logging
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import (
    CollectorRegistry,
    ProcessCollector,
    generate_latest,
    start_http_server,
)
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

from statemaint.errors import ConfigError, NotFoundError, StatemaintError
from statemaint.maintain.record import record_in
from statemaint.metrics.catalogue import METRICS, PREFIX
from statemaint.metrics.families import about, families, family, problem_families
from statemaint.metrics.options import Named
from statemaint.records import runs
from statemaint.storage import Storage

READERS = 16
"""The number of records that are read at a time."""
# The queries that a thread takes at once: handing each over by itself takes as long as to read it.
_PAGE = 10

Rows = tuple[str, ...]
"""The samples of some families as text, one element for each metric of the catalogue."""

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_FASTEST, _GZIP = 1, 31
# Left out where they are 0. Counters are not among them: increase() needs their beginning.
_ZEROS = {
    "halted_store",
    "last_run_storage_errors",
    "last_run_trash_bytes_deleted",
    "last_run_trash_files_deleted",
    "lease_held_timestamp_seconds",
    "stores_unloadable",
    "stores_unproved",
    "last_verify_failed",
    "trash_files",
}
# Of these one series is always there, and the others where they are not 0.
_ALWAYS = {
    "last_run_failed": "storage",  # alerts count the queries of a storage by it
    "last_run_files_deleted": "below_base",
    "last_run_tasks": "reported",
    "runs": "succeeded",
    "snapshots_withheld": "max_seconds_per_run",
    "stores": "halted",
}
_BOUNDS = {
    "store_chain_length": ("10.0", "200.0", "+Inf"),
    "store_size_bytes": ("67108864.0", "+Inf"),
    "task_seconds": ("900.0", "+Inf"),
}
_WORST = "worst_partition_"
# Beyond the first, a partition is served if its restart takes longer, or does not end.
_SLOW_SECONDS, _LONG_CHAIN = 30.0, 50.0

_log = logging.getLogger(__name__)
_CONTENT = [("Content-Type", "text/plain; version=0.0.4; charset=utf-8")]


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """A query, and the address of its checkpoint."""

    named: Named
    address: str


@dataclass(frozen=True, slots=True)
class RecordPlaces:
    """The queries to show, and what is known of the file that has them."""

    queries: tuple[RecordPlace, ...]
    known: int  # the number of queries in the file, those of other shards included
    problems: Sequence[tuple[str, int, str]] = ()  # as `problem_families` expects them
    labels: Mapping[str, str] = field(default_factory=dict)  # of the installation


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

    `refresh` reads and `page` shows; they may run at the same time. `ended` is when the last
    reading ended. A record that can no longer be read is shown for `keep` seconds.
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
        self._readings: dict[str, _Reading] = {}
        self.page = Page()
        self.ended: float | None = None

    def refresh(self) -> None:
        """Reads the record of every query; a query that is no longer in the file is forgotten."""
        places = self._load()
        starts = range(0, len(places.queries), _PAGE)
        pages = [places.queries[start : start + _PAGE] for start in starts]
        with ThreadPoolExecutor(READERS, "statemaint-exporter") as readers:
            read = readers.map(lambda page: [self._read(place) for place in page], pages)
            readings = [*chain.from_iterable(read)]
        self._readings = {reading.named.query: reading for reading in readings}
        ended = self._clock()
        rows = [rows_of(_own(places, readings, ended)), *map(self._rows, readings)]
        self.page, self.ended = Page(page_text(rows)), ended

    def _read(self, place: RecordPlace) -> _Reading:
        before = self._readings.get(place.named.query)
        before = before or _Reading(place.named, rows_of(about(place.named)))
        try:
            content = b""
            with suppress(NotFoundError):
                content = self._open(place.address).read(runs.METRICS)
            digest = blake2b(content, digest_size=16).digest()
            same = (before.named, before.digest) == (place.named, digest)
            rows = before.rows if same else _rows(place.named, content)
        except StatemaintError as error:
            _log.warning("%s: %s: %s", place.named.query, error.code, error)
        except Exception:  # noqa: BLE001 -- one query's fault must not stop the others
            _log.exception("%s", place.named.query)
        else:
            return _Reading(place.named, rows, digest, self._clock())
        # Its storage may be another than before; the rows have their labels of then.
        return replace(before, named=place.named, digest=b"", failed=True)

    def _rows(self, reading: _Reading) -> Rows:
        aged = reading.time is not None and self._clock() - reading.time > self._keep
        return rows_of(about(reading.named)) if reading.failed and aged else reading.rows


def _own(places: RecordPlaces, readings: list[_Reading], ended: float) -> Iterator[Family]:
    yield family("exporter_queries", places.labels, [({}, places.known)])
    yield family("exporter_last_reading_timestamp_seconds", places.labels, [({}, ended)])
    yield from problem_families(places.problems, places.labels)
    failed = (
        ({**each.named.labels, "storage": each.named.storage}, each.failed) for each in readings
    )
    yield family("exporter_read_failed", {}, failed)
    times = ((each.named.labels, each.time) for each in readings if each.time is not None)
    yield family("exporter_read_timestamp_seconds", {}, times)


def _rows(named: Named, content: bytes) -> Rows:
    record = record_in(content) if content else None
    return rows_of(served(families(named, record))) if record else rows_of(about(named))


@contextmanager
def serving(
    exporter: Exporter, host: str, port: int, *, certificate: str | None, key: str | None
) -> Iterator[int]:
    """Serves an exporter's page, before its first reading as well; yields the port."""
    try:
        server, thread = start_http_server(port, host, CollectorRegistry(), certificate, key)
    except OSError as error:
        raise ConfigError(f"{host}:{port}: {error.strerror or error}") from None
    server.set_app(app_of(exporter))
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def app_of(exporter: Exporter) -> WSGIApplication:
    process = CollectorRegistry()
    ProcessCollector(registry=process)

    def metrics(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        zipped = "gzip" in environ.get("HTTP_ACCEPT_ENCODING", "")
        start("200 OK", [*_CONTENT, *([("Content-Encoding", "gzip")] if zipped else [])])
        page, more = exporter.page, generate_latest(process)
        return page.zipped(more) if zipped else page.plain(more)

    def app(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path in ("/metrics", "/"):
            return metrics(environ, start)
        if path == "/-/healthy":
            status, text = "200 OK", "yes"
        elif path == "/-/ready" and exporter.ended is not None:
            status, text = "200 OK", f"yes: the last reading ended at {exporter.ended:.3f}"
        elif path == "/-/ready":
            status, text = "503 Service Unavailable", "no: the first reading has not ended"
        else:
            status, text = "404 Not Found", "there are /metrics, /-/healthy and /-/ready"
        start(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{text}\n".encode()]

    return app


def rows_of(families: Iterable[Family]) -> Rows:
    by_name = {family.name: _lines(family) for family in families}
    return tuple([by_name.get(metric.base, "") for metric in METRICS])


def page_text(several: Sequence[Rows]) -> Iterator[str]:
    """Yields the text of several queries' families, each family once with the series of all."""
    for metric, texts in zip(METRICS, zip(*several, strict=True), strict=True):
        if lines := "".join(texts):
            yield f"# HELP {metric.full} {metric.question}\n# TYPE {metric.full} {metric.kind}\n"
            yield lines


def _lines(family: Family) -> str:
    lines = [
        f"{sample.name}{_labels(tuple(sample.labels.items()))} {_number(sample.value)}\n"
        for sample in family.samples
    ]
    return "".join(lines)


@lru_cache(maxsize=8192)
def _number(value: float) -> str:
    return str(floatToGoString(value))  # type: ignore[no-untyped-call]


@lru_cache(maxsize=256)  # the series of a query follow one another
def _labels(labels: tuple[tuple[str, str], ...]) -> str:
    if not labels:
        return ""
    return "{" + ",".join([f'{key}="{_escaped(value)}"' for key, value in labels]) + "}"


@lru_cache(maxsize=8192)
def _escaped(value: str) -> str:
    return value.translate(_ESCAPES)


class Page:
    """A text that is kept compressed, and continues with what is made for each scrape."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._packer = zlib.compressobj(_FASTEST, wbits=_GZIP)
        self._pieces = [*filter(None, (self._packer.compress(text.encode()) for text in texts))]

    def zipped(self, more: bytes) -> Iterator[bytes]:
        packer = self._packer.copy()
        yield from self._pieces
        yield packer.compress(more) + packer.flush()

    def plain(self, more: bytes) -> Iterator[bytes]:
        unpacker = zlib.decompressobj(_GZIP)
        yield from map(unpacker.decompress, self.zipped(more))


def served(families: Iterable[Family]) -> Iterator[Family]:
    """Removes the series that a healthy query need not have, and yields its families."""
    whole = [*families]
    bad = _bad_partitions(whole)
    for each in whole:
        each.samples = [*_kept(each.name.removeprefix(PREFIX), each.samples, bad)]
        yield each


def _kept(name: str, samples: list[Sample], bad: set[str]) -> Iterable[Sample]:
    if name in _ZEROS:
        return (sample for sample in samples if sample.value != 0)
    if name in _ALWAYS:
        return (x for x in samples if x.value != 0 or _ALWAYS[name] in x.labels.values())
    if name in _BOUNDS:
        return (sample for sample in samples if sample.labels.get("le") in _BOUNDS[name])
    if name.startswith(_WORST):
        first = samples[:1]
        return first + [sample for sample in samples[1:] if _partition(sample) in bad]
    if name == "last_run_storage_requests" and samples:
        total = sum(sample.value for sample in samples)
        return [Sample(samples[0].name, {**samples[0].labels, "verb": "all"}, total)]
    return samples


def _bad_partitions(families: Iterable[Family]) -> set[str]:
    limits = {f"{_WORST}restart_seconds": _SLOW_SECONDS, f"{_WORST}chain_length": _LONG_CHAIN}
    return {
        _partition(sample)
        for family in families
        if (limit := limits.get(family.name.removeprefix(PREFIX))) is not None
        for sample in family.samples
        if not sample.value <= limit  # NaN: it does not load
    }


def _partition(sample: Sample) -> str:
    return f"{sample.labels['operator']}/{sample.labels['partition']}"
