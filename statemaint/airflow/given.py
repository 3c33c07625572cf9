"""A query described in Python, by the keys of the queries file."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from pydantic import ValidationError

from statemaint.airflow.names import GATEWAY_VARIABLE
from statemaint.queries.checks import must_be_open
from statemaint.queries.models import Query
from statemaint.queries.problems import explained

Notified = Callable[[Mapping[str, Any]], object]
"""A notifier of Airflow, or a function that takes Airflow's context."""


class QueryKeys(TypedDict, total=False):
    """The keys of a query in the queries file that concern its tasks; docs/airflow.md has all."""

    connection: str | None
    policy: Mapping[str, Any]
    owner: str | None
    pool: str
    priority: int
    queue: str | None
    executor: str | None
    max_tasks: int | None
    timeout: str
    retries: int
    retry_delay: str
    engine: str
    spark: Mapping[str, Any]


# Replaces templates while a query is checked; tasks check the filled-in values.
_STANDS_IN, _BUCKET_STANDS_IN = "/template", "s3://template/checkpoint"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,200}")


def given_query(name: str | None, checkpoint: str, keys: Mapping[str, Any]) -> tuple[str, Query]:
    """Returns a query, and its name: by default the last part of the checkpoint's address."""
    if keys.get("together"):
        raise ValueError("together: only queries of the queries file share a DAG; leave it out")
    if keys.get("savepoint"):
        raise ValueError("savepoint: only queries of the queries file have its DAG; leave it out")
    stand_in = _BUCKET_STANDS_IN if keys.get("connection") else _STANDS_IN
    template = is_template(checkpoint)
    entry = {**keys, "checkpoint": stand_in if template else checkpoint}
    try:
        query = Query.model_validate(entry)
    except ValidationError as error:
        below = ("queries", "arguments")
        listed = [
            f"{'.'.join(map(str, path[2:]))}: {what}" for path, what in explained(error, below)
        ]
        raise ValueError("; ".join(listed)) from None
    if template:
        query = query.model_copy(update={"checkpoint": checkpoint})
    return given_name(name, checkpoint), query


def given_name(name: str | None, checkpoint: str) -> str:
    """Returns the name of a query; by default the last part of its checkpoint's address."""
    if name is None and is_template(checkpoint):
        raise ValueError("query: give the query's name, as the checkpoint is a template")
    chosen = name or checkpoint.rstrip("/").rpartition("/")[2]
    if not _NAME.fullmatch(chosen):
        what = "must be a name of up to 200 letters, digits and _ . -"
        raise ValueError(f"query: {what}, not {chosen!r}")
    return chosen


def is_template(text: str) -> bool:
    """Returns whether a text is an Airflow template, to be filled in when the task runs."""
    return "{{" in text or "{%" in text


@dataclass(frozen=True, slots=True)
class Outputs:
    """The outputs of a query's tasks.

    Attributes:
        gateway: the Pushgateway's address; `None` without one.
        textfile: the folder for metrics files; `None` to write none.
        plans: the folder for the plans of dry runs; by default in Airflow's folder of task logs.
    """

    gateway: str | None = None
    textfile: str | None = None
    plans: str | None = None

    @classmethod
    def given(
        cls, pushgateway: str | None, textfile: str | None, plans: str | None = None
    ) -> "Outputs":
        """Returns the outputs of arguments; STATEMAINT_PUSHGATEWAY wins, as for the file."""
        gateway = os.environ.get(GATEWAY_VARIABLE) or pushgateway
        return cls(must_be_open(gateway) if gateway else None, textfile, plans)
