from dataclasses import replace

import pytest

pytest.importorskip("jinja2", reason="comes with Airflow")

from statemaint.airflow.view import error_page, queries_page, state_page, state_rows
from statemaint.model.checkpoint import Checkpoint
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from tests.support.checkpoints import checkpoint, store, versions

POLICY = Policy(min_deltas_for_snapshot=10)
ODD = "<script>alert(1)</script>"


def example() -> Checkpoint:
    """Twenty-five versions: one chain without a snapshot, one with, and one that is broken."""
    return checkpoint(
        store(versions("d", 1, 25), StoreId(0, 0)),
        store(versions("d", 1, 25) + " 20s", StoreId(0, 1)),
        store(versions("d", 2, 25), StoreId(0, 2, "left-keyToNumValues")),
        batches=range(16, 25),
    )


def test_a_row_says_how_long_a_chain_is_and_how_that_is_to_be_seen() -> None:
    rows = state_rows(example(), POLICY)
    assert [(row.chain, row.percent, row.mark) for row in rows] == [
        (25, 100, "long"),
        (5, 20, "good"),
        (None, 0, "broken"),
    ]


def test_a_short_chain_is_measured_against_the_limit() -> None:
    short = checkpoint(store("1d 2d 3d 4d 5d"), batches=[4])
    (row,) = state_rows(short, POLICY)
    assert (row.chain, row.percent, row.mark) == (5, 50, "good")


def test_a_row_names_the_newest_snapshot_at_or_below_the_target_and_its_time() -> None:
    young = "20s@1000000000 30s@0"
    found = checkpoint(store(f"{versions('d', 1, 25)} {young}"), batches=range(16, 25))
    (row,) = state_rows(found, POLICY)
    assert row.snapshot == "version 20, 2001-09-09 01:46 UTC"


def test_a_row_counts_files_and_bytes() -> None:
    first, second, _ = state_rows(example(), POLICY)
    assert (first.files, first.bytes, second.files) == (25, 2500, 26)


def test_the_page_shows_every_store_and_its_findings() -> None:
    page = state_page("hourly_revenue", example(), POLICY)
    for text in ("State of hourly_revenue", "op 0 / part 0", "left-keyToNumValues", "BROKEN_CHAIN"):
        assert text in page
    assert 'class="bar long" style="width: 100%"' in page
    assert "does not load" in page
    assert "1.delta is missing" in page


def test_the_page_says_when_nothing_is_committed() -> None:
    page = state_page("fresh", checkpoint(store("1d"), batches=[]), POLICY)
    assert "<dt>Last committed batch</dt><dd>none</dd>" in page
    assert "<dt>Damage</dt><dd>none</dd>" in page


def test_nothing_from_outside_is_taken_for_html() -> None:
    finding = Finding(FindingCode.UNKNOWN_FILE, f"state/0/0/{ODD}: no file that Spark writes")
    odd = replace(example(), root=f"/data/{ODD}", findings=(finding,))
    pages = [
        state_page(ODD, odd, POLICY),
        queries_page({ODD: f"statemaint__{ODD}"}),
        error_page("STORAGE", f"{ODD}: Permission denied"),
    ]
    for page in pages:
        assert "<script" not in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_the_page_loads_nothing() -> None:
    page = state_page("hourly_revenue", example(), POLICY)
    for word in ("http:", "https:", "src=", "@import", "url(", "<link", "<script"):
        assert word not in page


def test_the_list_links_each_query_to_its_page() -> None:
    page = queries_page({"a.b": "statemaint__a.b"})
    assert '<a href="dags/statemaint__a.b">a.b</a>' in page


def test_an_empty_list_says_so() -> None:
    assert "There is none." in queries_page({})


def test_an_error_is_one_line() -> None:
    page = error_page("STORAGE", "state: Permission denied")
    assert '<p><span class="code damage">STORAGE</span> state: Permission denied</p>' in page
