"""What is reported of a savepoint, and noted in the record of its query."""

from dataclasses import dataclass

from statemaint.maintain.record import note_savepoint
from statemaint.records.savepoints import SavepointNote
from statemaint.report.record import LastSavepoint
from statemaint.storage import Storage


@dataclass(frozen=True, slots=True)
class SavepointReport:
    """A savepoint, as it is or, of a dry run, as it would be.

    Attributes:
        dest: its address.
        note: its record; without stores and logs if it was not written.
        stores: the number of its stores.
        read: the stored bytes of the chains that its stores are folded from.
        continued: the number of its stores that an earlier, killed run had written.
        starts: how often it was begun, as the query cleaned up what was being read.
        dry_run: whether nothing was written.
        unchecked: the ids of the sources of which it is unknown whether they can go on; none if it
            was complete before.
    """

    dest: str
    note: SavepointNote
    stores: int
    read: int = 0
    continued: int = 0
    starts: int = 1
    dry_run: bool = False
    unchecked: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        return sum(store.rows for store in self.note.stores)

    @property
    def written(self) -> int:
        """Returns the bytes of all its files but `metadata`."""
        return sum(self.note.files.values())


def note_in_record(source: Storage, report: SavepointReport) -> LastSavepoint | None:
    """Returns a savepoint as it is added to the record of its query, which metrics show.

    A fork is no savepoint of the query, and a dry run is none at all. One that was whole before is
    as good as a new one: the query has committed no batch since. A failure is only logged.
    """
    note = report.note
    if report.dry_run or note.ended is None or note.id != note.query_id:
        return None
    seconds = note.ended - note.begun
    newest = LastSavepoint(source.now(), note.batch, report.written, seconds)
    note_savepoint(source, newest)
    return newest
