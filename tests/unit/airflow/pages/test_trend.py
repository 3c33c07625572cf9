"""The history of a query on the pages: its charts, its words, and the line in its row."""

import json
import re
from dataclasses import replace
from functools import reduce
from pathlib import Path

import pytest

pytest.importorskip("airflow", reason="the extra `airflow`")

from statemaint.airflow.figures import FAILED, FLEET, REFUSED, TREND, figures_of_run, read_points
from statemaint.airflow.pages.contents import looked_at_now
from statemaint.airflow.pages.query import Details, QueryRecord
from statemaint.airflow.pages.render import FOLDER
from statemaint.airflow.pages.trend import history, sparkline
from statemaint.airflow.settings import QuerySettings
from statemaint.maintain.record import note_in_trend
from statemaint.maintain.work import TaskResults
from statemaint.model.policy import Policy
from statemaint.model.verdict import Verdict
from statemaint.report.facts import RunFacts
from statemaint.report.record import LastRun
from statemaint.report.task import PlanSummary
from statemaint.report.trend import Point, Trend, with_run
from statemaint.storage import LocalStorage, MemoryStorage, ReadOnly
from tests.support.checkpoints import write_checkpoint
from tests.unit.airflow.pages.test_render import fleet_page, query_page, record

SOUND = Point(0, Verdict.HEALTHY, 13, 10**9, 400, 10**6, 30, 2.5, 12.0, 0, 1)
GOOD = SOUND._replace(time=3600, notices=0)
BROKEN = Point(7200, Verdict.BROKEN, 412, 2 * 10**9, 401, 10**6, 30, 95.0, 40.0, 2, 0)
WORSE = BROKEN._replace(time=10800)
POINTS = (SOUND, GOOD, BROKEN, WORSE)


def settings(root: Path) -> QuerySettings:
    return QuerySettings("revenue", str(root), Policy())


def trend_of(runs: int) -> Trend:
    ends = (
        LastRun(f"r{n}", n * 3600.0, facts=RunFacts(highest={"chain": n, "verdict": 0}))
        for n in range(runs)
    )
    return reduce(with_run, ends, Trend())


def stored(root: Path, runs: int) -> LocalStorage:
    storage = write_checkpoint(LocalStorage(root))
    storage.replace("_statemaint/trend.json", [json.dumps(trend_of(runs).to_json()).encode()])
    return storage


# -- what changed, and since when


def test_a_verdict_stands_since_the_first_run_in_a_row_that_gave_it() -> None:
    found = history(POINTS, "broken")
    assert found
    assert (found["since"], found["always"]) == (7200, False)
    assert "Broken since 1970-01-01 02:00 UTC." in query_page(record(), trend=found)
    alone = history(POINTS[2:], "broken")
    assert "Broken since at least 1970-01-01 02:00" in query_page(record(), trend=alone)


def test_a_verdict_that_the_history_does_not_have_has_no_time() -> None:
    found = history(POINTS, "unknown")
    assert found
    assert found["since"] is None
    assert " since 1970" not in query_page(record(), trend=history(POINTS[:2], "unknown"))


def test_the_newest_run_is_compared_with_the_last_one_without_findings() -> None:
    found = history(POINTS, "broken")
    assert found
    assert found["sound"] == GOOD
    assert found["changes"] == [
        ("Verdict", "healthy", "broken"),
        ("Longest chain", "13", "412"),
        ("Size", "1.0 GB", "2.0 GB"),
        ("Files", "400", "401"),
        ("Restart time", "2.5 s", "1 min"),
        ("Damage", "0", "2"),
    ]
    page = query_page(record(), trend=found)
    assert "Since the last run without findings, 1970-01-01 01:00 UTC" in page
    assert "<li>Longest chain: 13 " in page


def test_a_history_without_findings_at_its_end_has_nothing_to_compare() -> None:
    found = history(POINTS[:2], "healthy")
    assert found
    assert (found["sound"], found["changes"]) == (None, [])
    assert "without findings" not in query_page(record(), trend=found)


def test_a_history_of_findings_alone_says_so() -> None:
    assert "No run of this history was without findings." in query_page(
        record(), trend=history(POINTS[2:], "broken")
    )


def test_a_query_without_history_says_when_it_begins() -> None:
    assert history((), "healthy") is None
    page = query_page(record())
    assert "No history yet: it begins with the next run." in page
    assert "uPlot" not in page


# -- charts


def test_each_chart_has_its_values_and_its_text() -> None:
    page = query_page(record(), trend=history(POINTS, "broken"))
    names = re.findall(r'data-names="([^"]*)"', page)
    assert names == ["chain", "bytes", "files", "restart", "seconds", "damage notices"]
    assert page.count("<figcaption>") == page.count('class="chart" aria-hidden="true"') == 6
    assert "412 now, from 13 to 412" in page
    assert "Damage: 2 now, from 0 to 2; Notices: 0 now, from 0 to 1" in page
    (columns,) = re.findall(r'data-columns="([^"]*)"', page)
    values = json.loads(columns.replace("&#34;", '"'))
    assert values["time"] == [0, 3600, 7200, 10800]
    assert values["chain"] == [13, 13, 412, 412]
    assert values["bad"] == [0, 0, 1, 1]


def test_the_table_has_every_number_and_what_is_not_known() -> None:
    merged, unread = WORSE._replace(span=7200), Point(20000, Verdict.UNKNOWN)
    page = query_page(record(), trend=history((merged, unread), "unknown"))
    table = page.partition("The numbers of these charts")[2]
    assert table.index("<td>unknown</td>") < table.index("<td>broken</td>")  # the newest first
    assert "worst of 2 h" in table
    assert table.count('<td class="number">?</td>') == 8
    assert "? now, from 412 to 412" in page


def test_what_draws_the_charts_is_shipped_with_its_licence() -> None:
    page = query_page(record(), trend=history(POINTS, "broken"))
    files = re.findall(r'(?:src|href)="/statemaint/static/([^"]*)"', page)
    assert {"uPlot.iife.min.js", "uPlot.min.css", "trend.js", "trend.css"} <= {*files}
    assert all((FOLDER / "static" / name).is_file() for name in files)
    assert "MIT License" in (FOLDER / "static/uPlot.LICENSE").read_text()
    for word in ("http:", "https:", "style=", "<style", "onclick", "<script>"):
        assert word not in page


# -- the line in a row


def test_a_line_shows_the_chains_of_a_row_with_a_text() -> None:
    line = sparkline([4, 8, None, 2])
    assert line == ("M0 9L30 1M90 13", "Longest chain in the last 4 runs: 2 to 8, now 2")
    of_query = record()
    assert of_query.figures
    figures = of_query.figures.model_copy(update={"chains": [4, 8, None, 2]})
    page = fleet_page(replace(of_query, figures=figures))
    assert f'role="img" aria-label="{line[1]}"><path d="{line[0]}"/>' in page
    assert 'class="spark"' not in fleet_page(of_query)


@pytest.mark.parametrize("chains", [[], [7], [None, None], [None, 7]])
def test_one_value_makes_no_line(chains: list[int | None]) -> None:
    assert sparkline(chains) is None


def test_a_line_of_zeros_is_flat_and_one_that_ends_unknown_says_so() -> None:
    flat, unknown = sparkline([0, 0]), sparkline([3, 5, None])
    assert flat
    assert flat[0] == "M0 17L90 17"
    assert unknown
    assert unknown[1].endswith("now unknown")


# -- from the run to the page


def test_a_run_hands_the_pages_a_short_history(tmp_path: Path) -> None:
    stored(tmp_path, 480)
    results = TaskResults(summary=PlanSummary(committed=3, target=4))
    shown = figures_of_run(settings(tmp_path), results)
    assert shown[FLEET]["chains"] == list(range(450, 480))
    points = read_points(json.loads(json.dumps(shown[TREND])))
    assert len(points) == 120
    assert [point.chain for point in points[-60:]] == list(range(420, 480))
    assert points[0].begins == 0
    assert len(json.dumps(shown[TREND])) < 12_000


def test_a_run_that_looked_at_nothing_hands_on_its_reason_and_the_history(tmp_path: Path) -> None:
    stored(tmp_path, 3)
    failed = TaskResults(failure="STORAGE: no")
    shown = figures_of_run(settings(tmp_path), failed)
    assert (shown[FAILED], len(read_points(shown[TREND]))) == ("STORAGE: no", 3)
    refused = replace(failed, refused=True)
    assert figures_of_run(settings(tmp_path), refused) == {REFUSED: "STORAGE: no"}


@pytest.mark.parametrize("xcom", [None, 7, "text", [], {}, {"v": 2}, {"v": 1, "points": [[1]]}])
def test_a_history_of_another_build_is_none(xcom: object) -> None:
    assert read_points(xcom) == ()


def test_a_look_reads_the_whole_history_and_writes_nothing() -> None:
    storage = write_checkpoint(MemoryStorage())
    note_in_trend(storage, LastRun("a", 5.0))
    reading = ReadOnly(storage)
    _, known = looked_at_now(reading, Policy(), QueryRecord("d", "", "q"), Details())
    assert known.trend == (Point(5, Verdict.EMPTY),)
