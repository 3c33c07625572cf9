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

import click

from statemaint.cli.options import Duration, as_json
from statemaint.cli.output import headed
from statemaint.cli.published import named_of
from statemaint.errors import ConfigError, NotInstalledError
from statemaint.metrics.options import labels_of, namespace_of, origins_of
from statemaint.queries import read_queries
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
        from prometheus_client import CollectorRegistry, start_http_server
    except ImportError as error:
        raise NotInstalledError("prometheus-client", extra="metrics") from error

    from statemaint.metrics.exporter import Exporter  # noqa: PLC0415 -- only this verb needs it

    if bool(certificate) != bool(key):
        raise ConfigError("--certificate and --key require each other; use both or neither")
    _sources(file)  # an unreadable file is the caller's error
    exporter = Exporter(partial(_sources, file), time.time, keep=keep)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(exporter)
    try:
        server, thread = start_http_server(port, host, registry, certfile=certificate, keyfile=key)
    except OSError as error:
        raise ConfigError(f"{host}:{port}: {error.strerror or error}") from None
    try:
        exporter.refresh()  # already listening, so that a slow storage does not cause a restart
        _say(f"http{'s' if certificate else ''}://{host}:{server.server_port}", as_json=as_json)
        _until_stopped(exporter.refresh, every)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


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


def _sources(file: str) -> "RecordPlaces":
    from statemaint.metrics.exporter import RecordPlace, RecordPlaces  # noqa: PLC0415 -- as above

    reading = read_queries(file)
    queries = {name: one for name, one in reading.queries.items() if one.enabled}
    if not reading.usable:
        raise ConfigError("; ".join(map(str, reading.problems)))
    (origin, _), namespace = origins_of(os.environ, reading.path), namespace_of(os.environ)
    places = tuple(
        RecordPlace(
            named_of(reading, name),
            partial(open_storage, one.checkpoint),
        )
        for name, one in sorted(queries.items())
    )
    return RecordPlaces(places, len(reading.all_problems), labels_of(origin, namespace))
