"""The closed sets of strings in documents, from the code that chooses among them."""

from enum import Enum

from statemaint.model.checkpoint import Provider
from statemaint.model.findings import FindingCode
from statemaint.plan import (
    WHY,
    AttestReason,
    DeleteReason,
    KeepReason,
    RecoveryVerb,
    RemoveReason,
    SnapshotReason,
)
from statemaint.report import StoreOutcome
from statemaint.state.diff import KeyChange
from statemaint.state.figures import NoticeCode
from tools.json_documents.kinds import Choice, explained, listed

_SNAPSHOT = explained(
    SnapshotReason,
    {
        SnapshotReason.CHAIN_TOO_LONG: "the target's chain has more deltas than "
        "`min_deltas_for_snapshot`, or as many changelogs of RocksDB",
        SnapshotReason.REBASE: "the floor's chain is too long, and a snapshot there allows the "
        "deletion of everything below it",
        SnapshotReason.FORCED: "`--force-snapshot`",
        SnapshotReason.REBUILT: "by a repair: in place of a bad or missing snapshot",
    },
)
_ATTEST = explained(
    AttestReason,
    {
        AttestReason.BASE_OF_DELETION: "the snapshot that deletions rely on has no proof yet",
        AttestReason.LOG_REPLACED: "the log below a proved snapshot was replaced since: the two "
        "are compared before anything else",
        AttestReason.NEVER_PROVED: "a run left our snapshot without a proof: it was killed, or "
        "found the snapshot wrong. A restart begins with it, or a newer one is about to be made "
        "without it",
    },
)
_DELETE = explained(
    DeleteReason,
    {
        DeleteReason.BELOW_BASE: "no version from the floor upwards needs it",
        DeleteReason.OLD_PARTITION: "of a partition that no retained batch has, after a "
        "repartition; older than `orphan_age`",
        DeleteReason.SIDE_FILE: "the checksum of a deleted file",
        DeleteReason.ORPHAN_TEMP: "left behind by a write, older than `orphan_age`",
        DeleteReason.ORPHAN_SIDE: "a checksum left behind by a deletion, older than `orphan_age`",
        DeleteReason.STALE_SNAPSHOT: "a rewound query has written the log again that our snapshot "
        "was proved from; moved to the trash in any case",
        DeleteReason.STALE_SIDE: "the checksum of a stale snapshot, or one without its file in the "
        "way of a snapshot to be written",
        DeleteReason.DEAD_ATTEMPT: "RocksDB with unique ids: no commit names it and nothing "
        "committed builds on it, older than `orphan_age`",
        DeleteReason.UNUSED_SST: "RocksDB: the last zip that needs it is deleted; older than "
        "`orphan_age`",
        DeleteReason.ORPHAN_SST: "RocksDB: no zip refers to it; older than `orphan_age`",
    },
)
_REMOVE = explained(
    RemoveReason,
    {
        RemoveReason.BAD_SNAPSHOT: "damaged or not equal to its log, which gives the state that it "
        "should hold",
        RemoveReason.STALE_CHECKSUM: "of a file other than the sound one beside it",
        RemoveReason.ABOVE_TARGET: "a snapshot above the commit log, which Spark would load for a "
        "batch that runs again",
        RemoveReason.UNREADABLE_SCHEMA: "a schema file that cannot be read: a restarted query "
        "writes it again",
        RemoveReason.ROLLED_BACK: "of a batch above the one after which the query continues",
    },
)
_KEEP = explained(
    KeepReason,
    {
        KeepReason.NEEDED: "a delta above the base",
        KeepReason.BASE: "the snapshot that chains start from",
        KeepReason.SNAPSHOT: "a later snapshot",
        KeepReason.CHANGE_FEED: "the delta at the base's own version, which the change feed of its "
        "batch reads",
        KeepReason.ABOVE_TARGET: "written by a batch that is not committed",
        KeepReason.OLD_PARTITION: "of a partition that batches before a repartition have, and the "
        "newest does not",
        KeepReason.GRACE: "deleted once the snapshot above it is older than `grace`",
        KeepReason.USED: "an SST or log of RocksDB that a kept zip refers to",
        KeepReason.EXECUTOR: "a zip or SST while executors upload snapshots, see "
        "[FOREIGN_MAINTAINER](runbook.md#foreign_maintainer)",
        KeepReason.UNREADABLE: "an SST, while a zip of the store cannot be read",
        KeepReason.SIDE_FILE: "the checksum of a kept file",
        KeepReason.YOUNG: "a temp file or lone checksum younger than `orphan_age`",
        KeepReason.UNKNOWN: "its name is unknown",
        KeepReason.NOT_STATE: "metadata and schema",
        KeepReason.HALTED: "nothing of the store is deleted because of damage",
        KeepReason.VERIFY_OFF: "nothing is deleted with `--no-verify`",
        KeepReason.LIMIT: "left for a later run by `max_deletes_per_run`",
        KeepReason.CLOCK_SKEW: "ages are unreliable, see [CLOCK_SKEW](runbook.md#clock_skew)",
    },
)
_CHANGES = {
    KeyChange.ADDED: "only in the newer version",
    KeyChange.CHANGED: "in both, with other bytes",
    KeyChange.REMOVED: "only in the older version",
}
_NOTICES: dict[Enum, str] = {
    NoticeCode.NEVER_REMOVES: "ten versions or more, with keys added in the newer half of them "
    "too, and none removed in any partition",
    NoticeCode.SKEWED: "the largest partition has three times the mean or more, and a thousand "
    "rows or more",
}

FINDING = Choice("code of a finding", listed(FindingCode), "runbook.md")
PROVIDER = Choice("provider", listed(Provider))
OUTCOME = Choice(
    "outcome",
    explained(
        StoreOutcome,
        {
            StoreOutcome.DONE: "its part of the plan is carried out",
            StoreOutcome.SKIPPED: "left for the next run: the time ran out, or the query moved on",
            StoreOutcome.HALTED: "damaged, or its storage failed: see its findings",
        },
    ),
)
STEP_REASON = Choice("reason of a step", {**_SNAPSHOT, **_ATTEST, **_DELETE})
DUE_REASON = Choice("reason of a snapshot", _SNAPSHOT)
WITHHELD_REASON = Choice(
    "reason to withhold a snapshot", {one.value: why for one, why in WHY.items()}
)
WRITE_REASON = Choice("reason of a write", {SnapshotReason.REBUILT.value: ""})
REMOVE_REASON = Choice("reason of a removal", _REMOVE)
KEEP_REASON = Choice("reason to keep a file", _KEEP)
CHANGE = Choice("change", {one.value: meaning for one, meaning in _CHANGES.items()})
NOTICE = Choice("code of a notice", explained(NoticeCode, _NOTICES))
RECOVERY = Choice("verb of a recovery", listed(RecoveryVerb))
