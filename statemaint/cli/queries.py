"""`queries` validates the file from which DAGs are built; `exporter` serves its metrics."""

import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import click

from statemaint import __version__
from statemaint.cli import tables
from statemaint.cli.options import DURATION, SHARE, as_json
from statemaint.cli.output import FORMAT, Json, print_json, settings, tell
from statemaint.cli.targets import Address, queries_file
from statemaint.errors import ConfigError, NotInstalledError, StatemaintError
from statemaint.maintain.record import read_record, write_record
from statemaint.metrics.options import (
    GatewayAuth,
    Named,
    Targets,
    labels_of,
    namespace_of,
    origins_of,
)
from statemaint.queries.checks import expected_interval
from statemaint.queries.memory import state_folder
from statemaint.queries.models import DEFAULT_POOL, Query
from statemaint.queries.problems import InvalidQueriesError, Problem, unresolved
from statemaint.queries.reading import (
    QueriesReader,
    QueriesReading,
    in_order,
    is_in_shard,
    read_queries,
)
from statemaint.report.record import with_loss
from statemaint.storage import Storage, open_storage, storage_of
from statemaint.wording import counted

if TYPE_CHECKING:
    from statemaint.metrics.exporter import RecordPlaces

_log = logging.getLogger(__name__)


@click.command("queries")
@click.argument("config", metavar="[CONFIG]", nargs=-1, type=click.Path())
@click.argument("what", type=click.Choice(["validate", "list"]))
@as_json
def queries_verb(config: tuple[str, ...], what: str) -> None:
    """Validate the queries file from which Airflow's DAGs are generated, or list its queries.

    CONFIG is a file, or a folder whose files *.yaml and *.yml all count; by default that of
    --queries.
    """
    file = queries_file(config)
    reading = read_queries(file)
    queries = dict(sorted(reading.queries.items()))
    callbacks = unresolved(queries)
    wrong = (reading.problem_of(name, why, "notify", place) for name, place, why in callbacks)
    problems = in_order((*reading.all_problems, *wrong))
    if settings().as_json:
        print_json(_document(queries, problems))
    elif what == "list":
        listed = [(name, query.checkpoint) for name, query in queries.items()]
        tables.print_table(("query", "checkpoint"), listed)
    elif not problems:
        _print_valid(file, queries)
    for problem in problems:
        tell(f"statemaint: {ConfigError.code}: {problem}")
    if problems:
        sys.exit(ConfigError.exit_code)


def _document(queries: Mapping[str, Query], problems: Iterable[Problem]) -> Json:
    listed = [
        {"file": wrong.file, "line": wrong.line or None, "key": wrong.key, "problem": wrong.what}
        for wrong in problems
    ]
    return {
        "valid": not listed,
        "queries": {name: query.checkpoint for name, query in queries.items()},
        "disabled": [name for name, query in queries.items() if not query.enabled],
        "pools": _used(queries, "pool"),
        "executors": _used(queries, "executor"),
        "problems": listed,
    }


def _used(queries: Mapping[str, Query], setting: str) -> list[str]:
    """Returns the values of a setting that enabled queries have."""
    used = {getattr(query, setting) for query in queries.values() if query.enabled}
    return sorted(filter(None, used))


def _print_valid(config: str, queries: Mapping[str, Query]) -> None:
    tables.print_line(f"{config}: valid, {counted(len(queries), 'query', 'queries')}", wrap=False)
    if others := [pool for pool in _used(queries, "pool") if pool != DEFAULT_POOL]:
        tell(
            f"Airflow must have these pools, or the tasks wait forever: {', '.join(others)}; "
            f"create each with `airflow pools set NAME SLOTS TEXT` (the plugin creates only "
            f"{DEFAULT_POOL})"
        )
    if executors := _used(queries, "executor"):
        tell(
            f"Airflow's setting `executor` must have these, or the DAGs of their queries show only "
            f"an error: {', '.join(executors)}"
        )


def named_of(reading: QueriesReading, name: str) -> Named:
    query = reading.queries[name]
    return replace(
        _named(name, reading.path, query.checkpoint),
        interval=expected_interval(query.schedule),
        savepoint_interval=query.savepoint_interval,
        every_unit=query.detail == "partition",
        routing=reading.routing_of(name),
    )


def targets_of(reading: QueriesReading, name: str) -> Targets:
    head = reading.settings_of(name)
    auth = GatewayAuth(**head.pushgateway_auth.model_dump()) if head.pushgateway_auth else None
    if auth and auth.connection:
        raise ConfigError(
            f"{reading.path}: pushgateway_auth.connection is Airflow's; give the secret in a file, "
            "or in STATEMAINT_PUSHGATEWAY_USER and STATEMAINT_PUSHGATEWAY_PASSWORD"
        )
    gateway = os.environ.get("STATEMAINT_PUSHGATEWAY") or head.pushgateway
    textfile = Path(head.textfile) if head.textfile else None
    return Targets(gateway, auth or GatewayAuth(), textfile, *reading.names_for_pruning(name))


def _named(name: str, place: str, checkpoint: str) -> Named:
    origin, former = origins_of(os.environ, place)
    return Named(
        query=name,
        origin=origin,
        former=former,
        version=__version__,
        namespace=namespace_of(os.environ),
        storage=storage_of(checkpoint),
    )


def publisher(address: Address, gateway: str | None = None) -> Callable[[Storage], None]:
    """Returns what publishes the record of a query; a loss is counted in it, and never raised."""
    if address.named is None and gateway is None:
        raise ConfigError("--publish needs a query's name in the queries file, not an address")
    try:
        from statemaint.metrics.publish import publish_record  # noqa: PLC0415 -- needs an extra
    except ImportError as error:
        raise NotInstalledError("prometheus-client", extra="metrics") from error

    if address.named:
        named, targets = named_of(*address.named), targets_of(*address.named)
    else:  # no queries file names the checkpoint: its folder does
        place = address if ":" in address else os.path.normpath(Path.cwd() / address)
        folder, _, name = place.rstrip("/").rpartition("/")
        named, targets = _named(name, folder, address), Targets()
    if gateway:
        targets = replace(targets, gateway=gateway)

    def publish(storage: Storage) -> None:
        try:
            record = read_record(storage)
            if record and not publish_record(named, record, targets) and record.totals:
                write_record(storage, with_loss(record))
        except StatemaintError as error:
            _log.warning("the metrics are not published: %s", error)

    return publish


@click.command("exporter")
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
    "--every", type=DURATION, default=60.0, help="The time between readings.  [default: 1m]"
)
@click.option(
    "--keep",
    type=DURATION,
    default=900.0,
    help="How long to keep the series of a query that can no longer be read.  [default: 15m]",
)
@click.option(
    "--shard",
    metavar="I/N",
    type=SHARE,
    default="1/1",
    help="Serve the Ith of N parts of the queries, the same after each start.  [default: 1/1]",
)
@click.option(
    "--certificate",
    metavar="PEM",
    type=click.Path(exists=True, dir_okay=False),
    help="Serve TLS with this certificate.",
)
@click.option("--key", metavar="PEM", type=click.Path(exists=True, dir_okay=False), help="Its key.")
@as_json
def exporter_verb(  # noqa: PLR0913, PLR0917 -- each is a separate choice
    port: int,
    host: str,
    every: float,
    keep: float,
    shard: tuple[int, int],
    certificate: str | None,
    key: str | None,
) -> None:
    """Serve the metrics of all queries of a file, for Prometheus to scrape.

    Reads one small file of each checkpoint, which every run replaces; never a state directory. A
    scrape shows the last reading and never waits. The queries file is read again before
    each reading. Airflow connections are unavailable: set keys in the environment.
    """
    try:
        from statemaint.metrics.exporter import Exporter, serving  # noqa: PLC0415 -- only this verb needs it
    except ImportError as error:
        raise NotInstalledError("prometheus-client", extra="metrics") from error

    if bool(certificate) != bool(key):
        raise ConfigError("--certificate and --key require each other; use both or neither")
    reader = QueriesReader(queries_file(), clock=time.time, folder=state_folder(os.environ))
    exporter = Exporter(partial(_places, reader, shard), open_storage, time.time, keep=keep)
    # Already listening, so that a large file or a slow storage does not cause a restart.
    with serving(exporter, host, port, certificate=certificate, key=key) as port_used:
        reading = reader.read()
        if not (reading.usable or reading.queries):
            raise InvalidQueriesError(reading.problems)
        exporter.refresh()
        stop = Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        _say(f"http{'s' if certificate else ''}://{host}:{port_used}")
        while not stop.wait(every):
            exporter.refresh()


def _say(url: str) -> None:
    document = {"format": FORMAT, "url": f"{url}/metrics"}
    click.echo(json.dumps(document) if settings().as_json else f"serving {url}/metrics")


def _places(reader: QueriesReader, shard: tuple[int, int]) -> "RecordPlaces":
    from statemaint.metrics.exporter import RecordPlace, RecordPlaces  # noqa: PLC0415 -- as above

    reading = reader.read()
    queries = {name: query for name, query in reading.queries.items() if query.enabled}
    (origin, _), namespace = origins_of(os.environ, reading.path), namespace_of(os.environ)
    places = tuple(
        RecordPlace(named_of(reading, name), query.checkpoint)
        for name, query in sorted(queries.items())
        if is_in_shard(name, shard)
    )
    problems = tuple((wrong.file, wrong.line, wrong.entry) for wrong in reading.all_problems)
    return RecordPlaces(places, len(queries), problems, labels_of(origin, namespace))
