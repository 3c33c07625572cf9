"""The results of a verification that another one of the same checkpoint can reuse.

The findings of a store follow from its listing, from the facts of the checkpoint, and from the
content of files that have not changed while their entries have not. Rows follow from all stores of
a partition, as the stores of a join must agree. So hiding a file affects its own partition, and
everything if it changes the facts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from statemaint.audit.rebuild import Depth
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import StoreId, UnitId

_Id = TypeVar("_Id")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class StoreResult:
    """The result for one store."""

    store: Store
    lineages: bool  # whether the zips that lineages name had to exist
    versions_checked: int
    findings: tuple[Finding, ...]

    def holds(self, store: Store, *, lineages: bool) -> bool:
        codes = {finding.code for finding in self.findings}
        # Without the demand for zips, lineages that led somewhere still do.
        like = self.lineages == lineages or (
            self.lineages and FindingCode.LINEAGE_BROKEN not in codes
        )
        return like and FindingCode.SUPERSEDED not in codes and is_same(self.store, store)


@dataclass(frozen=True, slots=True)
class UnitResult:
    """The result for the rows of a partition."""

    stores: tuple[Store, ...]
    own: tuple[Finding, ...]
    joint: tuple[Finding, ...]
    read: bool  # no file was replaced meanwhile

    @property
    def id(self) -> UnitId:
        return self.stores[0].id.unit

    def holds(self, stores: tuple[Store, ...]) -> bool:
        alike = len(self.stores) == len(stores) and all(map(is_same, self.stores, stores))
        return alike and self.read


@dataclass(frozen=True, slots=True)
class Results:
    """The results for all stores and partitions of a checkpoint.

    There are several for a store or partition that was verified with and without files.
    """

    facts: Checkpoint | None = None  # the checkpoint without its stores; `None` if not verified
    depth: Depth = Depth.HEADERS
    stores: Mapping[StoreId, tuple[StoreResult, ...]] = field(default_factory=dict)
    units: Mapping[UnitId, tuple[UnitResult, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        checkpoint: Checkpoint,
        depth: Depth,
        stores: Iterable[StoreResult],
        units: Iterable[UnitResult],
    ) -> "Results":
        by_store = {result.store.id: (result,) for result in stores}
        return cls(_facts(checkpoint), depth, by_store, {result.id: (result,) for result in units})

    def __add__(self, other: "Results") -> "Results":
        """Returns both results; only the first ones if facts or depth differ."""
        if (self.facts, self.depth) != (other.facts, other.depth):
            return self
        stores, units = _both(self.stores, other.stores), _both(self.units, other.units)
        return Results(self.facts, self.depth, stores, units)

    def valid(self, checkpoint: Checkpoint, depth: Depth) -> "Results":
        return self if (self.facts, self.depth) == (_facts(checkpoint), depth) else NO_RESULTS

    def store(self, store: Store, *, lineages: bool) -> StoreResult | None:
        results = self.stores.get(store.id, ())
        return next((result for result in results if result.holds(store, lineages=lineages)), None)

    def unit(self, stores: tuple[Store, ...]) -> UnitResult | None:
        results = self.units.get(stores[0].id.unit, ())
        return next((result for result in results if result.holds(stores)), None)


NO_RESULTS = Results()


def _facts(checkpoint: Checkpoint) -> Checkpoint:
    return replace(checkpoint, stores=())


def _both(
    one: Mapping[_Id, tuple[_Result, ...]], other: Mapping[_Id, tuple[_Result, ...]]
) -> Mapping[_Id, tuple[_Result, ...]]:
    return {name: (*one.get(name, ()), *other.get(name, ())) for name in (*one, *other)}


def is_same(one: Store, other: Store) -> bool:
    return replace(one, listed=0.0) == replace(other, listed=0.0)
