"""How far the snapshots of a query lag. Pure."""

from collections.abc import Iterable

from statemaint.model.checkpoint import Store


def lag(stores: Iterable[Store], target: int | None) -> int | None:
    """Returns the versions between the newest snapshot of each of some stores and the target."""
    if target is None:
        return None
    newest = (max(one.versions.snapshots, default=0) for one in stores)
    return max((target - version for version in newest), default=0)
