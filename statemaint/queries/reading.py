"""Reads the queries of a file or a folder, and keeps the last good version of what it cannot read.

A file that cannot be read, is not a mapping of queries, or was cut counts as it was. So does, until
it has been unchanged for a minute, a file that lacks an entry that it had, and a file that is no
longer in its folder: that is how a file looks while it is written. An entry with a mistake counts
as it was when it had none.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from zlib import crc32

from statemaint.model.policy import Policy
from statemaint.queries.memory import Doubt, FileMemory, LastGood, Memory, MemoryFile
from statemaint.queries.merged import Merge, Part, QuerySource, merge, without_overlaps
from statemaint.queries.models import QueriesFile, Query
from statemaint.queries.parsed import APART, ParsedFile, entry_part, parse
from statemaint.queries.problems import Problem
from statemaint.queries.yaml_file import YamlError, texts_at


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


SETTLED = 60.0
"""The seconds after which a file that lacks something is trusted."""

Texts = dict[str, str | YamlError]


def read_queries(path: str | Path) -> QueriesReading:
    """Returns the valid queries of a file or folder, and the mistakes in the rest; never raises."""
    return QueriesReader(path, clock=lambda: 0.0).read()  # it has no last good version to date


class QueriesReader:
    """Reads the queries again and again; in a folder, the last good version outlives a process."""

    def __init__(
        self, path: str | Path, *, clock: Callable[[], float], folder: Path | None = None
    ) -> None:
        self._path, self._clock = str(path), clock
        self._file = MemoryFile(folder, self._path) if folder else None
        self._memory: Memory = {}
        self._parsed: dict[tuple[str, str], ParsedFile] = {}
        self._before: tuple[Texts, QueriesReading] | None = None

    def read(self) -> QueriesReading:
        """Returns the queries; never raises. What has not changed is not parsed again."""
        texts: Texts = {}
        of_folder = None
        try:
            texts = texts_at(self._path)
        except YamlError as error:
            of_folder = Problem(0, "", str(error), self._path)
        doubtful = any(file.doubt for file in self._memory.values())
        if self._before and self._before[0] == texts and not doubtful:
            return self._before[1]
        if self._file:  # another process may have read a newer version
            self._memory = self._file.load() or self._memory
        reading = _Reading(self._path, texts, self._memory, self._clock(), self._parsed, of_folder)
        queries = reading.read()
        self._before, self._parsed = (texts, queries), reading.parsed
        if self._file and reading.remembered != self._memory:
            self._file.save(reading.remembered)
        self._memory = reading.remembered
        return queries


@dataclass(slots=True)
class _Reading:
    """One reading, with the problems so far and what is to be remembered."""

    path: str
    texts: Texts
    memory: Memory
    now: float
    parsed_before: Mapping[tuple[str, str], ParsedFile]
    of_folder: Problem | None
    problems: list[Problem] = field(default_factory=list)
    remembered: dict[str, FileMemory] = field(default_factory=dict)
    parsed: dict[tuple[str, str], ParsedFile] = field(default_factory=dict)

    def read(self) -> QueriesReading:
        current = map(self._current, sorted({*self.texts, *self.memory}))
        files = [self._with_last_settings(file) for file in current if file]
        made = merge(files, is_new=lambda part: self._valid_before(part) is None)
        good = {name: it for name, it in made.sources.items() if it.part not in made.problems}
        kept = {part: self._kept(part) for part in made.problems}
        sources = without_overlaps(good, dict(self._last_good(kept, good)))
        for (path, part), last_good in kept.items():
            if before := self.remembered.get(path):
                self.remembered[path] = replace(before, kept={**before.kept, part: last_good})
        if self.of_folder:
            first = [file.doubt.first for file in self.remembered.values() if file.doubt]
            self.problems.append(replace(self.of_folder, kept=min(first, default=None)))
        broken, general = self._sorted_out(made, kept, sources)
        usable = bool(files) and all(file.usable for file in files)
        return QueriesReading(self.path, sources, broken, in_order(general), usable)

    def _parse(self, path: str, text: str) -> ParsedFile:
        key = path, text
        if key not in self.parsed:
            self.parsed[key] = self.parsed_before.get(key) or parse(path, text)
        return self.parsed[key]

    def _current(self, path: str) -> ParsedFile | None:
        text = self.texts.get(path)
        if text is None:
            return self._as_it_was(path, "missing", settles=self.of_folder is None)
        if isinstance(text, YamlError):
            parsed = parse(path, text)
            return self._as_it_was(path, "unreadable", *_all(parsed)) or parsed
        parsed, before = self._parse(path, text), self.memory.get(path)
        if before and text != before.text and before.text.startswith(text):
            if parsed.problems.keys() - self._parse(path, before.text).problems.keys():
                left = f"{len(text)} of {len(before.text)} characters are left"
                cut = Problem(0, "", f"was cut: {left}; write it again", path)
                return self._as_it_was(path, "cut", cut)
        elif not parsed.usable:
            return self._as_it_was(path, "unusable", *_all(parsed)) or parsed
        if before and self._is_shorter(parsed, text, before):
            seen = f"{crc32(text.encode()):08x}"
            if last := self._as_it_was(path, seen, settles=True):
                return last
        self.remembered[path] = FileMemory(text)
        return parsed

    def _as_it_was(
        self, path: str, seen: str, *what: Problem, settles: bool = False
    ) -> ParsedFile | None:
        """Returns the last good version of a file; `None` without one, or when it is outdated."""
        before = self.memory.get(path)
        if before is None:
            return None
        doubt = before.doubt or Doubt(seen, self.now, self.now)
        if doubt.seen != seen:
            doubt = Doubt(seen, self.now, doubt.first)
        if settles and self.now - doubt.since >= SETTLED:
            return None
        self.problems += (replace(problem, kept=doubt.first) for problem in what)
        self.remembered[path] = FileMemory(before.text, doubt)
        return self._parse(path, before.text)

    def _is_shorter(self, parsed: ParsedFile, text: str, before: FileMemory) -> bool:
        """Returns whether a file may have been cut, or be only partly written."""
        if text == before.text:
            return False
        entries = self._parse(parsed.path, before.text).entries
        lost = {part for part, last_good in before.kept.items() if last_good.text is None}
        missing = entries - lost - parsed.entries - parsed.problems.keys()
        return before.text.startswith(text) or bool(missing)

    def _valid_before(self, part: Part) -> str | None:
        """Returns the last text of a file if a part of it was there and without mistakes."""
        path, name = part
        before = self.memory.get(path)
        if before is None or name in before.kept:
            return None
        old = self._parse(path, before.text)
        valid = name not in old.problems and (name in APART or name in old.entries)
        return before.text if valid else None

    def _kept(self, part: Part) -> LastGood:
        path, name = part
        before = self.memory.get(path)
        if before and name in before.kept:
            return before.kept[name]
        return LastGood(self._valid_before(part), self.now)

    def _with_last_settings(self, file: ParsedFile) -> ParsedFile:
        """Returns a file with the last good version of its settings that are not valid."""
        last = {}
        for name in APART:
            text = self._kept((file.path, name)).text if name in file.problems else None
            if text is not None:
                last[name] = getattr(self._parse(file.path, text).head, name)
        return replace(file, head=file.head.model_copy(update=last)) if last else file

    def _last_good(
        self, kept: Mapping[Part, LastGood], good: Mapping[str, QuerySource]
    ) -> Iterator[tuple[str, QuerySource]]:
        """Yields the queries of the last good versions of entries with mistakes."""
        texts = {
            (path, last.text): None for (path, _), last in kept.items() if last.text is not None
        }
        for path, text in texts:
            old = self._parse(path, text)
            for name, (key, query) in old.queries.items():
                last = kept.get((path, entry_part(key)))
                if last and last.text == text and name not in good:
                    yield name, QuerySource(query, old, key, last.since)

    def _sorted_out(
        self, made: Merge, kept: Mapping[Part, LastGood], sources: Mapping[str, QuerySource]
    ) -> tuple[tuple[BrokenEntry, ...], list[Problem]]:
        """Returns the broken entries, and the mistakes outside of them."""
        maintained = {source.part for source in sources.values() if source.kept is not None}
        broken, general = [], self.problems
        for (path, name), problems in made.problems.items():
            part, entry = (path, name), name.removeprefix(entry_part(""))
            in_use = part in maintained or (name in APART and kept[part].text is not None)
            since = kept[part].since if in_use else None
            listed = [replace(problem, kept=since) for problem in sorted(set(problems))]
            if entry == name:
                general += listed
            else:
                broken.append(BrokenEntry(entry, path, tuple(listed), part in maintained))
        return tuple(broken), general


def _all(file: ParsedFile) -> list[Problem]:
    return [problem for listed in file.problems.values() for problem in listed]
