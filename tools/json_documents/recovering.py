"""The documents of the verbs that recover, of the history, and of savepoints."""

from typing import Annotated

from statemaint.savepoint.catalog import SavepointState
from statemaint.savepoint.keep import REASONS
from tools.json_documents import shared
from tools.json_documents.kinds import Choice, Part, explained, said

ActionOfAWrite = Annotated[str, Choice("action of a write", {"write_snapshot": ""})]
ActionInTheLedger = Annotated[
    str,
    Choice(
        "action in the ledger",
        {
            "write_snapshot": "wrote the snapshot of a version",
            "attest": "read a snapshot back and compared it with the files below it",
            "delete": "deleted a file, by maintenance",
            "remove": "moved a file to the trash, by a repair or a rollback",
            "restore": "brought a file back, by an undo",
        },
    ),
]


class Removal(Part):
    action: Annotated[str, Choice("action of a removal", {"remove": ""})] = said("to the trash")
    _maybe_store_id: shared.MaybeStoreId
    version: int = said("the state version that it belongs to", optional=True)
    path: shared.Path
    bytes: int = said("its size")
    reason: shared.RemoveReason = said("why")


class WriteOfASnapshot(Part):
    action: ActionOfAWrite = said("from the log")
    _store_id: shared.StoreId
    version: int = said("the state version that it holds")
    path: shared.Path
    reason: shared.WriteReason = said("why")


class WrittenSnapshot(Part):
    _write: WriteOfASnapshot
    attestation: shared.ProofOfASnapshot | None = said("its proof; null if it was not read back")


Batch = Annotated[int | None, "after which the query continues; null without one"]
Unrepaired = Annotated[list[str], "why the remaining damage is not repaired"]


class Recovery(Part):
    format: shared.Format
    run: str = said("its id, for `runs` and `undo`; empty if there was nothing to do")
    verb: shared.RecoveryName = said("the verb")
    checkpoint: shared.Checkpoint
    batch: Batch
    removed: list[Removal] = said("the files that were moved to the trash")
    written: list[WrittenSnapshot] = said("the snapshots that were written")
    unrepaired: Unrepaired
    findings: list[shared.Finding] = said("the remaining findings")


Left = Annotated[list[str], "the paths of the files that stay in the trash"]


class FinishedUndo(Part):
    _head: shared.Head
    run: str = said("the run that deleted the files")
    undo: str = said("the id of the undo, which is a run as well")
    files: int = said("the number that are in place again")
    bytes: int = said("the size of these files")
    left: Left
    reasons: dict[Annotated[str, "path"], str] = said("why each of them stays")


class ProofOfARepair(Part):
    _maybe_store_id: shared.MaybeStoreId
    version: int = said("the state version")
    digest: str = said("of its rows without the removed files, as `digest` prints it")
    rows: int = said("their number")
    files: int = said("the number that it was folded from")
    start: shared.Start


class PlanOfARecovery(Part):
    """`apply` carries it out."""

    format: shared.Format
    verb: shared.RecoveryName = said("the verb")
    checkpoint: shared.Checkpoint
    query_id: shared.QueryId
    batch: Batch
    actions: list[Removal | WriteOfASnapshot] = said("in the order in which they happen")
    proofs: list[ProofOfARepair] = said("of each step of a repair")
    versions_checked: int = said("versions of stores that were read without the removed files")
    unrepaired: Unrepaired
    findings: list[shared.Finding] = said("the remaining findings")
    fingerprint: shared.Fingerprint
    trash_for: float = said("seconds that the removed files will stay in the trash")


class ReturnOfAFile(Part):
    action: Annotated[str, Choice("returning", {"restore": ""})] = said("from the trash")
    path: shared.Path
    bytes: int = said("its size")


class PlanOfAnUndo(Part):
    """`apply` carries it out."""

    format: shared.Format
    verb: Annotated[str, Choice("undoing", {"undo": ""})] = said("the verb")
    checkpoint: shared.Checkpoint
    run: str = said("the run that deleted the files")
    actions: list[ReturnOfAFile] = said("in the order in which they happen")
    files: int = said("the number that would come back")
    bytes: int = said("the size of these files")
    left: Left
    reasons: dict[Annotated[str, "path"], str] = said("why each of them stays")
    fingerprint: shared.Fingerprint


class UndoOfARun(Part):
    run: str = said("the id of the undo")
    time: float = said("when it ended, in seconds since the epoch")
    files: int = said("the number that it brought back")
    left: int = said("the number that it left in the trash")


class Run(Part):
    run: str = said("its id")
    started: float = said("when its first task began, in seconds since the epoch")
    seconds: float = said("from then until its last task ended")
    tasks: int = said("the number that changed something; 0 for a run that did not record itself")
    snapshots_written: int = said("their number")
    files_deleted: shared.FilesDeleted
    bytes_written: int = said("the size of the snapshots")
    bytes_deleted: int = said("the size of the deleted files")
    exit_code: int = said("the worst of its tasks; 1 if it did not record itself")
    in_trash: bool = said("whether files of it are in the trash")
    undo_of: str | None = said("the run that this one undid; null if it is not an undo")
    files_restored: int = said("the number of files that it brought back, as an undo")
    bytes_restored: int = said("the size of these files")
    undone: list[UndoOfARun] = said("each undo of this run, the oldest first")
    batch: int | None = said("the batch that a `bootstrap` committed; null for another run")


class RunsOfACheckpoint(Part, lines="runs"):
    """The last hundred, those whose trash is kept, and all younger than these."""

    _head: shared.Head
    runs: list[Run] = said("the newest first")


class ActionOfARun(Part):
    action: ActionInTheLedger = said(
        "what was done, or was about to be done when the run was killed"
    )
    _maybe_store_id: shared.MaybeStoreId
    version: int = said("that the file belongs to", optional=True)
    path: shared.Path
    reason: shared.StepReason | shared.RemoveReason = said("why", optional=True)
    bytes: int = said("its size")
    time: float = said("when it was recorded, in seconds since the epoch")
    trash: bool = said("true: it was moved to the trash", optional=True)
    of: str = said("the run whose file came back", optional=True)


class OneRun(Part, lines="actions"):
    _head: shared.Head
    _run: Run
    actions: list[ActionOfARun] = said(
        "as recorded in the ledger, in order; of an old run, those that later runs need"
    )


class ShapeOfACheckpoint(Part):
    partitions: int | None = said("the number of shuffle partitions; null if its logs have none")
    provider: shared.ProviderName = said("its state store provider")
    ids: Annotated[str, Choice("structure", {"v1": "", "v2": ""})] = said(
        "v2: the names of state files have unique ids"
    )
    codec: shared.Codec
    row_checksums: bool = said("whether rows have checksums")


class PartitionsOfAnOperator(Part):
    partitions: int = said("their number")
    largest: int = said("the bytes of rows in the largest one")
    median: int = said("the bytes of rows in the median one")


class OperatorOfADryRun(Part):
    operator: int = said("its number")
    rows: int = said("in all of its stores")
    bytes: int = said("of their keys and values")
    stores: int = said("the number of stores to be written")
    memory: int = said("the most that rows take in memory while a store is written, in bytes")
    spill: int = said("the most that rows take in the temporary directory, in bytes")
    before: PartitionsOfAnOperator = said("in the source")
    after: PartitionsOfAnOperator = said("in the savepoint")


class SavedCheckpoint(Part):
    _head: shared.Head
    savepoint: str = said("the address of the savepoint")
    batch: int = said("after which a query that starts from it continues")
    version: int = said("the state version that it has of every store")
    query_id: shared.QueryId
    id: str = said("of a query that starts from it; with `--new-id` another one")
    dry_run: bool = said("whether nothing was written")
    before: ShapeOfACheckpoint = said("of the source")
    after: ShapeOfACheckpoint = said("of the savepoint")
    code: list[str] = said("the lines of the query's code that have it start from the savepoint")
    begun: float = said("when it was begun, in seconds since the epoch")
    ended: float | None = said("when all of it was in place; null in a dry run")
    stores: int = said("the number of its stores")
    rows: int | None = said("in all of them; null in a dry run")
    bytes_read: int = said("the size of the files that its stores are made from")
    bytes_written: int = said("the size of its files")
    continued: int = said("the stores that an earlier run had written, which was interrupted")
    starts: int = said("how often it was begun, because the query cleaned up what was being read")
    unchecked_sources: list[str] = said(
        "the sources, by their ids, of which it is unknown whether they have what follows "
        "the batch; none if the savepoint was complete before"
    )
    operators: list[OperatorOfADryRun] = said(
        "of a dry run for another shape, or with `--partition-size`: what each would take"
    )
    suggested_partitions: int | None = said("for `--partition-size`; null without")


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
    format: shared.Format
    folder: shared.Folder
    keep: RulesOfWhatToKeep | None = said("the given rules; null without `--keep`")
    savepoints: list[ListedSavepoint] = said("of each query the newest first")
