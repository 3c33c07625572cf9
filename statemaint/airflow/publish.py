"""The metrics of a run, published by its report; errors are only logged."""

import logging
import os
import time
from dataclasses import replace

from airflow.configuration import conf
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowException, AirflowRuntimeError

from statemaint.airflow.connections import open_checkpoint
from statemaint.airflow.names import dag_id, together_id
from statemaint.airflow.settings import QuerySettings
from statemaint.errors import StatemaintError
from statemaint.maintain.record import may_record, read_record, with_run, write_record
from statemaint.metrics.options import (
    GatewayAuth,
    Named,
    namespace_of,
    origins_of,
)
from statemaint.queries.checks import expected_interval
from statemaint.queries.reading import QueriesReading
from statemaint.report.record import LastRun, LastSavepoint, Record, with_loss
from statemaint.storage import Storage, storage_of

_log = logging.getLogger(__name__)


def publish(settings: QuerySettings, last: LastRun, *, store: bool = True) -> None:
    """Publishes the metrics of a run, and stores its record with the checkpoint."""
    from statemaint.metrics.publish import publish_record  # noqa: PLC0415 -- not for parsing a DAG

    storage, record = _record(settings, last)
    where = settings.targets
    if where.gateway or where.textfile:
        word = credentials(settings)
        if not publish_record(named(settings), record, where, credentials=word) and record.totals:
            record = with_loss(record)
    if storage and store:
        _write(storage, record)


def publish_held(settings: QuerySettings) -> None:
    from statemaint.metrics.publish import publish_waiting  # noqa: PLC0415 -- as above

    where = settings.targets
    if where.gateway or where.textfile:
        word = credentials(settings)
        publish_waiting(named(settings), time.time(), where, credentials=word)


def publish_savepoint(settings: QuerySettings, newest: LastSavepoint) -> None:
    """Publishes the newest savepoint of a query; other metrics stay as its last run has them."""
    from statemaint.metrics.publish import publish_record  # noqa: PLC0415 -- as above

    where = settings.targets
    if where.gateway or where.textfile:
        record, word = Record(None, savepoint=newest), credentials(settings)
        publish_record(named(settings), record, where, credentials=word)


def named(settings: QuerySettings) -> Named:
    """Returns the data of a query's metrics beyond its record, as far as this task knows it."""
    from statemaint import __version__  # noqa: PLC0415 -- as above

    return replace(
        settings.named,
        query=settings.query,
        interval=expected_interval(settings.schedule),
        version=__version__,
        namespace=namespace_of(os.environ),
        storage=storage_of(settings.checkpoint),
    )


def with_metrics(settings: QuerySettings, reading: QueriesReading) -> QuerySettings:
    """Returns the settings of a query with what its file says of its metrics."""
    name = settings.query
    known, detailed = reading.names_for_pruning(name)
    auth, query = reading.settings_of(name).pushgateway_auth, reading.queries[name]
    address = conf.get("api", "base_url", fallback="")
    origin, digest = origins_of(os.environ, address, reading.path)
    return replace(
        settings,
        named=replace(
            settings.named,
            dag=together_id(query.together) if query.together else dag_id(name),
            origin=origin,
            former=digest,
            routing=reading.routing_of(name),
        ),
        targets=replace(
            settings.targets,
            auth=GatewayAuth(**auth.model_dump()) if auth else GatewayAuth(),
            known=known,
            detailed=detailed,
        ),
    )


def _record(settings: QuerySettings, last: LastRun) -> tuple[Storage | None, Record]:
    """Returns the record after a run, and the storage to keep it in, if it may be kept."""
    try:
        storage = open_checkpoint(settings.checkpoint, settings.connection)
        before = read_record(storage)
    except StatemaintError as error:
        _log.warning("the record of earlier runs cannot be read: %s", error)
        return None, Record(last, None if last.failed else last.ended)
    kept = storage if may_record(storage, before, last) else None
    return kept, with_run(storage, before, last)


def _write(storage: Storage, record: Record) -> None:
    try:
        write_record(storage, record)
    except StatemaintError as error:
        _log.warning("the record of the run is not stored: %s", error)


def credentials(settings: QuerySettings) -> tuple[str | None, str] | None:
    """Returns the login and password of the Pushgateway's Airflow connection."""
    name = settings.targets.auth.connection
    if name is None or settings.targets.gateway is None:
        return None
    try:
        connection = Connection.get(name)
    except (AirflowException, AirflowRuntimeError):
        _log.warning("the Airflow connection %s is not defined, or not for this task", name)
        return None
    return connection.login or None, connection.password or ""
