"""Queries that share a DAG and Spark's program, by their key `together`. Pure."""

from collections.abc import Iterator, Mapping

from statemaint.queries.models import Query

# The keys of a DAG, its tasks and its Spark; all other keys are each query's own.
SHARED = (
    "schedule",
    "after",
    "spark",
    "owner",
    "pool",
    "priority",
    "queue",
    "executor",
    "timeout",
    "retries",
    "retry_delay",
    "deadline",
    "notify",
)


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
