"""The documents of the verbs that look at a checkpoint: `scan`, `verify`, `doctor`, `digest`."""

from tools.json_documents.kinds import (
    BOOLEAN,
    INTEGER,
    NUMBER,
    TEXT,
    Choice,
    JsonField,
    JsonObject,
    ListOf,
    MapOf,
    Verb,
    or_null,
)
from tools.json_documents.reasons import FINDING, PROVIDER
from tools.json_documents.shared import (
    CHECKPOINT,
    COMMITTED,
    FINDINGS,
    HEAD,
    QUERY_ID,
    SCANNED_STORE,
    STORE_ID,
    TARGET,
    fleet,
)

CODEC = JsonField("codec", TEXT, "the compression of its state files, by Spark's short name")
PROVIDER_FIELD = JsonField("provider", PROVIDER, "the state store provider of its operators")
_FLOOR = JsonField(
    "floor", or_null(INTEGER), "the oldest version that the commit log requires; null without one"
)

_SCAN = JsonObject(
    "one checkpoint scanned",
    (
        *HEAD,
        QUERY_ID,
        COMMITTED,
        TARGET,
        _FLOOR,
        PROVIDER_FIELD,
        CODEC,
        JsonField("stores", ListOf(SCANNED_STORE), "every store"),
        FINDINGS,
    ),
    "The findings of a store are in the store; those of the document are of the whole checkpoint.",
    lines="stores",
)
_SCANS = fleet(
    "scanned",
    JsonObject(
        "a scan among many",
        (
            CHECKPOINT,
            COMMITTED,
            JsonField("stores", INTEGER, "the number of its stores"),
            JsonField("files", INTEGER, "the number of their files"),
            JsonField("bytes", INTEGER, "the size of these files"),
            JsonField("longest_chain", INTEGER, "deltas, of the stores that load"),
            JsonField("broken_stores", INTEGER, "the number that do not load"),
            FINDINGS,
        ),
    ),
    lines="checkpoints",
)
SCAN = Verb("scan", (_SCAN, _SCANS), "Of a folder or bucket, the second document.")

_HEALTHY = JsonField("healthy", BOOLEAN, "whether no finding is damage")
_CHECKED = JsonField(
    "versions_checked",
    INTEGER,
    "retained versions of which every file passed, counted for each store; with `--deep` every "
    "file was decoded",
)
_VERSIONS = JsonField(
    "versions",
    INTEGER,
    "retained versions that were looked at, counted for each store",
)
_VERIFICATION = JsonObject(
    "one checkpoint verified", (*HEAD, _HEALTHY, _CHECKED, _VERSIONS, FINDINGS), lines="findings"
)
_VERIFICATIONS = fleet(
    "verified",
    JsonObject(
        "a verification among many",
        (
            CHECKPOINT,
            _HEALTHY,
            _CHECKED,
            _VERSIONS,
            JsonField("stores", INTEGER, "the number of its stores"),
            FINDINGS,
        ),
    ),
    lines="checkpoints",
)
VERIFY = Verb(
    "verify", (_VERIFICATION, _VERIFICATIONS), "Of a folder or bucket, the second document."
)

_RESTARTS = JsonField(
    "restarts",
    BOOLEAN,
    "whether the query can be started again as it is, with the newest Spark",
)
_SINCE = JsonField(
    "restarts_since",
    or_null(TEXT),
    "the first Spark that does so, if older ones do not; else null",
)
_DAMAGE = JsonField("damage", MapOf(INTEGER, FINDING), "the number of findings that are damage")
_NEXT = JsonField("next", ListOf(TEXT), "what to do")
_DOCTOR = JsonObject(
    "one checkpoint diagnosed",
    (
        *HEAD,
        _RESTARTS,
        _SINCE,
        JsonField(
            "passed_over", ListOf(TEXT), "the paths of the bad snapshots that it then passes over"
        ),
        COMMITTED,
        JsonField(
            "loadable_batches",
            ListOf(INTEGER),
            "those of the commit log that load in every store",
        ),
        JsonField(
            "goes_back_to",
            or_null(INTEGER),
            "the newest batch that `rollback` should take; null if there is none",
        ),
        JsonField(
            "longest_chain",
            or_null(
                JsonObject(
                    "longest chain",
                    (
                        *STORE_ID,
                        JsonField("deltas", INTEGER, "their number"),
                        JsonField("files", INTEGER, "with the snapshot"),
                        JsonField("bytes", INTEGER, "with RocksDB's tables"),
                        JsonField(
                            "seconds",
                            or_null(NUMBER),
                            "that reading it took; null if it could not be read",
                        ),
                    ),
                )
            ),
            "of the newest version; null if no store loads",
        ),
        JsonField(
            "restart_estimate",
            or_null(
                JsonObject(
                    "restart estimate",
                    (
                        JsonField("bytes", INTEGER, "that all stores read at the newest version"),
                        JsonField(
                            "bytes_per_second",
                            NUMBER,
                            "measured by reading the chain with the most bytes",
                        ),
                        JsonField(
                            "slots", INTEGER, "`--slots`, by default the cores of this machine"
                        ),
                        JsonField(
                            "seconds_at_least",
                            NUMBER,
                            "that chain's own, or the bytes by speed and slots if that is more",
                        ),
                    ),
                    "Our reading on this machine and not Spark's, which takes longer: "
                    "[benchmarks.md](benchmarks.md#side-by-side) has the ratio.",
                )
            ),
            "null when a store does not load or cannot be read",
        ),
        JsonField(
            "looked_at",
            Choice("depth", {"files": "", "rows": ""}),
            "`rows` with `--deep`: every row of the newest version as well",
        ),
        JsonField("unseen", ListOf(TEXT), "what was not checked"),
        _DAMAGE,
        _NEXT,
        FINDINGS,
    ),
)
_DOCTORS = fleet(
    "diagnosed",
    JsonObject(
        "a diagnosis among many",
        (
            CHECKPOINT,
            _RESTARTS,
            _SINCE,
            COMMITTED,
            JsonField(
                "loadable_batches",
                INTEGER,
                "the number in the commit log that load in every store",
            ),
            JsonField(
                "longest_chain",
                or_null(INTEGER),
                "deltas, at the newest version; null if no store loads",
            ),
            JsonField(
                "bytes",
                or_null(INTEGER),
                "that all stores read at the newest version; null if one does not load",
            ),
            _DAMAGE,
            _NEXT,
            FINDINGS,
        ),
    ),
)
DOCTOR = Verb("doctor", (_DOCTOR, _DOCTORS), "Of a folder or bucket, the second document.")

DIGEST = Verb(
    "digest",
    (
        JsonObject(
            "digests of a checkpoint",
            (
                *HEAD,
                JsonField("version", INTEGER, "the state version that was read"),
                JsonField(
                    "stores",
                    ListOf(
                        JsonObject(
                            "digest of a store",
                            (
                                *STORE_ID,
                                JsonField("rows", INTEGER, "their number"),
                                JsonField(
                                    "digest",
                                    TEXT,
                                    "order-free and keyed by the query's id, so it can be compared "
                                    "between copies of one checkpoint",
                                ),
                            ),
                        )
                    ),
                    "every store",
                ),
            ),
            lines="stores",
        ),
    ),
)
