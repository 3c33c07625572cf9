"""Counts what the log of a store did to its keys, while it is folded.

For each column family, over the versions of the log above the start of the fold:

    puts       records that put a value, or merge one in
    removes    records that remove a key, there or not; a deleted range counts the keys it removed
    added      puts of a key that was not there
    removed    removes of a key that was there
    rewritten  keys that a version put and that were there from an older one, once for each version
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields

from statemaint.codec.rocksdb.changelog import DELETE, DELETE_RANGE, Change

_NUMBER = 2  # bytes of a column family's number, in front of a key
_DELETE, _DELETE_RANGE = int(DELETE), int(DELETE_RANGE)


@dataclass(slots=True)
class Churn:
    """The changes by the log to a column family, or to a store without any.

    Attributes:
        puts: records that put or merge.
        removes: records that remove.
        added: of the puts, those of a key that was not there.
        removed: of the removes, those of a key that was there.
        rewritten: keys that were there and were put again, summed over the versions.
        carried: rows that were there before each version, summed over the versions.
        recent: keys added in the newer half of the versions.
    """

    puts: int = 0
    removes: int = 0
    added: int = 0
    removed: int = 0
    rewritten: int = 0
    carried: int = 0
    recent: int = 0

    def __add__(self, other: "Churn") -> "Churn":
        names = (one.name for one in fields(self))
        return Churn(*(getattr(self, name) + getattr(other, name) for name in names))

    @property
    def changes(self) -> int:
        """Returns the number of records."""
        return self.puts + self.removes

    @property
    def removes_share(self) -> float | None:
        """Returns the share of the records that remove: the share of tombstones."""
        return self.removes / self.changes if self.changes else None

    @property
    def rewritten_share(self) -> float | None:
        """Returns the share of its rows that a version puts again, on average over all rows."""
        return self.rewritten / self.carried if self.carried else None


@dataclass(slots=True)
class Log:
    """Watches a fold (`fold.state.Watcher`), and holds every key that the state has meanwhile.

    Attributes:
        first: the oldest version whose log it sees.
        last: the newest version whose log it sees.
        written: the version that put each key last; `first - 1` for those from before.
        families: the churn of each column family, by its number as keys begin with it.
    """

    first: int
    last: int
    written: dict[bytes, int] = field(default_factory=dict)
    families: dict[bytes, Churn] = field(default_factory=dict)
    _rows: dict[bytes, int] = field(default_factory=dict)
    _width: int = 0

    def begin(self, keys: Iterable[bytes], families: Mapping[int, str]) -> None:
        """Counts the keys that were there before the first version."""
        self._width = _NUMBER if families else 0
        for key in keys:
            self.written[key] = self.first - 1
            self._count(key, 1)

    def watch(self, version: int, changes: Iterator[Change]) -> Iterator[Change]:
        """Counts the changes of a version, and yields them unchanged."""
        for number, rows in self._rows.items():
            self._of(number).carried += rows
        for change in changes:
            kind, key, value = change
            if kind == _DELETE:
                self._remove(key)
            elif kind == _DELETE_RANGE:
                self._remove_range(key, value or b"")
            else:
                self._put(key, version)
            yield change

    def family(self, key: bytes) -> Churn:
        """Returns the churn of a key's column family."""
        return self._of(key[: self._width])

    def _of(self, number: bytes) -> Churn:
        if number not in self.families:
            self.families[number] = Churn()
        return self.families[number]

    def _put(self, key: bytes, version: int) -> None:
        churn, before = self.family(key), self.written.get(key)
        churn.puts += 1
        self.written[key] = version
        if before is None:
            churn.added += 1
            churn.recent += 2 * version > self.first + self.last
            self._count(key, 1)
        elif before < version:
            churn.rewritten += 1

    def _remove(self, key: bytes) -> None:
        churn = self.family(key)
        churn.removes += 1
        if self.written.pop(key, None) is not None:
            churn.removed += 1
            self._count(key, -1)

    def _remove_range(self, first: bytes, end: bytes) -> None:
        for key in [key for key in self.written if first <= key < end]:
            self._remove(key)

    def _count(self, key: bytes, number: int) -> None:
        family = key[: self._width]
        self._rows[family] = self._rows.get(family, 0) + number
