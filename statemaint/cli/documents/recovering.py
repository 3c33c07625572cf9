"""The documents of the verbs that recover, and of the history: `repair` to `runs`."""

from statemaint.cli.documents.kinds import (
    BOOLEAN,
    INTEGER,
    NUMBER,
    TEXT,
    Choice,
    Either,
    Field,
    ListOf,
    MapOf,
    Piece,
    Verb,
    or_null,
)
from statemaint.cli.documents.reasons import (
    RECOVERY,
    REMOVE_REASON,
    STEP_REASON,
    WRITE_REASON,
)
from statemaint.cli.documents.shared import (
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

_VERB = Field("verb", RECOVERY, "the verb")
_BATCH = Field("batch", or_null(INTEGER), "that the query goes on after; null without any")
_UNREPAIRED = Field("unrepaired", ListOf(TEXT), "why damage that stays is not repaired")
_LEFT_FINDINGS = Field("findings", FINDINGS.kind, "what is wrong afterwards")
_SIZE = Field("bytes", INTEGER, "its size")
_FINGERPRINT = Field(
    "fingerprint",
    TEXT,
    "of the actions, with size and time of each file: `apply` refuses any others",
)

_REMOVAL = Piece(
    "removal",
    (
        Field("action", Choice("action of a removal", {"remove": ""}), "to the trash"),
        *MAYBE_STORE_ID,
        Field("version", INTEGER, "the state version that it belongs to", optional=True),
        PATH,
        _SIZE,
        Field("reason", REMOVE_REASON, "why"),
    ),
)
_WRITE = (
    Field("action", Choice("action of a write", {"write_snapshot": ""}), "from the log"),
    *STORE_ID,
    Field("version", INTEGER, "the state version that it holds"),
    PATH,
    Field("reason", WRITE_REASON, "why"),
)
_PROOF = Piece(
    "proof of a repair",
    (
        *MAYBE_STORE_ID,
        Field("version", INTEGER, "the state version"),
        Field("digest", TEXT, "of its rows without the removed files, as `digest` prints it"),
        Field("rows", INTEGER, "their number"),
        Field("files", INTEGER, "how many it was folded from"),
        Field("start", INTEGER, "the version that their chain starts from; 0 for the empty state"),
    ),
)
RECOVERY_PLAN = Piece(
    "plan of a recovery",
    (
        FORMAT,
        _VERB,
        CHECKPOINT,
        QUERY_ID,
        _BATCH,
        Field(
            "actions",
            ListOf(Either((_REMOVAL, Piece("write of a snapshot", _WRITE)))),
            "in the order in which they happen",
        ),
        Field("proofs", ListOf(_PROOF), "of each step of a repair"),
        Field(
            "versions_checked",
            INTEGER,
            "versions of stores that were read without the removed files",
        ),
        _UNREPAIRED,
        _LEFT_FINDINGS,
        _FINGERPRINT,
        Field("trash_for", NUMBER, "seconds that the removed files will stay in the trash"),
    ),
    "`apply` carries it out.",
)
RECOVERED = Piece(
    "recovery",
    (
        FORMAT,
        Field("run", TEXT, "its id, for `runs` and `undo`; empty where nothing was to be done"),
        _VERB,
        CHECKPOINT,
        _BATCH,
        Field("removed", ListOf(_REMOVAL), "the files that were moved to the trash"),
        Field(
            "written",
            ListOf(
                Piece(
                    "written snapshot",
                    (
                        *_WRITE,
                        Field(
                            "attestation",
                            or_null(ATTESTATION),
                            "its proof; null where it was not read back",
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

_OF_RUN = Field("run", TEXT, "the run that had deleted the files")
_LEFT = Field("left", ListOf(TEXT), "the paths of the files that stay in the trash")
_REASONS = Field("reasons", MapOf(TEXT, "path"), "why each of them stays")
UNDONE = Piece(
    "finished undo",
    (
        *HEAD,
        _OF_RUN,
        Field("undo", TEXT, "the id of the undo, which is a run as well"),
        Field("files", INTEGER, "how many are in place again"),
        Field("bytes", INTEGER, "the size of these files"),
        _LEFT,
        _REASONS,
    ),
)
UNDO_PLAN = Piece(
    "plan of an undo",
    (
        FORMAT,
        Field("verb", Choice("undoing", {"undo": ""}), "the verb"),
        CHECKPOINT,
        _OF_RUN,
        Field(
            "actions",
            ListOf(
                Piece(
                    "return of a file",
                    (
                        Field("action", Choice("returning", {"restore": ""}), "from the trash"),
                        PATH,
                        _SIZE,
                    ),
                )
            ),
            "in the order in which they happen",
        ),
        Field("files", INTEGER, "how many would come back"),
        Field("bytes", INTEGER, "the size of these files"),
        _LEFT,
        _REASONS,
        _FINGERPRINT,
    ),
    "`apply` carries it out.",
)
UNDO = Verb("undo", (UNDONE, UNDO_PLAN), "With `--dry-run`, the second document.")

_RUN = (
    Field("run", TEXT, "its id"),
    Field("started", NUMBER, "when its first task began, in seconds since the epoch"),
    Field("seconds", NUMBER, "from then until its last task ended"),
    Field("tasks", INTEGER, "how many changed something; 0 of a run that was killed"),
    Field("snapshots_written", INTEGER, "their number"),
    Field("files_deleted", INTEGER, "their number, those moved to the trash included"),
    Field("bytes_written", INTEGER, "the size of the snapshots"),
    Field("bytes_deleted", INTEGER, "the size of the deleted files"),
    Field("exit_code", INTEGER, "the worst of its tasks"),
    Field("in_trash", BOOLEAN, "whether files of it are in the trash"),
    Field("undo_of", or_null(TEXT), "the run that this one undid; null where it is no undo"),
    Field("files_restored", INTEGER, "how many files it brought back, as an undo"),
    Field("bytes_restored", INTEGER, "the size of these files"),
    Field(
        "undone",
        ListOf(
            Piece(
                "undo of a run",
                (
                    Field("run", TEXT, "the id of the undo"),
                    Field("time", NUMBER, "when it ended, in seconds since the epoch"),
                    Field("files", INTEGER, "how many it brought back"),
                    Field("left", INTEGER, "how many it left in the trash"),
                ),
            )
        ),
        "each undo of this run, the oldest first",
    ),
)
_ACTION = Piece(
    "action of a run",
    (
        Field(
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
        Field("version", INTEGER, "that the file belongs to", optional=True),
        PATH,
        Field("reason", Either((STEP_REASON, REMOVE_REASON)), "why", optional=True),
        _SIZE,
        Field("time", NUMBER, "when it was noted, in seconds since the epoch"),
        Field("trash", BOOLEAN, "true: it was moved to the trash", optional=True),
        Field("of", TEXT, "the run whose file came back", optional=True),
    ),
)
RUNS = Verb(
    "runs",
    (
        Piece(
            "runs of a checkpoint",
            (
                *HEAD,
                Field("runs", ListOf(Piece("run", _RUN)), "the newest first"),
            ),
            "The last hundred, those whose trash is kept, and all that are younger than such a "
            "one.",
            lines="runs",
        ),
        Piece(
            "one run",
            (
                *HEAD,
                *_RUN,
                Field(
                    "actions",
                    ListOf(_ACTION),
                    "as the ledger has them, in their order; of an old run, those that later runs "
                    "need",
                ),
            ),
            lines="actions",
        ),
    ),
    "With a `RUN`, the second document.",
)
