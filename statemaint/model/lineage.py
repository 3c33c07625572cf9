"""The attempt that counts at each version with unique ids (checkpoint structure V2).

Every attempt at a batch writes its changelog and zip under its own id; the commit log names the
one that counts. A changelog begins with its lineage: the versions and ids before it, back to the
snapshot that its writer began from. Mirrors `RocksDB.loadWithCheckpointId`, and continues where a
lineage ends at a version whose snapshot was never uploaded: that version's own changelog names the
attempts before it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from statemaint.model.chain import Chain
from statemaint.model.files import Delta, Snapshot, StateFile

Item = tuple[int, str]
"""A version and the unique id of one attempt at it."""

Lineages = Mapping[Item, tuple[Item, ...]]
"""The attempts before each one, ascending, as recorded in the changelogs that were read."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The end of a trace that does not load its version: at `item`, for the reason `detail`."""

    item: Item
    detail: str


@dataclass(frozen=True, slots=True)
class Trace:
    """The attempts that lead to a version, as far down as they are known."""

    items: tuple[Item, ...]
    begins: bool = False  # whether the state was empty before the lowest of them
    unread: Delta | None = None  # the changelog to read for more; `None` when there is none
    lost: Lost | None = None  # the contradiction below the lowest of them, if any

    @property
    def lowest(self) -> Item:
        return self.items[-1]


class Attempts:
    """The files of one store by version and id, and their order as far as it is known."""

    def __init__(
        self,
        files: Iterable[StateFile],
        lineages: Lineages,
        committed: Mapping[int, str] | None = None,
    ) -> None:
        named = [file for file in files if isinstance(file, Delta | Snapshot) and file.id]
        self.changelogs = {(it.version, it.id): it for it in named if isinstance(it, Delta)}
        self.zips = {(it.version, it.id): it for it in named if isinstance(it, Snapshot)}
        self._lineages = lineages
        self._committed = committed or {}
        self._before, self._disputed = _order(lineages)

    def trace(self, item: Item) -> Trace:
        items = [item]
        while (lowest := items[-1])[0] > 1:
            if lowest in self._disputed:
                return Trace(tuple(items), lost=Lost(lowest, "two lineages disagree on it"))
            before = self._before.get(lowest) or self._by_commit(lowest)
            if before is None:
                unread = None if lowest in self._lineages else self.changelogs.get(lowest)
                return Trace(tuple(items), unread=unread)
            if before[0] != lowest[0] - 1:
                return Trace(tuple(items), lost=Lost(lowest, f"nothing leads to it but {before}"))
            items.append(before)
        return Trace(tuple(items), begins=True)

    def _by_commit(self, item: Item) -> Item | None:
        """Returns the attempt before by its commit: a forced snapshot has no changelog to read."""
        if item in self.changelogs and item not in self._lineages:
            return None
        before = self._committed.get(item[0] - 1)
        counts = self._committed.get(item[0]) == item[1]
        return (item[0] - 1, before) if before and counts else None

    def chain(self, trace: Trace) -> Chain | Lost:
        """Returns the chain to load for the newest attempt of a trace, or why it cannot load.

        The chain is the newest zip on the trace, then every changelog above it. A trace with an
        unread changelog may end too early.
        """
        version = trace.items[0][0]
        above: list[Delta] = []
        for item in trace.items:
            if item in self.zips:
                return Chain(version, self.zips[item], tuple(reversed(above)))
            if item not in self.changelogs:
                return Lost(item, "it has neither a zip nor a changelog")
            above.append(self.changelogs[item])
        if trace.begins:
            return Chain(version, None, tuple(reversed(above)))
        ended = Lost(trace.lowest, "it has no zip, and nothing records what came before")
        return trace.lost or ended


def _order(lineages: Lineages) -> tuple[Mapping[Item, Item], frozenset[Item]]:
    """Returns the item before each item, and the items on which lineages disagree."""
    before, disputed = dict[Item, Item](), set[Item]()
    for item, lineage in lineages.items():
        for earlier, later in pairwise((*lineage, item)):
            if before.setdefault(later, earlier) != earlier:
                disputed.add(later)
    return before, frozenset(disputed)


def leads_nowhere(
    item: Item, lineage: Iterable[Item], ids: Mapping[int, str], zips: Collection[int] | None
) -> str | None:
    """Returns why Spark cannot load an attempt by the lineage in its own changelog; else `None`.

    Mirrors `RocksDB.loadWithCheckpointId`, which reads no other changelog. `ids` has the id that
    counts at each version, `zips` the versions whose counting zip exists: `None` ignores zips, as
    from Spark 4.2 on other changelogs are read if no zip of the lineage loads.
    """
    whole = sorted((*lineage, item))
    if any(later[0] != earlier[0] + 1 for earlier, later in pairwise(whole)):
        return "its lineage has a gap"
    if other := next((named for named in whole if ids.get(named[0], named[1]) != named[1]), None):
        return f"its lineage names {other[1]} at version {other[0]}, which does not count"
    if zips is None:
        return None
    if whole[0][0] > 1 and not any(version in zips for version, _ in whole):
        return f"its lineage begins with version {whole[0][0]}, and none in it has a zip"
    return None
