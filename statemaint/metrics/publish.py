"""Publishes a query's record: pushed, written, or both."""

import logging
import os
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path

from prometheus_client.metrics_core import Metric as Family

from statemaint.metrics.families import families, waiting
from statemaint.metrics.options import Named, Targets
from statemaint.metrics.push import SECONDS, WAITING_SECONDS, Gateway, credentials_from, within
from statemaint.metrics.textfile import remove_textfiles, write_textfile
from statemaint.report.record import Record

Credentials = tuple[str | None, str] | None
# The failures of publishing; a ValueError is an invalid address or file.
ERRORS = (OSError, HTTPException, ValueError)

_log = logging.getLogger(__name__)


def publish_record(
    named: Named, record: Record, targets: Targets, *, credentials: Credentials = None
) -> bool:
    """Publishes a record, and removes the published metrics of missing queries.

    Maintenance is complete even if its metrics are lost: the loss is logged, and returned as false.
    `credentials` are those of an Airflow connection; by default the environment's.
    """
    made = [*families(named, record)]
    folder = targets.textfile
    written = folder is None or _try(lambda: _write(folder, named, targets, made))
    if not targets.gateway:
        return written
    gateway = gateway_of(targets, credentials)
    pushed = _try(lambda: within(SECONDS, lambda: _push(gateway, named, targets, made)))
    return pushed and written


def publish_waiting(
    named: Named, since: float, targets: Targets, *, credentials: Credentials = None
) -> None:
    made = [waiting(named, since)]
    if folder := targets.textfile:
        _try(lambda: write_textfile(made, named=named, folder=folder))
    if targets.gateway:
        gateway = gateway_of(targets, credentials)
        _try(lambda: within(WAITING_SECONDS, lambda: gateway.add(named.group, made)))


def gateway_of(targets: Targets, credentials: Credentials) -> Gateway:
    given = credentials or credentials_from(os.environ)
    return Gateway(str(targets.gateway), targets.auth, given)


def _write(folder: Path, named: Named, targets: Targets, made: list[Family]) -> None:
    write_textfile(made, named=named, folder=folder)
    if targets.known is not None:
        remove_textfiles(folder, named, known=targets.known)


def _push(gateway: Gateway, named: Named, targets: Targets, made: list[Family]) -> None:
    gateway.add(named.group, made)
    if targets.known is not None:
        for removed in gateway.prune(named, targets.known, targets.detailed):
            _log.info("%s is no longer in the queries file; its metrics are removed", removed)


def _try(publish: Callable[[], object]) -> bool:
    try:
        publish()
    except ERRORS as error:
        _log.warning("metrics are not published: %s", error)
        return False
    return True
