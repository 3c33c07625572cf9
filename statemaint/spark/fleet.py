"""The queries of a fleet, in the form that is sent to executors, and what the driver asks of each.

A query is due if its schedule has had a time since its last good run.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from statemaint.errors import ConfigError, StatemaintError
from statemaint.maintain.record import read_record
from statemaint.model.policy import PRESETS, Policy
from statemaint.queries.checks import newest_time
from statemaint.queries.memory import state_folder
from statemaint.queries.problems import InvalidQueriesError
from statemaint.queries.reading import QueriesReader, QueriesReading
from statemaint.report.record import Record
from statemaint.storage import Storage, open_storage

_T = TypeVar("_T")
_R = TypeVar("_R")
# Concurrent requests of the driver, to the storages of all queries together.
AT_A_TIME = 16
_CONNECTION = (
    "Spark's executors have no Airflow connections; take it out, and give them credentials "
    "through their environment"
)


@dataclass(frozen=True, slots=True)
class Target:
    """One query of a fleet.

    Attributes:
        query: its name.
        checkpoint: the address of its checkpoint for driver and executors.
        policy: when to snapshot and what to keep.
        every_unit: whether its record has each partition.
        savepoint: the address of its savepoints, in which `{batch}` stands for the batch.
        mistake: why it cannot be processed: it is an invalid entry, or a file with mistakes.
    """

    query: str
    checkpoint: str
    policy: Policy = field(default_factory=lambda: PRESETS["safe"])
    every_unit: bool = False
    savepoint: str | None = None
    mistake: str | None = None

    def open(self) -> Storage:
        """Returns the checkpoint's storage, with the settings of this process's environment."""
        if self.mistake:
            raise ConfigError(self.mistake)
        return open_storage(self.checkpoint)


Queries = str | Path | QueriesReading | Mapping[str, str] | Iterable[Target]
"""A fleet: the path of a queries file, the file itself, addresses by name, or the queries."""


def read_fleet(path: str | Path) -> QueriesReading:
    """Returns a queries file; the last good version of what cannot be read now."""
    return QueriesReader(path, clock=time.time, folder=state_folder(os.environ)).read()


def reading_of(queries: Queries) -> QueriesReading | None:
    """Returns the queries file of a fleet; `None` for one without."""
    if isinstance(queries, str | Path):
        return read_fleet(queries)
    return queries if isinstance(queries, QueriesReading) else None


def fleet_of(queries: Queries, change: Mapping[str, Any] | None = None) -> tuple[Target, ...]:
    """Returns the enabled queries of a fleet.

    An invalid entry of a queries file, and a query that uses an Airflow connection, is one with a
    mistake; so is a file with other mistakes, by its path.
    """
    if isinstance(queries, str | Path):
        queries = read_fleet(queries)
    if isinstance(queries, QueriesReading):
        targets = [*_of_file(queries), *_mistakes(queries)]
    elif isinstance(queries, Mapping):
        targets = [Target(name, address) for name, address in queries.items()]
    else:
        targets = [*queries]
        names = Counter(target.query for target in targets if not target.mistake)
        if repeated := [name for name, number in names.items() if number > 1]:
            raise ConfigError(f"more than one query is named {', '.join(repeated)}; rename them")
    return tuple(
        replace(target, policy=target.policy.override(**(change or {}))) for target in targets
    )


def _of_file(reading: QueriesReading) -> Iterator[Target]:
    if not (reading.usable or reading.queries):
        raise InvalidQueriesError(reading.problems)
    for name, query in reading.queries.items():
        mistake = reading.problem_of(name, _CONNECTION, "connection") if query.connection else None
        if query.enabled:
            yield Target(
                name,
                query.checkpoint,
                reading.policy_of(name),
                every_unit=query.detail == "partition",
                savepoint=query.savepoint.to.replace("{query}", name) if query.savepoint else None,
                mistake=str(mistake) if mistake else None,
            )


def _mistakes(reading: QueriesReading) -> Iterator[Target]:
    """Yields the entries with mistakes, and each file with others, as queries with a mistake."""
    of_file: dict[str, list[str]] = {}
    for entry in reading.broken:
        listed = [str(problem) for problem in entry.problems]
        if entry.kept or entry.name in reading.queries:
            of_file.setdefault(entry.file, []).extend(listed)
        else:
            yield Target(entry.name, "", mistake="; ".join(listed))
    for problem in reading.problems:
        of_file.setdefault(problem.file, []).append(str(problem))
    for file, listed in of_file.items():
        yield Target(file, "", mistake="; ".join(dict.fromkeys(listed)))


# -- work of the driver for each query


def each(work: Callable[[_T], _R], targets: Iterable[_T]) -> list[_R]:
    """Does some work of the driver for each query, for several at a time; returns the results."""
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        return [*pool.map(work, targets)]


def tried(work: Callable[[_T], object], targets: Iterable[_T]) -> dict[_T, StatemaintError]:
    """Does some work for several targets at a time; returns those that failed, in their order."""

    def attempt(target: _T) -> StatemaintError | None:
        try:
            work(target)
        except StatemaintError as error:
            return error
        return None

    known = [*targets]
    errors = zip(known, each(attempt, known), strict=True)
    return {target: error for target, error in errors if error}


def due_queries(
    reading: QueriesReading, fleet: Sequence[Target], verb: str, now: float
) -> list[Target]:
    """Returns the queries that need a run of `maintain` or `savepoint`; in doubt, a query does.

    A query without a schedule always does. One small file of each checkpoint is read, its record.
    """

    def is_due(target: Target) -> bool:
        query = reading.queries.get(target.query)
        terms = query.savepoint if query and verb == "savepoint" else query
        scheduled = newest_time(terms.schedule, now) if terms else None
        if target.mistake or scheduled is None:
            return True
        try:
            record = read_record(target.open()) or Record(None)
        except StatemaintError:
            return True  # the run says why
        saved = record.savepoint.ended if record.savepoint else None
        last = saved if verb == "savepoint" else record.success
        return last is None or last < scheduled

    answers = each(is_due, fleet)
    return [target for target, answer in zip(fleet, answers, strict=True) if answer]
