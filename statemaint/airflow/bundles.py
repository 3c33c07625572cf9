"""The partitions that each mapped task maintains. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import Any

from statemaint.maintain import Holder
from statemaint.model.ids import UnitId


@dataclass(frozen=True, slots=True)
class Bundle:
    """Partitions of one operator that one task maintains, at the version that `plan` fixed.

    Attributes:
        operator: the operator of all the partitions.
        partitions: their numbers.
        target: the version.
        holder: the holder of the lease that the run's tasks share; `None` if each takes its own.
    """

    operator: int
    partitions: tuple[int, ...]
    target: int
    holder: Holder | None = None

    @property
    def label(self) -> str:
        """Returns the name that Airflow's UI shows: `op 0 / part 3`, `op 0 / parts 0-7`."""
        first, last = self.partitions[0], self.partitions[-1]
        if first == last:
            return str(UnitId(self.operator, first))
        gaps = len(self.partitions) != last - first + 1
        count = f" ({len(self.partitions)} of them)" if gaps else ""
        return f"op {self.operator} / parts {first}-{last}{count}"

    def to_json(self) -> dict[str, Any]:
        """Returns the bundle as it is passed through XCom."""
        return {
            "label": self.label,
            "operator": self.operator,
            "partitions": list(self.partitions),
            "target": self.target,
            "lease": self.holder.to_json() if self.holder else None,
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Bundle":
        """Returns the bundle that `to_json` encoded."""
        # A run planned by an earlier build passes no lease.
        lease = fields.get("lease")
        holder = Holder(**lease) if lease else None
        return cls(fields["operator"], tuple(fields["partitions"]), fields["target"], holder)


def bundles(
    units: Iterable[UnitId], *, target: int, most: int, holder: Holder | None = None
) -> tuple[Bundle, ...]:
    """Returns bundles of about equal size, with every partition in exactly one.

    A bundle never mixes operators, so with more than `most` operators there are more than `most`
    bundles.
    """
    operators: dict[int, list[int]] = defaultdict(list)
    for unit in sorted(units):
        operators[unit.operator].append(unit.partition)
    largest = _largest([len(partitions) for partitions in operators.values()], most)
    return tuple(
        Bundle(operator, part, target, holder)
        for operator, partitions in operators.items()
        for part in _split(partitions, ceil(len(partitions) / largest))
    )


def _largest(counts: list[int], most: int) -> int:
    """Returns the smallest bundle size that gives at most `most` bundles, if any does."""
    size = max(1, ceil(sum(counts) / most))
    while size < max(counts, default=0) and sum(ceil(count / size) for count in counts) > most:
        size += 1
    return size


def _split(partitions: list[int], parts: int) -> Iterator[tuple[int, ...]]:
    ends = [len(partitions) * number // parts for number in range(parts + 1)]
    for start, end in pairwise(ends):
        yield tuple(partitions[start:end])
