"""The documents of the verbs around the queries file: `queries`, `exporter`."""

from statemaint.cli.documents.kinds import (
    BOOLEAN,
    INTEGER,
    TEXT,
    Field,
    ListOf,
    MapOf,
    Piece,
    Verb,
    or_null,
)
from statemaint.cli.documents.shared import FORMAT

QUERIES = Verb(
    "queries",
    (
        Piece(
            "queries file",
            (
                FORMAT,
                Field("valid", BOOLEAN, "whether there are no problems"),
                Field("queries", MapOf(TEXT, "name"), "the checkpoint's address of each query"),
                Field("disabled", ListOf(TEXT), "the names of those that are disabled"),
                Field("pools", ListOf(TEXT), "that Airflow must have"),
                Field("executors", ListOf(TEXT), "that Airflow must have"),
                Field(
                    "problems",
                    ListOf(
                        Piece(
                            "problem",
                            (
                                Field(
                                    "line",
                                    or_null(INTEGER),
                                    "of the file, from 1; null where it has none",
                                ),
                                Field("key", TEXT, "its dotted path"),
                                Field("problem", TEXT, "what is wrong, and what to do"),
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
        Piece(
            "served metrics",
            (FORMAT, Field("url", TEXT, "the address to scrape")),
            "Printed in one line once it listens.",
        ),
    ),
)
