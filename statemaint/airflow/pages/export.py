"""The rows of the page with all queries as JSON and CSV, with the page's own filter. Pure."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from statemaint.airflow.pages.fleet import Row
from statemaint.airflow.texts import as_csv

Text = Annotated[str, Field(max_length=250)]
_FIGURES = (
    *("committed", "target", "partitions", "blocked", "longest", "longest_at", "replay_files"),
    *("replay_bytes", "restart", "files", "bytes", "reclaimable", "trash_bytes", "damage"),
    "notices",
)


class Wanted(BaseModel):
    """What an address asks for: the form, and the filter and the group of the page."""

    format: Literal["csv", "json"] = "csv"
    filter: Text = ""
    attention: bool = False
    by: Text = ""
    member: Text = ""


def matching(rows: Iterable[Row], wanted: Wanted) -> Iterator[Row]:
    """Yields the rows that the page shows for a filter and a group, as its script does."""
    text = wanted.filter.strip().lower()
    for row in rows:
        in_group = not wanted.member or wanted.member in row.groups.get(wanted.by, ())
        if text in row.text and (row.attention or not wanted.attention) and in_group:
            yield row


def documents(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Returns a document for each row; figures are null where nothing is known."""
    return [
        {
            "query": row.record.query,
            "dag": row.record.dag,
            "verdict": row.verdict.label,
            "why": row.verdict.why,
            "owner": row.record.owner,
            "tags": list(row.record.tags),
            "checkpoint": row.figures.checkpoint,
            "last_run": row.outcome.text,
            "next_run": row.next,
            "looked_at": row.record.looked.isoformat() if row.record.looked else None,
            "committed_at": row.committed_at.isoformat() if row.committed_at else None,
            **{name: getattr(row.figures, name) if row.known else None for name in _FIGURES},
            "codes": list(row.figures.codes),
        }
        for row in rows
    ]


def export_csv(rows: Iterable[Row]) -> str:
    """Returns the documents of rows as CSV."""
    listed = documents(rows)
    return as_csv([listed[0] if listed else ["query"], *(found.values() for found in listed)])
