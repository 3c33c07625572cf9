"""A run whose `maintain` is one task for Spark, with executors in this process."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("airflow", reason="the extra `airflow`")

from statemaint.airflow.figures import FLEET, TREND, figures_of_run
from statemaint.airflow.on_spark import maintain_queries
from statemaint.airflow.settings import Options, QuerySettings
from statemaint.airflow.tasks import (
    Planned,
    bundles_of,
    finish,
    mapped,
    plan_query,
)
from statemaint.errors import ConfigError
from statemaint.execute.lease import leased
from statemaint.maintain.bundles import Bundle
from statemaint.maintain.work import WorkOrder, read_order, store_reports
from statemaint.model.policy import Policy
from statemaint.records.claims import Holder
from statemaint.records.runs import outcomes_path, read_document, write_document
from statemaint.report.task import BundleReport, Failure, dumped, loaded
from statemaint.spark.fleet import Target
from statemaint.spark.units import maintain_unit, unit_piece
from statemaint.storage import LocalStorage
from tests.systems.airflow.support import FLOOR, TARGET, damaged, neglected, snapshots, work_on

POLICY = Policy(min_batches_to_retain=5, grace=0.0)
# What differs from run to run: times, and what the machine was busy with.
MOVING = ("seconds", "facts")
Done = tuple[list[BundleReport], Failure | None]
Works = dict[str, tuple[QuerySettings, WorkOrder]]


def settings(checkpoint: Path, **more: Any) -> QuerySettings:
    return replace(QuerySettings("hourly", str(checkpoint), POLICY, engine="spark"), **more)


def executors(
    where: QuerySettings, arguments: Sequence[str], *, most: int = 99, dies: bool = False
) -> str | None:
    """Does what Spark's program does, as far as the first units."""
    verb, address, key, _, attempt = arguments
    assert (verb, address) == ("units", where.checkpoint)
    storage = LocalStorage(Path(address))
    work = read_order(storage, key)
    found = []
    holder = work.bundles[0].holder
    assert holder
    with leased(storage, holder, keep=True):
        for bundle in work.bundles[:most]:
            piece, _ = unit_piece(Target(work.query, address, work.policy), work, bundle)
            *_, row = maintain_unit(piece)
            found.append(loaded(BundleReport, json.loads(row["note"])))
    if dies:
        return "Spark's program ended with 1"
    store_reports(storage, key, int(attempt), found)
    return None


def planned(where: QuerySettings) -> Planned:
    """Returns the plan of a run, with a unit for each partition."""
    found = plan_query(where, Options(), Holder("run"))
    units = tuple(
        replace(one, partitions=(number,)) for one in found.bundles for number in one.partitions
    )
    return replace(found, bundles=units)


def maintained(
    where: QuerySettings, plan: Planned, attempt: int = 1, start: Callable[..., Any] = executors
) -> Done:
    order = Options().order(where, plan.bundles, run="r", handover=plan.handover)
    return maintain_queries([(where, order)], attempt=attempt, start=start)[where.query]


def steady(report: BundleReport) -> dict[str, Any]:
    return {name: value for name, value in dumped(report).items() if name not in MOVING}


def test_spark_gives_the_summaries_report_and_figures_that_mapped_tasks_give(
    tmp_path: Path,
) -> None:
    found = {}
    for engine in ("tasks", "spark"):
        where = settings(damaged(tmp_path / engine / "c"), engine=engine)
        plan = planned(where)
        if engine == "spark":
            done, _ = maintained(where, plan)
        else:
            done = [work_on(where, one, handover=plan.handover) for one in plan.bundles]
        report = finish(where, plan.results(done), run="r")
        figures = figures_of_run(where, plan.results(done))
        (point,) = figures[TREND]["points"]
        point[0] = point[8] = 0  # when the run ended, and how long it took
        assert figures[FLEET].pop("committed_at") is not None  # of another copy
        content = json.dumps([[*map(steady, done)], report, figures], sort_keys=True)
        found[engine] = content.replace(where.checkpoint, "CHECKPOINT")
        assert sum(one.files for one in done) == 48
        assert snapshots(tmp_path / engine / "c") == {one: [FLOOR, TARGET] for one in (0, 1, 3)}
    assert found["spark"] == found["tasks"]
    assert '"blocked": 1' in found["spark"]


def test_a_damaged_partition_fails_the_task_with_its_name_and_for_good(tmp_path: Path) -> None:
    where = settings(damaged(tmp_path / "c"))
    done, failure = maintained(where, planned(where))
    assert len(done) == 4
    assert failure
    assert failure.reason.startswith("op 0 / part 2: BROKEN_CHAIN: state/0/2/7.delta is missing")
    assert not failure.retry


def test_the_outcomes_of_another_build_are_a_failure_in_one_line(tmp_path: Path) -> None:
    def another(where: QuerySettings, arguments: Sequence[str]) -> None:
        executors(where, arguments)
        _, address, key, _, attempt = arguments
        storage = LocalStorage(Path(address))
        rows = read_document(storage, outcomes_path(key, int(attempt)))
        rows[0].pop("seconds")
        write_document(storage, outcomes_path(key, int(attempt)), rows)

    where = settings(neglected(tmp_path / "c"))
    _, failure = maintained(where, planned(where), start=another)
    assert failure == Failure(
        "CONFIG: the outcomes of Spark's program cannot be read; "
        "give it the build of statemaint that Airflow has (BundleReport without seconds)"
    )


def test_what_a_storage_failed_for_is_all_that_the_next_attempt_does_again(tmp_path: Path) -> None:
    checkpoint = neglected(tmp_path / "c")
    obstacle = checkpoint / "_statemaint/ledger/0/1"
    obstacle.parent.mkdir(parents=True)
    obstacle.touch()
    where = settings(checkpoint)
    plan = planned(where)
    first, failure = maintained(where, plan)
    assert failure
    assert failure.reason.startswith("op 0 / part 1: STORAGE_FAILED: ")
    assert failure.retry
    obstacle.unlink()
    second, failure = maintained(where, plan, attempt=2)
    assert failure is None
    deleted = [[one.files for one in done] for done in (first, second)]
    assert deleted == [[16, 0, 16, 16], [16, 16, 16, 16]]
    assert second[2:] == first[2:]


def test_a_spark_that_dies_names_the_partitions_without_an_outcome_and_is_tried_again(
    tmp_path: Path,
) -> None:
    where = settings(neglected(tmp_path / "c"))
    plan = planned(where)
    dying = lambda *given: executors(*given, most=1, dies=True)  # noqa: E731 -- one line
    done, failure = maintained(where, plan, start=dying)
    assert [one.label for one in done] == ["op 0 / part 0"]
    assert failure
    assert failure.retry
    assert failure.reason == (
        "SPARK: Spark's program ended with 1, and these have no outcome: "
        "op 0 / part 1, op 0 / part 2, op 0 / part 3"
    )
    done, failure = maintained(where, plan, attempt=2)
    assert (len(done), failure) == (4, None)
    assert sum(one.snapshots for one in done) == 8


def test_a_spark_that_cannot_be_started_fails_for_good(tmp_path: Path) -> None:
    def start(*_: object) -> None:
        raise ConfigError("PySpark is missing")

    where = settings(neglected(tmp_path / "c"))
    assert maintained(where, planned(where), start=start) == (
        [],
        Failure("CONFIG: PySpark is missing"),
    )


def test_executors_without_the_runs_lease_do_nothing_and_may_be_tried_again(
    tmp_path: Path,
) -> None:
    checkpoint = neglected(tmp_path / "c")
    where = settings(checkpoint)
    (bundle, *_) = planned(where).bundles
    bundle = replace(bundle, holder=Holder("another"))
    piece, _ = unit_piece(
        Target("hourly", str(checkpoint)), WorkOrder("hourly", POLICY, "r", (bundle,)), bundle
    )
    (row,) = maintain_unit(piece)
    failure = loaded(BundleReport, json.loads(row["note"])).failure
    assert failure
    assert failure.reason.startswith("LEASE_LOST: ")
    assert failure.retry
    assert snapshots(checkpoint) == {}


def test_the_end_of_the_run_deletes_the_files_of_its_units(tmp_path: Path) -> None:
    checkpoint = neglected(tmp_path / "c")
    where = settings(checkpoint)
    plan = planned(where)
    done, _ = maintained(where, plan)
    units = checkpoint / "_statemaint/units"
    assert list(units.rglob("work.json"))
    report = finish(where, plan.results(done), run="r")
    assert report["success"]
    assert [one for one in units.rglob("*") if one.is_file()] == []


def works(folder: Path, **states: Callable[[Path], Path]) -> Works:
    """Returns the work of a run of several queries, each planned by itself."""
    found = {}
    for name, make in states.items():
        where = settings(make(folder / name), query=name)
        plan = planned(where)
        order = Options().order(where, plan.bundles, run="r", handover=plan.handover)
        found[name] = where, order
    return found


def one_program(
    where: QuerySettings, arguments: Sequence[str], *, without: Sequence[str] = ()
) -> str | None:
    """Does what one program of Spark's does for several queries."""
    verb, *handed, option, attempt = arguments
    for address, key in zip(handed[::2], handed[1::2], strict=True):
        if Path(address).name not in without:
            executors(replace(where, checkpoint=address), [verb, address, key, option, attempt])
    return "Spark's program ended with 1" if without else None


def together(found: Works, attempt: int = 1, **more: Any) -> dict[str, Done]:
    """Returns what an attempt at a run of several queries came to."""
    started: list[Sequence[str]] = []

    def start(where: QuerySettings, arguments: Sequence[str]) -> str | None:
        started.append(arguments)
        return one_program(where, arguments, **more)

    done = maintain_queries(list(found.values()), attempt=attempt, start=start)
    assert len(started) == 1
    return done


def test_one_program_maintains_all_queries_and_the_damage_of_one_fails_it_only(
    tmp_path: Path,
) -> None:
    done = together(works(tmp_path, one=neglected, two=damaged, three=neglected))
    reasons = {name: failure and failure.reason for name, (_, failure) in done.items()}
    assert (reasons["one"], reasons["three"]) == (None, None)
    assert str(reasons["two"]).startswith("op 0 / part 2: BROKEN_CHAIN: state/0/2/7.delta")
    written = {name: len(snapshots(tmp_path / name)) for name in done}
    assert written == {"one": 4, "two": 3, "three": 4}


def test_a_query_that_cannot_be_handed_over_does_not_stop_the_others(tmp_path: Path) -> None:
    found = works(tmp_path, one=neglected, two=neglected)
    obstacle = tmp_path / "one/_statemaint/units"
    obstacle.touch()
    done = together(found)
    assert done["one"][0] == []
    assert done["one"][1]
    assert done["one"][1].reason.startswith("STORAGE: _statemaint/units/")
    assert done["one"][1].retry
    assert done["two"][1] is None
    assert snapshots(tmp_path / "one") == {}
    obstacle.unlink()
    assert [failure for _, failure in together(found, attempt=2).values()] == [None, None]
    assert len(snapshots(tmp_path / "one")) == 4


def test_a_program_that_dies_fails_those_queries_only_that_lack_an_outcome(
    tmp_path: Path,
) -> None:
    found = works(tmp_path, one=neglected, two=neglected)
    done = together(found, without=["two"])
    assert done["one"][1] is None
    assert done["two"][1]
    assert done["two"][1].retry
    assert "and these have no outcome: op 0 / part 0, op 0 / part 1" in done["two"][1].reason
    again = together(found, attempt=2)
    assert again["one"][0] == done["one"][0]
    assert again["two"][1] is None


def test_a_spark_that_cannot_be_started_fails_all_queries_for_good(tmp_path: Path) -> None:
    def start(*_: object) -> None:
        raise ConfigError("PySpark is missing")

    found = works(tmp_path, one=neglected, two=neglected)
    done = maintain_queries(list(found.values()), attempt=1, start=start)
    assert done == dict.fromkeys(found, ([], Failure("CONFIG: PySpark is missing")))


def test_a_run_without_work_starts_no_program() -> None:
    def start(*_: object) -> None:
        raise AssertionError

    assert maintain_queries([], attempt=1, start=start) == {}


def test_small_partitions_share_a_unit_and_all_units_are_one_task(tmp_path: Path) -> None:
    where = settings(neglected(tmp_path / "c", partitions=20), max_tasks=3)
    found = plan_query(where, Options(), Holder("run")).bundles
    assert [len(one.partitions) for one in found] == [20]
    (task,) = mapped(where, found)
    assert task["label"] == "20 partitions on Spark"
    assert bundles_of([task]) == list(found)
    assert len(mapped(replace(where, engine="tasks"), found)) == 1
    assert bundles_of(mapped(replace(where, engine="tasks"), found)) == list(found)
    assert mapped(where, ()) == []


def test_a_query_with_a_connection_is_refused_by_spark(tmp_path: Path) -> None:
    where = settings(neglected(tmp_path / "c"), connection="lake")
    failure = plan_query(where, Options(), Holder("run")).failure
    assert failure
    assert failure.reason.startswith("CONFIG: Spark's executors have no Airflow connections")
    assert not failure.retry


def test_what_has_no_lease_is_not_handed_over() -> None:
    where = QuerySettings("q", "/nowhere", POLICY)
    order = Options().order(where, [Bundle(0, (1,), TARGET)], run="r", handover=None)
    with pytest.raises(ValueError, match="op 0 / part 1 has no lease"):
        maintain_queries([(where, order)], attempt=1, start=executors)
