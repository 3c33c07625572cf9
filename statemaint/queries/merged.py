"""The queries of several files together: names, checkpoints and Assets that collide. Pure.

One file cannot affect the queries of another: what collides is a mistake of the entry that came
last, or that is in the later file if both are new.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from statemaint.queries.models import Query
from statemaint.queries.parsed import ParsedFile, entry_part
from statemaint.queries.problems import Problem
from statemaint.storage import overlaps, place_of

Part = tuple[str, str]
"""The path of a file, and a part of it."""
# The keys of a DAG, its tasks and its Spark; all other keys are each query's own.
SHARED = (
    "schedule", "after", "spark", "owner", "pool", "priority", "queue", "executor", "timeout",
    "retries", "retry_delay", "deadline", "notify",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class QuerySource:
    """A query, and where it is from."""

    query: Query
    file: ParsedFile  # of the last good version of its entry, if that is used
    key: str  # of its entry
    kept: float | None = None  # since when the last good version is used; `None` if it is not

    @property
    def part(self) -> Part:
        return self.file.path, entry_part(self.key)


@dataclass(slots=True)
class Merge:
    """Files together: the queries, those with mistakes included, and the mistakes."""

    sources: dict[str, QuerySource] = field(default_factory=dict)
    problems: dict[Part, list[Problem]] = field(default_factory=lambda: defaultdict(list))


def merge(files: Sequence[ParsedFile], is_new: Callable[[Part], bool]) -> Merge:
    """Returns files together; a part is new if it was not valid, or missing, when last read."""
    made, given = Merge(), []
    for file in files:
        for part, problems in file.problems.items():
            made.problems[file.path, part] += problems
        given += [
            (name, QuerySource(query, file, key)) for name, (key, query) in file.queries.items()
        ]
    for name, source in sorted(given, key=lambda named: is_new(named[1].part)):
        if name in made.sources:
            other = _place(made.sources[name])
            _note(made, source, f"is a query of {other}, too; rename one of the two")
        else:
            made.sources[name] = source
    _note_overlaps(made)
    _note_loops(made)
    for name, what in unlike({name: source.query for name, source in made.sources.items()}):
        _note(made, made.sources[name], what, "together")
    return made


def _note(made: Merge, source: QuerySource, what: str, *path: str) -> None:
    made.problems[source.part].append(source.file.problem_of(source.key, what, *path))


def _place(source: QuerySource) -> str:
    line = source.file.document.line(("queries", source.key))
    return f"{source.file.path}:{line}"


def _note_overlaps(made: Merge) -> None:
    order = {name: number for number, name in enumerate(made.sources)}
    for outer, inner in overlaps(_addresses(made.sources)):
        first, last = sorted((outer, inner), key=order.__getitem__)
        one, other = made.sources[first], made.sources[last]
        same_file = one.file.path == other.file.path
        what = _overlap(made, outer, inner, with_places=not same_file)
        for source in (one, other) if same_file else (other,):
            _note(made, source, what, "checkpoint")


def _addresses(sources: Mapping[str, QuerySource]) -> dict[str, str]:
    return {name: source.query.checkpoint for name, source in sources.items()}


def _overlap(made: Merge, outer: str, inner: str, *, with_places: bool) -> str:
    one, other = (made.sources[name].query.checkpoint for name in (outer, inner))
    names = [
        f"{name} ({_place(made.sources[name])})" if with_places else name for name in (outer, inner)
    ]
    if place_of(one) != place_of(other):
        return (
            f"the checkpoint of {names[1]}, {other}, lies inside that of {names[0]}, {one}; give "
            "each query the checkpointLocation that is its own"
        )
    spelled = one if one == other else f"{one} and {other} name the same place"
    return (
        f"{names[0]} and {names[1]} have one checkpoint ({spelled}); leave one of the two out, or "
        "give each its own"
    )


def _note_loops(made: Merge) -> None:
    shared = groups({name: source.query for name, source in made.sources.items()})
    for name, source in made.sources.items():
        names = {name, *shared.get(source.query.together or "", ())}
        own = {f"statemaint://{member}{end}" for member in names for end in ("", "/findings")}
        if (source.query.after or "").rstrip("/") in own:
            what = "the query's DAG updates this Asset itself, and would run forever"
            _note(made, source, what, "after")


def without_overlaps(
    good: Mapping[str, QuerySource], kept: Mapping[str, QuerySource]
) -> dict[str, QuerySource]:
    """Returns queries with the last good versions of others that do not overlap with any."""
    together = {**good, **kept}
    meeting = {name for pair in overlaps(_addresses(together)) for name in pair} if kept else set()
    return {name: each for name, each in together.items() if name in good or name not in meeting}


def groups(queries: Mapping[str, Query]) -> dict[str, list[str]]:
    """Returns the enabled queries of each name of `together`, in the order of the file."""
    by_name: dict[str, list[str]] = {}
    for name, query in queries.items():
        if query.enabled and query.together:
            by_name.setdefault(query.together, []).append(name)
    return by_name


def unlike(queries: Mapping[str, Query]) -> Iterator[tuple[str, str]]:
    """Yields each query that cannot share the DAG of the first one of its name, and why not."""
    for shared, (first, *others) in groups(queries).items():
        for name in others:
            one, other = queries[first], queries[name]
            differ = [key for key in SHARED if getattr(one, key) != getattr(other, key)]
            if differ:
                what = f"{name} differs from {first} in {', '.join(differ)}"
                why = f"all queries of {shared!r} share one DAG and one Spark"
                yield name, f"{what}, and {why}; give them the same, or another name"
