"""The settings of one query and of one run, for the tasks; without Airflow."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from statemaint.errors import ConfigError
from statemaint.maintain.bundles import Bundle
from statemaint.maintain.work import WorkOrder
from statemaint.metrics.options import Named, Targets
from statemaint.model.policy import Policy
from statemaint.plan.actions import Request
from statemaint.queries.models import SparkSettings
from statemaint.report.record import code_of
from statemaint.report.task import Failure

Engine = Literal["tasks", "spark"]


@dataclass(frozen=True, slots=True)
class QuerySettings:
    """The settings of one query, from the queries file and the environment.

    Attributes:
        query: its name.
        checkpoint: the address of its checkpoint.
        policy: when to snapshot and what to keep.
        connection: the id of the Airflow connection that reaches it; `None` for the environment.
        max_tasks: the number of tasks that share more partitions than that; `None` for as many
            as the work is worth.
        plans: the folder for the plans of dry runs; `None` to write none.
        schedule: when it runs; `None` if an Asset or a user decides.
        named: the data of its metrics beyond its record, as far as the queries file has it.
        targets: the destinations of its metrics.
        engine: what does the work: mapped tasks, or one task with Spark's executors.
        spark: the Spark of `engine: spark`.
    """

    query: str
    checkpoint: str
    policy: Policy
    connection: str | None = None
    max_tasks: int | None = None
    plans: Path | None = None
    schedule: str | None = None
    named: Named = field(default_factory=lambda: Named(""))
    targets: Targets = field(default_factory=Targets)
    engine: Engine = "tasks"
    spark: SparkSettings = field(default_factory=SparkSettings)


def about(settings: QuerySettings) -> dict[str, Any]:
    """Returns the description of the query for the pages; nothing in it is a secret."""
    return {
        "query": settings.query,
        "checkpoint": settings.checkpoint,
        "connection": settings.connection,
        "policy": asdict(settings.policy),
    }


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one run, from its form.

    `None` keeps the value of the queries file; no operators or partitions means all.
    """

    dry_run: bool = False
    force_snapshot: bool = False
    min_deltas_for_snapshot: int | None = None
    min_batches_to_retain: int | None = None
    operators: tuple[int, ...] = ()
    partitions: tuple[int, ...] = ()
    engine: Engine | None = None

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> "Options":
        lists = {name: tuple(params.get(name) or ()) for name in ("operators", "partitions")}
        # A run queued by an earlier build lacks the new options.
        scalars = (name for name in cls.__slots__ if name not in lists and name in params)
        given = {name: params[name] for name in scalars}
        return cls(**{**given, **lists})

    @property
    def partial(self) -> bool:
        return bool(self.operators or self.partitions)

    @property
    def scope(self) -> str:
        """Returns the restriction in words; empty if there is none."""
        named = (("operator", self.operators), ("partition", self.partitions))
        parts = [f"{name} {', '.join(map(str, sorted(one)))}" for name, one in named if one]
        return " and ".join(parts)

    def refused(self, failure: str | None) -> bool:
        """Returns whether a run that failed before its work was refused for these options."""
        given = self.partial or self.engine or self.min_batches_to_retain is not None
        given = given or self.min_deltas_for_snapshot is not None
        return bool(given) and code_of(failure) == ConfigError.code

    def request(self) -> Request:
        return Request(
            force_snapshot=self.force_snapshot,
            operators=frozenset(self.operators),
            partitions=frozenset(self.partitions),
        )

    def change(self, policy: Policy) -> Policy:
        return policy.override(
            min_deltas_for_snapshot=self.min_deltas_for_snapshot,
            min_batches_to_retain=self.min_batches_to_retain,
        )

    def order(
        self, settings: QuerySettings, bundles: Iterable[Bundle], *, run: str, handover: str | None
    ) -> WorkOrder:
        """Returns the work of this run on a query."""
        return WorkOrder(
            query=settings.query,
            policy=self.change(settings.policy),
            run=run,
            bundles=tuple(bundles),
            force_snapshot=self.force_snapshot,
            handover=handover,
            every_unit=settings.named.every_unit,
        )


def unknown_options(
    conf: Mapping[str, Any] | None, options: Sequence[str] = Options.__slots__
) -> Failure | None:
    """Returns the failure of a run whose configuration has unknown keys.

    A misspelt `dry_run` must not become a run that deletes.
    """
    unknown = sorted(str(key) for key in conf or {} if key not in options)
    if not unknown:
        return None
    allowed = ", ".join(options)
    listed = ", ".join(map(repr, unknown))
    return Failure(
        f"CONFIG: the run's configuration has {listed}, which is not an option; "
        f"known are {allowed}. Nothing was done: trigger it again"
    )
