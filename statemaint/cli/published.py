"""What a query's metrics need of the queries file, for the program's own runs and the exporter."""

import os
from collections.abc import Callable
from pathlib import Path

from statemaint import __version__
from statemaint.cli.messages import tell
from statemaint.cli.targets import Address
from statemaint.errors import ConfigError, NotInstalledError, StatemaintError
from statemaint.maintain.record import read_record, write_record
from statemaint.metrics.options import GatewayAuth, Named, Targets, namespace_of, origins_of
from statemaint.queries import QueriesReading
from statemaint.queries.interval import expected_interval
from statemaint.report.record import with_loss
from statemaint.storage import Storage, storage_of

GATEWAY_VARIABLE = "STATEMAINT_PUSHGATEWAY"


def named_of(reading: QueriesReading, name: str) -> Named:
    """Returns the data of a query's metrics beyond its record."""
    query = reading.queries[name]
    origin, digest = origins_of(os.environ, reading.path)
    return Named(
        query=name,
        origin=origin,
        former=digest,
        interval=expected_interval(query.schedule),
        version=__version__,
        every_unit=query.detail == "partition",
        namespace=namespace_of(os.environ),
        storage=storage_of(query.checkpoint),
        routing=reading.routing_of(name),
    )


def targets_of(reading: QueriesReading, name: str) -> Targets:
    """Returns the destinations of a query's metrics.

    Raises:
        ConfigError: when they need an Airflow connection.
    """
    head = reading.settings_of(name)
    auth = GatewayAuth(**head.pushgateway_auth.model_dump()) if head.pushgateway_auth else None
    if auth and auth.connection:
        raise ConfigError(
            f"{reading.path}: pushgateway_auth.connection is Airflow's; give the secret in a file, "
            "or in STATEMAINT_PUSHGATEWAY_USER and STATEMAINT_PUSHGATEWAY_PASSWORD"
        )
    known, detailed = reading.names_for_pruning(name)
    return Targets(
        os.environ.get(GATEWAY_VARIABLE) or head.pushgateway,
        auth or GatewayAuth(),
        Path(head.textfile) if head.textfile else None,
        known,
        detailed,
    )


def publisher(address: Address) -> Callable[[Storage], None]:
    """Returns what publishes the record of a query that was given by its name.

    A loss is counted in the record; no failure is raised, as the run is complete.

    Raises:
        ConfigError: when an address was given, or the destinations need Airflow.
        NotInstalledError: when a library is missing.
    """
    if address.named is None:
        raise ConfigError("--publish needs a query's name in the queries file, not an address")
    try:
        from statemaint.metrics.publish import publish_record  # noqa: PLC0415 -- needs an extra
    except ImportError as error:
        raise NotInstalledError("prometheus-client", extra="metrics") from error

    named, targets = named_of(*address.named), targets_of(*address.named)

    def publish(storage: Storage) -> None:
        try:
            record = read_record(storage)
            if record and not publish_record(named, record, targets) and record.totals:
                write_record(storage, with_loss(record))
        except StatemaintError as error:
            tell(f"the metrics are not published: {error}")

    return publish
