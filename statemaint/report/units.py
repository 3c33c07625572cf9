"""The partitions of a run in a few figures each, for the pages and for other tasks. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from statemaint.model.ids import UnitId
from statemaint.model.replay import replay_of
from statemaint.plan import Plan
from statemaint.report.outcome import StoreReport
from statemaint.report.store_report import summarize


class Unit(NamedTuple):
    """One partition with all its stores; `statemaint_partitions` has a list of these lists.

    Attributes:
        operator: the operator's number.
        partition: the partition's number.
        chain: the most deltas that a restart replays in one of its stores; `None` when the target
            does not load in one of them.
        files: the number of its files.
        bytes: their size.
        replay_files: the files that a restart reads, of all its stores.
        replay_bytes: their size.
        reclaimable: the bytes that a later run deletes.
        damage: the number of findings that are damage.
        notices: the number of other findings.
    """

    operator: int
    partition: int
    chain: int | None
    files: int
    bytes: int
    replay_files: int
    replay_bytes: int
    reclaimable: int
    damage: int
    notices: int

    @property
    def id(self) -> UnitId:
        """Returns the partition's id."""
        return UnitId(self.operator, self.partition)


def planned_units(plan: Plan) -> list[Unit]:
    """Returns the partitions of a plan, as they were before it."""
    return units_of(summarize(one, (), plan.target) for one in plan.stores)


def units_of(stores: Iterable[StoreReport]) -> list[Unit]:
    """Returns the partitions of some stores after a run, ascending."""
    return [_of_stores(unit, found) for unit, found in by_partition(stores)]


def by_partition(
    stores: Iterable[StoreReport],
) -> Iterator[tuple[UnitId, list[StoreReport]]]:
    """Yields the stores of each partition, the partitions ascending."""
    partitions: dict[UnitId, list[StoreReport]] = defaultdict(list)
    for store in stores:
        partitions[store.after.id.unit].append(store)
    yield from sorted(partitions.items())


def _of_stores(unit: UnitId, stores: Sequence[StoreReport]) -> Unit:
    replays = [replay_of(one.after, one.target) for one in stores]
    loads = [one for one in replays if one is not None]
    damage = sum(found.damage for one in stores for found in one.findings)
    return Unit(
        operator=unit.operator,
        partition=unit.partition,
        chain=max(one.chain for one in loads) if len(loads) == len(replays) else None,
        files=sum(len(one.after.files) for one in stores),
        bytes=sum(file.entry.size for one in stores for file in one.after.files),
        replay_files=sum(one.files for one in loads),
        replay_bytes=sum(one.bytes for one in loads),
        reclaimable=sum(one.reclaimable for one in stores),
        damage=damage,
        notices=sum(len(one.findings) for one in stores) - damage,
    )
