"""The fast path from changelogs to a database: compiled loops, for puts and deletes only.

Any other change, mainly a merge or a range, ends it: the changes taken so far are written to the
database, and the plain path continues with the next change.
"""

from contextlib import closing

from statemaint.codec.rocksdb.changelog import Header, read_header
from statemaint.fold.compiled.input import Input, UnsureError, open_input
from statemaint.fold.compiled.kernels.changes import END, MORE
from statemaint.fold.rocksdb.changelog_batch import ChangelogBatch
from statemaint.fold.rocksdb.changes import Pending, apply, named
from statemaint.fold.rocksdb.database import Database
from statemaint.fold.rocksdb.sums import KnownRows
from statemaint.fold.source import Source
from statemaint.model.files import Delta

# The payload is read in steps that stay in a core's cache.
_STEP = 1024 * 1024
# The payload for each stored byte, in most states.
_EXPANSION = 4
# No header is longer: the length of its lineage has two bytes.
_HEADER = 4 + 2 + 65535
_WITH_LINEAGE = (3, 4)


class Fast:
    """Applies changelogs to a database."""

    def __init__(self, source: Source, pending: Pending, database: Database, *, held: int) -> None:
        self._source, self._pending, self._database = source, pending, database
        self._batch = ChangelogBatch()
        self._held = held
        self._handed = 0
        self._read, self._size = 0, 1
        self.known: KnownRows | None = None

    def apply(self, deltas: tuple[Delta, ...]) -> None:
        """Takes the changes of some changelogs, oldest first, and writes all to the database.

        Afterwards `known` describes all rows, if the database was empty before and no changes had
        to be written in between.

        Raises:
            CodecError, StaleChecksumError, StorageError: as `changes.apply` does.
        """
        self._size = max(1, sum(delta.entry.size for delta in deltas))
        # Memory that is never touched costs nothing; moving its content later is expensive.
        self._batch.window.reserve(min(self._held + _STEP, _EXPANSION * self._size), 0)
        for number, delta in enumerate(deltas):
            before = self._handed + self._batch.count
            if not self._take(delta):
                taken = self._handed + self._batch.count - before
                self._hand_over()
                apply(self._source, deltas[number:], self._pending, taken)
                self.known = None
                return
            self._read += delta.entry.size
        self._hand_over()

    def _take(self, delta: Delta) -> bool:
        """Takes a changelog's changes; returns whether all of them are puts or deletes."""
        with closing(open_input(self._source, delta.entry.path)) as payload:
            try:
                return self._begin(payload, delta) and self._enter(payload, delta)
            except UnsureError:
                return False

    def _begin(self, payload: Input, delta: Delta) -> bool:
        window, begin = self._batch.window, self._batch.window.end
        self._batch.more(payload, _HEADER)
        content = window.buffer[begin : min(window.end, begin + _HEADER)].tobytes()
        with named(delta.entry.path):
            header = read_header([content])
            self._pending.begin(header)
        self._batch.begin(_size(header, content), tagged=header.column_families)
        return True

    def _enter(self, payload: Input, delta: Delta) -> bool:
        segment, step, more = self._batch, _STEP, True
        share = (self._read + delta.entry.size) / self._size
        while (status := segment.enter(share, first=not self._read)) == MORE:
            if not more:
                return False
            if segment.window.end > self._held:
                self._hand_over()
            step = max(step, segment.left)  # a large change doubles the data
            more = segment.more(payload, step)
        if status != END or segment.left:
            return False
        return not segment.more(payload, 1)

    def _hand_over(self) -> None:
        """Writes the newest changes to the database."""
        segment, database = self._batch, self._database
        if self._handed and not segment.count:
            return
        picked = segment.newest(removals=not database.empty)
        self.known = None
        if database.empty:
            digest = segment.digest(picked, self._source.key)
            self.known = KnownRows(digest, segment.families(picked))
        if not len(picked):
            pass
        elif database.empty:
            database.ingest(segment.changes(picked))
        else:
            database.write(segment.changes(picked))
        self._handed += segment.count
        segment.clear()


def _size(header: Header, content: bytes) -> int:
    """Returns the size in bytes of a header that has been read."""
    if header.format == 1:
        return 0
    lineage = 2 + int.from_bytes(content[4:6]) if header.format in _WITH_LINEAGE else 0
    return 4 + lineage
