"""The settings of one query, of the queries file or described in Python, and of one run."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, TypedDict

from airflow.configuration import conf
from pydantic import ValidationError

from statemaint.airflow.connections import open_checkpoint
from statemaint.airflow.names import GATEWAY_VARIABLE
from statemaint.errors import ConfigError
from statemaint.maintain.bundles import Bundle
from statemaint.maintain.work import WorkOrder
from statemaint.metrics.options import Named, Targets
from statemaint.model.policy import PRESETS, Policy
from statemaint.plan.actions import Request
from statemaint.queries.checks import NO_QUERY_NAME, is_query_name, must_be_open
from statemaint.queries.models import Query, SparkSettings
from statemaint.queries.problems import explained
from statemaint.report.record import code_of
from statemaint.report.task import Failure
from statemaint.storage import Storage
from statemaint.wording import shortened

Engine = Literal["tasks", "spark"]
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
# What a key does that has no effect on a query described in Python.
_OF_FILE = {
    "together": "share a DAG",
    "savepoint": "have its DAG",
    "for_each": "have a pattern",
    "enabled": "are disabled by it",
}


@dataclass(frozen=True, slots=True)
class QuerySettings:
    """The settings of one query, from the queries file and the environment.

    Attributes:
        connection: the id of the Airflow connection that reaches the checkpoint; `None` for the
            environment.
        max_tasks: `None` for as many as the work is worth.
        plans: the folder for the plans of dry runs; `None` to write none.
        schedule: when it runs; `None` if an Asset or a user decides.
        named: the data of its metrics beyond its record, as far as the queries file has it.
        engine: what does the work: mapped tasks, or one task with Spark's executors.
    """

    query: str
    checkpoint: str
    policy: Policy
    connection: str | None = None
    max_tasks: int | None = None
    plans: Path | None = None
    schedule: str | None = None
    named: Named = field(default_factory=lambda: Named(""))
    targets: Targets = field(default_factory=Targets)
    engine: Engine = "tasks"
    spark: SparkSettings = field(default_factory=SparkSettings)

    def open(self) -> Storage:
        return open_checkpoint(self.checkpoint, self.connection)


def query_settings(
    name: str, query: Query, policy: Policy, targets: Targets, *, plans: str | None, **metrics: Any
) -> QuerySettings:
    """Returns the settings of a query; its plans are by default in Airflow's folder of logs."""
    logs = Path(conf.get_mandatory_value("logging", "base_log_folder"))
    return QuerySettings(
        query=name,
        checkpoint=query.checkpoint,
        policy=policy,
        connection=query.connection,
        max_tasks=query.max_tasks,
        plans=Path(plans) if plans else logs / "statemaint_plans",
        schedule=query.schedule,
        named=Named(
            name,
            savepoint_interval=query.savepoint_interval,
            every_unit=query.detail == "partition",
            **metrics,
        ),
        targets=targets,
        engine=query.engine,
        spark=query.spark or SparkSettings(),
    )


def given_settings(
    name: str | None,
    checkpoint: str,
    keys: Mapping[str, Any],
    *,
    pushgateway: str | None = None,
    textfile: str | None = None,
    plans: str | None = None,
) -> tuple[Query, QuerySettings]:
    """Returns a query described in Python by the keys of the queries file, and its settings.

    STATEMAINT_PUSHGATEWAY wins, as for the file.
    """
    name, query = given_query(name, checkpoint, keys)
    gateway = os.environ.get(GATEWAY_VARIABLE) or pushgateway
    folder = Path(textfile) if textfile else None
    targets = Targets(must_be_open(gateway) if gateway else None, textfile=folder)
    policy = query.policy.on_top_of(PRESETS["safe"])
    return query, query_settings(name, query, policy, targets, plans=plans)


def given_query(name: str | None, checkpoint: str, keys: Mapping[str, Any]) -> tuple[str, Query]:
    for key, what in _OF_FILE.items():
        if keys.get(key) not in (None, True):
            raise ValueError(f"{key}: only queries of the queries file {what}; leave it out")
    stand_in = _BUCKET_STANDS_IN if keys.get("connection") else _STANDS_IN
    template = is_template(checkpoint)
    entry = {**keys, "checkpoint": stand_in if template else checkpoint}
    try:
        query = Query.model_validate(entry)
    except ValidationError as error:
        wrong = explained(error, ("queries", "arguments"))
        named = (f"{'.'.join(map(str, path[2:]))}: {what}" for path, what in wrong)
        raise ValueError("; ".join(named)) from None
    if template:
        query = query.model_copy(update={"checkpoint": checkpoint})
    return given_name(name, checkpoint), query


def given_name(name: str | None, checkpoint: str) -> str:
    """Returns the name of a query; by default the last part of its checkpoint's address."""
    if name is None and is_template(checkpoint):
        raise ValueError("query: give the query's name, as the checkpoint is a template")
    chosen = name or checkpoint.rstrip("/").rpartition("/")[2]
    if not is_query_name(chosen):
        raise ValueError(f"query: {NO_QUERY_NAME}, not {chosen!r}")
    return chosen


def is_template(text: str) -> bool:
    return "{{" in text or "{%" in text


def about(settings: QuerySettings) -> dict[str, Any]:
    """Returns the description of the query for the pages; nothing in it is a secret."""
    known = {name: getattr(settings, name) for name in ("query", "checkpoint", "connection")}
    return {**known, "policy": asdict(settings.policy)}


_SCOPE = ("operators", "partitions")
MOST_SCOPE = 200
"""The number of characters of a text such as `0, 3-7`."""
_RANGE = re.compile(r"([0-9]{1,5})(?: *- *([0-9]{1,5}))?")
# The numbers of the form, and whether a smaller one is looser than the query's own.
_LOOSER = {"min_batches_to_retain": True, "min_deltas_for_snapshot": False}


def chosen_ids(name: str, value: object) -> tuple[int, ...]:
    """Returns the numbers of a text such as `0, 3-7`, or of a list; none means all."""
    if isinstance(value, list | tuple):  # as the forms of earlier builds have it
        return tuple(value)
    numbers, text = set[int](), str(value or "").strip()
    if len(text) > MOST_SCOPE:
        raise ConfigError(f"{name}: longer than {MOST_SCOPE} characters")
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = _RANGE.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            wrong = f"{shortened(part)!r} is not a number or a range, such as `0, 3-7`"
            raise ConfigError(f"{name}: {wrong}")
        numbers |= {*range(first, last + 1)}
    if text and not numbers:
        raise ConfigError(f"{name}: {shortened(text)!r} names no number; empty means all")
    return tuple(sorted(numbers))


def _as_text(numbers: Iterable[int]) -> str:
    """Returns numbers as the form takes them, such as `0, 3-7`."""
    parts = list[int | str]()
    for _, run in groupby(enumerate(sorted(numbers)), lambda pair: pair[1] - pair[0]):
        first, *others = (number for _, number in run)
        parts += [f"{first}-{others[-1]}"] if others[1:] else [first, *others]
    return ", ".join(map(str, parts))


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one run, from its form.

    `None` keeps the value of the queries file; no operators or partitions means all.
    """

    dry_run: bool = False
    force_snapshot: bool = False
    min_deltas_for_snapshot: int | None = None
    min_batches_to_retain: int | None = None
    operators: tuple[int, ...] = ()
    partitions: tuple[int, ...] = ()
    engine: Engine | None = None

    @classmethod
    def of(cls, params: Mapping[str, Any], *, scoped: bool = True) -> "Options":
        """Returns the values of a form; those for the whole run are never wrong."""
        lists = {name: chosen_ids(name, params.get(name) if scoped else None) for name in _SCOPE}
        # A run queued by an earlier build lacks the new options.
        given = {name: params[name] for name in cls.__slots__ if name in params}
        return cls(**{**given, **lists})

    @property
    def scope(self) -> str:
        named = (("operator", self.operators), ("partition", self.partitions))
        parts = [f"{name} {_as_text(ids)}" for name, ids in named if ids]
        return " and ".join(parts)

    def looser(self, policy: Policy) -> Iterator[str]:
        """Yields a sentence for each value with which a query keeps less than by its policy."""
        for name, fewer in _LOOSER.items():
            given, usual = getattr(self, name), getattr(policy, name)
            if given is not None and (given < usual if fewer else given > usual):
                yield f"{name} {given} is looser than the query's own {usual}, for this run only"

    def refused(self, failure: str | None) -> bool:
        """Returns whether a run that failed before its work was refused for these options."""
        counts = (self.min_batches_to_retain, self.min_deltas_for_snapshot)
        given = self.scope or self.engine or counts != (None, None)
        return bool(given) and code_of(failure) == ConfigError.code

    def request(self) -> Request:
        return Request(
            force_snapshot=self.force_snapshot,
            operators=frozenset(self.operators),
            partitions=frozenset(self.partitions),
        )

    def change(self, policy: Policy) -> Policy:
        return policy.override(
            min_deltas_for_snapshot=self.min_deltas_for_snapshot,
            min_batches_to_retain=self.min_batches_to_retain,
        )

    def order(
        self, settings: QuerySettings, bundles: Iterable[Bundle], *, run: str, handover: str | None
    ) -> WorkOrder:
        return WorkOrder(
            query=settings.query,
            policy=self.change(settings.policy),
            run=run,
            bundles=tuple(bundles),
            force_snapshot=self.force_snapshot,
            handover=handover,
            every_unit=settings.named.every_unit,
        )


def wrong_options(
    context: Mapping[str, Any], options: Sequence[str] = Options.__slots__
) -> Failure | None:
    """Returns the failure of a run of maintenance whose configuration has a mistake."""
    try:
        Options.of(context["params"])
    except ConfigError as error:
        return Failure.of(error)
    return unknown_options(context["dag_run"].conf, options)


def unknown_options(conf: Mapping[str, Any] | None, options: Sequence[str]) -> Failure | None:
    """Returns the failure of a run whose configuration has unknown keys.

    A misspelt `dry_run` must not become a run that deletes.
    """
    unknown = sorted(str(key) for key in conf or {} if key not in options)
    if not unknown:
        return None
    allowed = ", ".join(options)
    listed = ", ".join(map(repr, unknown))
    return Failure(
        f"CONFIG: the run's configuration has {listed}, which is not an option; "
        f"known are {allowed}. Nothing was done: trigger it again"
    )
