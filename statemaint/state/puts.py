"""The keys that the log between two versions puts, in bounded memory."""

from collections import deque
from collections.abc import Callable, Iterator

from statemaint.codec.rocksdb.changelog import MERGE, PUT, Change
from statemaint.fold import Source
from statemaint.fold.state import logged
from statemaint.fold.table import SortedTable
from statemaint.state.rows import Part

_PUTTING = frozenset({int(PUT), int(MERGE)})


class Puts:
    """The keys that the log between two versions puts; `known` is whether all of it exists."""

    def __init__(self, source: Source, older: Part, newer: Part) -> None:
        self._source, self._store = source, newer.store
        self._left = set(range(older.chain.version + 1, newer.chain.version + 1))
        self.known = self._left <= newer.store.versions.deltas.keys()
        self._keys = SortedTable()

    def watch(self, version: int, changes: Iterator[Change]) -> Iterator[Change]:
        """Records the changes of a version, and yields them unchanged."""
        self._left.discard(version)
        for change in changes:
            if self.known and change[0] in _PUTTING:
                self._keys.put(change[1], b"")
            yield change

    def complete(self) -> None:
        """Reads the versions that were not watched; raises as `logged` does."""
        for version in sorted(self._left) if self.known else ():
            delta = self._store.versions.deltas[version]
            deque(self.watch(version, logged(self._source, self._store, delta)), maxlen=0)

    def in_order(self) -> Callable[[bytes], bool]:
        keys = (key for key, _ in self._keys.rows())
        at = next(keys, None)

        def has(key: bytes) -> bool:
            nonlocal at
            while at is not None and at < key:
                at = next(keys, None)
            return at == key

        return has
