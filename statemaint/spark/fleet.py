"""The queries of a fleet, in the form that is sent to executors."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from statemaint.errors import ConfigError
from statemaint.model.policy import PRESETS, Policy
from statemaint.queries import InvalidQueriesError, QueriesReading, valid_queries
from statemaint.storage import Storage, open_storage


@dataclass(frozen=True, slots=True)
class Target:
    """One query of a fleet.

    Attributes:
        query: its name.
        checkpoint: the address of its checkpoint for driver and executors.
        policy: when to snapshot and what to keep.
        every_unit: whether its record has each partition.
    """

    query: str
    checkpoint: str
    policy: Policy = field(default_factory=lambda: PRESETS["safe"])
    every_unit: bool = False

    def open(self) -> Storage:
        """Returns the checkpoint's storage, with the settings of this process's environment."""
        return open_storage(self.checkpoint)

    def to_json(self) -> dict[str, Any]:
        """Returns the query in the form that is sent to an executor."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Target":
        """Returns the query that `to_json` encoded."""
        return cls(**{**fields, "policy": Policy(**fields["policy"])})


Queries = str | Path | QueriesReading | Mapping[str, str] | Iterable[Target]
"""A fleet: the path of a queries file, the file itself, addresses by name, or the queries."""


def fleet_of(queries: Queries, change: Mapping[str, Any] | None = None) -> tuple[Target, ...]:
    """Returns the enabled queries of a fleet.

    Args:
        queries: the fleet.
        change: settings of the policy for every query.

    Raises:
        ConfigError: when the file cannot be used, or a query uses an Airflow connection.
    """
    targets = _targets(queries)
    return tuple(replace(one, policy=one.policy.override(**(change or {}))) for one in targets)


def _targets(queries: Queries) -> tuple[Target, ...]:
    if isinstance(queries, str | Path):
        return _of_file(_read(queries))
    if isinstance(queries, QueriesReading):
        return _of_file(queries)
    if isinstance(queries, Mapping):
        return tuple(Target(name, address) for name, address in queries.items())
    return tuple(queries)


def _read(path: str | Path) -> QueriesReading:
    try:
        return valid_queries(path)
    except InvalidQueriesError as error:
        raise ConfigError(str(error)) from None


def _of_file(reading: QueriesReading) -> tuple[Target, ...]:
    enabled = {name: query for name, query in reading.queries.items() if query.enabled}
    for name, query in enabled.items():
        if query.connection:
            raise ConfigError(
                f"queries.{name}.connection: Spark's executors have no Airflow connections; "
                "take it out, and give them credentials through their environment"
            )
    return tuple(
        Target(name, one.checkpoint, reading.policy_of(name), one.detail == "partition")
        for name, one in enabled.items()
    )
