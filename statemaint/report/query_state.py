"""What the metrics tell of a query as a whole. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from statemaint.model.checkpoint import Store


@dataclass(frozen=True, slots=True)
class QueryState:
    """A query as a whole.

    Attributes:
        committed: the newest batch in its commit log; `None` when there is none.
        lag: versions between the newest snapshot and the target, at worst; `None` without one.
    """

    committed: int | None
    lag: int | None


def lag(stores: Iterable[Store], target: int | None) -> int | None:
    """Returns the versions between the newest snapshot of each of some stores and the target."""
    if target is None:
        return None
    newest = (max(one.versions.snapshots, default=0) for one in stores)
    return max((target - version for version in newest), default=0)
