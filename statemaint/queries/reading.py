"""The result of reading the queries: a file, or a folder of files."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from zlib import crc32

from statemaint.model.policy import Policy
from statemaint.queries.merged import QuerySource
from statemaint.queries.models import QueriesFile, Query
from statemaint.queries.problems import Problem


@dataclass(frozen=True, slots=True)
class BrokenEntry:
    """One invalid entry below `queries`."""

    name: str  # its key in the file
    file: str
    problems: tuple[Problem, ...]
    kept: bool = False  # whether the last good version of it is used


@dataclass(frozen=True)
class QueriesReading:
    """The result of reading the queries of a file or a folder."""

    path: str
    # The valid queries by name, and last good versions of others.
    sources: Mapping[str, QuerySource] = field(default_factory=dict)
    broken: tuple[BrokenEntry, ...] = ()
    problems: tuple[Problem, ...] = ()  # outside of entries
    usable: bool = True  # whether each file tells, or told before, which queries there are

    @cached_property
    def queries(self) -> dict[str, Query]:
        return {name: source.query for name, source in self.sources.items()}

    @property
    def all_problems(self) -> tuple[Problem, ...]:
        """Returns each problem once, in the order of the files."""
        of_entries = (problem for entry in self.broken for problem in entry.problems)
        return in_order(dict.fromkeys((*of_entries, *self.problems)))

    def settings_of(self, query: str) -> QueriesFile:
        """Returns the settings of the file of a query, without its queries."""
        return self.sources[query].file.head

    def routing_of(self, query: str) -> dict[str, str]:
        return self.settings_of(query).routing_of(self.queries[query])

    def policy_of(self, query: str) -> Policy:
        return self.settings_of(query).policy_of(self.queries[query])

    def names_for_pruning(self, query: str) -> tuple[frozenset[str] | None, frozenset[str]]:
        """Returns the enabled queries, and those of them with series for each partition.

        The first of them removes the metrics of queries that are no longer there; for others, or
        with a mistake, after which a query may only seem to be removed, it is `None`.
        """
        enabled = {name: each for name, each in self.queries.items() if each.enabled}
        first = query == min(enabled, default=None)
        prunes = self.usable and not self.all_problems and first
        detailed = (name for name, each in enabled.items() if each.detail == "partition")
        return frozenset(enabled) if prunes else None, frozenset(detailed)

    def problem_of(self, query: str, what: str, *path: str | int) -> Problem:
        """Returns a problem of a query that the models cannot see, as `ParsedFile.problem_of`."""
        source = self.sources[query]
        return source.file.problem_of(source.key, what, *path, query=query)


def is_in_shard(query: str, shard: tuple[int, int]) -> bool:
    """Returns whether a query is in the Ith of N parts of all queries, the same part each time."""
    number, shards = shard
    return crc32(query.encode()) % shards == number - 1


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    return tuple(sorted(problems, key=lambda problem: (problem.file, problem)))
