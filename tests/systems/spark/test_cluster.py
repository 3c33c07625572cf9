"""Spark's engine on a standalone cluster of real processes, which are killed and paused.

What a fleet should become is what the command line makes of a copy. What it must still hold is
what each version held before, as read from the state itself.
"""

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from statemaint.demo.processes import Process, wait_until
from statemaint.errors import StatemaintError
from statemaint.maintain import maintain
from statemaint.spark import Target, maintain_fleet
from statemaint.storage import LocalStorage
from tests.support.checkpoints import write_checkpoint
from tests.support.spark_cluster import Cluster, Submitted, spark_cluster, tree
from tests.systems.spark.fleets import (
    POLICY,
    actions,
    digests,
    leftovers,
    listing,
    write_fleet,
    write_queries,
)

LARGE = 6
VERSIONS = 300
_SECONDS = 180.0
# Deletions of a store that are noted together, before they are done (docs/adr/0021).
_PAGE = 200
Actions = Counter[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Goal:
    """What is true of a fleet, by query.

    Attributes:
        before: the digest of each store at each version that the commit log has, unmaintained.
        files: what the command line leaves of the files.
        done: what it did.
    """

    before: Mapping[str, dict[str, str] | str]
    files: Mapping[str, Counter[str]]
    done: Mapping[str, Actions]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Target, ...]:
    """A fleet in which a few queries are so large that their units take a while."""
    root = tmp_path_factory.mktemp("template")
    fleet = write_fleet(root)
    for number in range(LARGE):
        place = root / f"large-{number}"
        place.mkdir()
        batches = range(VERSIONS - 3, VERSIONS)
        write_checkpoint(LocalStorage(place), last=VERSIONS, batches=batches, partitions=4)
    large = (f"large-{number}" for number in range(LARGE))
    return (*(Target(name, str(root / name), POLICY) for name in large), *fleet)


@pytest.fixture(scope="module")
def goal(template: tuple[Target, ...], tmp_path_factory: pytest.TempPathFactory) -> Goal:
    before = {one.query: digests(one) for one in template}
    twin = copy(template, tmp_path_factory.mktemp("twin"))
    for one in twin:
        with suppress(StatemaintError):
            maintain(LocalStorage(Path(one.checkpoint)), POLICY)
    return Goal(
        before,
        {one.query: listing(one) for one in twin},
        {one.query: actions(one) for one in twin},
    )


@pytest.fixture
def fleet(template: tuple[Target, ...], tmp_path: Path) -> tuple[Target, ...]:
    return copy(template, tmp_path / "fleet")


@pytest.fixture
def file(fleet: tuple[Target, ...], tmp_path: Path) -> str:
    return str(write_queries(fleet, tmp_path / "queries.yaml"))


def copy(fleet: Sequence[Target], root: Path) -> tuple[Target, ...]:
    for one in fleet:
        shutil.copytree(one.checkpoint, root / one.query)
    return tuple(replace(one, checkpoint=str(root / one.query)) for one in fleet)


def must_be(goal: Goal, fleet: Sequence[Target], *, disturbed: Sequence[Path] = ()) -> None:
    """Checks that nothing is lost, that nothing was done twice, and that nothing is left over.

    A deletion is noted before it is done: a page of a unit that was disturbed may be noted twice.
    """
    for one in fleet:
        assert listing(one) == goal.files[one.query], one.query
        held = digests(one)
        assert held == goal.before[one.query], one.query
        assert leftovers(one) == [], one.query
        done, expected = actions(one), goal.done[one.query]
        assert set(done) == set(expected), one.query
        twice = done - expected
        assert {action for action, _ in twice} <= {"delete"}, one.query
        stores = Counter(path.rpartition("/")[0] for _, path in twice)
        assert max(stores.values(), default=0) <= _PAGE
        if not any(unit.is_relative_to(one.checkpoint) for unit in disturbed):
            assert not twice, one.query


def outcomes(submitted: Submitted) -> dict[str, int]:
    """Returns the exit code of each query, as the program prints it."""
    document = json.loads(submitted.out.read_text())
    return {one["query"]: one["exit_code"] for one in document["queries"]}


def expected_codes(fleet: Sequence[Target]) -> dict[str, int]:
    return {**dict.fromkeys((one.query for one in fleet), 0), "nothing": 2, "damaged": 3}


def claims(fleet: Sequence[Target]) -> dict[int, Path]:
    """Returns the large queries' units that are claimed and have no outcome, by the process."""
    found = {}
    for target in fleet[:LARGE]:
        pattern = "_statemaint/units/*/*/_statemaint/lease/*.json"
        for lease in sorted(Path(target.checkpoint).glob(pattern)):
            unit = lease.parents[2]
            with suppress(OSError, ValueError):  # it ends at this moment
                claim = json.loads(lease.read_text())
                if claim["deadline"] and not (unit / "outcome.json").exists():
                    found[int(claim["owner"].rpartition(":")[2])] = unit
    return found


def pause_at_work(
    fleet: Sequence[Target], worker: Process, driver: Submitted, *, tasks: int
) -> dict[int, Path]:
    """Pauses a worker and all that it started, while some of its tasks work on a unit each.

    Returns:
        The unit of each task, by the number of its process.
    """
    caught: dict[int, Path] = {}

    def try_it() -> bool:
        processes = tree(worker)
        numbers = {one.pid for one in processes}
        if len(numbers & set(claims(fleet))) < tasks:
            return False
        for one in processes:
            one.suspend()
        caught.update({pid: unit for pid, unit in claims(fleet).items() if pid in numbers})
        if len(caught) < tasks:  # one of them has ended meanwhile
            caught.clear()
            resume(processes)
        return bool(caught)

    assert wait_until(try_it, seconds=_SECONDS, needed=[driver.process]), driver.log.read_text()
    return caught


def resume(processes: Sequence[psutil.Process]) -> None:
    for one in processes:
        with suppress(psutil.NoSuchProcess):
            one.resume()


def kill(processes: Sequence[psutil.Process], *, but: int) -> psutil.Process:
    """Kills processes with SIGKILL, and returns the one that is left."""
    (spared,) = (one for one in processes if one.pid == but)
    for one in processes:
        if one.pid != but:
            one.kill()
    return spared


def has_ended(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def test_speculation_does_nothing_twice_and_a_second_driver_is_held(
    cluster: Cluster, fleet: tuple[Target, ...], file: str, goal: Goal, spark: SparkSession
) -> None:
    worker = cluster.second_worker()
    conf = {
        "spark.speculation": "true",
        "spark.speculation.interval": "50ms",
        "spark.speculation.multiplier": "1.01",
        "spark.speculation.quantile": "0.1",
        "spark.speculation.minTaskRuntime": "50ms",
    }
    run = ("maintain", "--queries", file, "--json", "--run", "speculation")
    driver = cluster.submit("speculation", *run, conf=conf)
    at_work = pause_at_work(fleet, worker, driver, tasks=1)
    slow = [psutil.Process(pid) for pid in at_work]
    resume([one for one in tree(worker) if one.pid not in at_work])
    rows = maintain_fleet(spark, fleet, run="another").collect()
    second = {row["query"]: row["outcome"] for row in rows if row["operator"] is None}
    for unit in at_work.values():
        (query,) = (one.query for one in fleet if unit.is_relative_to(one.checkpoint))
        assert second[query] == "held"
    second_attempt = re.compile(r"Starting task \d+\.1 in stage")
    assert wait_until(
        lambda: second_attempt.search(driver.log.read_text()) is not None, seconds=_SECONDS
    )
    resume(slow)
    assert driver.code() == 3, driver.log.read_text()
    assert outcomes(driver) == expected_codes(fleet)
    must_be(goal, fleet, disturbed=list(at_work.values()))


def test_a_killed_worker_and_a_task_that_comes_back_lose_nothing_and_do_nothing_twice(
    cluster: Cluster, fleet: tuple[Target, ...], file: str, goal: Goal
) -> None:
    worker = cluster.second_worker()
    driver = cluster.submit("killed", "maintain", "--queries", file, "--json", "--run", "killed")
    at_work = pause_at_work(fleet, worker, driver, tasks=2)
    paused, unit = next(iter(at_work.items()))
    spared = kill(tree(worker), but=paused)

    def taken_over() -> bool:  # there is a second claim, or the run has ended already
        return len(list((unit / "_statemaint" / "lease").glob("*.json"))) != 1

    # The claim ends 30 seconds after the task's last renewal; then the task comes back.
    assert wait_until(taken_over, seconds=_SECONDS, needed=[driver.process])
    resume([spared])
    assert driver.code() == 3, driver.log.read_text()
    assert wait_until(lambda: has_ended(spared), seconds=_SECONDS)
    assert outcomes(driver) == expected_codes(fleet)
    must_be(goal, fleet, disturbed=list(at_work.values()))


def test_a_killed_driver_is_run_again_and_its_last_task_does_nothing_more(
    cluster: Cluster, fleet: tuple[Target, ...], file: str, goal: Goal
) -> None:
    worker = cluster.second_worker()
    run = ("maintain", "--queries", file, "--json", "--run", "driver")
    driver = cluster.submit("driver-1", *run)
    at_work = pause_at_work(fleet, worker, driver, tasks=1)
    paused, _ = next(iter(at_work.items()))
    driver.kill()
    spared = kill(tree(worker), but=paused)
    begun = [unit for one in fleet for unit in Path(one.checkpoint).glob("_statemaint/units/*/*")]
    again = cluster.submit("driver-2", *run, "--attempt", "2")
    assert again.code() == 3, again.log.read_text()
    assert outcomes(again) == expected_codes(fleet)
    must_be(goal, fleet, disturbed=begun)
    resume([spared])
    assert wait_until(lambda: has_ended(spared), seconds=_SECONDS)
    must_be(goal, fleet, disturbed=begun)
