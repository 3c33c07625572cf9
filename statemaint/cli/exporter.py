"""`exporter`: serves the metrics of all queries of a file, to be scraped."""

import json
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING
from zlib import crc32

import click

from statemaint.cli.options import Duration, Share, as_json
from statemaint.cli.output import headed
from statemaint.cli.published import named_of
from statemaint.errors import ConfigError, NotInstalledError
from statemaint.metrics.options import labels_of, namespace_of, origins_of
from statemaint.queries import InvalidQueriesError, QueriesReader, state_folder
from statemaint.storage import open_storage

if TYPE_CHECKING:
    from statemaint.metrics.exporter import RecordPlaces

_EVERY, _KEEP = 60.0, 900.0


@click.command("exporter")
@click.option(
    "--queries",
    "file",
    metavar="FILE",
    type=click.Path(),
    required=True,
    help="The queries file.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9808,
    show_default=True,
    help="The port to listen on; 0 for any free port.",
)
@click.option(
    "--host",
    default="0.0.0.0",  # noqa: S104 -- as exporters do; it shows no secret
    show_default=True,
    help="The address of the interface to listen on; 127.0.0.1 for this machine only.",
)
@click.option(
    "--every", type=Duration(), default=_EVERY, help="The time between readings.  [default: 1m]"
)
@click.option(
    "--keep",
    type=Duration(),
    default=_KEEP,
    help="How long to keep the series of a query that can no longer be read.  [default: 15m]",
)
@click.option(
    "--shard",
    metavar="I/N",
    type=Share(),
    default="1/1",
    help="Serve the Ith of N parts of the queries, the same after each start.  [default: 1/1]",
)
@click.option(
    "--certificate", metavar="PEM", type=click.Path(), help="Serve TLS with this certificate."
)
@click.option("--key", metavar="PEM", type=click.Path(), help="Its key.")
@as_json
def exporter_verb(  # noqa: PLR0913, PLR0917 -- each is a separate choice
    file: str,
    port: int,
    host: str,
    every: float,
    keep: float,
    shard: tuple[int, int],
    certificate: str | None,
    key: str | None,
    *,
    as_json: bool,
) -> None:
    """Serve the metrics of all queries of a file, for Prometheus to scrape.

    Reads one small file of each checkpoint, which every run replaces; never a state directory. A
    scrape shows the last reading and never waits. The queries file is read again before
    each reading. Airflow connections are unavailable: set keys in the environment.
    """
    try:
        from statemaint.metrics.server import serving  # noqa: PLC0415 -- only this verb needs it
    except ImportError as error:
        raise NotInstalledError("prometheus-client", extra="metrics") from error

    from statemaint.metrics.exporter import Exporter  # noqa: PLC0415 -- as above

    if bool(certificate) != bool(key):
        raise ConfigError("--certificate and --key require each other; use both or neither")
    reader = QueriesReader(file, clock=time.time, folder=state_folder(os.environ))
    exporter = Exporter(partial(_places, reader, shard), open_storage, time.time, keep=keep)
    # Already listening, so that a large file or a slow storage does not cause a restart.
    with serving(exporter, host, port, certificate=certificate, key=key) as port_used:
        reading = reader.read()
        if not (reading.usable or reading.queries):
            raise InvalidQueriesError(reading.problems)
        exporter.refresh()
        _say(f"http{'s' if certificate else ''}://{host}:{port_used}", as_json=as_json)
        _until_stopped(exporter.refresh, every)


def _say(url: str, *, as_json: bool) -> None:
    document = headed({"url": f"{url}/metrics"}, None)
    click.echo(json.dumps(document) if as_json else f"serving {url}/metrics")


def _until_stopped(work: Callable[[], None], every: float) -> None:
    """Repeats something until SIGTERM or Ctrl-C."""
    stop = Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, end)
    while not stop.wait(every):
        work()


def _places(reader: QueriesReader, shard: tuple[int, int]) -> "RecordPlaces":
    from statemaint.metrics.exporter import RecordPlace, RecordPlaces  # noqa: PLC0415 -- as above

    reading = reader.read()
    queries = {name: one for name, one in reading.queries.items() if one.enabled}
    (origin, _), namespace = origins_of(os.environ, reading.path), namespace_of(os.environ)
    number, shards = shard
    places = tuple(
        RecordPlace(named_of(reading, name), one.checkpoint)
        for name, one in sorted(queries.items())
        if crc32(name.encode()) % shards == number - 1
    )
    problems = tuple((one.file, one.line, one.entry) for one in reading.all_problems)
    return RecordPlaces(places, len(queries), problems, labels_of(origin, namespace))
