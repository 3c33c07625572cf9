"""The documents of the verbs around the queries file: `queries`, `exporter`."""

from tools.json_documents.kinds import (
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
from tools.json_documents.shared import FORMAT

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
                                JsonField("file", TEXT, "the path of the file"),
                                JsonField(
                                    "line",
                                    or_null(INTEGER),
                                    "of the file, from 1; null if there is none",
                                ),
                                JsonField("key", TEXT, "its dotted path"),
                                JsonField("problem", TEXT, "the mistake, and what to do"),
                            ),
                        )
                    ),
                    "the mistakes in the file",
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
            "Printed in one line when it listens.",
        ),
    ),
)
