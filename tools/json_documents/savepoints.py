"""The documents of savepoints."""

from typing import Annotated

from statemaint.savepoint.catalog import SavepointState
from statemaint.savepoint.keep import REASONS
from tools.json_documents.kinds import Choice, Part, explained, said
from tools.json_documents.shared import Folder, Format

StateOfASavepoint = Annotated[str, Choice("state of a savepoint", explained(SavepointState))]
ReasonToKeep = Annotated[str, Choice("reason to keep a savepoint", REASONS)]


class RulesOfWhatToKeep(Part):
    """0 for a rule that was not given."""

    last: int = said("the newest savepoints")
    daily: int = said("the newest of each of so many days")
    weekly: int = said("the newest of each of so many weeks")
    monthly: int = said("the newest of each of so many months")


class ListedSavepoint(Part):
    address: str = said("its address")
    state: StateOfASavepoint = said("what it is good for")
    why: str = said("the damage, or why its record cannot be read; empty otherwise")
    source: str | None = said(
        "the address of the checkpoint that was saved; this and the next five are null if the "
        "record cannot be read"
    )
    query_id: str | None = said("the query's id there")
    id: str | None = said("the id of a query that is started from it")
    batch: int | None = said("the batch after which that query continues")
    begun: float | None = said("when it was begun, in seconds since the epoch")
    ended: float | None = said("when it was complete, likewise; null before")
    age: float | None = said("seconds since then, by the clock of its storage")
    files: int = said("the number of its files when it was listed")
    bytes: int = said("their size")
    unknown_files: int = said("the number of those that its record does not name")
    changes: list[str] = said("what is other than in the checkpoint, each in words")
    kept: list[ReasonToKeep] | None = said(
        "why it is kept; empty if it expires, null without `--keep`"
    )
    deleted: bool = said("whether it was deleted whole")
    left: list[str] = said("the files that stayed, since its record does not name them")


class SavepointsOfAFolder(Part):
    format: Format
    folder: Folder
    keep: RulesOfWhatToKeep | None = said("the given rules; null without `--keep`")
    savepoints: list[ListedSavepoint] = said("of each query the newest first")
