"""The documents of the verbs that look at a checkpoint: `scan`, `verify`, `doctor`, `digest`."""

from typing import Annotated

from tools.json_documents import shared
from tools.json_documents.kinds import Part, said


class OneCheckpointScanned(Part, lines="stores"):
    """The findings of a store are in the store; those of the document are of the whole
    checkpoint.
    """

    _head: shared.Head
    _judged: shared.Judged
    query_id: shared.QueryId
    last_committed_batch: shared.LastCommittedBatch
    target_version: int | None = said("that batch + 1")
    floor: int | None = said("the oldest version that the commit log requires; null without one")
    provider: shared.Provider
    codec: shared.Codec
    pins: shared.Pins
    stores: list[shared.Store] = said("every store")
    findings: shared.Findings


class AScanAmongMany(Part):
    checkpoint: shared.Checkpoint
    _judged: shared.Judged
    last_committed_batch: shared.LastCommittedBatch
    stores: int = said("the number of its stores")
    files: int = said("the number of their files")
    bytes: int = said("the size of these files")
    longest_chain: int = said("deltas, of the stores that load")
    broken_stores: int = said("the number that do not load")
    findings: shared.Findings


class ManyCheckpointsScanned(Part, lines="checkpoints"):
    format: shared.Format
    folder: shared.Folder
    checkpoints: list[AScanAmongMany | shared.Unread] = said("each checkpoint below it")


class Verified(Part):
    _judged: shared.Judged
    healthy: bool = said("whether no finding is damage")
    versions_checked: int = said(
        "retained versions of which every file passed, counted for each store; with `--deep` "
        "every file was decoded"
    )
    versions: int = said("retained versions that were looked at, counted for each store")


class OneCheckpointVerified(Part, lines="findings"):
    _head: shared.Head
    _verified: Verified
    findings: shared.Findings


class AVerificationAmongMany(Part):
    checkpoint: shared.Checkpoint
    _verified: Verified
    stores: int = said("the number of its stores")
    findings: shared.Findings


class ManyCheckpointsVerified(Part, lines="checkpoints"):
    format: shared.Format
    folder: shared.Folder
    checkpoints: list[AVerificationAmongMany | shared.Unread] = said("each checkpoint below it")


class LongestChain(Part):
    _store_id: shared.StoreId
    deltas: int = said("their number")
    files: int = said("with the snapshot")
    bytes: int = said("with RocksDB's tables")
    seconds: float | None = said("always null: `restart_forecast` has the time of a restart")


class PastRestart(Part):
    version: int = said("of the state that it loaded")
    began: float = said("seconds since the epoch")
    seconds: float = said("to the end of its first batch, without what a later batch takes")
    warm: bool = said("whether its process had run the query before")
    spark: str = said("the version of Spark")
    slots: int = said("tasks at a time; 0 if the log does not say")


class RestartForecast(Part):
    """The time of Spark from the query's start to its first committed batch: each a range, its low
    end and its high one. The other fields are what a restart reads.
    """

    spark: str = said("the measured Spark that is nearest to the query's, as far as files show it")
    slots: int = said("`--slots`, by default those in the event logs, or 4")
    seconds: list[float] = said("in a new process")
    seconds_warm: list[float] = said("in a process that has run the query")
    seconds_after_maintain: list[float] = said(
        "in a new process, with a snapshot of the newest version in every store"
    )
    past_restarts: list[PastRestart] = said("those in the event logs, the oldest first")
    percent: int = said("that past restarts took of the forecast, which is corrected by it")
    stores: int = said("")
    snapshot_files: int = said("with the SST files that zips refer to")
    snapshot_bytes: int = said("")
    snapshot_records: int = said("as proved, or by the size of a record that was read")
    change_files: int = said("deltas or changelogs")
    change_bytes: int = said("")
    change_records: int = said("by the size of a record that was read")


class RestartEstimate(Part):
    """Of earlier versions: their own reading, extrapolated. `restart_forecast` is of Spark."""

    bytes: int = said("that all stores read at the newest version")
    bytes_per_second: float = said("measured by reading the chain with the most bytes")
    slots: int = said("`--slots`")
    seconds_at_least: float = said("by these")


Restarts = Annotated[bool, "whether the query can be started again as it is, with the newest Spark"]
RestartsSince = Annotated[
    str | None, "the first Spark that does so, if older ones do not; else null"
]
Damage = Annotated[dict[shared.FindingName, int], "the number of findings that are damage"]


class OneCheckpointDiagnosed(Part):
    _head: shared.Head
    _judged: shared.Judged
    restarts: Restarts
    restarts_since: RestartsSince
    passed_over: list[str] = said("the paths of the bad snapshots that it then passes over")
    last_committed_batch: shared.LastCommittedBatch
    loadable_batches: list[int] = said("those of the commit log that load in every store")
    goes_back_to: int | None = said(
        "the newest batch that `rollback` should take; null if there is none"
    )
    longest_chain: LongestChain | None = said("of the newest version; null if no store loads")
    restart_forecast: RestartForecast | None = said("null when the query does not restart")
    restart_estimate: RestartEstimate | None = said(
        "always null: `restart_forecast` has taken its place"
    )
    unseen: list[str] = said("what was not checked")
    damage: Damage
    next: list[str] = said("what to do")
    findings: shared.Findings


class ADiagnosisAmongMany(Part):
    checkpoint: shared.Checkpoint
    _judged: shared.Judged
    restarts: Restarts
    restarts_since: RestartsSince
    last_committed_batch: shared.LastCommittedBatch
    loadable_batches: int = said("the number in the commit log that load in every store")
    longest_chain: int | None = said("deltas, at the newest version; null if no store loads")
    bytes: int | None = said(
        "that all stores read at the newest version; null if one does not load"
    )
    damage: Damage
    next: list[str] = said("what to do")
    findings: shared.Findings


class ManyCheckpointsDiagnosed(Part):
    format: shared.Format
    folder: shared.Folder
    checkpoints: list[ADiagnosisAmongMany | shared.Unread] = said("each checkpoint below it")


class DigestOfAStore(Part):
    _store_id: shared.StoreId
    rows: int = said("their number")
    digest: str = said(
        "order-free and keyed by the query's id, so it can be compared between copies of one "
        "checkpoint"
    )


class DigestsOfACheckpoint(Part, lines="stores"):
    _head: shared.Head
    version: int = said("the state version that was read")
    stores: list[DigestOfAStore] = said("every store")
