"""The documents of the verbs that maintain: `plan`, `maintain`, `apply`."""

from statemaint.model.policy import SETTINGS, Setting
from tools.json_documents.kinds import (
    BOOLEAN,
    INTEGER,
    NUMBER,
    TEXT,
    Choice,
    JsonField,
    JsonObject,
    Kind,
    ListOf,
    MapOf,
    Verb,
    or_null,
)
from tools.json_documents.looking import CODEC, PROVIDER_FIELD
from tools.json_documents.reasons import (
    DUE_REASON,
    KEEP_REASON,
    OUTCOME,
    STEP_REASON,
    WITHHELD_REASON,
)
from tools.json_documents.recovering import RECOVERED, UNDONE
from tools.json_documents.shared import (
    ATTESTATION,
    COMMITTED,
    FINDINGS,
    HEAD,
    PATH,
    QUERY_ID,
    SCANNED_STORE,
    STORE,
    STORE_ID,
)

_KINDS: dict[type, Kind] = {int: INTEGER, float: NUMBER, bool: BOOLEAN}


def _kind(setting: Setting) -> Kind:
    kind = _KINDS[setting.kind]
    return kind if setting.default is not None else or_null(kind)


_POLICY = JsonObject(
    "policy",
    tuple(
        JsonField(one.name, _kind(one), one.meaning + " In seconds." * (one.kind is float))
        for one in SETTINGS
    ),
    "Which settings for which query: [policy.md](policy.md).",
)
_REQUEST = JsonObject(
    "request",
    (
        JsonField("target", or_null(INTEGER), "the version to snapshot, fixed by the plan"),
        JsonField("force_snapshot", BOOLEAN, "whether to write it even if its chain is short"),
        JsonField("operators", ListOf(INTEGER), "only these; all when empty"),
        JsonField("partitions", ListOf(INTEGER), "only these; all when empty"),
        JsonField("stores", ListOf(TEXT), "only stores of these names; all when empty"),
    ),
)
_STEP = JsonObject(
    "step of a plan",
    (
        JsonField(
            "action",
            Choice(
                "action of a plan",
                {
                    "write_snapshot": "write the snapshot of a version",
                    "attest": "read a snapshot back and compare it with the files below it",
                    "delete": "delete a file, or move it to the trash",
                },
            ),
            "the step",
        ),
        *STORE_ID,
        JsonField(
            "version",
            INTEGER,
            "of the file; 0 if files of any version may need it",
        ),
        PATH,
        JsonField("reason", STEP_REASON, "why"),
    ),
)
_WITHHELD = JsonField(
    "withheld",
    ListOf(
        JsonObject(
            "snapshot that is withheld",
            (
                *STORE_ID,
                JsonField("version", INTEGER, "the version that it would hold"),
                JsonField("due", DUE_REASON, "why it is due"),
                JsonField("chain_length", INTEGER, "deltas that a load of the version replays"),
                JsonField("reason", WITHHELD_REASON, "why it is not written"),
                JsonField(
                    "until_version",
                    or_null(INTEGER),
                    "the committed version that ends this at the latest; null if none does",
                ),
                JsonField(
                    "until",
                    or_null(NUMBER),
                    "the time that ends it, in seconds since the epoch; null if none does",
                ),
            ),
            "What the operator can change: [SNAPSHOT_WITHHELD](runbook.md#snapshot_withheld).",
        )
    ),
    "due snapshots that are not written: their chains are over the limit, or the run requests them",
)
_TARGET = JsonField(
    "target_version",
    or_null(INTEGER),
    "the version that long chains are snapshotted at; null without one",
)
_KEPT_FLOOR = JsonField(
    "floor",
    or_null(INTEGER),
    "the oldest version that the policy and the commit log keep: those from it on that load stay "
    "loadable; null without one",
)

PLAN = Verb(
    "plan",
    (
        JsonObject(
            "plan of maintenance",
            (
                *HEAD,
                QUERY_ID,
                COMMITTED,
                _TARGET,
                _KEPT_FLOOR,
                PROVIDER_FIELD,
                CODEC,
                JsonField("stores", ListOf(SCANNED_STORE), "only the requested ones"),
                FINDINGS,
                JsonField("actions", ListOf(_STEP), "in the order in which they happen"),
                _WITHHELD,
                JsonField("keep", MapOf(INTEGER, KEEP_REASON), "the number of files that stay"),
                JsonField("now", NUMBER, "when it was made, in seconds since the epoch"),
                JsonField("policy", _POLICY, "the policy that it follows"),
                JsonField("request", _REQUEST, "the scope that it was restricted to"),
                JsonField(
                    "fingerprint",
                    TEXT,
                    "of the actions, with size and time of each file: `apply` refuses any others",
                ),
            ),
            "The fields of `scan` with the policy's floor, the actions, and the input that `apply` "
            "needs to plan again.",
            lines="actions",
        ),
    ),
)
_STORE_REPORT = JsonObject(
    "store after a run",
    (
        *STORE,
        JsonField("outcome", OUTCOME, "the outcome of its part of the run"),
        JsonField(
            "attestation",
            or_null(ATTESTATION),
            "of its newest proved snapshot; null without one",
        ),
    ),
)
_REPORT = JsonObject(
    "run of maintenance",
    (
        JsonField("format", INTEGER, HEAD[0].meaning),
        JsonField("run", TEXT, "its id, for `runs` and `undo`"),
        HEAD[1],
        JsonField("dry_run", BOOLEAN, "whether nothing was done"),
        COMMITTED,
        _TARGET,
        _KEPT_FLOOR,
        JsonField("snapshots_written", INTEGER, "their number"),
        JsonField("files_deleted", INTEGER, "their number, those moved to the trash included"),
        JsonField("bytes_deleted", INTEGER, "the size of these files"),
        JsonField("bytes_written", INTEGER, "the size of the snapshots"),
        JsonField(
            "trash_files_deleted",
            INTEGER,
            "the number of files that had expired in the trash and were deleted from it",
        ),
        JsonField("trash_bytes_deleted", INTEGER, "the size of these files"),
        JsonField("seconds", NUMBER, "that the run took"),
        JsonField(
            "requests",
            MapOf(INTEGER, "the storage's own name of a request"),
            "the number of requests to the storage",
        ),
        JsonField("stores", ListOf(_STORE_REPORT), "every requested store, after the run"),
        _WITHHELD,
        FINDINGS,
        JsonField(
            "actions",
            ListOf(_STEP),
            "what a run would do, in the order in which it would happen; only of a dry run",
            optional=True,
        ),
    ),
    "The findings of the document are those of the checkpoint and of every store. The counts are "
    "of what was done: all 0 in a dry run.",
)
MAINTAIN = Verb("maintain", (_REPORT,))
APPLY = Verb(
    "apply",
    (_REPORT, RECOVERED, UNDONE),
    "The document that the verb whose plan it carries out would have printed.",
)
