"""The models of the queries file; the docstring of a field is its description in the schema."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    create_model,
    model_validator,
)

from statemaint.model.policy import PRESETS, SETTINGS, Policy
from statemaint.queries import checks

DEFAULT_POOL = "statemaint"

Duration = Annotated[
    float,
    BeforeValidator(checks.duration_in_seconds),
    WithJsonSchema({"type": "string", "pattern": r"^\d+(\.\d+)?[smhd]$"}),
]
Period = Annotated[Duration, AfterValidator(checks.some_time)]
SparkSetting = Annotated[
    str,
    BeforeValidator(checks.spark_setting),
    WithJsonSchema({"type": ["string", "number", "boolean"]}),
]
# The braces are those of a pattern; a query's own name has none.
QueryName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.{}-]+$", max_length=200)]
SharedName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$", max_length=200)]
Tag = Annotated[str, Field(min_length=1, max_length=100)]
AlertLabel = Annotated[
    str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]{0,99}$"), AfterValidator(checks.free_label)
]
Text = Annotated[str, Field(min_length=1, max_length=250)]
Folder = Annotated[str, AfterValidator(checks.absolute_folder)]
File = Annotated[str, AfterValidator(checks.secret_file)]
Connection = Annotated[str, AfterValidator(checks.valid_connection)]
Schedule = Annotated[str, AfterValidator(checks.valid_schedule)]
Argument = Annotated[Any, AfterValidator(checks.open_argument)]
ForEach = Annotated[
    Mapping[
        Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")],
        Annotated[tuple[str | int, ...], Field(strict=False, min_length=1)],
    ],
    Field(min_length=1),
]


def _without_defaults(schema: dict[str, Any]) -> None:
    # An omitted setting comes from elsewhere: a query's from `defaults`, theirs from the preset.
    for field in schema["properties"].values():
        field.pop("default", None)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


_KINDS = {int: int, float: Duration, bool: bool}


def _settings() -> dict[str, Any]:
    preset = Field(
        default="safe",
        description="The policy to start from; a query's preset replaces all defaults.",
    )
    return {"preset": (Literal["spark", "safe", "lean"], preset)} | {
        setting.name: (
            _KINDS[setting.kind] if setting.default is not None else _KINDS[setting.kind] | None,
            Field(
                default=setting.default,
                ge=setting.least if setting.kind is int else None,
                description=setting.meaning,
            ),
        )
        for setting in SETTINGS
    }


class PolicySettings(create_model("Settings", __base__=_Strict, **_settings())):  # type: ignore[misc]  # made from `SETTINGS`
    """The policy in a file; only the settings that it names apply."""

    model_config = ConfigDict(json_schema_extra=_without_defaults)

    def on_top_of(self, policy: Policy) -> Policy:
        given = self.model_dump(exclude_unset=True)
        base = PRESETS[given.pop("preset")] if "preset" in given else policy
        return replace(base, **given)


class Notifier(_Strict):
    """A callback for a run that fails or misses its deadline."""

    call: Annotated[str, AfterValidator(checks.valid_callable)]
    """The path of a notifier's class, or of a function that takes Airflow's context."""
    arguments: Mapping[str, Argument] = Field(default_factory=dict)
    """The arguments of the class."""


class SparkSettings(_Strict):
    """The Spark that maintains a query with `engine: spark`; a local one by default."""

    connection: Connection | None = None
    """An Airflow connection of type spark: the task runs spark-submit by Airflow's Spark provider
    package."""
    master: Text | None = None
    """The master, if there is no connection; the driver then runs in the task. By default
    local[*]."""
    conf: Mapping[Annotated[Text, AfterValidator(checks.spark_setting_name)], SparkSetting] = Field(
        default_factory=dict
    )
    """Spark's settings, spark.executor.memory and others."""
    submit: Mapping[Text, Argument] = Field(default_factory=dict)
    """More arguments for Airflow's SparkSubmitHook, such as archives or num_executors; with a
    connection only."""
    application: Text | None = None
    """Where spark-submit finds statemaint/spark/__main__.py; by default where the task has it."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.connection and self.master:
            raise ValueError("the connection has its own master; give only one of the two")
        if not self.connection and (self.submit or self.application):
            raise ValueError("submit and application are for spark-submit; give a connection, too")
        return self


KeepRules = Annotated[
    Mapping[Literal["last", "daily", "weekly", "monthly"], Annotated[int, Field(ge=1)]],
    AfterValidator(checks.some_rule),
]


class SavepointSettings(_Strict):
    """Where the savepoints of a query are, and which of them are kept."""

    to: Annotated[
        str, AfterValidator(checks.absolute_address), AfterValidator(checks.savepoint_address)
    ]
    """The address of a savepoint, such as s3://backup/{query}/{batch}: {query} stands for the
    query's name, {batch} for the batch that is saved."""
    schedule: Schedule | None = None
    """When the query's DAG of savepoints makes one, as for `schedule` of the query; manual runs
    only by default."""
    keep: KeepRules | None = None
    """How many savepoints are kept: the newest ones, and the newest of each of so many days, weeks
    and months; all by default."""

    def address(self, query: str, batch: int) -> str:
        return self.to.replace("{query}", query).replace("{batch}", str(batch))

    def folder(self, query: str) -> str:
        return self.to.rstrip("/").rpartition("/")[0].replace("{query}", query)


class Query(_Strict):
    """One query whose state is maintained, or a pattern of several."""

    checkpoint: Annotated[str, Field(min_length=1), AfterValidator(checks.absolute_address)]
    """The query's checkpointLocation: an absolute path or an address."""
    for_each: ForEach | None = None
    """Makes one query of each combination of these values; {name} in the query's name and in the
    texts of the entry, but not within its mappings, stands for the value."""
    enabled: bool = True
    """Without it, the query has no DAG."""
    engine: Literal["tasks", "spark"] = "tasks"
    """The engine: Airflow's mapped tasks, or one task with Spark's executors."""
    spark: SparkSettings | None = None
    """The Spark of `engine: spark`; local[*] in the task by default."""
    together: SharedName | None = None
    """With `engine: spark`: the queries of one such name share a DAG, whose runs start Spark once
    for all of them."""
    connection: Connection | None = None
    """The Airflow connection, of type aws, that reaches an S3 checkpoint."""
    schedule: Schedule | None = None
    """A cron expression or a name such as @hourly; manual runs only by default."""
    after: Annotated[Text, AfterValidator(checks.valid_asset)] | None = None
    """An Asset, by name or URI; the DAG runs after it is updated."""
    policy: PolicySettings = Field(default_factory=PolicySettings)
    """The settings that differ from `defaults`."""
    savepoint: SavepointSettings | None = None
    """The savepoints of the query, by its DAG or by `statemaint savepoint NAME`."""
    owner: Text | None = None
    """The owner of the tasks in Airflow."""
    contact: Text | None = None
    """Whom to ask about the query, shown on its page: an https address, a mail address, or text."""
    tags: Annotated[tuple[Tag, ...], Field(strict=False)] = ()
    """More tags for the DAG, beside `statemaint`."""
    pool: Text = DEFAULT_POOL
    """The Airflow pool of all tasks."""
    priority: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """The tasks' priority_weight in that pool."""
    queue: Text | None = None
    """The queue of Celery for all tasks."""
    executor: Text | None = None
    """The Airflow executor of all tasks."""
    # Airflow's limit of a mapped task's instances; beyond that `plan` would fail
    max_tasks: Annotated[int, Field(ge=1, le=1024)] | None = None
    """The number of tasks that share more partitions than this; by default as many as the work is
    worth, at most 16."""
    timeout: Period = Field(default=21600.0, json_schema_extra={"default": "6h"})
    """How long a task may run, and how long `plan` waits for another run's lease."""
    retries: Annotated[int, Field(ge=0, le=10)] = 3
    """How often a task is tried again when its storage fails."""
    retry_delay: Period = Field(default=60.0, json_schema_extra={"default": "1m"})
    """The time before the first retry; each further one waits twice as long."""
    detail: Literal["query", "partition"] = "query"
    """The detail of metrics: of the query, or of each partition as well."""
    deadline: Period | None = None
    """`notify` is called when a run has not ended after this time."""
    notify: Annotated[tuple[Notifier, ...], Field(strict=False)] = ()
    """The callbacks for a run that fails or is late."""

    @property
    def savepoint_interval(self) -> float | None:
        """Returns the longest time between two savepoints; `None` if no schedule makes them."""
        return checks.expected_interval(self.savepoint.schedule) if self.savepoint else None

    @model_validator(mode="after")
    def _connected(self) -> Self:
        if self.connection and self.checkpoint.partition("://")[0] not in checks.BUCKETS:
            raise ValueError(
                f"a connection is for S3 only, and not for {self.checkpoint}; take `connection` out"
            )
        if self.engine == "spark" and self.connection:
            raise ValueError(
                "with engine: spark, executors take their credentials from their environment; take "
                "`connection` out, and give the workers of Airflow theirs in the same way"
            )
        if self.together and self.engine != "spark":
            raise ValueError(
                "together is for queries that share a Spark program; add `engine: spark`, or "
                "take `together` out"
            )
        return self


class PushgatewayAuth(_Strict):
    """The credentials for a Pushgateway; secrets are in files or a connection, not in this file."""

    connection: Connection | None = None
    """An Airflow connection: its login and password, or without a login its password as a bearer
    token."""
    basic_auth_file: File | None = None
    """A file with one line, user:password."""
    bearer_token_file: File | None = None
    """A file with one line, a bearer token."""
    ca_file: File | None = None
    """The certificates that sign the Pushgateway's, in PEM."""
    cert_file: File | None = None
    """The client's certificate, in PEM."""
    key_file: File | None = None
    """Its key, in PEM; by default in the same file."""

    @model_validator(mode="after")
    def _one_secret(self) -> Self:
        given = ("connection", "basic_auth_file", "bearer_token_file")
        if sum(getattr(self, name) is not None for name in given) > 1:
            raise ValueError(f"give only one of {', '.join(given)}")
        if self.key_file and not self.cert_file:
            raise ValueError("key_file is the key of a certificate; give cert_file too")
        return self


class QueriesFile(_Strict):
    """The whole file."""

    defaults: PolicySettings = Field(default_factory=PolicySettings)
    """The policy of every query."""
    pushgateway: Annotated[str, AfterValidator(checks.web_address)] | None = None
    """Where tasks push metrics. STATEMAINT_PUSHGATEWAY in their environment wins."""
    pushgateway_auth: PushgatewayAuth | None = None
    """The credentials for the Pushgateway: secret, TLS certificate."""
    textfile: Folder | None = None
    """A folder for metrics files, for node_exporter's textfile collector."""
    plans: Folder | None = None
    """A folder for the plans of dry runs; by default beside Airflow's task logs."""
    alert_labels: Annotated[tuple[AlertLabel, ...], Field(strict=False, max_length=5)] = ()
    """Labels of metrics and alerts beside `owner`: a tag `team:payments` becomes `team="payments"`
    where this list has `team`."""
    queries: Mapping[QueryName, Query]
    """The queries, by name; each has its own checkpoint."""

    def routing_of(self, query: Query) -> dict[str, str]:
        tags = (tag.replace("=", ":", 1).partition(":") for tag in reversed(query.tags))
        labels = {key: value for key, _, value in tags if value and key in self.alert_labels}
        return {**({"owner": query.owner} if query.owner else {}), **labels}

    def policy_of(self, query: Query) -> Policy:
        """Returns the policy of a query: its own settings on top of the file's defaults."""
        return query.policy.on_top_of(self.defaults.on_top_of(PRESETS["safe"]))
