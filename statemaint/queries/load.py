"""Reads the queries file into its models, with all of its mistakes."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from statemaint.queries.models import QueriesFile, Query
from statemaint.queries.patterns import PatternError, expand
from statemaint.queries.problems import InvalidQueriesError, Problem, explained, shown
from statemaint.queries.together import groups, unlike
from statemaint.queries.yaml_file import Document, YamlError, read_yaml
from statemaint.storage import overlaps, place_of

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,200}")
# A mistake in these does not affect the queries; only their metrics are missing.
_APART = ("pushgateway", "pushgateway_auth", "textfile", "plans")


@dataclass(frozen=True, slots=True)
class BrokenEntry:
    """One invalid entry below `queries`.

    Attributes:
        name: its key in the file.
        schedule: its schedule, if that is valid.
        problems: its mistakes.
    """

    name: str
    schedule: str | None
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class QueriesReading:
    """The result of reading a queries file.

    Attributes:
        path: the file.
        file: its valid part; invalid queries are omitted.
        broken: the invalid entries.
        problems: the mistakes in the rest of the file.
        usable: whether the file could be read at all.
        document: the file as values.
        entries: the key of each query's entry, which for a pattern is that of several queries.
    """

    path: str
    file: QueriesFile
    broken: tuple[BrokenEntry, ...] = ()
    problems: tuple[Problem, ...] = ()
    usable: bool = True
    document: Document = field(default_factory=lambda: Document(None, None, ()))
    entries: Mapping[str, str] = field(default_factory=dict)

    @property
    def all_problems(self) -> tuple[Problem, ...]:
        """Returns each problem once, in the order of the file."""
        entries = (one for entry in self.broken for one in entry.problems)
        return tuple(sorted({*self.problems, *entries}))

    def problem_of(self, query: str, what: str, *path: str | int) -> Problem:
        """Returns a problem of a query that the models cannot see, with its line in the file.

        Args:
            query: the query's name.
            what: the mistake, and what to do.
            path: the path of its key within the entry; the whole entry by default.
        """
        line = self.document.line(("queries", self.entries[query], *path)) or 0
        key = ".".join(("queries", query, *(one for one in path if isinstance(one, str))))
        return Problem(line, key, what, self.path)


def read_queries(path: str | Path) -> QueriesReading:
    """Returns the valid part of a queries file, and the mistakes in the rest; never raises.

    An entry with a mistake is omitted. A mistake in `defaults`, or an unknown key of the file,
    omits every entry without its own preset: the intended policy is unknown.
    """
    return _Reader(str(path)).read()


def load_queries(path: str | Path) -> QueriesFile:
    """Returns the valid part of a queries file, without the invalid entries.

    Raises:
        InvalidQueriesError: when nothing can be used: the file cannot be read, or is not YAML.
    """
    reading = read_queries(path)
    if not reading.usable:
        raise InvalidQueriesError(reading.problems)
    return reading.file


def valid_queries(path: str | Path) -> QueriesFile:
    """Returns a queries file without mistakes.

    Raises:
        InvalidQueriesError: when it has a mistake; a line for each problem names the file,
            the line, the key, the problem and the solution.
    """
    reading = read_queries(path)
    if reading.all_problems:
        raise InvalidQueriesError(reading.all_problems)
    return reading.file


@dataclass(slots=True)
class _Reader:
    """One reading of a file, with the problems of each entry so far."""

    path: str
    document: Document = field(default_factory=lambda: Document(None, None, ()))
    general: list[Problem] = field(default_factory=list)
    of_entry: dict[str, list[Problem]] = field(default_factory=lambda: defaultdict(list))
    unknown_defaults: bool = False

    def read(self) -> QueriesReading:
        try:
            self.document = read_yaml(self.path)
        except YamlError as error:
            return self._unusable("", str(error), error.line)
        content = self.document.value
        if not isinstance(content, dict):
            what = "must be a mapping with the key `queries`, even if it is empty"
            return self._unusable("", what, None)
        self._note_twice()
        head = self._head(content)
        entries = self._entries(content)
        queries = self._queries(entries)
        self._note_overlaps(queries)
        self._note_loops(queries)
        self._note_unlike(queries)
        self._note_defaults(entries)
        good = {name: query for name, (key, query) in queries.items() if key not in self.of_entry}
        broken = tuple(
            BrokenEntry(key, _schedule(entries.get(key)), tuple(sorted(set(problems))))
            for key, problems in self.of_entry.items()
        )
        return QueriesReading(
            self.path,
            _with(head, good),
            broken,
            tuple(sorted(set(self.general))),
            document=self.document,
            entries={name: key for name, (key, _) in queries.items()},
        )

    def _unusable(self, key: str, what: str, line: int | None) -> QueriesReading:
        problem = Problem(line or 0, key, what, self.path)
        return QueriesReading(self.path, QueriesFile(queries={}), (), (problem,), usable=False)

    def _note(self, path: tuple[str | int, ...], what: str, line: int | None = None) -> None:
        """Records a problem, with its entry, if it has one."""
        at = line or self.document.line(path) or 0
        problem = Problem(at, ".".join(map(str, path)), what, self.path)
        if len(path) > 1 and path[0] == "queries":
            self.of_entry[str(path[1])].append(problem)
            return
        self.general.append(problem)
        if not path or path[0] not in (*_APART, "queries"):
            self.unknown_defaults = True

    def _note_twice(self) -> None:
        for path, line in self.document.twice:
            self._note(path, "appears twice in its mapping; remove one", line)

    def _head(self, content: Mapping[Any, Any]) -> QueriesFile:
        """Returns the file without its queries."""
        rest = {str(key): value for key, value in content.items() if key != "queries"}
        try:
            return QueriesFile.model_validate({**rest, "queries": {}})
        except ValidationError as error:
            wrong = set()
            for path, what in explained(error, ()):
                wrong.add(path[0])
                self._note(path, what)
        return QueriesFile.model_validate(
            {**{key: value for key, value in rest.items() if key not in wrong}, "queries": {}}
        )

    def _entries(self, content: Mapping[Any, Any]) -> dict[str, Any]:
        if "queries" not in content:
            self._note(("queries",), "is missing; add it")
        listed = content.get("queries", {})
        if not isinstance(listed, dict):
            self._note(("queries",), f"must be a mapping, not {shown(listed)}")
            return {}
        for name in listed:
            if not isinstance(name, str):
                what = "must be text (in quotes, where YAML reads it as something else)"
                self._note(("queries", str(name)), f"{what}, not {shown(name)}")
        return {str(name): entry for name, entry in listed.items()}

    def _queries(self, entries: Mapping[str, Any]) -> dict[str, tuple[str, Query]]:
        """Returns the valid queries by name, each with the key of its entry."""
        queries: dict[str, tuple[str, Query]] = {}
        for key, entry in entries.items():
            for name, query in self._of(key, entry):
                if name in queries:
                    what = f"makes a query {name}, as {queries[name][0]} does; rename one"
                    self._note(("queries", key), what)
                else:
                    queries[name] = (key, query)
        return queries

    def _of(self, key: str, entry: Any) -> Iterator[tuple[str, Query]]:
        """Yields the queries of one entry, up to the first invalid one."""
        below = ("queries", key)
        if not isinstance(entry, dict):
            self._note(below, f"must be a mapping, not {shown(entry)}")
            return
        try:
            for name, settings in expand(key, entry):
                if not _NAME.fullmatch(name):
                    what = "must be a name of up to 200 letters, digits and _ . -"
                    self._note(below, f"{what}, not {shown(name)}")
                    return
                yield name, Query.model_validate(settings)
        except PatternError as error:
            self._note(below if error.key == "name" else (*below, error.key), str(error))
        except ValidationError as error:
            for path, what in explained(error, below):
                self._note(path, what)

    def _note_overlaps(self, queries: Mapping[str, tuple[str, Query]]) -> None:
        addresses = {name: query.checkpoint for name, (_, query) in queries.items()}
        for outer, inner in overlaps(addresses):
            what = _overlap(outer, addresses[outer], inner, addresses[inner])
            for name in (outer, inner):
                self._note(("queries", queries[name][0], "checkpoint"), what)

    def _note_loops(self, queries: Mapping[str, tuple[str, Query]]) -> None:
        shared = groups({name: query for name, (_, query) in queries.items()})
        for name, (key, query) in queries.items():
            names = {name, *shared.get(query.together or "", ())}
            own = {f"statemaint://{one}{end}" for one in names for end in ("", "/findings")}
            if (query.after or "").rstrip("/") in own:
                what = "the query's DAG updates this Asset itself, and would run forever"
                self._note(("queries", key, "after"), what)

    def _note_unlike(self, queries: Mapping[str, tuple[str, Query]]) -> None:
        for name, what in unlike({name: query for name, (_, query) in queries.items()}):
            self._note(("queries", queries[name][0], "together"), what)

    def _note_defaults(self, entries: Mapping[str, Any]) -> None:
        """Records the problems of the defaults for each entry that uses them."""
        if not self.unknown_defaults:
            return
        for key, entry in entries.items():
            policy = entry.get("policy") if isinstance(entry, dict) else None
            if not (isinstance(policy, dict) and policy.get("preset")):
                self.of_entry[key].extend(self.general)


def _overlap(outer: str, one: str, inner: str, other: str) -> str:
    if place_of(one) != place_of(other):
        return (
            f"the checkpoint of {inner}, {other}, lies inside that of {outer}, {one}; give each "
            "query the checkpointLocation that is its own"
        )
    spelled = one if one == other else f"{one} and {other} name the same place"
    return (
        f"{outer} and {inner} have one checkpoint ({spelled}); leave one of the two out, or give "
        "each its own"
    )


def _schedule(entry: Any) -> str | None:
    """Returns the schedule of an invalid entry, if the schedule itself is valid."""
    given = entry.get("schedule") if isinstance(entry, dict) else None
    try:
        Query.model_validate({"checkpoint": "/", "schedule": given})
    except ValidationError:
        return None
    return given if isinstance(given, str) else None


def _with(head: QueriesFile, queries: Mapping[str, Query]) -> QueriesFile:
    return head.model_copy(update={"queries": dict(queries)})
