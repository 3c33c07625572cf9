"""The planner's reasons, in sentences that follow `Kept because` and `Deleted because`. Pure."""

from statemaint.plan import AttestReason, DeleteReason, KeepReason, SnapshotReason

KEPT = {
    KeepReason.NEEDED: "a version that must stay loadable is rebuilt from it",
    KeepReason.BASE: "the versions that must stay loadable start from it",
    KeepReason.CHANGE_FEED: "the change feed of its batch reads it",
    KeepReason.SNAPSHOT: "it is a snapshot of a version that must stay loadable",
    KeepReason.USED: "a kept snapshot refers to it",
    KeepReason.EXECUTOR: "an executor may still build on it",
    KeepReason.UNREADABLE: "a snapshot that cannot be read may refer to it",
    KeepReason.ABOVE_TARGET: "it belongs to a batch that is not committed",
    KeepReason.SIDE_FILE: "it belongs to a kept file",
    KeepReason.GRACE: "the snapshot above it is too young to rely on (grace)",
    KeepReason.OLD_PARTITION: "batches before a repartition need it",
    KeepReason.YOUNG: "nothing refers to it, but it is younger than orphan_age",
    KeepReason.UNKNOWN: "it is not a file that Spark writes; unknown files are never deleted",
    KeepReason.HALTED: "damage halts its store: nothing in it is written or deleted",
    KeepReason.VERIFY_OFF: "nothing is deleted without verification, which is off",
    KeepReason.CLOCK_SKEW: "the clocks differ too much to know its age",
    KeepReason.LIMIT: "the run reached its limit of deletions; a later run continues",
    KeepReason.NOT_STATE: "it is not a state file",
}
GOES = {
    DeleteReason.BELOW_BASE: "a proved snapshot above it replaces it",
    DeleteReason.SIDE_FILE: "the file that it belongs to is deleted",
    DeleteReason.ORPHAN_TEMP: "it is a temporary file of a write that never ended",
    DeleteReason.ORPHAN_SIDE: "the file that it belongs to is missing",
    DeleteReason.STALE_SIDE: "its snapshot is stale, or it is in the way of a new one",
    DeleteReason.DEAD_ATTEMPT: "no commit names its attempt, and nothing builds on it",
    DeleteReason.UNUSED_SST: "the last snapshot that needed it is deleted",
    DeleteReason.STALE_SNAPSHOT: "the log that it was proved from was written again",
    DeleteReason.OLD_PARTITION: "it is from before a repartition, and no restart loads it",
    DeleteReason.ORPHAN_SST: "no snapshot refers to it",
}
WRITTEN = {
    SnapshotReason.CHAIN_TOO_LONG: "the chain of deltas is too long",
    SnapshotReason.REBASE: "it allows the deletion of the files below the oldest retained version",
    SnapshotReason.FORCED: "the run requests it",
    SnapshotReason.REBUILT: "the existing one is bad",
}
VERIFIED = {
    AttestReason.BASE_OF_DELETION: "the deletion below it relies on it",
    AttestReason.LOG_REPLACED: "a file that it was proved from was replaced",
    AttestReason.NEVER_PROVED: "it has not been proved yet",
}
