"""The files that a restart reads of a store: its chain, and the base's shared files. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from statemaint.model.chain import Chain
from statemaint.model.ids import UnitId
from statemaint.report.outcome import StoreReport


@dataclass(frozen=True, slots=True)
class Replay:
    """The files that a restart reads of one store.

    Attributes:
        chain: the deltas that it replays.
        files: the files that it reads, those included that a zip refers to.
        bytes: their size.
    """

    chain: int
    files: int
    bytes: int


def replay_of(store: StoreReport) -> Replay | None:
    """Returns the files that a restart at the run's target reads; `None` if it does not load."""
    chain = None if store.target is None else store.after.versions.chain(store.target)
    if not isinstance(chain, Chain):
        return None
    parts = _parts(store, chain)
    return Replay(
        len(chain.deltas), len(chain.paths) + len(parts), chain.size + sum(parts.values())
    )


def _parts(store: StoreReport, chain: Chain) -> Mapping[str, int]:
    """Returns the files that a chain's base refers to, with their sizes."""
    rocks = store.after.rocks
    return rocks.parts.get(chain.base.entry.path, {}) if rocks and chain.base else {}


def by_partition(
    stores: Iterable[StoreReport],
) -> Iterator[tuple[UnitId, list[StoreReport]]]:
    """Yields the stores of each partition, the partitions ascending."""
    partitions: dict[UnitId, list[StoreReport]] = defaultdict(list)
    for store in stores:
        partitions[store.after.id.unit].append(store)
    yield from sorted(partitions.items())
