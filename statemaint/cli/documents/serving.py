"""The documents of the verbs around the queries file: `queries`, `exporter`."""

from statemaint.cli.documents.kinds import (
    BOOLEAN,
    INTEGER,
    TEXT,
    JsonField,
    JsonObject,
    ListOf,
    MapOf,
    Verb,
    or_null,
)
from statemaint.cli.documents.shared import FORMAT

QUERIES = Verb(
    "queries",
    (
        JsonObject(
            "queries file",
            (
                FORMAT,
                JsonField("valid", BOOLEAN, "whether there are no problems"),
                JsonField("queries", MapOf(TEXT, "name"), "the checkpoint's address of each query"),
                JsonField("disabled", ListOf(TEXT), "the names of those that are disabled"),
                JsonField("pools", ListOf(TEXT), "that Airflow must have"),
                JsonField("executors", ListOf(TEXT), "that Airflow must have"),
                JsonField(
                    "problems",
                    ListOf(
                        JsonObject(
                            "problem",
                            (
                                JsonField(
                                    "line",
                                    or_null(INTEGER),
                                    "of the file, from 1; null where it has none",
                                ),
                                JsonField("key", TEXT, "its dotted path"),
                                JsonField("problem", TEXT, "what is wrong, and what to do"),
                            ),
                        )
                    ),
                    "what is wrong with the file",
                ),
            ),
        ),
    ),
)
EXPORTER = Verb(
    "exporter",
    (
        JsonObject(
            "served metrics",
            (FORMAT, JsonField("url", TEXT, "the address to scrape")),
            "Printed in one line once it listens.",
        ),
    ),
)
