"""A result is one line in Python, and a small table in a notebook."""

import re
from pathlib import Path
from typing import Any

import pytest

import statemaint
from statemaint.model.checkpoint import Checkpoint
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import StoreId
from statemaint.storage import LocalStorage
from statemaint.wording import Displayed
from tests.support.checkpoints import write_checkpoint

TIGHT: dict[str, Any] = {"min_deltas_for_snapshot": 3, "min_batches_to_retain": 4, "grace": 0}


@pytest.fixture
def results(tmp_path: Path) -> dict[str, Displayed]:
    """Returns a result of every method that has one, of a checkpoint of thirty stores."""
    (tmp_path / "q").mkdir()
    write_checkpoint(LocalStorage(tmp_path / "q"), partitions=30)
    query = statemaint.open(tmp_path / "q")
    results: dict[str, Displayed] = {
        "scan": query.scan(),
        "plan": query.plan(**TIGHT),
        "verify": query.verify(),
        "doctor": query.doctor(),
        "plan_repair": query.plan_repair(),
        "maintain": (report := query.maintain(trash_for="1d", **TIGHT)),
        "undo": query.undo(report.run),
        "runs": query.runs()[-1],
    }
    results["plan_rollback"] = rollback = query.plan_rollback(22)
    results["rollback"] = query.rollback(22, rollback, trash_for="1d")
    return results


def test_a_result_is_a_line_that_says_what_it_is(results: dict[str, Displayed]) -> None:
    shown = {name: repr(result) for name, result in results.items()}
    for name, line in shown.items():
        assert re.fullmatch(r"[A-Z]\w+\(.+\)", line), name
        assert len(line) <= 132, name
    address = re.escape(shown["scan"].split("'")[1])
    assert re.fullmatch(
        rf"Checkpoint\('{address}', batch 24, 1 operator, 30 stores\)", shown["scan"]
    )
    assert shown["plan"].endswith("60 snapshots to write, 480 files to delete, 30 stores, healthy)")
    assert shown["verify"].endswith("healthy, 270 of 270 versions passed, 0 findings)")
    assert shown["doctor"].endswith("healthy, restarts, 0 findings)")
    assert shown["maintain"].endswith("60 snapshots written, 480 files deleted, healthy)")
    assert shown["undo"].endswith("480 files back, 0 left in the trash)")


def test_a_notebook_has_twenty_rows_by_sparks_names(results: dict[str, Displayed]) -> None:
    for name in ("scan", "plan", "maintain"):
        html = results[name]._repr_html_()
        assert html.startswith(f"<table><caption>{type(results[name]).__name__}(")
        assert "<tr><th>operatorId</th><th>partitionId</th><th>storeName</th>" in html
        assert html.count("<tr><td>0</td>") == 20
        assert html.endswith("and 10 more</td></tr></table>")
    for result in results.values():
        assert len(result._repr_html_()) < 10_000


def test_the_broken_and_the_longest_come_first(tmp_path: Path) -> None:
    write_checkpoint(LocalStorage(tmp_path), partitions=3)
    (tmp_path / "state/0/2/20.delta").unlink()
    first = statemaint.open(tmp_path).scan()._repr_html_().split("<tr>")[2]
    assert re.findall(r"<td>(.*?)</td>", first)[:5] == ["0", "2", "default", "0", "broken"]


def test_markup_in_an_address_or_a_finding_is_text() -> None:
    detail = f"<script>alert(1)</script>\x1b[31m {'x' * 1000}"
    finding = Finding(FindingCode.CORRUPT_FILE, detail, StoreId(0, 1, "<b>"))
    checkpoint = Checkpoint("/data/<img src=x>")
    for result in (finding, checkpoint):
        html = result._repr_html_()
        assert not re.search(r"<(?!/?(table|caption|tr|t[hd])\b)", html)
        assert "\x1b" not in html + repr(result)
        assert len(html) < 1_000
    assert repr(checkpoint) == (
        "Checkpoint('/data/<img src=x>', nothing committed, 0 operators, 0 stores)"
    )


def test_of_a_long_address_the_end_is_shown() -> None:
    line = repr(Checkpoint("s3://" + "very-long-bucket/" * 9 + "revenue", batches=(41,)))
    assert re.fullmatch(r"Checkpoint\('\.\.\..{37}', batch 41, 0 operators, 0 stores\)", line)
    assert "/revenue'" in line


def test_a_checkpoint_counts_its_findings(tmp_path: Path) -> None:
    write_checkpoint(LocalStorage(tmp_path))
    (tmp_path / "commits/24").write_bytes(b"?")
    found = statemaint.open(tmp_path).scan()
    assert len(found.findings) == 1
    assert repr(found).endswith(", 1 operator, 2 stores, 1 finding)")
