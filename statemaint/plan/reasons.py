"""The reasons for each part of a plan: closed sets, which users script against.

The meaning of each follows `because`, on a page and in docs/json.md alike.
"""

from enum import unique
from typing import Self

from statemaint.wording import Explained


@unique
class SnapshotReason(Explained):
    """The reason to write a snapshot."""

    CHAIN_TOO_LONG = (
        "chain_too_long",
        "the chain has more deltas than min_deltas_for_snapshot (of RocksDB: as many)",
    )
    RESTART_TOO_LONG = (
        "restart_too_long",
        "a restart is forecast to take longer than restart_within, and its chain is of the slowest",
    )
    REBASE = (
        "rebase",
        "the floor's chain is too long, and everything below a snapshot there can be deleted",
    )
    FORCED = "forced", "the run requests it"
    REBUILT = "rebuilt", "the existing one is bad or missing"


@unique
class AttestReason(Explained):
    """The reason to read and compare a snapshot."""

    BASE_OF_DELETION = "base_of_deletion", "the deletion below it relies on it"
    LOG_REPLACED = "log_replaced", "a file that it was proved or written from was replaced since"
    NEVER_PROVED = (
        "never_proved",
        "nothing has proved it, and a restart begins with it or a fold leads past it",
    )


@unique
class DeleteReason(Explained):
    """The reason to delete a file."""

    BELOW_BASE = (
        "below_base",
        "a proved snapshot above it replaces it: no version from the floor upwards needs it",
    )
    SIDE_FILE = "side_file_of_deleted", "the file that it belongs to is deleted"
    ORPHAN_TEMP = (
        "orphan_temp_file",
        "it is a temporary file of a write that never completed, older than orphan_age",
    )
    ORPHAN_SIDE = (
        "orphan_side_file",
        "the file that it belongs to is missing, and it is older than orphan_age",
    )
    STALE_SIDE = "stale_side_file", "its snapshot is stale, or it blocks a new one"
    DEAD_ATTEMPT = (
        "dead_attempt",
        "no commit names its unique id, nothing builds on it, and it is older than orphan_age",
    )
    UNUSED_SST = (
        "unused_sst",
        "the last snapshot that needed it is deleted, and it is older than orphan_age",
    )
    STALE_SNAPSHOT = (
        "stale_snapshot",
        "the log that it was proved from was written again by a rewound query",
    )
    OLD_PARTITION = (
        "old_partition",
        "it is of batches before a repartition, which no restart loads, and older than orphan_age",
    )
    ORPHAN_SST = "orphan_sst", "no snapshot refers to it, and it is older than orphan_age"


@unique
class KeepReason(Explained):
    """The reason to keep a file."""

    NEEDED = "needed_by_retained_version", "a version that must stay loadable is rebuilt from it"
    BASE = "base_of_retained_versions", "the versions that must stay loadable start from it"
    CHANGE_FEED = "change_feed", "the change feed of its batch reads it"
    SNAPSHOT = "retained_snapshot", "it is a snapshot of a version that must stay loadable"
    USED = "used_by_snapshot", "a snapshot that is kept refers to it"
    EXECUTOR = (
        "executor_may_build_on_it",
        "an executor that uploads snapshots may still build on it (see FOREIGN_MAINTAINER)",
    )
    UNREADABLE = "unreadable_snapshot_may_use_it", "a snapshot that cannot be read may refer to it"
    ABOVE_TARGET = "above_target", "it belongs to a batch that is not committed"
    SIDE_FILE = "side_file_of_kept", "it belongs to a file that is kept"
    GRACE = "base_within_grace", "the snapshot above it is too young to rely on (grace)"
    OLD_PARTITION = (
        "partition_of_older_batches",
        "batches before a repartition need it, although the newest has no such partition",
    )
    YOUNG = "orphan_too_young", "nothing refers to it, but it is younger than orphan_age"
    UNKNOWN = "unknown_file", "it is not a file that Spark writes; unknown files are never deleted"
    HALTED = "store_halted", "damage halts its store: nothing in it is written or deleted"
    VERIFY_OFF = "verify_off", "nothing is deleted without verification, which is off"
    CLOCK_SKEW = "clock_skew", "the clocks differ too much to know its age (see CLOCK_SKEW)"
    LIMIT = "run_limit", "the run reached max_deletes_per_run; a later run continues"
    NOT_STATE = (
        "not_a_state_file",
        "it is no file of a store that the query has, such as metadata or a schema",
    )


@unique
class WithheldReason(Explained):
    """The reason that a due snapshot is not written, and what the operator can do about it."""

    to_do: str

    def __new__(cls, value: str, meaning: str = "", to_do: str = "") -> Self:
        reason = str.__new__(cls, value)
        reason._value_, reason.meaning, reason.to_do = value, meaning, to_do
        return reason

    EXECUTORS = (  # S9
        "executors_may_upload",
        (
            "executors may still upload a snapshot, and with a newer one of ours in place Spark's "
            "clean-up could delete files that theirs needs"
        ),
        (
            "lower the query's spark.sql.streaming.stateStore.minDeltasForSnapshot to have "
            "executors write snapshots in time; see FOREIGN_MAINTAINER in the runbook to have "
            "them write none"
        ),
    )
    LOG_IN_DOUBT = (
        "log_in_doubt",
        "files of the log were replaced since they were proved, so it may not give that version",
        "put the replaced files back, see LOG_REPLACED in the runbook",
    )
    UNNAMED = (
        "families_unnamed",
        "no zip that can be read names its column families",
        "nothing has to be done: it has no rows, and needs no snapshot",
    )
    UNSETTLED = (
        "zip_format_unknown",
        (
            "Spark 4.0 with unique ids reads zips in one of two formats, by its sessions' "
            "settings, and there is no zip that shows which"
        ),
        "let an executor write one, with a query that runs for some minutes, or use Spark 4.2",
    )
    NAME_TAKEN = (
        "name_taken",
        "a file that is kept has the snapshot's name",
        "see what `statemaint repair` can repair, or move the file away",
    )
    YOUNG_CHECKSUM = (
        "checksum_too_young",
        (
            "a checksum file that outlived its snapshot would condemn the new one, and is "
            "younger than orphan_age"
        ),
        "lower orphan_age to have it written earlier",
    )
    CLOCK_SKEW = (
        "clock_skew",
        "a file in the way has to be deleted first, and nothing is while clocks disagree",
        "set the clocks right",
    )
    VERIFY_OFF = (
        "verify_off",
        "a file in the way has to be deleted first, and nothing is without verification",
        "run with verification",
    )
    HALTED = "store_halted", "damage halts the store", "see its findings"
    OLD_PARTITION = (
        "partition_of_older_batches",
        "only batches before a repartition read the partition",
        "nothing has to be done: its files are deleted together",
    )
    OUT_OF_TIME = (
        "max_seconds_per_run",
        "the run reached max_seconds_per_run before the store",
        "raise max_seconds_per_run, or run more often",
    )
    MOVED_ON = (
        "query_moved_on",
        "the query changed files after the run was planned",
        "nothing has to be done: the next run plans again",
    )
