"""The functions that Airflow calls when a run fails or misses its deadline."""

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

from airflow.sdk.definitions.callback import SyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from statemaint.airflow.endings import notify_all
from statemaint.queries.models import Notifier, Query
from statemaint.queries.problems import resolve

_log = logging.getLogger(__name__)


def callbacks_of(queries: Iterable[Query]) -> list[Callable[..., Any]]:
    """Returns the functions of several queries, each once, without those that cannot be called."""
    distinct = {repr(each): each for query in queries for each in query.notify}
    callbacks = []
    for notifier in distinct.values():
        with suppress(ValueError):
            callbacks.append(resolve(notifier))
    return callbacks


def deadline(name: str, query: Query) -> DeadlineAlert | None:
    """Returns Airflow's alert for a run that takes longer than the query's deadline, if it has one.

    The time starts when the run is queued; an executor makes the call, no triggerer is needed.
    """
    if query.deadline is None:
        return None
    listed = [notifier.model_dump() for notifier in query.notify]
    return DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(seconds=query.deadline),
        callback=SyncCallback(deadline_missed, kwargs={"query": name, "notify": listed}),
    )


def deadline_missed(
    query: str, notify: Iterable[Mapping[str, Any]], context: Mapping[str, Any] | None = None
) -> None:
    _log.error("maintenance of %s has missed its deadline", query)
    notify_all([partial(_notify, dict(notifier)) for notifier in notify], context or {}, {})


def _notify(notifier: dict[str, Any], context: Mapping[str, Any]) -> None:
    resolve(Notifier.model_validate(notifier))(context)
