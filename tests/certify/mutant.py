"""What a broken maintainer is, and how one is hunted."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from tests.certify.schedule import run

MOST = 3000
"""Within so many schedules every mutant must be caught."""
HDFS: Mapping[str, Any] = {"rocks": 0.0}
REWOUND: Mapping[str, Any] = {"rocks": 0.0, "often": ("rewind_by_hand", "undo")}
ROLLED_BACK: Mapping[str, Any] = {"rocks": 0.0, "often": ("rollback", "undo")}
SHARED: Mapping[str, Any] = {"rocks": 0.0, "often": ("task", "end_tasks")}
ROCKS: Mapping[str, Any] = {"rocks": 1.0}
RARE: Mapping[str, Any] = {"rocks": 1.0, "every": 70}
FAMILIES: Mapping[str, Any] = {"rocks": 1.0, "families": 1.0, "often": ("evolve", "lose", "ask")}
IDS: Mapping[str, Any] = {"rocks": 1.0, "ids": True}
TWO_WITH_IDS: Mapping[str, Any] = {**IDS, "events": ("remove_operator", "agree")}
REMOVED: Mapping[str, Any] = {"rocks": 0.0, "events": ("remove_operator", "agree")}
LINKS: Mapping[str, Any] = {"events": ("links",)}
FAILING: Mapping[str, Any] = {"rocks": 0.0, "events": ("failing",)}
REFUSED: Mapping[str, Any] = {"rocks": 0.0, "events": ("trouble",)}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One broken maintainer.

    Attributes:
        name: of it.
        rule: what it breaks.
        says: what it gets wrong.
        changes: the names that it replaces, with their owners.
        among: what the schedules are about that it is hunted with.
    """

    name: str
    rule: str
    says: str
    changes: tuple[tuple[Any, str, Any], ...]
    among: Mapping[str, Any] = field(default_factory=lambda: HDFS)

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Breaks the code, and restores it."""
        found = [(owner, name, vars(owner)[name]) for owner, name, _ in self.changes]
        try:
            for owner, name, new in self.changes:
                setattr(owner, name, new)
            yield
        finally:
            for owner, name, old in found:
                setattr(owner, name, old)


@dataclass(frozen=True, slots=True)
class Caught:
    """After how many schedules a mutant was caught, and what gave it away."""

    schedules: int
    loss: str


def hunt(
    mutant: Mutant, most: int = MOST, *, first: int | None = None, **switches: Any
) -> Caught | None:
    """Runs schedules against a mutant until one catches it; `None` when none does.

    A schedule that finds something without the mutant as well catches nothing. All of them are
    played with one worker, so that each can be played again.

    Args:
        mutant: the broken maintainer.
        most: the number of schedules.
        first: a schedule to begin with: the one that caught it the last time.
        switches: as `run` takes them.

    Raises:
        TypeError: when the mutant does not fit the code that it breaks.
    """
    for seed in chain(() if first is None else (first,), range(most)):
        with mutant.alive():
            loss = run(seed, among=mutant.among, switches=switches, alone=True).loss
        if loss and loss.startswith("a fault of ours"):
            raise TypeError(f"{mutant.name}: {loss}")
        if loss and run(seed, among=mutant.among, switches=switches, alone=True).loss is None:
            return Caught(seed + 1, loss)
    return None
