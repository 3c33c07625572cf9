import re
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

pytest.importorskip("airflow", reason="the extra `airflow`")

from markupsafe import escape

from statemaint.airflow.figures import FindingRow, QueryFigures, withheld_texts
from statemaint.airflow.pages import query
from statemaint.airflow.pages.fleet import fleet, row_of, totals
from statemaint.airflow.pages.query import Acknowledgement, AirflowRun, QueryRecord
from statemaint.airflow.pages.render import render
from statemaint.airflow.pages.timeline import timelines
from statemaint.airflow.plans import KeptPlan, difference
from statemaint.maintain.runs import Run
from statemaint.model.ids import StoreId, UnitId
from statemaint.model.policy import Policy
from statemaint.plan.planner import plan
from statemaint.plan.withheld import by_reason
from statemaint.report.facts import Unit
from statemaint.report.record import LastSavepoint
from statemaint.report.summary import Group, Step
from tests.support.checkpoints import NOW, checkpoint, store, versions

TIME = datetime(2026, 11, 24, 12, 0, tzinfo=UTC)
ODD = "<script>alert(1)</script>\"'"
PLACE = {"root": "", "pages": "/statemaint"}


def record(query: str = "revenue") -> QueryRecord:
    figures = QueryFigures(query=query, checkpoint=f"/data/{query}", target=25, codes=[query])
    run = AirflowRun(query, "success", query, TIME, TIME)
    return QueryRecord(f"statemaint__{query}", "", query, last=run, figures=figures, looked=TIME)


def fleet_page(*records: QueryRecord) -> str:
    rows = fleet(records, TIME)
    dags = frozenset(row.record.dag for row in rows)
    values = {
        "rows": rows,
        "rest": 0,
        "totals": totals(rows),
        "editable": dags,
        "verify": "statemaint_verify",
    }
    return render("queries.html", **values, **PLACE)


def query_page(found: QueryRecord, **changed: Any) -> str:
    units = [Unit(0, 3, None, 1, 10, 0, 0, 0, 1, 0)]
    values = {
        "row": row_of(found, TIME),
        "checkpoint": "/data",
        "map": query.heat_map(units, 10),
        "units": 1,
        "worst": query.worst_units(units),
        "advice": query.advise(
            [FindingRow(code="BROKEN_CHAIN", detail=found.query, damage=True)], found.query
        ),
        "buttons": query.buttons(
            found.dag, found.query, own=True, refused={found.dag: found.query}
        ),
        "trend": None,
        "runs": [found.last],
        "saved": None,
        "saved_at": None,
        "source": object(),
        "suffix": "?query=revenue",
        "now": TIME,
        "unknown": found.query,
        "live": False,
        "others": [found.query],
        "paused": {found.dag: False},
        "planned": [found.query],
        "commands": query.commands(found.query),
        "acknowledged": Acknowledgement(TIME, found.query, found.query),
        "contact": found.query,
        "contact_link": "",
        "dashboard": "",
        "silence": "",
        "failed_task": (found.query, 3),
        "may_note": True,
    }
    return render("query.html", **{**values, **changed}, **PLACE)


def partition_page(found: QueryRecord) -> str:
    odd = checkpoint(
        store(f"{versions('d', 1, 25)} x:<i>", StoreId(0, 0, "<b>left</b>")),
        batches=range(22, 25),
    )
    decided = plan(replace(odd, root=found.query), Policy(), NOW)
    stores, unit = timelines(decided), UnitId(0, 0)
    values = {"record": found, "unit": unit, "plan": decided, "stores": stores, "suffix": ""}
    return render("partition.html", **values, **PLACE)


def ledger_page(run: Run, refused: str | None) -> str:
    undo = partial(query.undo_button, "revenue", refused)
    commands = {run.run: f"statemaint undo '{run.run}'"}
    return render("runs.html", runs=[run], now=TIME, undo=undo, commands=commands, **PLACE)


def plan_page(query: str, *, other: bool = False) -> str:
    rows = [
        Step("delete", query, query, 10, 0, 1, query),
        Step("write_snapshot", "new", "", 0, 0, 1, ""),
    ]
    counts = [Group("delete", 0, query, query, 1, 10)]
    found = KeptPlan(
        verb=query, query=query, checkpoint=query, facts={query: query}, steps=3,
        actions=rows, counts=counts, largest=rows[:1],
    )  # fmt: skip
    more: dict[str, Any] = {
        "others": [query], "queries": [query], "other": None, "before": None, "compared": None
    }  # fmt: skip
    if other:
        before = found.model_copy(update={"actions": rows[1:]})
        more |= {"other": query, "before": before, "compared": difference(before, found)}
    return render("plan.html", dag=query, run=query, plan=found, most=2, **more, **PLACE)


def pages(query: str) -> list[str]:
    found = record(query)
    run = Run(query, 0.0, 1.0, 1, 1, 1, 1, 1, 0, in_trash=True, undo_of=query)
    return [
        fleet_page(found),
        fleet_page(replace(found, invalid=query)),
        query_page(found),
        partition_page(found),
        ledger_page(run, None),
        ledger_page(run, "There is no DAG."),
        plan_page(query),
        plan_page(query, other=True),
        render("error.html", code="STORAGE", detail=query, dag=query, query=query, **PLACE),
        render("problem.html", code="STORAGE", detail=query, **PLACE),
    ]


@pytest.mark.parametrize("number", range(10))
def test_nothing_from_outside_is_taken_for_html(number: int) -> None:
    page = pages(ODD)[number]
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<i>" not in page
    assert "<b>left" not in page


@pytest.mark.parametrize("number", range(10))
def test_a_page_has_no_style_or_script_of_its_own(number: int) -> None:
    page = pages("revenue")[number]
    for word in ("http:", "https:", "@import", "url(", "style=", "onclick", "<style", "<script>"):
        assert word not in page


@pytest.mark.parametrize("number", range(10))
def test_no_address_is_cut_by_what_is_in_it(number: int) -> None:
    page = pages('a/b?c#d"e')[number]
    for address in re.findall(r'(?:href|data-from)="([^"#][^"]*)"', page):
        path = address.removeprefix("/statemaint").partition("?")[0]
        assert "#" not in address
        assert "a/b" not in path


def test_an_empty_fleet_says_so() -> None:
    assert "No queries:" in fleet_page()


def test_what_is_not_known_is_not_shown_as_nothing() -> None:
    never = replace(record(), figures=None, looked=None, last=None)
    assert "0 B" not in fleet_page(never).partition("<tbody>")[2]


def test_colours_have_words_beside_them() -> None:
    page = query_page(record())
    assert '<span class="badge bad">BROKEN_CHAIN</span> damage' in page
    assert 'title="op 0 / part 3: does not load, 10 B, findings: 1"' in page
    assert "<small>3</small> <b>no</b>" in page


def test_a_query_says_why_due_snapshots_are_not_written() -> None:
    seen = checkpoint(store(f"{versions('d', 1, 25)} 25k@0"), batches=range(22, 25))
    decided = plan(seen, Policy(), NOW)
    (waiting,) = by_reason(decided.withheld)
    found = record()
    assert found.figures
    figures = found.figures.model_dump() | {"withheld": withheld_texts([waiting])}
    held = replace(found, figures=QueryFigures.model_validate(figures))
    text = str(escape(str(waiting)))
    assert text in query_page(held)
    assert text in fleet_page(held)
    values = {"record": held, "unit": UnitId(0, 0), "plan": decided, "suffix": ""}
    assert text in render("partition.html", **values, stores=timelines(decided), **PLACE)
    assert "not written" not in query_page(found) + fleet_page(found)


def test_headers_that_sort_are_buttons() -> None:
    page = fleet_page(record())
    assert page.count('<th scope="col" aria-sort="none"') == page.count('class="sort"') == 11


def test_a_button_that_is_refused_is_off_and_says_why() -> None:
    page = query_page(record())
    assert len(re.findall(r'class="act"[^>]* disabled', page)) == 2
    assert "Dry run: revenue" in page


def test_a_paused_dag_has_a_button_for_those_who_may_unpause_it() -> None:
    allowed = query_page(record(), paused={"statemaint_verify": True})
    assert re.search(r'class="unpause" data-dag="statemaint_verify" aria-label=[^>]*>', allowed)
    assert "no right to unpause" not in allowed
    assert 'data-dag="statemaint__revenue" disabled' in query_page(record())


def test_a_command_has_a_button_that_copies_it() -> None:
    page = query_page(record("a b"))
    assert "<code>statemaint doctor &#39;a b&#39;</code> <button" in page
    assert 'data-copy="statemaint doctor &#39;a b&#39;" aria-label="Copy statemaint' in page


def test_a_run_that_can_be_undone_has_a_button_or_else_the_command() -> None:
    run = Run("r1", 0.0, 1.0, 1, 1, 1, 1, 1, 0, in_trash=True)
    page = ledger_page(run, None)
    assert 'data-dag="statemaint_undo" data-conf="{&#34;query&#34;: &#34;revenue&#34;' in page
    assert "statemaint undo" not in page
    refused = ledger_page(run, "There is no DAG.")
    assert re.search(r'class="act"[^>]* disabled', refused)
    assert "There is no DAG. <code>statemaint undo &#39;r1&#39;</code>" in refused
    assert "act" not in ledger_page(replace(run, in_trash=False), None).partition("<tbody>")[2]


def test_a_run_with_a_plan_leads_to_it() -> None:
    run = AirflowRun("manual__1+00:00", "success", "manual", TIME, TIME, dry=True)
    page = query_page(record(), runs=[run], planned=[run.id])
    assert 'href="/statemaint/dags/statemaint__revenue/plans/manual__1%2B00%3A00?query=' in page
    assert "/plans/" not in query_page(record(), runs=[run], planned=[])


def test_a_plan_has_its_counts_its_largest_files_and_how_much_is_kept() -> None:
    page = plan_page("revenue")
    assert "the list and the downloads have the first 2" in page
    assert page.index("By store and reason") < page.index("Largest files") < page.index("Filter")
    assert "operator 0, revenue" in page
    assert "/diff/revenue" in page


def test_a_difference_has_what_was_added_and_what_is_unchanged() -> None:
    page = plan_page("revenue", other=True)
    assert re.findall(r"<dt>(\w+)</dt><dd>(\d)</dd>", page) == [
        ("Added", "1"), ("Removed", "0"), ("Unchanged", "1")
    ]  # fmt: skip


def test_the_newest_savepoint_says_its_batch_its_age_and_its_size() -> None:
    saved = LastSavepoint(0.0, batch=24, bytes=1500, seconds=2.0)
    page = query_page(record(), saved=saved, saved_at=datetime(2026, 11, 24, 9, 0, tzinfo=UTC))
    assert "The newest savepoint is of batch 24, 3 h ago (2026-11-24 09:00" in page
    assert "1.5 kB)" in page
    assert "newest savepoint" not in query_page(record())


def test_old_figures_say_how_old() -> None:
    old = replace(record(), looked=datetime(2026, 11, 20, tzinfo=UTC))
    assert "4 days ago" in query_page(old)
    assert "That is old" in query_page(old)
    assert "That is old" not in query_page(record())


def test_without_the_checkpoint_there_is_no_link_to_its_files() -> None:
    assert "/partitions/" in query_page(record())
    assert "/partitions/" not in query_page(record(), source=None)


def test_a_query_page_begins_with_what_matters_first() -> None:
    known = record().figures
    assert known
    changed = {
        "committed": 24, "committed_at": TIME.timestamp() - 3 * 86_400, "silent_after": 60.0,
        "loads": 25, "restart": 95.0, "restart_least": 8.2, "restart_limit": 60.0, "partitions": 4,
    }  # fmt: skip
    figures = QueryFigures.model_validate(known.model_dump() | changed)
    page = query_page(replace(record(), figures=figures, owner="streaming"))
    head = page[page.index('<section class="head') : page.index('<section aria-labelledby="act"')]
    for text in (
        "<strong>No commit for 3 days</strong>",
        '<dd class="warn-text">batch 24, 3 days ago</dd>',
        '<dd class="bad-text">up to 2 min, limit 1 min: 35 s over</dd>',
        "<dt>Restart after maintenance</dt><dd>up to 9 s</dd>",
        "<dt>Newest batch that loads</dt><dd>24</dd>",
        "Owner: streaming.",
        "Acknowledged until 2026-11-24 12:00 UTC by revenue: revenue",
        "/tasks/revenue/mapped/3",
    ):
        assert text in head


def test_a_batch_that_no_run_has_looked_for_is_not_shown_as_loading() -> None:
    assert "unknown: run Verify" in query_page(record())


def test_partitions_with_nothing_to_say_are_a_sentence() -> None:
    page = query_page(record(), worst=())
    assert "restarts from its snapshot alone" in page
    assert 'aria-label="The worst partitions"' not in page


@pytest.mark.parametrize(
    ("contact", "link"),
    [
        ("https://wiki.example.com/a", "https://wiki.example.com/a"),
        ("team@example.com", "mailto:team@example.com"),
        ("mailto:team@example.com", "mailto:team@example.com"),
        ("javascript:alert(1)", ""),
        ("http://example.com", ""),
        ("#streaming in the chat", ""),
    ],
)
def test_only_https_and_mail_are_links_of_a_contact(contact: str, link: str) -> None:
    assert query.contact_link(contact) == link
    page = query_page(record(), contact=contact, contact_link=query.contact_link(contact))
    assert (f'href="{link}"' in page) is bool(link)
    assert 'javascript:alert(1)"' not in page


def test_an_error_keeps_the_name_of_the_query_and_a_link_back() -> None:
    about = {"dag": "statemaint__a", "query": "a"}
    page = render("error.html", code="STORAGE", detail="denied", **about, **PLACE)
    assert 'href="/statemaint/dags/statemaint__a?query=a">a</a>' in page
    assert "There is no state of a to show" in page


def test_a_gap_is_a_row_that_says_what_it_breaks() -> None:
    gap = checkpoint(store(f"{versions('d', 1, 5)} {versions('d', 7, 25)}"), batches=range(22, 25))
    decided = plan(gap, Policy(), NOW)
    values = {"record": record(), "unit": UnitId(0, 0), "plan": decided, "suffix": ""}
    page = render("partition.html", **values, stores=timelines(decided), **PLACE)
    assert '<tr class="missing"><th scope="row">6</th>' in page
    assert "Versions 6 to 25 cannot load." in page
