"""Parses one queries file into its models, with all of its mistakes. Pure.

An entry may stand for several queries: `{name}` is replaced in the query's name and in every text
of the entry, but not within its mappings, such as `policy`, `savepoint` and `spark`.

    "clicks_{region}":
      for_each: {region: [eu, us]}
      checkpoint: s3://lake/checkpoints/clicks_{region}
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

from pydantic import ValidationError

from statemaint.queries import checks
from statemaint.queries.models import PolicySettings, QueriesFile, Query
from statemaint.queries.problems import Problem, explained, shown
from statemaint.queries.yaml_file import Document, YamlError, parse_yaml
from statemaint.storage import overlaps

_MOST = 1000  # an entry that stands for more is more likely a mistake
_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_KEY = "for_each"
# A mistake in these does not affect the queries; only their metrics and plans are missing.
APART = ("pushgateway", "pushgateway_auth", "textfile", "plans", "alert_labels")


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """One queries file by itself."""

    path: str
    head: QueriesFile  # its valid settings, without its queries
    queries: Mapping[str, tuple[str, Query]]  # with the key of the entry; it may have problems
    # By the part that they concern: `queries.KEY` for an entry, or the first key of the file.
    problems: Mapping[str, tuple[Problem, ...]]
    entries: frozenset[str]  # the parts that are entries with queries
    usable: bool  # whether it is known which queries the file has
    document: Document

    def problem_of(self, key: str, what: str, *path: str | int, query: str = "") -> Problem:
        """Returns a problem of an entry, or of the key at a path within it, with its line."""
        line = self.document.line(("queries", key, *path)) or 0
        keys = (step for step in path if isinstance(step, str))
        return Problem(line, ".".join(("queries", query or key, *keys)), what, self.path, key)


def entry_part(key: str) -> str:
    """Returns the part of a file that an entry is, as in `ParsedFile.problems`."""
    return f"queries.{key}"


def parse(path: str, text: str | YamlError) -> ParsedFile:
    """Returns a queries file by its text, or by the error of reading it; never raises.

    An entry with a mistake is omitted, and the others stay. So is each entry that a mistake in
    `defaults`, or an unknown key of the file, concerns: its intended policy is unknown.
    """
    return _Parser(path).parse(text)


@dataclass(slots=True)
class _Parser:
    """The problems of each part of a file so far."""

    path: str
    document: Document = field(default_factory=lambda: Document(None, None, ()))
    problems: dict[str, list[Problem]] = field(default_factory=lambda: defaultdict(list))
    # The path of each problem that leaves the intended policy of some entries unknown.
    doubts: list[tuple[tuple[str | int, ...], Problem]] = field(default_factory=list)

    def parse(self, text: str | YamlError) -> ParsedFile:
        queries: Mapping[str, tuple[str, Query]] = {}
        head, usable = QueriesFile(queries={}), False
        try:
            if isinstance(text, YamlError):
                raise text
            self.document = parse_yaml(text)
        except YamlError as error:
            self._note((), str(error), error.line)
        else:
            if isinstance(self.document.value, dict):
                for path, line in self.document.twice:
                    self._note(path, "appears twice in its mapping; remove one", line)
                head = self._head(self.document.value)
                entries, usable = self._entries(self.document.value)
                queries = self._queries(entries)
                self._note_doubts(entries)
            else:
                self._note((), "must be a mapping with the key `queries`, even if it is empty")
        problems = {part: tuple(sorted(set(listed))) for part, listed in self.problems.items()}
        parts = frozenset(entry_part(key) for key, _ in queries.values())
        return ParsedFile(self.path, head, queries, problems, parts, usable, self.document)

    def _note(self, path: tuple[str | int, ...], what: str, line: int | None = None) -> None:
        at = line or self.document.line(path) or 0
        of_entry = len(path) > 1 and path[0] == "queries"
        entry = str(path[1]) if of_entry else ""
        problem = Problem(at, ".".join(map(str, path)), what, self.path, entry)
        part = entry_part(entry) if of_entry else str(path[0]) if path else ""
        self.problems[part].append(problem)
        if path and path[0] not in (*APART, "queries"):
            self.doubts.append((path, problem))

    def _head(self, content: Mapping[Any, Any]) -> QueriesFile:
        """Returns the file without its queries, and without the values that are not valid."""
        given = {str(key): value for key, value in content.items() if key != "queries"}
        try:
            return QueriesFile.model_validate({**given, "queries": {}})
        except ValidationError as error:
            for path, what in explained(error, ()):
                self._note(path, what)
                if path[0] == "defaults" and len(path) > 1 and path[1] in given["defaults"]:
                    rest = given["defaults"].items()
                    given["defaults"] = {key: value for key, value in rest if key != path[1]}
                else:
                    given.pop(str(path[0]), None)
        return QueriesFile.model_validate({**given, "queries": {}})

    def _entries(self, content: Mapping[Any, Any]) -> tuple[dict[str, Any], bool]:
        """Returns the entries by key, and whether there is a mapping of them."""
        if "queries" not in content:
            self._note(("queries",), "is missing; add it")
            return {}, False
        listed = content["queries"]
        if not isinstance(listed, dict):
            self._note(("queries",), f"must be a mapping, not {shown(listed)}")
            return {}, False
        for name in listed:
            if not isinstance(name, str):
                what = "must be text (in quotes, where YAML reads it as something else)"
                self._note(("queries", str(name)), f"{what}, not {shown(name)}")
        return {str(name): entry for name, entry in listed.items()}, True

    def _queries(self, entries: Mapping[str, Any]) -> dict[str, tuple[str, Query]]:
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
        below = ("queries", key)
        if not isinstance(entry, dict):
            self._note(below, f"must be a mapping, not {shown(entry)}")
            return
        try:
            for name, settings in expand(key, entry):
                if not checks.is_query_name(name):
                    self._note(below, f"{checks.NO_QUERY_NAME}, not {shown(name)}")
                    return
                query = Query.model_validate(settings)
                if query.savepoint and any(
                    overlaps({"of": query.checkpoint, "to": query.savepoint.address(name, 0)})
                ):
                    what = "lies inside of the query's checkpoint, or around it; give another place"
                    self._note((*below, "savepoint", "to"), what)
                    return
                yield name, query
        except PatternError as error:
            self._note(below if error.key == "name" else (*below, error.key), str(error))
        except ValidationError as error:
            for path, what in explained(error, below):
                self._note(path, what)

    def _note_doubts(self, entries: Mapping[str, Any]) -> None:
        """Records the problems of the defaults for each entry that they concern."""
        for path, problem in self.doubts:
            known = path[0] == "defaults" and path[-1] in PolicySettings.model_fields
            for key, entry in entries.items():
                given = entry.get("policy") if isinstance(entry, dict) else None
                policy = given if isinstance(given, dict) else {}
                if not policy.get("preset") and not (known and path[-1] in policy):
                    self.problems[entry_part(key)].append(problem)


class PatternError(ValueError):
    """A pattern that cannot be expanded; `key` is the invalid key of the entry."""

    def __init__(self, key: str, what: str) -> None:
        super().__init__(what)
        self.key = key


def expand(name: str, entry: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the queries of an entry, not validated yet; itself if it is not a pattern."""
    if entry.get(_KEY) is None:
        yield name, dict(entry)
        return
    values = _values(entry[_KEY])
    for key in values:
        if f"{{{key}}}" not in name:
            what = f"the query's name lacks {{{key}}}, so that several queries would have one name"
            raise PatternError(_KEY, what)
    rest = {key: value for key, value in entry.items() if key != _KEY}
    for combination in product(*values.values()):
        chosen = dict(zip(values, combination, strict=True))
        filled = {key: _filled(key, value, chosen) for key, value in rest.items()}
        yield _filled("name", name, chosen), filled


def _values(for_each: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(for_each, Mapping) or not for_each:
        raise PatternError(_KEY, "must be a mapping of names to lists of texts")
    values = {}
    for name, listed in for_each.items():
        if not isinstance(listed, list) or not listed:
            raise PatternError(_KEY, f"{name} must be a list of texts with at least one element")
        if not all(isinstance(item, str | int) and not isinstance(item, bool) for item in listed):
            quotes = "(in quotes, where YAML reads one as something else)"
            raise PatternError(_KEY, f"{name} must be a list of texts {quotes}")
        values[str(name)] = tuple(map(str, listed))
    if (count := prod(map(len, values.values()))) > _MOST:
        raise PatternError(_KEY, f"stands for {count} queries; {_MOST} is the limit of one entry")
    return values


def _filled(key: str, value: Any, chosen: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_filled(key, text, chosen) if isinstance(text, str) else text for text in value]
    if not isinstance(value, str):
        return value

    def chosen_value(match: re.Match[str]) -> str:
        if match[1] not in chosen:
            names = ", ".join(chosen)
            raise PatternError(key, f"{match[0]} is not a name in for_each: {names}")
        return chosen[match[1]]

    return _PLACEHOLDER.sub(chosen_value, value)
