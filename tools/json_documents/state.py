"""The documents of the verbs that read rows of state: `show`, `diff`, `stats`."""

from tools.json_documents.kinds import (
    INTEGER,
    NUMBER,
    TEXT,
    Columns,
    Either,
    JsonField,
    JsonObject,
    ListOf,
    Verb,
    or_null,
)
from tools.json_documents.reasons import CHANGE, NOTICE
from tools.json_documents.shared import CHECKPOINT, FAMILY, FINDINGS, HEAD, STORE_ID, fleet

_VALUE = (Columns(), ListOf(Columns()))
_KEY = JsonField("key", Columns(), "its columns")

SHOW = Verb(
    "show",
    (
        JsonObject(
            "rows of state",
            (
                *HEAD,
                JsonField("version", INTEGER, "the state version"),
                JsonField(
                    "rows",
                    ListOf(
                        JsonObject(
                            "row of state",
                            (
                                *STORE_ID,
                                FAMILY,
                                _KEY,
                                JsonField(
                                    "value",
                                    Either(_VALUE),
                                    "its columns; a list if a value is any number of entries "
                                    "(a list of `transformWithState`, the rows of a join in "
                                    "format 4)",
                                ),
                            ),
                        )
                    ),
                    "those that the flags select",
                ),
            ),
            "Rows are printed as they are read: an error after the first mebibyte leaves an "
            "unfinished document, and the exit code shows it.",
            lines="rows",
        ),
    ),
)
VALUES = """\
Keys and values are objects by the stored names. A column's value is JSON's value of its type, and
otherwise text:

| type | value |
|---|---|
| decimal | text, with all its digits: `"12.50"` |
| float, double | a number, or `"NaN"`, `"Infinity"`, `"-Infinity"` |
| binary | text in base64 |
| date | `"2026-01-31"` |
| timestamp | `"2026-01-31T23:59:59.000000Z"`, in UTC |
| timestamp_ntz | the same without `Z` |
| intervals | Spark's text: `"INTERVAL '1-2' YEAR TO MONTH"`, `"INTERVAL '1 02:03:04.5' DAY TO SECOND"`, `"1 years 2 days"` |
| struct, array | an object, an array; a repeated name in a struct gets a number: `id`, `id (2)` |
| map | an object if keys are text, else an array of `{"key": .., "value": ..}` |
"""  # noqa: E501 -- a line for each row of the table

_COUNTS = (
    JsonField("added", INTEGER, "keys that only the newer version has"),
    JsonField("changed", INTEGER, "keys in both, with other bytes"),
    JsonField("removed", INTEGER, "keys that only the older version has"),
    JsonField(
        "rewritten",
        or_null(INTEGER),
        "keys in both with the same bytes, which a delta or changelog between has put; null if "
        "some of that log is missing",
    ),
)
DIFF = Verb(
    "diff",
    (
        JsonObject(
            "comparison of two versions",
            (
                *HEAD,
                JsonField("from", INTEGER, "the older version"),
                JsonField("to", INTEGER, "the newer version"),
                JsonField("total", JsonObject("counts of all stores", _COUNTS), "of all rows"),
                JsonField(
                    "stores",
                    ListOf(JsonObject("counts of a store", (*STORE_ID, FAMILY, *_COUNTS))),
                    "of all rows of each store and column family, changed or not",
                ),
                JsonField(
                    "rows",
                    ListOf(
                        JsonObject(
                            "changed row",
                            (
                                *STORE_ID,
                                FAMILY,
                                JsonField("change", CHANGE, "what happened to it"),
                                _KEY,
                                JsonField(
                                    "before",
                                    or_null(*_VALUE),
                                    "as `value` of `show`; null if the key did not exist",
                                ),
                                JsonField(
                                    "after",
                                    or_null(*_VALUE),
                                    "as `value` of `show`; null if the key does not exist",
                                ),
                            ),
                        )
                    ),
                    "those within `--key` and `--limit`, store by store in the order of their "
                    "keys' bytes",
                ),
            ),
            lines="rows",
        ),
    ),
)

_CHURN = JsonObject(
    "churn",
    (
        JsonField("versions", INTEGER, "the number of versions"),
        JsonField("puts", INTEGER, "records that put or merge a value"),
        JsonField(
            "removes",
            INTEGER,
            "records that remove a key; a deleted range of RocksDB counts its keys",
        ),
        JsonField("added", INTEGER, "of the puts, those of a key that did not exist"),
        JsonField("removed", INTEGER, "of the removes, those of a key that existed"),
        JsonField(
            "rewritten",
            INTEGER,
            "keys that a version put over those of an older one, once for each version",
        ),
        JsonField("changes_per_version", NUMBER, "puts and removes divided by versions"),
        JsonField(
            "removes_share",
            or_null(NUMBER),
            "removes divided by puts and removes: the share of tombstones",
        ),
        JsonField(
            "rewritten_share",
            or_null(NUMBER),
            "`rewritten` divided by the rows before each version, summed up",
        ),
    ),
    "Over the log: the deltas or changelogs above the oldest snapshot from which they lead to "
    "`version`, or all.",
)
_LARGEST = JsonField(
    "largest",
    ListOf(
        JsonObject(
            "large key",
            (
                *STORE_ID,
                FAMILY,
                _KEY,
                JsonField("bytes", INTEGER, "the stored size of key and value"),
            ),
        )
    ),
    "the largest keys, in descending order",
)
_FIGURES = (
    JsonField("rows", INTEGER, "their number"),
    JsonField("bytes", INTEGER, "of keys and values as they are stored"),
    JsonField("churn", or_null(_CHURN), "the changes by the log; null if no log is left"),
    JsonField(
        "untouched",
        or_null(INTEGER),
        "rows that no version above `since` has put; null if no log is left",
    ),
    JsonField("untouched_share", or_null(NUMBER), "of all rows"),
)
_SKEW = JsonObject(
    "skew",
    (
        JsonField("partition", INTEGER, "the partition with the most rows"),
        JsonField("rows", INTEGER, "its rows"),
        JsonField("mean", NUMBER, "the mean of all requested partitions"),
        JsonField("ratio", or_null(NUMBER), "its rows divided by the mean; null without any row"),
    ),
)
_NOTICE = JsonObject(
    "notice",
    (
        JsonField("code", NOTICE, "the kind of notice"),
        JsonField("operator", INTEGER, "the stateful operator"),
        JsonField("store", or_null(TEXT), "the store's name; null if it concerns all of them"),
        JsonField("family", or_null(TEXT), "the column family; null if it concerns all of them"),
        JsonField("detail", TEXT, "in a sentence"),
    ),
)
STATS = Verb(
    "stats",
    (
        JsonObject(
            "figures of one checkpoint",
            (
                *HEAD,
                JsonField("version", INTEGER, "the newest committed version"),
                JsonField(
                    "since",
                    or_null(INTEGER),
                    "the version that untouched rows are at least as old as; null if no log is "
                    "left",
                ),
                JsonField(
                    "operators",
                    ListOf(
                        JsonObject(
                            "figures of an operator",
                            (
                                JsonField("operator", INTEGER, "the stateful operator"),
                                *_FIGURES,
                                JsonField("skew", _SKEW, "the unevenness of its partitions"),
                                _LARGEST,
                            ),
                        )
                    ),
                    "the requested ones",
                ),
                JsonField(
                    "stores",
                    ListOf(
                        JsonObject("figures of a store", (*STORE_ID, FAMILY, *_FIGURES, _LARGEST))
                    ),
                    "each of their stores and column families",
                ),
                JsonField("notices", ListOf(_NOTICE), "noteworthy observations"),
            ),
            "Unknown values are null, such as shares of nothing.",
        ),
        fleet(
            "measured",
            JsonObject(
                "figures among many",
                (
                    CHECKPOINT,
                    JsonField("version", INTEGER, "the newest committed version"),
                    JsonField("rows", INTEGER, "of all stores"),
                    JsonField("bytes", INTEGER, "of keys and values as they are stored"),
                    JsonField("stores", INTEGER, "stores and column families"),
                    JsonField("notices", ListOf(NOTICE), "their codes, each once"),
                    JsonField("findings", FINDINGS.kind, "empty: `stats` searches for none"),
                ),
            ),
        ),
    ),
    "Of a folder or bucket, the second document.",
)
