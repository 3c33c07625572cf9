"""Resolves the notifiers of the queries file to callables for Airflow."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

from statemaint.queries.models import Notifier, Query


def resolve(notifier: Notifier) -> Callable[..., Any]:
    """Returns the callable that a notifier names; a class is created with the notifier's arguments.

    Raises:
        ValueError: when it cannot be imported, called or created; in one line.
    """
    module, _, name = notifier.call.rpartition(".")
    try:
        target = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{notifier.call} cannot be imported: {error}") from None
    if inspect.isclass(target):
        try:
            target = target(**notifier.arguments)
        except Exception as error:  # noqa: BLE001 -- somebody else's class
            raise ValueError(f"{notifier.call} refuses its arguments: {error}") from None
    elif notifier.arguments:
        raise ValueError(f"{notifier.call} is a function and takes no arguments; leave them out")
    if not callable(target):
        raise ValueError(f"{notifier.call} cannot be called")  # noqa: TRY004 -- as all others
    callback: Callable[..., Any] = target
    return callback


def unresolved(queries: Mapping[str, Query]) -> Iterator[tuple[str, int, str]]:
    """Yields each query with a notifier that cannot be called, its place in the list, and why."""
    for name, query in queries.items():
        for place, notifier in enumerate(query.notify):
            try:
                resolve(notifier)
            except ValueError as error:
                yield name, place, " ".join(str(error).split())
