"""The form of a manual run, and the text on a DAG's page."""

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import Param

from statemaint.airflow.settings import MOST_SCOPE, QuerySettings
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.model.policy import SETTINGS, Policy, duration
from statemaint.queries.models import Query, SavepointSettings
from statemaint.records.savepoints import PROVIDERS

_ENGINES = {"tasks": "Mapped tasks", "spark": "One task on Spark"}
_CHOICES = {"provider": PROVIDERS, "ids": ("v1", "v2"), "codec": COMPRESSIONS}


def form(policy: Policy, engine: str = "tasks") -> dict[str, Param]:
    """Returns the params of a query's DAG; a run's configuration has no other key."""
    return {
        **_whole(policy),
        "operators": _numbers("Operators", "Only these stateful operators"),
        "partitions": _numbers("Partitions", "Only these partitions of them"),
        "engine": _choice("Engine", "What does the work.", _ENGINES, _ENGINES[engine]),
    }


def together_form(names: Sequence[str]) -> dict[str, Param]:
    """Returns the params of the DAG of several queries; a run's configuration has no other key.

    Parts of a checkpoint, and another engine, need a query's own DAG.
    """
    shown, text = list(names), "Only these queries. Empty: all."
    items = {"type": "string", "enum": shown}
    queries = _param([], "array", "Queries", text, items=items, examples=shown)
    return {**_whole(None), "queries": queries}


def savepoint_form(to: str) -> dict[str, Param]:
    batch = "A committed batch. Empty: the newest."
    return {
        "batch": optional("integer", "Batch", batch, exclusiveMinimum=-1),
        "new_id": toggle("New id", "A fork: the query that starts from it has an id of its own."),
        "to": optional("string", "To", f"The address of an empty folder. Empty: `{to}`."),
        "dry_run": _dry_run("savepoint"),
    }


def reshape_form() -> dict[str, Param]:
    """Returns the params of a savepoint in another shape, but for the query."""
    partitions = "Another number of partitions. Empty: as they are."
    return {
        "to": required("string", "To", "The address of an empty folder.", minLength=1),
        "partitions": optional("integer", "Partitions", partitions, exclusiveMinimum=0),
        **{
            name: _choice(name.capitalize(), "Of the savepoint.", {each: each for each in words})
            for name, words in _CHOICES.items()
        },
    }


def _whole(policy: Policy | None) -> dict[str, Param]:
    """Returns the params of every run; without a policy, each query has its own."""
    return {
        "dry_run": _dry_run("plan"),
        "force_snapshot": toggle(
            "Force a snapshot",
            "Snapshot every partition at the target, however short its chain is.",
        ),
        "min_deltas_for_snapshot": _count(
            "Deltas before a snapshot",
            "Snapshot chains with more deltas than this. More is looser than the file.",
            policy.min_deltas_for_snapshot if policy else None,
        ),
        "min_batches_to_retain": _count(
            "Batches to retain",
            "Number of versions below the target that stay loadable. Less is looser than the file.",
            policy.min_batches_to_retain if policy else None,
        ),
    }


def _dry_run(task: str) -> Param:
    text = f"Only show what would be done, in the log of `{task}`; change nothing."
    return toggle("Dry run", text)


def _numbers(title: str, text: str) -> Param:
    """Returns the param of short text; a list, as earlier builds had it, is valid too."""
    text, items = f"{text}, such as `0, 3-7`. Empty: all.", {"type": "integer", "minimum": 0}
    # Airflow shows a text with examples in one line.
    more = {"pattern": "^[0-9, -]*$", "examples": ["0, 3-7"], "maxLength": MOST_SCOPE}
    return _param(None, ["null", "string", "array"], title, text, items=items, **more)


def _choice(title: str, text: str, words: Mapping[str, str], usual: str = "") -> Param:
    """Returns the param of a choice; the empty one keeps the query's own value and says so."""
    unchanged = f"As set for the query ({usual})" if usual else "As it is"
    shown = {"null": unchanged, **words}
    return optional("string", title, text, enum=[None, *words], values_display=shown)


def _count(title: str, text: str, default: int | None) -> Param:
    of_file = "the value of each query" if default is None else f"{default}, as in the queries file"
    return optional("integer", title, f"{text} At least 1. Empty: {of_file}.", exclusiveMinimum=0)


# Of a number, `exclusiveMinimum`: with `minimum`, Airflow's form turns a -1 into a 0 silently.
def required(kind: str, title: str, text: str, **schema: Any) -> Param:
    return Param(type=kind, title=title, description_md=text, **schema)


def optional(kind: str, title: str, text: str, **schema: Any) -> Param:
    return _param(None, ["null", kind], title, text, **schema)


def toggle(title: str, text: str) -> Param:
    return _param(False, "boolean", title, text)


def _param(default: object, kind: object, title: str, text: str, **schema: Any) -> Param:
    return Param(default, type=kind, title=title, description_md=text, **schema)


def document(query: Query, settings: QuerySettings) -> str:
    values = ((each.name, each.shown(getattr(settings.policy, each.name))) for each in SETTINGS)
    rows = "\n".join(f"| `{name}` | {value} |" for name, value in values)
    return f"""\
### State of `{settings.query}`

Snapshots long chains of `{query.checkpoint}` and deletes what no retained version needs.

| setting | value |
|---|---|
{rows}
| `pool`, `max_tasks` | `{query.pool}`, {query.max_tasks or "by the work"} |
| `engine` | {query.engine} |
| `timeout`, `retries` | {duration(query.timeout)}, {query.retries} |

`plan` fixes the version that all partitions are snapshotted at, `maintain` runs once for each
partition with work (or for several of many; with the engine `spark` once for all),
`report` adds up. A damaged partition fails its own task, with the reason in its log; the others
continue. Trigger with a configuration for a forced snapshot, some partitions only, or another
engine, or for a dry run, which ends with `plan`.
"""


def together_document(shared: str, names: Sequence[str], query: Query) -> str:
    """Returns the text on the page of the DAG of several queries, of which one is given."""
    listed = "\n".join(f"- `{name}`" for name in names)
    return f"""\
### State of {len(names)} queries, `together: {shared}`

{listed}

| setting | value |
|---|---|
| `pool` | `{query.pool}` |
| `engine` | {query.engine} |
| `timeout`, `retries` | {duration(query.timeout)}, {query.retries} |

`plan` plans each query separately, under its own policy and lease. `spark` maintains the partitions
of all of them in one Spark program. `report` ends the run of each query, and adds up. Damage,
a lease that another run holds, or a storage that fails stops its own query only, and fails the
run with its name. Trigger with a configuration for some queries only, or for a dry run, which ends
with `plan`.
"""


def savepoint_document(query: Query, settings: QuerySettings, where: SavepointSettings) -> str:
    rules = ", ".join(f"{rule} {count}" for rule, count in (where.keep or {}).items())
    return f"""\
### Savepoints of `{settings.query}`

Saves the newest committed batch of `{query.checkpoint}`, while the query runs, as a checkpoint from
which it would continue.

| setting | value |
|---|---|
| `to` | `{where.to}` |
| `keep` | {rules or "all"} |

`savepoint` makes it, `expire` deletes those that no rule keeps. Trigger with a configuration for
another batch, a fork with an id of its own, another place, or a dry run.
"""
