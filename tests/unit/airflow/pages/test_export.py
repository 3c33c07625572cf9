import csv
import io
from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("airflow", reason="the extra `airflow`")

from statemaint.airflow.figures import QueryFigures
from statemaint.airflow.pages.fleet import Row, Wanted, documents, export_csv, fleet, matching
from statemaint.airflow.pages.query import QueryRecord

NOW = datetime(2026, 11, 24, 12, 0, tzinfo=UTC)


def record(query: str, owner: str = "streaming", **figures: Any) -> QueryRecord:
    found: dict[str, Any] = {
        "target": 25,
        "committed": 24,
        "partitions": 4,
        "committed_at": NOW.timestamp(),
    }
    read = QueryFigures(query=query, checkpoint=f"s3://lake/{query}", **{**found, **figures})
    return QueryRecord(
        f"statemaint__{query}", "", query, figures=read, looked=NOW, owner=owner, tags=("eu",)
    )


ROWS = fleet(
    [
        record("clicks", codes=["BROKEN_CHAIN"], damage=1, blocked=1),
        record("orders", owner="web"),
        QueryRecord("statemaint__never", "", "never"),
    ],
    NOW,
)


def names(rows: object) -> list[str]:
    return [row.record.query for row in rows]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [
        (Wanted(), ["clicks", "never", "orders"]),
        (Wanted(filter=" Broken_Chain "), ["clicks"]),
        (Wanted(filter="s3://lake"), ["clicks", "orders"]),
        (Wanted(attention=True), ["clicks", "never"]),
        (Wanted(by="owner", member="web"), ["orders"]),
        (Wanted(by="tag", member="eu", filter="web"), ["orders"]),
        (Wanted(by="storage", member="s3://lake", attention=True), ["clicks"]),
        (Wanted(by="nothing", member="web"), []),
    ],
)
def test_an_export_has_the_rows_that_the_page_shows(wanted: Wanted, shown: list[str]) -> None:
    assert names(matching(ROWS, wanted)) == shown


def cells(rows: object) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(export_csv(rows))))  # type: ignore[arg-type]


def test_what_is_unknown_is_empty_and_not_zero() -> None:
    by_name = {one["query"]: one for one in cells(ROWS)}
    assert (by_name["orders"]["bytes"], by_name["never"]["bytes"]) == ("0", "")
    assert by_name["orders"]["committed_at"] == "2026-11-24T12:00:00+00:00"
    assert by_name["clicks"]["codes"] == "BROKEN_CHAIN"
    (never,) = (one for one in documents(ROWS) if one["query"] == "never")
    assert (never["files"], never["looked_at"], never["committed_at"]) == (None, None, None)


@pytest.mark.parametrize("begins", list("=+-@\t\r"))
def test_no_cell_of_a_csv_is_a_formula(begins: str) -> None:
    (row,) = cells(fleet([record("clicks", owner=f"{begins}cmd")], NOW))
    assert row["owner"] == f"'{begins}cmd"


def test_an_export_without_rows_is_a_header() -> None:
    rows: tuple[Row, ...] = ()
    assert export_csv(rows).strip() == "query"
