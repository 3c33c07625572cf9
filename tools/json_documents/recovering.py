"""The documents of the verbs that recover, and of the history: `repair` to `runs`."""

from tools.json_documents.kinds import (
    BOOLEAN,
    INTEGER,
    NUMBER,
    TEXT,
    Choice,
    Either,
    JsonField,
    JsonObject,
    ListOf,
    MapOf,
    Verb,
    or_null,
)
from tools.json_documents.reasons import (
    RECOVERY,
    REMOVE_REASON,
    STEP_REASON,
    WRITE_REASON,
)
from tools.json_documents.shared import (
    ATTESTATION,
    CHECKPOINT,
    FINDINGS,
    FORMAT,
    HEAD,
    MAYBE_STORE_ID,
    PATH,
    QUERY_ID,
    STORE_ID,
)

_VERB = JsonField("verb", RECOVERY, "the verb")
_BATCH = JsonField("batch", or_null(INTEGER), "after which the query continues; null without one")
_UNREPAIRED = JsonField("unrepaired", ListOf(TEXT), "why the remaining damage is not repaired")
_LEFT_FINDINGS = JsonField("findings", FINDINGS.kind, "the remaining findings")
_SIZE = JsonField("bytes", INTEGER, "its size")
_FINGERPRINT = JsonField(
    "fingerprint",
    TEXT,
    "of the actions, with size and time of each file: `apply` refuses any others",
)

_REMOVAL = JsonObject(
    "removal",
    (
        JsonField("action", Choice("action of a removal", {"remove": ""}), "to the trash"),
        *MAYBE_STORE_ID,
        JsonField("version", INTEGER, "the state version that it belongs to", optional=True),
        PATH,
        _SIZE,
        JsonField("reason", REMOVE_REASON, "why"),
    ),
)
_WRITE = (
    JsonField("action", Choice("action of a write", {"write_snapshot": ""}), "from the log"),
    *STORE_ID,
    JsonField("version", INTEGER, "the state version that it holds"),
    PATH,
    JsonField("reason", WRITE_REASON, "why"),
)
_PROOF = JsonObject(
    "proof of a repair",
    (
        *MAYBE_STORE_ID,
        JsonField("version", INTEGER, "the state version"),
        JsonField("digest", TEXT, "of its rows without the removed files, as `digest` prints it"),
        JsonField("rows", INTEGER, "their number"),
        JsonField("files", INTEGER, "the number that it was folded from"),
        JsonField(
            "start", INTEGER, "the version that their chain starts from; 0 for the empty state"
        ),
    ),
)
RECOVERY_PLAN = JsonObject(
    "plan of a recovery",
    (
        FORMAT,
        _VERB,
        CHECKPOINT,
        QUERY_ID,
        _BATCH,
        JsonField(
            "actions",
            ListOf(Either((_REMOVAL, JsonObject("write of a snapshot", _WRITE)))),
            "in the order in which they happen",
        ),
        JsonField("proofs", ListOf(_PROOF), "of each step of a repair"),
        JsonField(
            "versions_checked",
            INTEGER,
            "versions of stores that were read without the removed files",
        ),
        _UNREPAIRED,
        _LEFT_FINDINGS,
        _FINGERPRINT,
        JsonField("trash_for", NUMBER, "seconds that the removed files will stay in the trash"),
    ),
    "`apply` carries it out.",
)
RECOVERED = JsonObject(
    "recovery",
    (
        FORMAT,
        JsonField("run", TEXT, "its id, for `runs` and `undo`; empty if there was nothing to do"),
        _VERB,
        CHECKPOINT,
        _BATCH,
        JsonField("removed", ListOf(_REMOVAL), "the files that were moved to the trash"),
        JsonField(
            "written",
            ListOf(
                JsonObject(
                    "written snapshot",
                    (
                        *_WRITE,
                        JsonField(
                            "attestation",
                            or_null(ATTESTATION),
                            "its proof; null if it was not read back",
                        ),
                    ),
                )
            ),
            "the snapshots that were written",
        ),
        _UNREPAIRED,
        _LEFT_FINDINGS,
    ),
)
_RECOVERIES = (RECOVERY_PLAN, RECOVERED)
REPAIR = Verb("repair", _RECOVERIES, "With `--apply`, the second document.")
ROLLBACK = Verb("rollback", _RECOVERIES, "With `--apply`, the second document.")

_OF_RUN = JsonField("run", TEXT, "the run that deleted the files")
_LEFT = JsonField("left", ListOf(TEXT), "the paths of the files that stay in the trash")
_REASONS = JsonField("reasons", MapOf(TEXT, "path"), "why each of them stays")
UNDONE = JsonObject(
    "finished undo",
    (
        *HEAD,
        _OF_RUN,
        JsonField("undo", TEXT, "the id of the undo, which is a run as well"),
        JsonField("files", INTEGER, "the number that are in place again"),
        JsonField("bytes", INTEGER, "the size of these files"),
        _LEFT,
        _REASONS,
    ),
)
UNDO_PLAN = JsonObject(
    "plan of an undo",
    (
        FORMAT,
        JsonField("verb", Choice("undoing", {"undo": ""}), "the verb"),
        CHECKPOINT,
        _OF_RUN,
        JsonField(
            "actions",
            ListOf(
                JsonObject(
                    "return of a file",
                    (
                        JsonField("action", Choice("returning", {"restore": ""}), "from the trash"),
                        PATH,
                        _SIZE,
                    ),
                )
            ),
            "in the order in which they happen",
        ),
        JsonField("files", INTEGER, "the number that would come back"),
        JsonField("bytes", INTEGER, "the size of these files"),
        _LEFT,
        _REASONS,
        _FINGERPRINT,
    ),
    "`apply` carries it out.",
)
UNDO = Verb("undo", (UNDONE, UNDO_PLAN), "With `--dry-run`, the second document.")

_RUN = (
    JsonField("run", TEXT, "its id"),
    JsonField("started", NUMBER, "when its first task began, in seconds since the epoch"),
    JsonField("seconds", NUMBER, "from then until its last task ended"),
    JsonField(
        "tasks",
        INTEGER,
        "the number that changed something; 0 for a run that did not record itself",
    ),
    JsonField("snapshots_written", INTEGER, "their number"),
    JsonField("files_deleted", INTEGER, "their number, those moved to the trash included"),
    JsonField("bytes_written", INTEGER, "the size of the snapshots"),
    JsonField("bytes_deleted", INTEGER, "the size of the deleted files"),
    JsonField("exit_code", INTEGER, "the worst of its tasks; 1 if it did not record itself"),
    JsonField("in_trash", BOOLEAN, "whether files of it are in the trash"),
    JsonField("undo_of", or_null(TEXT), "the run that this one undid; null if it is not an undo"),
    JsonField("files_restored", INTEGER, "the number of files that it brought back, as an undo"),
    JsonField("bytes_restored", INTEGER, "the size of these files"),
    JsonField(
        "undone",
        ListOf(
            JsonObject(
                "undo of a run",
                (
                    JsonField("run", TEXT, "the id of the undo"),
                    JsonField("time", NUMBER, "when it ended, in seconds since the epoch"),
                    JsonField("files", INTEGER, "the number that it brought back"),
                    JsonField("left", INTEGER, "the number that it left in the trash"),
                ),
            )
        ),
        "each undo of this run, the oldest first",
    ),
)
_ACTION = JsonObject(
    "action of a run",
    (
        JsonField(
            "action",
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
            "what was done, or was about to be done when the run was killed",
        ),
        *MAYBE_STORE_ID,
        JsonField("version", INTEGER, "that the file belongs to", optional=True),
        PATH,
        JsonField("reason", Either((STEP_REASON, REMOVE_REASON)), "why", optional=True),
        _SIZE,
        JsonField("time", NUMBER, "when it was recorded, in seconds since the epoch"),
        JsonField("trash", BOOLEAN, "true: it was moved to the trash", optional=True),
        JsonField("of", TEXT, "the run whose file came back", optional=True),
    ),
)
RUNS = Verb(
    "runs",
    (
        JsonObject(
            "runs of a checkpoint",
            (
                *HEAD,
                JsonField("runs", ListOf(JsonObject("run", _RUN)), "the newest first"),
            ),
            "The last hundred, those whose trash is kept, and all younger than these.",
            lines="runs",
        ),
        JsonObject(
            "one run",
            (
                *HEAD,
                *_RUN,
                JsonField(
                    "actions",
                    ListOf(_ACTION),
                    "as recorded in the ledger, in order; of an old run, those that later runs "
                    "need",
                ),
            ),
            lines="actions",
        ),
    ),
    "With a `RUN`, the second document.",
)
