"""The parts that documents of several verbs have."""

from statemaint.cli.messages import FORMAT as FORMAT_NUMBER
from tools.json_documents.kinds import (
    INTEGER,
    TEXT,
    Either,
    JsonField,
    JsonObject,
    ListOf,
    or_null,
)
from tools.json_documents.reasons import FINDING

FORMAT = JsonField("format", INTEGER, f"the format of the document, {FORMAT_NUMBER}")
CHECKPOINT = JsonField("checkpoint", TEXT, "its address")
HEAD = (FORMAT, CHECKPOINT)
STORE_ID = (
    JsonField("operator", INTEGER, "the stateful operator"),
    JsonField("partition", INTEGER, "the partition"),
    JsonField("store", TEXT, "the store's name, `default` except for joins"),
)
FAMILY = JsonField("family", or_null(TEXT), "the column family of RocksDB; null in a store without")
MAYBE_STORE_ID = tuple(
    JsonField(one.name, one.kind, one.meaning, optional=True) for one in STORE_ID
)
PATH = JsonField("path", TEXT, "of the file, relative to the checkpoint")
QUERY_ID = JsonField("query_id", TEXT, "the query's id; empty if it is unknown")
COMMITTED = JsonField(
    "last_committed_batch", or_null(INTEGER), "the newest batch in the commit log; null without one"
)
TARGET = JsonField("target_version", or_null(INTEGER), "that batch + 1")
FINDING_PIECE = JsonObject(
    "finding",
    (
        JsonField("code", FINDING, "the fault"),
        JsonField("detail", TEXT, "what, where and what to do"),
        *MAYBE_STORE_ID,
        JsonField("version", INTEGER, "the affected state version", optional=True),
        JsonField("path", TEXT, "of the bad or missing file", optional=True),
        JsonField("offset", INTEGER, "a byte of that file, from its start", optional=True),
        JsonField(
            "batches",
            ListOf(INTEGER),
            "those of the commit log that do not load because of it",
            optional=True,
        ),
    ),
)
FINDINGS = JsonField("findings", ListOf(FINDING_PIECE), "damage and notices")
ATTESTATION = JsonObject(
    "proof of a snapshot",
    (
        JsonField("path", TEXT, "of the snapshot, relative to the checkpoint"),
        JsonField("version", INTEGER, "the state version that it holds"),
        JsonField("digest", TEXT, "of its rows, as `digest` prints it"),
        JsonField("rows", INTEGER, "their number"),
        JsonField("bytes", INTEGER, "of their keys and values"),
        JsonField(
            "files",
            INTEGER,
            "the number that it was compared with; 0 if none below it was left",
        ),
        JsonField(
            "start", INTEGER, "the version that their chain starts from; 0 for the empty state"
        ),
    ),
)
STORE = (
    *STORE_ID,
    JsonField("versions", ListOf(INTEGER), "the first and the last; empty without files"),
    JsonField("snapshots", ListOf(INTEGER), "their versions, ascending"),
    JsonField(
        "chain_length",
        or_null(INTEGER),
        "deltas that a restart replays; null when it would fail",
    ),
    JsonField("files", INTEGER, "their number"),
    JsonField("bytes", INTEGER, "their size"),
    FINDINGS,
)
SCANNED_STORE = JsonObject("store", STORE)
UNREAD = JsonObject(
    "checkpoint that could not be read",
    (
        CHECKPOINT,
        JsonField(
            "error",
            JsonObject(
                "reason of a failure",
                (
                    JsonField("code", TEXT, "stable, as in the [runbook](runbook.md)"),
                    JsonField("message", TEXT, "what, where and what to do, in one line"),
                ),
            ),
            "why it could not be read",
        ),
    ),
)
ERROR = JsonObject(
    "error document",
    (
        FORMAT,
        JsonField(
            "error",
            JsonObject(
                "facts of an error",
                (
                    JsonField("code", TEXT, "stable, as in the [runbook](runbook.md)"),
                    JsonField("message", TEXT, "what, where and what to do, in one line"),
                    JsonField(
                        "path", or_null(TEXT), "the file, or the checkpoint; null without one"
                    ),
                    JsonField("next", or_null(TEXT), "what to do, in a few words; null if unknown"),
                ),
            ),
            "why the verb has no result",
        ),
    ),
)
"""Printed by any verb in place of its document."""


def fleet(verb: str, row: JsonObject, *, lines: str = "") -> JsonObject:
    """Returns the document of a folder or bucket of many checkpoints.

    Args:
        verb: the participle of the verb, as in `checkpoints scanned`.
        row: one of them.
        lines: the field of `--json-lines`, if the verb has that flag.
    """
    fields = (
        FORMAT,
        JsonField("folder", TEXT, "the address of the folder or bucket"),
        JsonField("checkpoints", ListOf(Either((row, UNREAD))), "each checkpoint below it"),
    )
    return JsonObject(f"many checkpoints {verb}", fields, lines=lines)
