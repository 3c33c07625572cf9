"""The metrics of a task, pushed or written; what goes wrong with them is only logged."""

import logging
from collections.abc import Callable
from http.client import HTTPException

from statemaint.airflow.settings import QuerySettings
from statemaint.report import Report
from statemaint.report.query_state import QueryState

_log = logging.getLogger(__name__)


def publish(settings: QuerySettings, report: Report) -> None:
    """Publishes the metrics of the partitions of a report."""
    from statemaint import metrics  # noqa: PLC0415 -- nothing that parsing a DAG should load

    query, gateway, folder = settings.query, settings.gateway, settings.textfile
    if gateway:
        _try(lambda: metrics.push(report, query=query, gateway=gateway))
    if folder:
        _try(lambda: metrics.write_textfile(report, query=query, folder=folder))


def publish_query(settings: QuerySettings, state: QueryState) -> None:
    """Publishes the metrics of a query as a whole."""
    from statemaint import metrics  # noqa: PLC0415 -- nothing that parsing a DAG should load

    query, gateway, folder = settings.query, settings.gateway, settings.textfile
    if gateway:
        _try(lambda: metrics.push_query(state, query=query, gateway=gateway))
    if folder:
        _try(lambda: metrics.write_query_textfile(state, query=query, folder=folder))


def _try(publish: Callable[[], object]) -> None:
    # Maintenance is complete, even if its metrics are lost. A ValueError means an address that is
    # not valid.
    try:
        publish()
    except (OSError, HTTPException, ValueError) as error:
        _log.warning("metrics are not published: %s", error)
