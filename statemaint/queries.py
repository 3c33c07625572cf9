"""The file that names the queries to maintain, from which the Airflow DAGs are made.

    defaults: {min_deltas_for_snapshot: 10, grace: 1h}     the policy of every query
    pushgateway: http://pushgateway:9091                   or textfile: /var/lib/node_exporter
    queries:
      hourly_revenue:
        checkpoint: /data/checkpoints/hourly_revenue
        schedule: "@hourly"
        policy: {min_batches_to_retain: 50}                on top of the defaults

Loading it reads no storage. `docs/queries.schema.json` is its JSON schema.
"""

import json
import re
from collections.abc import Hashable, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import ErrorDetails

from statemaint.errors import ConfigError
from statemaint.model.policy import PRESETS, Policy, seconds
from statemaint.storage import has_secret, overlap, place_of

# Airflow limits the instances of one mapped task to 1024; beyond that `plan` would fail.
_MOST_TASKS = 1024
_BUCKETS = ("s3", "s3a", "s3n")
_SCHEDULES = ("@once", "@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly")
_CRON = r"\S+( +\S+){4,5}"
_MERGE = "tag:yaml.org,2002:merge"  # the key `<<`, which may appear more than once
_SAFE = PRESETS["safe"]


def _seconds(value: object) -> float:
    if not isinstance(value, str):
        raise ValueError(f"not a duration: {value!r}; write it like 90s, 15m, 1h or 7d")  # noqa: TRY004 -- only a ValueError becomes a validation error
    try:
        return seconds(value)
    except ConfigError as error:
        raise ValueError(str(error)) from None


def _absolute(checkpoint: str) -> str:
    if has_secret(checkpoint):
        raise ValueError(
            "the address has a secret in it, which would be shown; give it without, and the "
            "credentials in an Airflow connection or where boto3 or Hadoop look for them"
        )
    if "://" in checkpoint or checkpoint.startswith("file:") or _is_absolute(checkpoint):
        return checkpoint
    raise ValueError(
        f"{checkpoint!r} depends on where a task happens to run; give an absolute path or an "
        "address such as file:///data/checkpoint"
    )


def _folder(path: str) -> str:
    if _is_absolute(path):
        return path
    raise ValueError(f"{path!r} is not an absolute path; give the collector's folder, from / on")


def _is_absolute(path: str) -> bool:
    return PurePosixPath(path).is_absolute()


def _scheduled(schedule: str) -> str:
    if schedule in _SCHEDULES or re.fullmatch(_CRON, schedule):
        return schedule
    raise ValueError(
        f"{schedule!r} is not a valid schedule; write a cron expression of five fields or one of "
        f"{', '.join(_SCHEDULES)}"
    )


def must_be_open(gateway: str) -> str:
    """Returns the address of a Pushgateway if it contains no secret.

    Raises:
        ValueError: when the address contains a secret; the message does not show the address.
    """
    if "@" in gateway or has_secret(gateway):
        raise ValueError(
            "the address has a secret in it, which would be shown; give it without, and set "
            "STATEMAINT_PUSHGATEWAY_USER and STATEMAINT_PUSHGATEWAY_PASSWORD where tasks run"
        )
    return gateway


def _web_address(address: str) -> str:
    parts = urlsplit(must_be_open(address))
    if parts.scheme in ("http", "https") and parts.netloc:
        return address
    raise ValueError("not a web address; write it like http://pushgateway:9091")


Duration = Annotated[
    float,
    BeforeValidator(_seconds),
    WithJsonSchema({"type": "string", "pattern": r"^\d+(\.\d+)?[smhd]$"}),
]
QueryName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$", max_length=200)]
Tag = Annotated[str, Field(min_length=1, max_length=100)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _without_defaults(schema: dict[str, Any]) -> None:
    # An omitted setting comes from elsewhere: a query's from `defaults`, theirs from the preset.
    for one in schema["properties"].values():
        one.pop("default", None)


class PolicySettings(_Strict):
    """What a file says of a policy; only the settings that it names count."""

    model_config = ConfigDict(json_schema_extra=_without_defaults)

    preset: Literal["spark", "safe", "lean"] = Field(
        default="safe",
        description="The policy to start from; a query's preset replaces all defaults.",
    )
    min_deltas_for_snapshot: int = Field(
        default=_SAFE.min_deltas_for_snapshot,
        ge=1,
        description="A snapshot is written once a chain has more deltas than this.",
    )
    min_batches_to_retain: int = Field(
        default=_SAFE.min_batches_to_retain,
        ge=1,
        description="How many versions below the newest committed one stay loadable.",
    )
    grace: Duration = Field(
        default=_SAFE.grace,
        description="How long a snapshot must have existed before anything below it goes.",
    )
    orphan_age: Duration = Field(
        default=_SAFE.orphan_age,
        description="How old a temp file or a checksum without its file must be to go.",
    )
    rebase: bool = Field(
        default=_SAFE.rebase,
        description="Also write a snapshot at the floor when its chain is long.",
    )
    max_deletes_per_run: int = Field(
        default=_SAFE.max_deletes_per_run,
        ge=0,
        description="At most this many deletions a task; the next run goes on.",
    )
    max_seconds_per_run: Duration | None = Field(
        default=_SAFE.max_seconds_per_run,
        description="A task begins no store after this long; null is without limit.",
    )
    trash_for: Duration = Field(
        default=_SAFE.trash_for,
        description="How long deleted files are kept for `statemaint undo`; 0s deletes them.",
    )
    verify: bool = Field(
        default=_SAFE.verify,
        description="Read snapshots back and compare; without it nothing is ever deleted.",
    )

    def on_top_of(self, policy: Policy) -> Policy:
        """Returns a policy with the settings that the file names replaced."""
        given = self.model_dump(exclude_unset=True)
        base = PRESETS[given.pop("preset")] if "preset" in given else policy
        return replace(base, **given)


class Query(_Strict):
    """One query whose state is maintained."""

    checkpoint: Annotated[str, AfterValidator(_absolute)] = Field(
        min_length=1, description="The query's checkpointLocation: an absolute path or an address."
    )
    connection: Annotated[str, Field(min_length=1, max_length=250)] | None = Field(
        default=None,
        description="The Airflow connection, of type aws, that reaches an S3 checkpoint.",
    )
    schedule: Annotated[str, AfterValidator(_scheduled)] | None = Field(
        default=None,
        description="A cron expression or a name such as @hourly; by hand only by default.",
    )
    policy: PolicySettings = Field(
        default_factory=PolicySettings, description="What differs from `defaults`."
    )
    max_tasks: int = Field(
        default=64,
        ge=1,
        le=_MOST_TASKS,
        description="Beyond this many partitions, a task maintains several of them.",
    )
    retries: int = Field(
        default=1,
        ge=0,
        le=10,
        description="How often a task is tried again when its storage fails.",
    )
    tags: tuple[Tag, ...] = Field(
        default=(), strict=False, description="More tags for the DAG, beside `statemaint`."
    )

    @model_validator(mode="after")
    def _connected(self) -> Self:
        if self.connection and self.checkpoint.partition("://")[0] not in _BUCKETS:
            raise ValueError(
                f"a connection is for S3 only, and not for {self.checkpoint}; take `connection` out"
            )
        return self


def _apart(queries: Mapping[str, Query]) -> Mapping[str, Query]:
    addresses = {name: query.checkpoint for name, query in queries.items()}
    if (found := overlap(addresses)) is None:
        return queries
    outer, inner = found
    one, other = addresses[outer], addresses[inner]
    if place_of(one) != place_of(other):
        raise ValueError(
            f"the checkpoint of {inner}, {other}, lies inside that of {outer}, {one}; give each "
            "query the checkpointLocation that is its own"
        )
    spelled = one if one == other else f"{one} and {other} name the same place"
    raise ValueError(
        f"{outer} and {inner} have one checkpoint ({spelled}); leave one of the two out, or give "
        "each its own"
    )


class QueriesFile(_Strict):
    """The whole file."""

    defaults: PolicySettings = Field(
        default_factory=PolicySettings, description="The policy of every query."
    )
    pushgateway: Annotated[str, AfterValidator(_web_address)] | None = Field(
        default=None,
        description="Where tasks push metrics. STATEMAINT_PUSHGATEWAY in their environment wins.",
    )
    textfile: Annotated[str, AfterValidator(_folder)] | None = Field(
        default=None,
        description="A folder for metrics files, for node_exporter's textfile collector.",
    )
    queries: Annotated[Mapping[QueryName, Query], AfterValidator(_apart)] = Field(
        description="The queries, by name; each has a checkpoint of its own."
    )

    def policy_of(self, name: str) -> Policy:
        """Returns the policy of one query: its own settings on top of the file's defaults."""
        return self.queries[name].policy.on_top_of(self.defaults.on_top_of(_SAFE))


def load_queries(path: str | Path) -> QueriesFile:
    """Returns the parsed and validated queries file.

    Raises:
        ConfigError: when the file is invalid; one line names the file, the key, the problem and
            the solution.
    """
    found = _parse(path)
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: must be a mapping with the key `queries`, even if it is empty")
    try:
        return QueriesFile.model_validate(found)
    except ValidationError as error:
        raise ConfigError(f"{path}: {_explain(error)}") from None


def json_schema() -> dict[str, Any]:
    """Returns the JSON schema of the file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **QueriesFile.model_json_schema(),
    }


def _parse(path: str | Path) -> Any:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"{path}: cannot be read ({reason}); write the queries file") from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: not UTF-8 text at byte {error.start}; save it as such"
        ) from None
    try:
        return yaml.load(text, Loader=_NoDuplicates)  # noqa: S506 -- a subclass of the safe loader
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: {_syntax(error)}") from None


class _NoDuplicates(yaml.SafeLoader):
    """The safe YAML loader, except that a key may appear only once in its mapping."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 -- as overridden
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            if key_node.tag == _MERGE:
                continue
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                continue  # refused below, with its place
            if key in seen:
                problem = f"the key {key!r} stands twice; remove one"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def _syntax(error: yaml.YAMLError) -> str:
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return f"not YAML: {' '.join(str(error).split())}"
    mark = error.problem_mark
    return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"


def _explain(error: ValidationError) -> str:
    details = error.errors(include_url=False)
    first = details[0]
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    path = [str(part) for part in first["loc"] if part != "[key]"]
    return f"{'.'.join(path) or 'the file'}: {_what(first, path)}{more}"


_PHRASES = {
    "missing": "is missing; add it",
    "model_type": "must be a mapping",
    "dict_type": "must be a mapping",
    "mapping_type": "must be a mapping",
    "tuple_type": "must be a list",
    "string_type": "must be text (in quotes, where YAML reads it as something else)",
    "string_too_short": "must not be empty",
    "string_pattern_mismatch": "must be a name of letters, digits and _ . -",
}


def _what(detail: ErrorDetails, path: list[str]) -> str:
    kind = detail["type"]
    if kind == "extra_forbidden":
        return f"no such key; known are {', '.join(_known_keys(path))}"
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    phrase = _PHRASES.get(kind) or detail["msg"].replace("Input should", "must", 1)
    return phrase if kind == "missing" else f"{phrase}, not {_shown(detail['input'])}"


def _shown(value: object) -> str:
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    return json.dumps(value, default=str)


_MODELS: Mapping[tuple[str, ...], type[BaseModel]] = MappingProxyType(
    {(): QueriesFile, ("defaults",): PolicySettings, ("queries",): Query}
)


def _known_keys(path: list[str]) -> list[str]:
    """Returns the keys that are allowed beside the last key of a path."""
    inside_policy = path[0] == "defaults" or (len(path) > 3 and path[2] == "policy")  # noqa: PLR2004
    model = PolicySettings if inside_policy else _MODELS[tuple(path[:1] if len(path) > 1 else ())]
    return list(model.model_fields)


if __name__ == "__main__":
    print(json.dumps(json_schema(), indent=2))  # noqa: T201 -- `make generated` writes it to docs/
