"""What a savepoint would take, by a read of all the rows that it would be made of."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat

from statemaint.fold import Source
from statemaint.fold.state import opened_state
from statemaint.fold.table import taken_by
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store
from statemaint.plan.actions import WriteSnapshot
from statemaint.savepoint.plan import SavepointPlan
from statemaint.savepoint.report import OperatorForecast, PartitionSizes
from statemaint.savepoint.shuffle import Row, Shuffle, routed
from statemaint.savepoint.stores import SPILL
from statemaint.workers import Job, Workers, as_they_come


@dataclass(slots=True)
class _Tally:
    """The rows of one store, counted as they are put apart: bytes are those of keys and values."""

    store: Store
    chain: Chain
    targets: Sequence[WriteSnapshot]
    shuffle: Shuffle | None = None
    rows: int = 0
    sizes: Counter[int] = field(default_factory=Counter)

    def add(self, targets: Iterable[int], rows: Iterable[Row]) -> None:
        for target, (key, value) in zip(targets, rows, strict=False):
            self.rows += 1
            self.sizes[self.targets[target].store.partition] += len(key) + len(value)

    def counted(self, planned: SavepointPlan) -> Iterator["_Tally"]:
        source = Source.of(planned.storage, self.store, planned.checkpoint)
        with opened_state(source, self.store, self.chain) as state:
            if self.shuffle:
                for targets, rows in routed(self.shuffle, self.store, state):
                    self.add(targets, rows)
            else:
                self.add(repeat(0), state.rows)
        yield self


def forecast(planned: SavepointPlan, workers: Workers) -> tuple[OperatorForecast, ...]:
    """Returns what the savepoint of each operator would take; refuses what that refuses."""
    tallies = [_Tally(store, write.chain, (write,)) for store, write in planned.stores]
    for shuffle in planned.shuffles:
        tallies += [_Tally(*source, shuffle.targets, shuffle) for source in shuffle.sources]
    jobs = [Job(partial(tally.counted, planned), SPILL, tally.chain.size) for tally in tallies]
    threads = workers.threads(planned.storage.parallel, planned.size)
    by_operator = defaultdict[int, list[_Tally]](list)
    for tally in as_they_come(jobs, threads=threads, budget=workers.budget()):
        by_operator[tally.store.id.operator].append(tally)
    return tuple(_of_operator(*group) for group in sorted(by_operator.items()))


def _of_operator(operator: int, tallies: Sequence[_Tally]) -> OperatorForecast:
    before, after = Counter[int](), Counter[int]()
    for tally in tallies:
        before[tally.store.id.partition] += tally.sizes.total()
        after.update({write.store.partition: 0 for write in tally.targets})
        after.update(tally.sizes)
    moved = [tally for tally in tallies if tally.shuffle]
    size = sum(tally.sizes.total() for tally in moved)
    memory, spill = taken_by(sum(tally.rows for tally in moved), size)
    return OperatorForecast(
        operator=operator,
        rows=sum(tally.rows for tally in tallies),
        bytes=sum(before.values()),
        stores=len({write.path for tally in tallies for write in tally.targets}),
        memory=memory,
        spill=spill,
        before=PartitionSizes.of(before.values()),
        after=PartitionSizes.of(after.values()),
    )
