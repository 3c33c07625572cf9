"""Spark's engine: the same fleet by the command line, by Airflow's tasks and by Spark."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from statemaint.airflow.on_spark import maintain_queries
from statemaint.airflow.settings import Options, QuerySettings
from statemaint.airflow.tasks import finish, maintain_query, plan_query
from statemaint.execute.lease import leased
from statemaint.maintain import list_runs
from statemaint.maintain.bundles import deal
from statemaint.records.claims import Holder
from statemaint.spark import (
    Target,
    engine,
    frames,
    inventory,
    maintain_fleet,
    plan_fleet,
    verify_fleet,
)
from statemaint.spark.engine import carry_out
from statemaint.spark.frames import (
    INVENTORY,
    NAMES_OF_SPARK,
    OUTCOMES,
    PLAN,
    VERIFIED,
    arrow_schema,
    collected,
    ddl,
    spread,
)
from statemaint.storage import LocalStorage
from tests.systems.spark.fleets import (
    POLICY,
    actions,
    by_command_line,
    digests,
    findings,
    inventoried,
    leftovers,
    listing,
    planned,
    planned_by_spark,
    scanned,
    write_fleet,
)


def by_tasks(fleet: Iterable[Target]) -> dict[str, set[str]]:
    """Maintains a fleet as mapped tasks do; returns the codes of the findings of each query."""
    found = {}
    for one in fleet:
        settings = QuerySettings(one.query, one.checkpoint, POLICY, max_tasks=3)
        done = maintain_query(settings, Options(), Holder("run"), run="run")
        assert done.report
        found[one.query] = {*done.report["findings"]}
    return found


def by_tasks_on_spark(spark: SparkSession, fleet: Iterable[Target]) -> dict[str, set[str]]:
    """Maintains a fleet as Airflow does with `together`: one program, in the tests' session."""

    def start(_settings: QuerySettings, arguments: Sequence[str]) -> None:
        _, *handed, _, attempt = arguments
        pairs = list(zip(handed[::2], handed[1::2], strict=True))
        carry_out(spark, pairs, attempt=int(attempt), tell=print)

    plans = {}
    for one in fleet:
        settings = QuerySettings(one.query, one.checkpoint, POLICY, engine="spark")
        plans[settings.query] = settings, plan_query(settings, Options(), Holder("run"), run="run")
    works = [
        (where, Options().order(where, plan.bundles, run="run", handover=plan.handover))
        for where, plan in plans.values()
        if plan.bundles
    ]
    done = maintain_queries(works, attempt=1, start=start)
    found = {}
    for query, (settings, plan) in plans.items():
        reports, _ = done.get(query, ([], None))
        report = finish(settings, plan.results(reports), run="run")
        found[query] = {*report["findings"]}
    return found


@pytest.fixture(scope="module")
def maintained(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Equal fleets, each maintained by one engine."""
    root = tmp_path_factory.mktemp("fleets")
    names = ("before", "cli", "tasks", "spark", "tasks_on_spark")
    fleets = {name: write_fleet(root / name) for name in names}
    found = by_command_line(fleets["cli"])
    of_tasks = by_tasks(fleets["tasks"])
    with pytest.MonkeyPatch.context() as patch:  # some queries, then some more
        patch.setattr(engine, "_AT_A_TIME", 3)
        patch.setattr(engine, "_AT_A_TIME_FOR_EACH_CORE", 0)
        rows = maintain_fleet(spark, fleets["spark"], run="fleet").collect()
    on_spark = by_tasks_on_spark(spark, fleets["tasks_on_spark"])
    codes = {"tasks": of_tasks, "tasks_on_spark": on_spark}
    return {**fleets, "findings": found, "rows": rows, "codes": codes}


def test_all_engines_leave_the_same_files_with_the_same_states(maintained: dict[str, Any]) -> None:
    for name in ("tasks", "spark", "tasks_on_spark"):
        for cli, one in zip(maintained["cli"], maintained[name], strict=True):
            assert listing(one) == listing(cli), (cli.query, name)
            assert digests(one) == digests(cli), (cli.query, name)
            assert actions(one) == actions(cli), (cli.query, name)
    changed = zip(maintained["before"], maintained["spark"], strict=True)
    assert sum(listing(before) != listing(after) for before, after in changed) >= 5


def test_spark_finds_what_the_command_line_finds(maintained: dict[str, Any]) -> None:
    for target in maintained["spark"]:
        expected = maintained["findings"][target.query]
        assert findings(maintained["rows"], target.query) == expected, target.query
    assert maintained["findings"]["damaged"]
    assert maintained["findings"]["damaged-rocks"]


def test_airflows_tasks_find_what_the_command_line_finds(maintained: dict[str, Any]) -> None:
    for query, expected in maintained["findings"].items():
        codes = {code for *_, code in expected}
        for name in ("tasks", "tasks_on_spark"):
            assert maintained["codes"][name][query] == codes, (query, name)


def test_outcomes_have_a_row_for_each_store_and_each_query(maintained: dict[str, Any]) -> None:
    rows = maintained["rows"]
    queries = {row["query"]: row for row in rows if row["operator"] is None}
    assert list(queries) == [one.query for one in maintained["spark"]]
    assert {name: row["outcome"] for name, row in queries.items()} == {
        **dict.fromkeys(queries, "done"),
        "nothing": "failed",
        "damaged": "halted",
        "damaged-rocks": "halted",
    }
    broken = {"damaged": 3, "damaged-rocks": 3}
    codes = {name: row["exit_code"] for name, row in queries.items()}
    assert codes == {**dict.fromkeys(queries, 0), "nothing": 2, **broken}
    assert "NOT_A_CHECKPOINT" in queries["nothing"]["error"]
    stores = [(row["query"], row["operator"], row["partition"], row["store"]) for row in rows]
    assert len(stores) == len(set(stores))
    join = [row for row in rows if row["query"] == "join2" and row["store"]]
    assert {row["outcome"] for row in join} == {"done"}
    assert all(row["digest"] and row["chain_after"] == 0 for row in join)
    assert sum(row["files_deleted"] for row in join) > 0
    assert {row["outcome"] for row in rows if row["query"] == "damaged"} >= {"done", "halted"}


def test_the_run_of_each_engine_is_listed_with_its_exit_code(maintained: dict[str, Any]) -> None:
    for name in ("cli", "tasks", "spark", "tasks_on_spark"):
        there = [one for one in maintained[name] if one.query != "nothing"]
        runs = {one.query: list_runs(LocalStorage(one.checkpoint)) for one in there}
        codes = {query: [run.exit_code for run in found] for query, found in runs.items() if found}
        failed = {query: found for query, found in codes.items() if found != [0]}
        assert failed == {"damaged": [3], "damaged-rocks": [3]}, name


def test_a_run_leaves_no_lease_and_no_file_of_its_units(maintained: dict[str, Any]) -> None:
    for target in (*maintained["spark"], *maintained["tasks_on_spark"]):
        assert leftovers(target) == []


def test_a_second_run_has_nothing_to_do(spark: SparkSession, tmp_path: Path) -> None:
    fleet = write_fleet(tmp_path)[:2]
    maintain_fleet(spark, fleet, wait=10)
    before = [actions(one) for one in fleet]
    rows = maintain_fleet(spark, fleet, wait=10).collect()
    assert [actions(one) for one in fleet] == before
    assert sum(row["snapshots_written"] or 0 for row in rows) == 0
    queries = [(row["query"], row["exit_code"]) for row in rows if row["store"] is None]
    assert queries == [(one.query, 0) for one in fleet]


def test_a_query_whose_lease_is_held_is_held_and_the_others_are_maintained(
    spark: SparkSession, tmp_path: Path
) -> None:
    fleet = write_fleet(tmp_path)[:2]
    with leased(LocalStorage(Path(fleet[0].checkpoint)), Holder("another")):
        rows = maintain_fleet(spark, fleet).collect()
    queries = {row["query"]: row for row in rows if row["store"] is None}
    assert [row["outcome"] for row in queries.values()] == ["held", "done"]
    assert queries["aggregation2"]["exit_code"] == 4
    assert not actions(fleet[0])
    assert actions(fleet[1])


def test_an_inventory_has_what_a_scan_finds(spark: SparkSession, tmp_path: Path) -> None:
    fleet = write_fleet(tmp_path)
    rows = inventory(spark, fleet).collect()
    for one in fleet:
        assert inventoried(rows, one.query) == scanned(one)
    assert [row["exit_code"] for row in rows if row["query"] == "nothing"] == [2]


def test_a_planned_fleet_has_the_actions_of_every_plan(spark: SparkSession, tmp_path: Path) -> None:
    fleet = write_fleet(tmp_path)
    rows = plan_fleet(spark, fleet).collect()
    for one in fleet:
        assert planned_by_spark(rows, one.query) == planned(one)
    assert [row["reason"] for row in rows if row["query"] == "nothing"] == ["NOT_A_CHECKPOINT"]
    assert "finding" in {row["action"] for row in rows if row["query"] == "damaged-rocks"}


def test_a_fleet_is_verified_in_shares(spark: SparkSession, tmp_path: Path) -> None:
    fleet = write_fleet(tmp_path)
    whole = verify_fleet(spark, fleet, deep=True).collect()
    shares = verify_fleet(spark, fleet, deep=True, shares=2).collect()
    assert len(shares) == 2 * len(whole) == 2 * len(fleet)
    healthy = {row["query"]: row["healthy"] for row in whole}
    bad = dict.fromkeys(("damaged", "damaged-rocks", "nothing"), False)
    assert healthy == {**dict.fromkeys(healthy, True), **bad}
    checked = {row["query"]: row["versions_checked"] for row in whole if row["stores"]}
    assert checked == {
        query: sum(row["versions_checked"] for row in shares if row["query"] == query)
        for query in checked
    }


@pytest.mark.parametrize(("most", "shuffles"), [(5, 0), (4, 1)])
def test_each_task_has_its_own_pieces_in_their_order(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, most: int, shuffles: int
) -> None:
    monkeypatch.setattr(frames, "_SMALL", most)

    def of_partition(piece: str) -> list[dict[str, str]]:
        context = TaskContext.get()
        return [{"piece": piece, "partition": str(context.partitionId())}] if context else []

    pieces = [("e", 6.0), ("d", 5.0), ("c", 3.0), ("b", 1.0), ("a", 1.0)]
    frame = spread(spark, pieces, of_partition, {"piece": "string", "partition": "string"}, tasks=3)
    assert [tuple(row) for row in frame.collect()] == [
        (piece, str(number)) for number, some in enumerate(deal(pieces, 3)) for piece in some
    ]
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert plan.count("Exchange") == shuffles


def test_the_columns_are_those_that_are_documented(spark: SparkSession) -> None:
    none: list[Target] = []
    documented = [
        (inventory(spark, none), INVENTORY),
        (plan_fleet(spark, none), PLAN),
        (maintain_fleet(spark, none), OUTCOMES),
        (verify_fleet(spark, none), VERIFIED),
    ]
    for frame, columns in documented:
        also = {new: columns[old] for new, old in NAMES_OF_SPARK.items() if old in columns}
        assert frame.schema == spark.createDataFrame([], ddl({**columns, **also})).schema
        assert frame.collect() == []
        assert collected(frame, columns).schema == arrow_schema(columns), "and no other columns"
