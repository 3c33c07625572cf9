"""The fleet benchmark, on small fleets: its generators, counts and arithmetic; nothing is timed."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from statemaint.maintain import maintain
from statemaint.planning import scan_checkpoint
from statemaint.spark import Target
from statemaint.spark.units import Piece, make_plan, take_inventory
from statemaint.storage import LocalStorage
from tests.benchmarks.far import FarBucket, far_bucket
from tests.benchmarks.fleet import __main__ as program
from tests.benchmarks.fleet import hours, parts, tables
from tests.benchmarks.fleet.child import THREADS, Took
from tests.benchmarks.fleet.engines import environ_of, run
from tests.benchmarks.fleet.hours import Query
from tests.benchmarks.fleet.parts import quickest
from tests.benchmarks.fleet.prices import Hour, wider
from tests.benchmarks.fleet.shapes import (
    EVEN,
    FAR_QUERIES,
    FEWER_QUERIES,
    MANY_FILES,
    MANY_QUERIES,
    POLICY,
    SKEWED,
    Shape,
    copy_of,
    generate,
)
from tests.benchmarks.fleet.usage import (
    DRIVER,
    DRIVER_JVM,
    EXECUTOR,
    WORKER,
    Usage,
    kind_of,
    watched,
)
from tests.benchmarks.inputs import store_folder
from tests.benchmarks.tables import Results

FEW = Shape("few", replace(EVEN[1_000].query, partitions=3), queries=2)


def state(root: Path) -> dict[str, int]:
    files = (one for one in root.rglob("*") if one.is_file())
    return {one.relative_to(root).as_posix(): one.stat().st_size for one in files}


def test_fleets_have_as_many_stores_and_files_as_they_are_called_after() -> None:
    assert [(name, one.stores) for name, one in EVEN.items()] == [(n, n) for n in EVEN]
    assert {one.files for one in MANY_FILES} == {100_000}
    for shape in (FEWER_QUERIES, MANY_QUERIES, FAR_QUERIES):
        assert shape.name == f"{shape.stores:,} in {shape.queries:,} queries"


def test_an_even_fleet_has_equal_queries_and_a_copy_leaves_it_alone(tmp_path: Path) -> None:
    fleet = generate(FEW, tmp_path)
    before = state(fleet.root)
    assert state(fleet.root / "0") == state(fleet.root / "1")
    with copy_of(fleet) as copy:
        for one in copy.targets():
            stores = scan_checkpoint(LocalStorage(Path(one.checkpoint))).stores
            assert [len(store.files) for store in stores] == [12, 12, 12]
            assert maintain(one.open(), one.policy).snapshots_written == 3
        assert state(copy.root) != before
    assert state(fleet.root) == before
    assert not copy.root.exists()


def test_a_skewed_fleet_has_about_half_of_its_bytes_in_one_store(tmp_path: Path) -> None:
    small, large = replace(SKEWED.query, rows=50, partitions=11), replace(SKEWED.query, rows=500)
    root = generate(Shape("skewed", small, large=large), tmp_path).root / "0"
    sizes = [sum(state(store_folder(root, number)).values()) for number in range(11)]
    assert 0.4 < sizes[0] / sum(sizes) < 0.6
    assert maintain(LocalStorage(root), POLICY).exit_code == 0


def test_a_process_is_measured_for_its_start_and_each_verb(tmp_path: Path) -> None:
    took = run(THREADS, [generate(FEW, tmp_path)], tmp_path)
    assert [one.verb for one in took] == ["start", "inventory", "plan", "maintain"]
    assert all(one.seconds > 0 and one.usage.peak[DRIVER] > 10 for one in took)
    assert took[0].usage.cpu[DRIVER_JVM] == 0


def test_queries_by_the_thousand_are_held_against_a_tenth_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "FEWER_QUERIES", FEW)
    monkeypatch.setattr(parts, "MANY_QUERIES", replace(FEW, name="more", queries=4))
    results = Results(sections=tables.SECTIONS)
    parts.many_queries(parts.Bench(tmp_path, 1, results, [THREADS]))
    assert [line[0] for line in results.lines[tables.ASKED.title]] == [
        "4 queries ÷ 2, threads, maintain: seconds of a query",
        "4 queries ÷ 2, threads, maintain: memory of the driver's Python",
    ]
    assert len(results.lines[tables.ENGINES.title]) == 8


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (["python", "-m", "tests.benchmarks.fleet.child"], DRIVER),
        (["/java/bin/java", "-cp", "jars", "org.apache.spark.deploy.SparkSubmit"], DRIVER_JVM),
        (["/java/bin/java", "org.apache.spark.deploy.worker.Worker"], EXECUTOR),
        (["/java/bin/java", "o.a.s.executor.CoarseGrainedExecutorBackend"], EXECUTOR),
        (["python", "-m", "pyspark.daemon", "pyspark.worker"], WORKER),
    ],
)
def test_processes_are_told_apart_by_their_command(command: list[str], kind: str) -> None:
    assert kind_of(command) == kind


def test_the_quickest_run_of_each_step_counts() -> None:
    def took(verb: str, seconds: float) -> Took:
        return Took(verb, seconds, {}, {}, {})

    first, second = [took("start", 9), took("plan", 2)], [took("start", 8), took("plan", 3)]
    assert quickest([first, second]) == [took("start", 8), took("plan", 2)]


def test_the_driver_is_its_python_and_its_jvm() -> None:
    zero = dict.fromkeys((DRIVER, DRIVER_JVM, EXECUTOR, WORKER), 0.0)
    used = Usage({**zero, DRIVER: 2.0, WORKER: 4.0}, {**zero, DRIVER: 100, DRIVER_JVM: 400})
    assert (used.all, used.driver) == (6.0, 500)


def test_a_process_that_has_ended_counts_and_what_was_before_does_not() -> None:
    busy = "import time\nwhile time.process_time() < 2: pass"
    with watched([os.getpid()]) as used:
        subprocess.run([sys.executable, "-c", busy], check=True)
    assert 1.0 < used().cpu[DRIVER] < 4.0
    with watched([os.getpid()]) as used:
        pass
    assert used().cpu[DRIVER] < 1.0


# -- what an hour costs


def test_a_price_is_that_of_a_thousand_requests() -> None:
    hour = Hour({"PUT": 1_000, "LIST": 1_000, "GET": 10_000, "DELETE": 1_000_000}, cpu=7200)
    assert hour.money == pytest.approx((0.005 + 0.005 + 0.004, 2 * 0.05))
    assert hour.times(3).cores == 6
    assert (hour + hour).all == 2 * hour.all


def test_a_wider_query_is_on_the_line_through_two_others() -> None:
    narrow, wide = Hour({"GET": 20, "LIST": 5}, 1.0), Hour({"GET": 110, "LIST": 5}, 10.0)
    found = wider(narrow, wide, stores=(10, 100), to=800)
    assert found.requests == pytest.approx({"GET": 810, "LIST": 5})
    assert found.cpu == pytest.approx(80)


def test_an_hourly_job_has_a_snapshot_due_in_one_hour_of_eleven() -> None:
    idle, due = Hour({"GET": 1}, 0.0), Hour({"GET": 1, "PUT": 11}, 0.0)
    assert hours.hourly_job(idle, due).requests == pytest.approx({"GET": 1, "PUT": 1})


def test_a_query_goes_on_in_its_bucket_and_can_be_maintained_again(tmp_path: Path) -> None:
    case = replace(FEW.query, deltas=160, partitions=1)
    root = generate(Shape("hours", case), tmp_path).root / "0"
    with far_bucket(root, 0) as bucket:
        query = Query(bucket.storage(), root, 1)
        query.log(range(59, 160))
        first = maintain(bucket.storage(), hours.POLICY)
        query.go_on(160, 60)
        second = maintain(bucket.storage(), hours.POLICY)
    assert (first.exit_code, first.snapshots_written, first.plan.target) == (0, 2, 160)
    assert (second.exit_code, second.snapshots_written, second.plan.target) == (0, 2, 220)
    assert second.plan.floor == 120
    assert sum(len(one.outcomes) for one in second.stores) > 60


# -- requests


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FarBucket]:
    """A bucket with 3,600 objects of one query."""
    shape = Shape("listed", replace(FEW.query, partitions=300))
    with far_bucket(generate(shape, tmp_path).root / "0", 0) as found:
        for name, value in environ_of(found).items():
            monkeypatch.setenv(name, value)
        yield found


@pytest.mark.parametrize("work", [take_inventory, make_plan], ids=["inventory", "plan"])
def test_a_fleet_is_listed_with_two_requests_for_a_thousand_objects_at_most(
    bucket: FarBucket, work: Callable[[str], Iterable[object]]
) -> None:
    objects = len([*bucket.storage().list("")])
    assert objects > 3_600
    piece = Piece(Target("q", "s3://far"), {"force_snapshot": False}).to_json()
    for damaged in (False, True):
        if damaged:  # a second scan confirms it, and each looks at both logs again
            bucket.storage().delete("state/0/7/5.delta")
        bucket.count_anew()
        rows = [*work(piece)]
        asked = bucket.told()["requests"]
        assert len(rows) >= 300
        assert asked["LIST"] <= 2 * objects / 1000 + (15 if damaged else 11)
        assert sum(asked.values()) - asked["LIST"] < 30


# -- the document


def test_the_document_has_the_newest_results_of_each_part(tmp_path: Path) -> None:
    line = ["1,000 stores", "at most 5", "4.20"]
    kept = program.Kept("abcdef1", "tmpfs", 3, {tables.ASKED.title: [line]})
    for name, commit in (("1000", "abcdef1"), ("files", "1234567")):
        (tmp_path / f"{name}.json").write_text(json.dumps(asdict(replace(kept, commit=commit))))
    text = program.document(tmp_path)
    assert "Of commits 1234567, abcdef1. The local fleets are on tmpfs." in text
    assert text.count("| 1,000 stores | at most 5 | 4.20 |") == 2
    assert "### Goals" in text
    assert "### Engines" not in text


def test_the_program_names_its_parts() -> None:
    done = CliRunner().invoke(program.main, ["--help"])
    assert all(name in done.output for name in ("1000", "50000", "skewed", "hour"))
