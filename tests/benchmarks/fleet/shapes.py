"""The fleets that are generated: how many queries of how many stores, and what is in each."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from statemaint.model.policy import Policy
from statemaint.spark import Target
from tests.benchmarks.cases import Case
from tests.benchmarks.inputs import prepare, store_folder

# Snapshots at the target, and at the floor of long chains, below which everything is deleted.
POLICY = Policy(min_batches_to_retain=10, grace=0)


@dataclass(frozen=True, slots=True)
class Shape:
    """A fleet to generate.

    Attributes:
        name: the name in the tables.
        query: the checkpoint of each query.
        queries: the number of queries.
        large: the store that replaces partition 0 of each query; none by default.
    """

    name: str
    query: Case
    queries: int = 1
    large: Case | None = None

    @property
    def stores(self) -> int:
        """Returns the number of stores in all queries."""
        return self.queries * self.query.partitions

    @property
    def files(self) -> int:
        """Returns the number of deltas and snapshots in all stores."""
        return self.stores * (self.query.deltas + bool(self.query.base))


def _tiny(stores: int, deltas: int = 12) -> Case:
    return Case("tiny", rows=16, deltas=deltas, share=0.25, inserts=0.0, base=0, partitions=stores)


WARM_UP = Shape("warm-up", _tiny(8), queries=8)
EVEN = {
    stores: Shape(f"{stores:,}", _tiny(stores // queries), queries)
    for stores, queries in ((1_000, 10), (10_000, 50), (50_000, 100))
}
# Queries of twenty stores, ten times as many of them, and a fleet for a bucket.
FEWER_QUERIES = Shape("10,000 in 500 queries", _tiny(20), queries=500)
MANY_QUERIES = Shape("100,000 in 5,000 queries", _tiny(20), queries=5_000)
FAR_QUERIES = Shape("4,000 in 2,000 queries", _tiny(2), queries=2_000)
MANY_FILES = (
    Shape("100,000 files, 10 queries", _tiny(100, deltas=100), queries=10),
    Shape("100,000 files, 1 query", _tiny(1_000, deltas=100)),
)
_ROWS = 40_000
# Stores with more work than Spark adds for a task, and a disk for a file.
LARGER_STORES = Shape("1,000 large", Case("small", rows=_ROWS, partitions=500), queries=2)
# As many bytes in the one as in the thousand.
SKEWED = Shape(
    "skewed", Case("small", rows=_ROWS, partitions=1_001), large=Case("large", rows=1_000 * _ROWS)
)
LARGEST = Shape("the largest store", Case("large", rows=1_000 * _ROWS))


@dataclass(frozen=True, slots=True)
class Fleet:
    """A generated fleet.

    Attributes:
        shape: its shape.
        root: the folder with a checkpoint for each query, named by its number.
    """

    shape: Shape
    root: Path

    def targets(self, base: str | None = None) -> tuple[Target, ...]:
        """Returns its queries, on local disk or below another address."""
        at = base or str(self.root)
        return tuple(Target(f"q{one}", f"{at}/{one}", POLICY) for one in range(self.shape.queries))


def generate(shape: Shape, folder: Path) -> Fleet:
    """Returns a fleet, which is generated where it is not there yet.

    The files of equal queries are hard links to those of one.
    """
    root = folder / f"fleet-{shape.queries}-{shape.query.key}{'-skewed' if shape.large else ''}"
    if not root.exists():
        begun = folder / f"begun-{uuid4().hex}"
        template = prepare(shape.query, folder).root
        for number in range(shape.queries):
            shutil.copytree(template, begun / str(number), copy_function=os.link)
            if shape.large:
                _replace(store_folder(begun / str(number)), shape.large, folder)
        begun.rename(root)
    return Fleet(shape, root)


def _replace(store: Path, large: Case, folder: Path) -> None:
    """Replaces the files of a store by those of another case."""
    for file in store_folder(prepare(large, folder).root).glob("[0-9]*"):
        (store / file.name).unlink()
        (store / file.name).hardlink_to(file)


@contextmanager
def copy_of(fleet: Fleet) -> Iterator[Fleet]:
    """A copy of a fleet that may be maintained, for the block's length."""
    copy = fleet.root.parent / f"copy-{uuid4().hex}"
    shutil.copytree(fleet.root, copy, copy_function=os.link)
    try:
        yield Fleet(fleet.shape, copy)
    finally:
        shutil.rmtree(copy)
