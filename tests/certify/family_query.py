"""A live query whose RocksDB stores have column families: transformWithState, joins 3 and 4.

names       a batch writes to families by name; what the bytes are, the store's numbers say, which
            an executor takes from the zip that it loads
code        a restart may bring new state variables, which get the next number, and drop old ones,
            whose rows the next batch removes one by one; either way its first commit uploads a zip
            before its changelog, and so does the first commit of all (`shouldForceSnapshot`)
changes     puts, removals (of absent rows too), merges, which concatenate, and ranges
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.certify.executors import Executor
from tests.certify.files import (
    DELETE,
    DELETE_RANGE,
    MERGE,
    PUT,
    Item,
    Row,
    Tagged,
    applied,
    encode_tagged,
    family_of,
    with_family,
)
from tests.certify.loading import Loader
from tests.certify.rocks_files import DEFAULT, Families
from tests.certify.rocks_loading import LineageLoader, RocksLoader
from tests.certify.rocks_query import RocksQuery
from tests.certify.schemas import families_described

_ROWS, _VALUES, _LONGEST = (b"0", b"1"), (b"x", b"yy"), 6
_INTERNAL, _LIST = "$", "list"
_IDLE = 0.2
_END = b"~"


@dataclass(slots=True)
class FamilyQuery(RocksQuery):
    """The query, and what is true of it.

    Attributes:
        code: the names of its state variables.
        deleted: those that its code drops where they exist.
        added: how many it has had.
        idle: the stores that get no rows.
        described: the code that operator metadata describe.
    """

    code: tuple[str, ...] = ("count", _LIST, f"{_INTERNAL}rows_{_LIST}")
    deleted: frozenset[str] = frozenset()
    added: int = 0
    idle: frozenset[str] = field(default=frozenset())
    described: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        RocksQuery.__post_init__(self)
        stores = self.habits.stores
        self.idle = frozenset(one for one in stores if self.random.random() < _IDLE)

    def _loader(self) -> Loader:
        kind = LineageLoader if self.habits.ids else RocksLoader
        return kind(self.world, self.states, families=True)

    @property
    def _conf(self) -> dict[str, str]:
        """Returns the settings of the query: its metadata say how many partitions it has."""
        partitions = Counter(one.split("/")[1] for one in self.habits.stores)
        return {"shuffle.partitions": str(max(partitions.values()))}

    @property
    def named(self) -> dict[tuple[str, int], Families]:
        return self.rocks.named

    # -- the code

    def evolve(self, *, drop: bool) -> str | None:
        """Adds a state variable, or drops one; returns its name, `None` if there is none to drop.

        The query must have been stopped.
        """
        if drop:
            gone = next((one for one in self.code if not one.startswith((_INTERNAL, _LIST))), None)
            if gone:
                self.code = tuple(one for one in self.code if one != gone)
                self.deleted |= {gone}
            return gone
        self.added += 1
        name = f"variable-{self.added}"
        self.code = (*self.code, name)
        return name

    def begin(self) -> bool:
        """Begins the next batch; the first of another code describes its state variables."""
        new = self.batch is None
        if not RocksQuery.begin(self):
            return False
        if new and self.batch is not None and self.described != self.code:
            self.described = self.code
            names = (DEFAULT, *self.code)
            self.world.change(families_described(self.habits.stores, self.batch, names))
        return True

    def _loaded(self, directory: str) -> Executor:
        executor = RocksQuery._loaded(self, directory)
        there = families = self._known(directory, executor)
        for name in self.deleted:
            families = families.without(name)
        for name in self.code:
            families = families.with_one(name, internal=name.startswith(_INTERNAL))
        executor.families = families
        executor.dropped = there.numbers - families.numbers
        first = executor.path is None  # the default family is new then
        executor.forced = first or families != there
        return executor

    def _known(self, directory: str, executor: Executor) -> Families:
        """Returns the families that an executor has loaded.

        If a rewind has left it a wrong zip, they are the true ones, as the rows are: nobody else
        knows what such a query makes of them.
        """
        found = self.rocks.known_from(executor.path)
        if executor.path is None:
            return found
        state = self.loader.whole(executor.path)
        right = state is not None and self.states.of(state) == self.truth[directory][executor.last]
        return found if right else self.named.get((directory, self.target), found)

    # -- what a batch does

    def _changes(self, directory: str, number: int) -> list[list[Row]]:
        """Returns the rows by family: the name, and the kind of the change before the rest."""
        del directory, number
        random = self.random
        names = (*self.code, DEFAULT)
        return [
            [(random.choice(names).encode(), self._change())] for _ in range(random.randrange(3))
        ]

    def _change(self) -> bytes:
        random = self.random
        kind = random.choice((PUT, PUT, PUT, MERGE, MERGE, DELETE, DELETE, DELETE_RANGE))
        return bytes((kind,)) + random.choice(_ROWS) + random.choice(_VALUES)

    def _written(self, directory: str) -> list[Tagged]:
        """Returns what the running batch writes to a store, in bytes."""
        assert self.pending
        batch, changes = self.pending
        executor, before = self.executors[directory], self.truth[directory][batch]
        state, numbers = self.states.known[before], executor.families.names
        rows: list[Tagged] = [
            (DELETE, key, None) for key in sorted(state) if family_of(key) in executor.dropped
        ]
        if directory in self.idle:
            return rows
        for ((name, change),) in changes[directory]:
            if change and name.decode() in numbers:
                rows.append(_tagged(name.decode(), numbers[name.decode()], change, state))
        return rows

    def _encoded(self, directory: str, lineage: tuple[Item, ...] | None) -> bytes:
        return encode_tagged(self._written(directory), self.habits.codec, lineage)

    def snapshot(self, directory: str) -> bool:
        """Makes a snapshot, unless the next batch has other families than this version."""
        executor = self.executors.get(directory)
        return not (executor and executor.forced) and RocksQuery.snapshot(self, directory)

    def memory(self, directory: str, version: int) -> int:
        """Returns the state that an executor has of a version, the running batch's as well."""
        if self.pending is None or version != self.pending[0] + 1:
            return self.truth[directory][version]
        before = self.states.known[self.truth[directory][version - 1]]
        return self.states.of(applied(before, self._written(directory)))

    def _adopt(self) -> None:
        assert self.pending
        for directory, executor in self.executors.items():
            self.named[directory, self.pending[0] + 1] = executor.families
        RocksQuery._adopt(self)

    def commit(self) -> bool:
        """Ends the batch if all its tasks are done."""
        if not RocksQuery.commit(self):
            return False
        for executor in self.executors.values():
            executor.dropped, executor.forced = frozenset(), False
        return True

    def memories(self) -> dict[str, Any]:
        """Returns what is true of each version now, and of its families."""
        return {**RocksQuery.memories(self), "named": dict(self.named)}

    def remember(self, memory: dict[str, Any]) -> None:
        """Comes back to what was true at another time."""
        RocksQuery.remember(self, memory)
        self.named.clear()
        self.named.update(memory["named"])


def _tagged(name: str, number: int, change: bytes, state: dict[bytes, bytes]) -> Tagged:
    kind, key, value = change[0], with_family(number, change[1:2]), change[2:]
    if kind == DELETE:
        return DELETE, key, None
    if kind == DELETE_RANGE:
        return DELETE_RANGE, key, with_family(number, _END)
    appends = kind == MERGE and name == _LIST and len(state.get(key, b"")) < _LONGEST
    return (MERGE if appends else PUT), key, value
