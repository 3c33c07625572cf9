"""The reasons for each part of a plan: closed sets, which users script against."""

from enum import StrEnum, unique


@unique
class SnapshotReason(StrEnum):
    """The reason to write a snapshot."""

    CHAIN_TOO_LONG = "chain_too_long"
    REBASE = "rebase"
    FORCED = "forced"
    REBUILT = "rebuilt"  # in place of a bad one


@unique
class AttestReason(StrEnum):
    """The reason to read and compare a snapshot."""

    BASE_OF_DELETION = "base_of_deletion"
    LOG_REPLACED = "log_replaced"  # since the snapshot was proved or written
    NEVER_PROVED = "never_proved"  # the run was killed before its proof, or the proof failed


@unique
class DeleteReason(StrEnum):
    """The reason to delete a file."""

    BELOW_BASE = "below_base"
    SIDE_FILE = "side_file_of_deleted"
    ORPHAN_TEMP = "orphan_temp_file"
    ORPHAN_SIDE = "orphan_side_file"
    STALE_SIDE = "stale_side_file"  # of a stale snapshot, or in the way of a new one
    DEAD_ATTEMPT = "dead_attempt"  # no commit names its unique id, and nothing builds on it
    UNUSED_SST = "unused_sst"  # the last snapshot that needed it is deleted
    STALE_SNAPSHOT = "stale_snapshot"  # the log that it was proved from was written again
    OLD_PARTITION = "old_partition"  # of batches before a repartition, which no restart needs
    ORPHAN_SST = "orphan_sst"  # no snapshot refers to it; usually from an interrupted upload


@unique
class KeepReason(StrEnum):
    """The reason to keep a file."""

    NEEDED = "needed_by_retained_version"
    BASE = "base_of_retained_versions"
    CHANGE_FEED = "change_feed"
    SNAPSHOT = "retained_snapshot"
    USED = "used_by_snapshot"
    EXECUTOR = "executor_may_build_on_it"
    UNREADABLE = "unreadable_snapshot_may_use_it"
    ABOVE_TARGET = "above_target"
    SIDE_FILE = "side_file_of_kept"
    GRACE = "base_within_grace"
    OLD_PARTITION = "partition_of_older_batches"
    YOUNG = "orphan_too_young"
    UNKNOWN = "unknown_file"
    HALTED = "store_halted"
    VERIFY_OFF = "verify_off"
    CLOCK_SKEW = "clock_skew"
    LIMIT = "run_limit"
    NOT_STATE = "not_a_state_file"


@unique
class WithheldReason(StrEnum):
    """The reason that a due snapshot is not written; `statemaint.plan.withheld` words each."""

    EXECUTORS = "executors_may_upload"  # S9
    LOG_IN_DOUBT = "log_in_doubt"
    UNNAMED = "families_unnamed"
    NAME_TAKEN = "name_taken"
    YOUNG_CHECKSUM = "checksum_too_young"
    CLOCK_SKEW = "clock_skew"
    VERIFY_OFF = "verify_off"
    HALTED = "store_halted"
    OLD_PARTITION = "partition_of_older_batches"
    OUT_OF_TIME = "max_seconds_per_run"
    MOVED_ON = "query_moved_on"
