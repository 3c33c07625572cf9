"""The parts that documents of several verbs have."""

from statemaint.cli import settings
from statemaint.cli.documents.kinds import INTEGER, TEXT, Either, Field, ListOf, Piece, or_null
from statemaint.cli.documents.reasons import FINDING

FORMAT = Field("format", INTEGER, f"the format of the document, {settings.FORMAT}")
CHECKPOINT = Field("checkpoint", TEXT, "its address")
HEAD = (FORMAT, CHECKPOINT)
STORE_ID = (
    Field("operator", INTEGER, "the stateful operator"),
    Field("partition", INTEGER, "the partition"),
    Field("store", TEXT, "the store's name, `default` but for joins"),
)
FAMILY = Field("family", or_null(TEXT), "the column family of RocksDB; null in a store without")
MAYBE_STORE_ID = tuple(Field(one.name, one.kind, one.meaning, optional=True) for one in STORE_ID)
PATH = Field("path", TEXT, "of the file, relative to the checkpoint")
QUERY_ID = Field("query_id", TEXT, "the query's id; empty where it is unknown")
COMMITTED = Field(
    "last_committed_batch", or_null(INTEGER), "the newest batch in the commit log; null without one"
)
TARGET = Field("target_version", or_null(INTEGER), "that batch + 1")
FINDING_PIECE = Piece(
    "finding",
    (
        Field("code", FINDING, "what is wrong"),
        Field("detail", TEXT, "what, where and what to do"),
        *MAYBE_STORE_ID,
        Field("version", INTEGER, "the state version that it spoils", optional=True),
        Field("path", TEXT, "of the file that is wrong or missing", optional=True),
        Field("offset", INTEGER, "a byte of that file, from its start", optional=True),
        Field(
            "batches",
            ListOf(INTEGER),
            "those of the commit log that do not load because of it",
            optional=True,
        ),
    ),
)
FINDINGS = Field("findings", ListOf(FINDING_PIECE), "what is wrong, or worth a look")
ATTESTATION = Piece(
    "proof of a snapshot",
    (
        Field("path", TEXT, "of the snapshot, relative to the checkpoint"),
        Field("version", INTEGER, "the state version that it holds"),
        Field("digest", TEXT, "of its rows, as `digest` prints it"),
        Field("rows", INTEGER, "their number"),
        Field("bytes", INTEGER, "of their keys and values"),
        Field(
            "files",
            INTEGER,
            "how many it was compared with; 0 where none below it was left",
        ),
        Field("start", INTEGER, "the version that their chain starts from; 0 for the empty state"),
    ),
)
STORE = (
    *STORE_ID,
    Field("versions", ListOf(INTEGER), "the first and the last; empty without files"),
    Field("snapshots", ListOf(INTEGER), "their versions, ascending"),
    Field(
        "chain_length",
        or_null(INTEGER),
        "deltas that a restart replays; null when it would fail",
    ),
    Field("files", INTEGER, "their number"),
    Field("bytes", INTEGER, "their size"),
    FINDINGS,
)
SCANNED_STORE = Piece("store", STORE)
UNREAD = Piece(
    "checkpoint that could not be read",
    (
        CHECKPOINT,
        Field(
            "error",
            Piece(
                "reason of a failure",
                (
                    Field("code", TEXT, "stable, as in the [runbook](runbook.md)"),
                    Field("message", TEXT, "what, where and what to do, in one line"),
                ),
            ),
            "why it could not be read",
        ),
    ),
)
ERROR = Piece(
    "error document",
    (
        FORMAT,
        Field(
            "error",
            Piece(
                "facts of an error",
                (
                    Field("code", TEXT, "stable, as in the [runbook](runbook.md)"),
                    Field("message", TEXT, "what, where and what to do, in one line"),
                    Field("path", or_null(TEXT), "the file, or the checkpoint; null without one"),
                    Field("next", or_null(TEXT), "what to do, in a few words; null where unknown"),
                ),
            ),
            "why the verb has no result",
        ),
    ),
)
"""Printed by any verb in place of its document."""


def fleet(verb: str, row: Piece, *, lines: str = "") -> Piece:
    """Returns the document of a folder or bucket of many checkpoints.

    Args:
        verb: what was done to them, as in `checkpoints scanned`.
        row: one of them.
        lines: the field of `--json-lines`, where the verb has that flag.
    """
    fields = (
        FORMAT,
        Field("folder", TEXT, "the address of the folder or bucket"),
        Field("checkpoints", ListOf(Either((row, UNREAD))), "each checkpoint below it"),
    )
    return Piece(f"many checkpoints {verb}", fields, lines=lines)
