"""What metrics cost: `python -m tests.benchmarks.metrics`, without Spark, in a minute.

A real `statemaint exporter` is scraped for 50 queries of 200 join partitions, and a run's report
pushes to servers that answer slowly or never.
"""

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import ProxyHandler, build_opener

import click
import psutil
import yaml

from statemaint.maintain import maintain
from statemaint.maintain.record import write_record
from statemaint.metrics.options import Targets
from statemaint.metrics.publish import publish_record, publish_waiting
from statemaint.model.policy import Policy
from statemaint.report.record import Record, next_record
from statemaint.storage import LocalStorage
from tests.support.checkpoints import JOIN
from tests.support.metrics import ended, named, neglected
from tests.support.serving import served
from tools.demo.processes import wait_until
from tools.demo.prometheus import Server, exporter

QUERIES, PARTITIONS, SCRAPES = 50, 200, 20
_READ = "statemaint_exporter_read_timestamp_seconds{"


def record_of(partitions: int) -> Record:
    """Returns the record of a run over a join, with series for each partition."""
    now = time.time()
    report = maintain(neglected(now, partitions, JOIN), Policy(min_deltas_for_snapshot=1000))
    return next_record(None, ended(report, now, every_unit=True))


def scrapes(record: Record, folder: Path) -> None:
    """Prints what a scrape of the exporter is, and how long it takes."""
    entries = {}
    for number in range(QUERIES):
        place = folder / f"q{number:02}"
        place.mkdir(exist_ok=True)
        write_record(LocalStorage(place), record)
        entries[place.name] = {"checkpoint": str(place)}
    file = folder / "queries.yaml"
    file.write_text(yaml.safe_dump({"queries": entries}))
    with exporter(folder, file, every="10m") as server:
        get = _getter(f"{server.url}/metrics")
        assert wait_until(lambda: get().count(_READ) == QUERIES, seconds=60)
        before = _busy(server)
        taken = [*map(_timed, [get] * SCRAPES)]
        busy = (_busy(server) - before) / SCRAPES
        text = get()
    series = sum(not line.startswith("#") for line in text.splitlines())
    click.echo(
        f"{QUERIES} queries of {PARTITIONS} join partitions: "
        f"{series} series, {len(text) / 1e6:.2f} MB; a scrape takes "
        f"{statistics.median(taken):.3f} s in the middle, {max(taken):.3f} s at most, and "
        f"{busy:.3f} s of a processor"
    )


def pushes(record: Record) -> None:
    """Prints how long a run waits for a Pushgateway."""
    known = frozenset({"q"})
    for name, delay in (("at once", 0.0), ("after 2 s", 2.0), ("never", 600.0)):
        with slow_server(delay) as url:
            targets = Targets(url, known=known, detailed=known)
            about = named("q", every_unit=True)
            waiting = _timed(lambda: publish_waiting(about, 1.0, targets))  # noqa: B023 -- used here
            report = _timed(lambda: publish_record(about, record, targets))  # noqa: B023 -- as above
        click.echo(
            f"a Pushgateway that answers {name}: {waiting:.1f} s for the wait for a lease, "
            f"{report:.1f} s for the report, {waiting + report:.1f} s in all"
        )


@contextmanager
def slow_server(delay: float) -> Iterator[str]:
    """Runs a server that answers everything after a while."""
    ended_here = threading.Event()

    class Slow(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"] or 0))
            ended_here.wait(delay)
            body = b'{"data": []}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_PUT = do_GET  # noqa: N815 -- the library calls them by these names

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:  # the other side has left
                return

    with served(Slow) as url:
        try:
            yield url
        finally:
            ended_here.set()


def _getter(url: str) -> Callable[[], str]:
    opener = build_opener(ProxyHandler({}))

    def get() -> str:
        with opener.open(url, timeout=60) as answer:
            return str(answer.read().decode())

    return get


def _busy(server: Server) -> float:
    times = psutil.Process(server.process.pid).cpu_times()
    return float(times.user + times.system)


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


@click.command(help=__doc__)
def main() -> None:
    """Measures and prints."""
    record = record_of(PARTITIONS)
    with TemporaryDirectory(prefix="statemaint-metrics-") as folder:
        scrapes(record, Path(folder))
    pushes(record)


if __name__ == "__main__":
    main()
