"""What the pages read of runs under way and of notes, in a database of Airflow's."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

pytest.importorskip("airflow", reason="the extra `airflow`")

from airflow.models.asset import AssetModel, TaskOutletAssetReference
from airflow.models.dag import DagModel, DagTag
from airflow.models.dagrun import DagRun, DagRunNote
from airflow.models.xcom import XComModel
from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from statemaint.airflow.figures import FLEET
from statemaint.airflow.pages.activity import LONGEST, acknowledgements, activity, parsed, progress
from statemaint.airflow.pages.query import Acknowledgement
from statemaint.airflow.pages.records import records
from tests.systems.airflow.many_queries import database, fill

DAG, OTHER = "statemaint__q0", "statemaint__q1"
NOW = datetime(2026, 11, 24, 14, 0, tzinfo=UTC)
UNTIL = datetime(2026, 11, 24, 18, 0, tzinfo=UTC)


@pytest.fixture
def session() -> Iterator[Session]:
    """Two queries, each with two runs, the second an hour ago."""
    with Session(database()) as opened:
        fill(opened, queries=2, runs=2, partitions=1)
        yield opened


def note(session: Session, run: int, text: str, age: timedelta = timedelta(0)) -> None:
    values: dict[str, Any] = {"dag_run_id": run, "content": text, "user_id": "opal"}
    times = {"created_at": NOW - age, "updated_at": NOW - age}
    session.execute(insert(DagRunNote), [{**values, **times}])


def test_a_run_under_way_is_listed_to_those_who_may_read_its_dag(session: Session) -> None:
    assert activity(session, {DAG, OTHER}, NOW) == []
    session.execute(update(DagRun).where(DagRun.id == 3).values(_state="running"))
    session.execute(update(DagRun).where(DagRun.id == 4).values(_state="queued"))
    found = activity(session, {DAG, OTHER}, NOW)
    assert [(run["dag"], run["state"], run["total"]) for run in found] == [
        (DAG, "running", 0),
        (OTHER, "queued", 0),
    ]
    assert [run["dag"] for run in activity(session, {OTHER}, NOW)] == [OTHER]
    assert [run["dag"] for run in activity(session, {DAG, OTHER}, NOW, DAG)] == [DAG]


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ({}, (0, 0, None)),
        ({"running": 4, "None": 2}, (0, 6, None)),
        ({"success": 3, "running": 4, "None": 2}, (3, 9, 120)),
        ({"success": 2, "failed": 1, "skipped": 1, "queued": 1}, (4, 5, 15)),
        ({"success": 3}, (3, 3, None)),
    ],
)
def test_the_time_left_is_that_of_the_tasks_done(
    states: dict[str, int], expected: tuple[int, int, int | None]
) -> None:
    found = progress(Counter(states), NOW - timedelta(minutes=1), NOW)
    assert (found["done"], found["total"], found["left"]) == expected
    assert progress(Counter(states), None, NOW)["left"] is None


def test_an_acknowledgement_holds_until_its_end_whatever_runs_follow(session: Session) -> None:
    note(session, 1, "ack until 2026-11-24T18:00Z: on it\n3 snapshots written")
    held = {DAG: Acknowledgement(UNTIL, "on it", "opal")}
    assert acknowledgements(session, [DAG, OTHER], NOW) == held
    assert acknowledgements(session, [OTHER], NOW) == {}
    assert acknowledgements(session, [DAG], UNTIL) == {}
    assert acknowledgements(session, [], NOW) == {}


def test_the_newest_acknowledgement_counts(session: Session) -> None:
    note(session, 1, "ack until 2026-11-24T18:00Z: first", timedelta(hours=2))
    note(session, 3, "ack until 2026-11-24T15:00Z: second", timedelta(hours=1))
    assert acknowledgements(session, [DAG], NOW)[DAG].text == "second"


def test_an_acknowledgement_of_years_holds_for_seven_days(session: Session) -> None:
    note(session, 1, "ack until 2036-11-24T18:00Z: for years")
    assert acknowledgements(session, [DAG], NOW)[DAG].until == NOW + LONGEST


@pytest.mark.parametrize(
    "text", ["", "3 snapshots", "ack until tomorrow: x", "ack until 2026-13-40T18:00Z: x"]
)
def test_other_notes_acknowledge_nothing(text: str) -> None:
    assert parsed(text) is None


def test_a_record_has_the_owner_and_the_tags_of_its_dag_without_ours(session: Session) -> None:
    session.execute(update(DagModel).where(DagModel.dag_id == DAG).values(owners="streaming"))
    tags = [{"dag_id": DAG, "name": name} for name in ("web", "statemaint", "eu")]
    session.execute(insert(DagTag), tags)
    found = {record.dag: record for record in records(session, {DAG, OTHER})}
    assert (found[DAG].owner, found[DAG].tags) == ("streaming", ("eu", "web"))
    assert (found[OTHER].owner, found[OTHER].tags) == ("", ())


def test_a_group_that_the_last_run_skipped_keeps_its_figures(session: Session) -> None:
    # Of the first run both groups have figures, of the second only that of q0.
    of_dag = update(TaskOutletAssetReference).where(TaskOutletAssetReference.dag_id == OTHER)
    session.execute(of_dag.values(dag_id=DAG, task_id="b.report"))
    of_run = update(XComModel).where(XComModel.dag_id == OTHER)
    place = {"dag_id": DAG, "task_id": "b.report"}
    first = session.scalars(select(DagRun).where(DagRun.dag_id == DAG).order_by(DagRun.id)).first()
    assert first is not None
    earlier = of_run.where(XComModel.dag_run_id == 2, XComModel.key == FLEET)
    session.execute(earlier.values(**place, dag_run_id=first.id, run_id=first.run_id))
    found = {record.query: record.figures for record in records(session, {DAG})}
    assert found.keys() == {"q0", "q1"}
    assert found["q1"] is not None
    assert found["q1"].query == "q1"


def test_a_query_named_findings_is_listed(session: Session) -> None:
    session.execute(update(AssetModel).values(name=AssetModel.name + "/findings"))
    session.execute(
        update(AssetModel).where(AssetModel.id == 1).values(name="statemaint://findings")
    )
    assert [record.query for record in records(session, {DAG, OTHER})] == ["findings"]
