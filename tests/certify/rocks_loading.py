"""Spark's rules for RocksDB: the newest zip at or below, or on the lineage, then changelogs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tests.certify.commits import committed_id
from tests.certify.files import Item, State, UnreadableError, family_of, lineage_of, spot
from tests.certify.loading import EMPTY, Loader, Read
from tests.certify.rocks_files import (
    DEFAULT,
    NO_FAMILIES,
    Families,
    counts_right,
    families_of,
    state_of,
    tables_of,
)
from tests.certify.world import World

_WRONG_FAMILIES = b"the zip names other families"


@dataclass(slots=True)
class RocksLoader(Loader):
    """Names without unique ids.

    Attributes:
        families: whether the store has column families.
        named: of each store, the families of each version.
    """

    kinds: tuple[str, str] = ("changelog", "zip")
    families: bool = False
    named: dict[tuple[str, int], Families] = field(default_factory=dict)

    def known_from(self, base: str | None) -> Families:
        """Returns the families that Spark knows once it has opened a base."""
        found = families_of(self.world.files[base].content) if base else NO_FAMILIES
        return found.with_one(DEFAULT)

    def _families(self, base: str | None) -> frozenset[int] | None:
        return self.known_from(base).numbers if self.families else None

    def whole(self, path: str) -> State | None:
        """Returns the state that Spark loads from a zip; `None` where it does not load."""
        content = self.world.files[path].content
        folder = f"{path.rpartition('/')[0]}/SSTs/"
        tables = {one: self.world.files.get(folder + one) for one in tables_of(content)}
        state = state_of(
            content, {one: file.content if file else None for one, file in tables.items()}
        )
        return self._marked(path, content, state)

    def bare(self, path: str) -> State | None:
        content = self.world.files[path].content
        state = state_of(content, {one: self._anywhere(one) for one in tables_of(content)})
        return self._marked(path, content, state)

    def _anywhere(self, name: str) -> bytes | None:
        paths = self.world.index.tables.get(name, ())
        return next((self.world.files[one].content for one in paths), None)

    def _marked(self, path: str, content: bytes, state: State | None) -> State | None:
        """Returns the state in a zip, with a mark where what it says of families is not true."""
        one = spot(path)
        if state is None or one is None or not self.families:
            return state
        found, truth = families_of(content), self.named.get((one.store, one.version), NO_FAMILIES)
        if _suits(found, truth, state) and counts_right(content, state):
            return state
        return {**state, _WRONG_FAMILIES: repr(found).encode()}


def _suits(found: Families, truth: Families, state: State) -> bool:
    """Returns whether a query goes on rightly from a zip.

    It may lack a family without rows, which a restart makes again, and may name one that is no
    longer there; but a number has one name, and a family with rows has its own.
    """
    names, true = {number: name for name, number in found.ids}, truth.names
    if any(names.get(number, name) != name for name, number in true.items()):
        return False
    used = {family_of(key) for key in state}
    there = (name for name, number in true.items() if number in used)
    return all(found.names.get(name) == true[name] for name in there) and used <= {
        *names, *truth.numbers
    } and found.last >= max(found.numbers, default=0)  # fmt: skip


@dataclass(slots=True)
class LineageLoader(RocksLoader):
    """Names with unique ids: the commit log names one attempt at each version.

    Versions below the first with an id are a store's without ids.
    """

    def load(self, store: str, versions: Iterable[int]) -> Mapping[int, Read]:
        """Returns what Spark loads for each version, ascending."""
        live = {(one.version, one.id or "", one.kind): path
                for path, one in self.world.index.live[store].items()}  # fmt: skip
        ids = {one: committed_id(self.world, store, one) for one in versions}
        plain = [one for one, unique in ids.items() if unique == ""]
        found = dict(RocksLoader.load(self, store, plain)) if plain else {}
        for version, unique in ids.items():
            if unique is None:
                found[version] = Read(None)
            elif unique:
                found[version] = self._by_id(live, version, unique)
        return found

    def _by_id(self, live: Mapping[tuple[int, str, str], str], version: int, unique: str) -> Read:
        mine = (version, unique)
        if (*mine, "snapshot") in live:
            return self._whole(live[*mine, "snapshot"])
        changes = live.get((*mine, "delta"))
        if changes is None:
            return Read(None)
        try:
            before = lineage_of(self.world.files[changes].content, self.states.codec)
        except UnreadableError:
            return Read(None, None, (changes,))
        lineage: tuple[Item, ...] = (*before, mine)
        base = max((one for one in lineage if (*one, "snapshot") in live), default=None)
        if base is None and lineage[0][0] != 1:
            return Read(None, None, (changes,))
        read = self._whole(live[*base, "snapshot"]) if base else Read(EMPTY)
        for one in lineage:
            if base is None or one > base:
                read = self._next(read, live.get((*one, "delta")))
        return read


def leads_to(world: World, store: str, named: Iterable[Item], wanted: Item, codec: str) -> bool:
    """Returns whether the lineages of some attempts name another one, or lead to one that does."""
    live = world.index.live[store].items()
    changes = {(one.version, one.id or ""): path for path, one in live if one.kind == "delta"}
    waiting = [*named]
    seen = {*waiting}
    while waiting:
        path = changes.get(waiting.pop())
        try:
            before = {*lineage_of(world.files[path].content, codec)} if path else set[Item]()
        except UnreadableError:
            continue
        if wanted in before:
            return True
        waiting += before - seen
        seen |= before
    return False
