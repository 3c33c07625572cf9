"""The stores that a query has, from all evidence in the checkpoint together. Pure.

A whole folder may be missing, so the listing is not enough: the offset log pins the number of
shuffle partitions, commits with unique ids name every store, the operators' metadata declare
theirs, a schema describes an operator's state, the ledger lists the stores that were once
maintained, and Spark numbers operators from 0.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from statemaint.model.checkpoint import Operator
from statemaint.model.ids import DEFAULT_STORE, StoreId

_OF_A_JOIN = frozenset(
    {
        "left-keyToNumValues",
        "left-keyWithIndexToValue",
        "right-keyToNumValues",
        "right-keyWithIndexToValue",
    }
)
# An existing folder may be the only one left of this many numbers beyond those that are seen.
_FEW = 32


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence of a query's stores.

    Attributes:
        operators: the operators' declared metadata, by operator.
        pinned: the shuffle partitions of the newest committed batch, if its offsets pin them.
        counts: the shuffle partitions of each batch, if a repartition has changed them.
        named: the number of stores in each partition of an operator, by the newest commit's ids.
        keyed: the operators whose state has a key, as far as a schema shows.
        described: the stores of partition 0 that have a schema; Spark writes it before the first
            batch of their operator.
        copied: the folders whose metadata belong to another operator.
    """

    listed: frozenset[StoreId]
    operators: Mapping[int, Operator] = field(default_factory=dict)
    pinned: int | None = None
    counts: Mapping[int, int] = field(default_factory=dict)
    named: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    keyed: frozenset[int] = frozenset()
    described: frozenset[StoreId] = frozenset()
    copied: frozenset[int] = frozenset()
    noted: frozenset[StoreId] = frozenset()
    removed: frozenset[int] = frozenset()

    def stores(self, operator: int) -> frozenset[StoreId]:
        """Returns the stores of an operator that were seen, now or by an earlier run."""
        return frozenset(one for one in self.listed | self.noted if one.operator == operator)


def expected_stores(evidence: Evidence) -> tuple[StoreId, ...]:
    """Returns the stores that a committed batch reads, and those a repartition left, ascending.

    Without a sign of a repartition no batch ever had partitions beyond the pinned number.
    """
    operators = required_operators(evidence)
    left_over = (one for one in evidence.listed if evidence.counts and one.operator in operators)
    required = (
        StoreId(operator, partition, name)
        for operator in operators
        for name in store_names(evidence, operator)
        for partition in required_partitions(evidence, operator)
    )
    return tuple(sorted({*required, *left_over}))


def required_operators(evidence: Evidence) -> frozenset[int]:
    """Returns the stateful operators of the query, as far as the evidence shows.

    Spark numbers them from 0, so a number missing below another one is an operator, too.
    """
    if evidence.named:
        return frozenset(evidence.named)
    stores = evidence.listed | evidence.noted | evidence.described
    seen = {one.operator for one in stores} | evidence.operators.keys()
    return frozenset(_filled(seen - evidence.copied - evidence.removed))


def required_partitions(evidence: Evidence, operator: int) -> Iterable[int]:
    """Returns the partitions that an operator has at any batch of the commit log.

    Operators without a key (a global aggregation, `limit`) run in one task, whatever their
    metadata declare. Mirrors `IncrementalExecution.nextStatefulOperationStateInfo`, which uses the
    number of shuffle partitions that the batch's offsets pin.
    """
    seen = {one.partition for one in evidence.stores(operator)}
    named = len(evidence.named.get(operator, ()))
    if operator not in evidence.keyed and seen <= {0} and named <= 1:
        return range(1)
    declared = evidence.operators.get(operator)
    pinned = max((evidence.pinned or 0, *evidence.counts.values()))
    count = pinned or (declared.partitions if declared else 0)
    return range(max(named, count)) if named or count else _filled(seen | {0})


def _filled(numbers: Iterable[int]) -> Iterable[int]:
    """Returns numbers with the gaps below them filled, unless most would be invented."""
    present = frozenset(numbers)
    highest = max(present, default=-1)
    return range(highest + 1) if highest <= len(present) + _FEW else present


def store_names(evidence: Evidence, operator: int) -> frozenset[str]:
    declared = evidence.operators.get(operator)
    seen = {one.store for one in evidence.stores(operator)}
    described = {one.store for one in evidence.described if one.operator == operator}
    names = seen | set(declared.stores if declared else ())
    if (names | described) & _OF_A_JOIN or len(_OF_A_JOIN) in evidence.named.get(operator, ()):
        names |= _OF_A_JOIN
    return frozenset(names or {DEFAULT_STORE})


def unused_stores(evidence: Evidence, expected: Iterable[StoreId]) -> tuple[StoreId, ...]:
    """Returns the listed stores that no batch reads, ascending."""
    return tuple(sorted(evidence.listed - set(expected)))


def foreign_operators(evidence: Evidence) -> tuple[int, ...]:
    """Returns the operators that have metadata but do not belong to the query, ascending.

    Mirrors `OperatorStateMetadata`'s validation: Spark compares everything below `state/` with the
    operators of the query. Only commits with unique ids name these.
    """
    declared = evidence.operators.keys() - evidence.copied
    return tuple(sorted(declared - evidence.named.keys())) if evidence.named else ()
