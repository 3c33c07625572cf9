"""Spark's engine on a standalone cluster of real processes, which are killed and paused.

What a fleet should become is what the command line makes of a copy. What it must still hold is
what each version held before, as read from the state itself.
"""

import json
import os
import re
import shutil
import signal
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

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
from tools.demo.processes import Process, wait_until

LARGE = 8
VERSIONS = 1500
EAGER = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.minTaskRuntime": "50ms",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.quantile": "0.1",
}
_SECONDS = 300.0
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
    fleet, first = write_fleet(root), root / "large-0"
    first.mkdir()
    batches = range(VERSIONS - 3, VERSIONS)
    write_checkpoint(LocalStorage(first), last=VERSIONS, batches=batches, partitions=4)
    for number in range(1, LARGE):
        shutil.copytree(first, root / f"large-{number}")
    large = (f"large-{number}" for number in range(LARGE))
    return (*(Target(name, str(root / name), POLICY) for name in large), *fleet)


@pytest.fixture(scope="module")
def goal(template: tuple[Target, ...], tmp_path_factory: pytest.TempPathFactory) -> Goal:
    before = {one.query: digests(one) for one in (template[0], *template[LARGE:])}
    before |= {one.query: before["large-0"] for one in template[:LARGE]}
    twin = copy(template, tmp_path_factory.mktemp("twin"))
    for one in twin:
        with suppress(StatemaintError):
            maintain(LocalStorage(Path(one.checkpoint)), POLICY)
    return Goal(
        before,
        {one.query: listing(one) for one in twin},
        {one.query: actions(one) for one in twin},
    )


def copy(fleet: Sequence[Target], root: Path) -> tuple[Target, ...]:
    for one in fleet:
        shutil.copytree(one.checkpoint, root / one.query)
    return tuple(replace(one, checkpoint=str(root / one.query)) for one in fleet)


def must_be(goal: Goal, fleet: Sequence[Target], *, disturbed: Sequence[Path] = ()) -> None:
    """Checks that nothing is lost, that nothing was done twice, and that nothing is left over.

    A deletion is noted before it is done: a page of a unit that was disturbed may be noted twice.
    A snapshot is noted once it is in place: where only its note was killed, the next run finds the
    snapshot and compares it, as it does with one of Spark's. What a killed write had begun, a
    temporary file, is deleted as well.
    """
    for one in fleet:
        assert listing(one) == goal.files[one.query], one.query
        held = digests(one)
        assert held == goal.before[one.query], one.query
        assert leftovers(one) == [], one.query
        expected = goal.done[one.query]
        done = noted(one, expected)
        assert set(done) == set(expected), one.query
        twice = done - expected
        assert {action for action, _ in twice} <= {"delete"}, one.query
        stores = Counter(path.rpartition("/")[0] for _, path in twice)
        assert max(stores.values(), default=0) <= _PAGE
        if not any(unit.is_relative_to(one.checkpoint) for unit in disturbed):
            assert not twice, one.query


def noted(one: Target, expected: Actions) -> Actions:
    """Returns what was done; what was compared in place of a write counts as a write."""
    done = Actions()
    for (action, path), count in actions(one).items():
        write = ("write_snapshot", path)
        compared = action == "attest" and (action, path) not in expected and write in expected
        if not path.endswith(".tmp"):
            done[write if compared else (action, path)] += count
    return done


def outcomes(submitted: Submitted) -> dict[str, int]:
    """Returns the exit code of each query, as the program prints it."""
    document = json.loads(submitted.out.read_text())
    return {one["query"]: one["exit_code"] for one in document["queries"]}


def expected_codes(fleet: Sequence[Target]) -> dict[str, int]:
    return {
        **dict.fromkeys((one.query for one in fleet), 0),
        "nothing": 2,
        "damaged": 3,
        "damaged-rocks": 3,
    }


def claims(fleet: Sequence[Target]) -> dict[int, Path]:
    """Returns the units that are claimed and have no outcome, by the process."""
    found = {}
    for target in fleet:
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
    """Pauses some tasks of a worker while each works on a unit of a large query.

    Returns:
        The unit of each task, by the number of its process.
    """
    caught: dict[int, Path] = {}

    def try_it() -> bool:
        at_work = [pid for pid in claims(fleet[:LARGE]) if is_of(pid, worker)]
        if len(at_work) < tasks:
            return False
        signal_each(at_work, signal.SIGSTOP)
        caught.update({pid: unit for pid, unit in claims(fleet).items() if pid in at_work})
        if len(caught) < tasks:  # one of them has ended meanwhile
            caught.clear()
            signal_each(at_work, signal.SIGCONT)
        return bool(caught)

    assert wait_until(try_it, seconds=_SECONDS, needed=[driver.process]), driver.log.read_text()
    return caught


def is_of(pid: int, worker: Process) -> bool:
    """Returns whether a process is of a worker's session."""
    with suppress(ProcessLookupError):
        return os.getsid(pid) == worker.pid
    return False


def signal_each(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


@contextmanager
def paused(processes: Sequence[psutil.Process]) -> Iterator[None]:
    """Pauses processes while the block runs: no task takes over, whatever time it takes."""
    for one in processes:
        one.suspend()
    yield
    resume(processes)


def resume(processes: Sequence[psutil.Process]) -> None:
    for one in processes:
        with suppress(psutil.NoSuchProcess):
            one.resume()


def kill(processes: Sequence[psutil.Process], *, but: int) -> psutil.Process:
    """Kills processes with SIGKILL, and returns the one that is left.

    The last started ones come first: a Python daemon that is left alone ends its workers.
    """
    (spared,) = (one for one in processes if one.pid == but)
    for one in reversed(processes):
        if one.pid != but:
            one.kill()
    return spared


def has_ended(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


@dataclass(frozen=True, slots=True)
class Disturbed:
    """A run under speculation, one of whose workers was killed while another run was begun.

    Attributes:
        fleet: its fleet.
        driver: its driver, which has ended.
        units: the units that the killed worker was at.
        second_attempts: how many tasks Spark began a second time before the worker was killed.
        other: the outcome of each query for the other run.
    """

    fleet: tuple[Target, ...]
    driver: Submitted
    units: tuple[Path, ...]
    second_attempts: int
    other: Mapping[str, str]


@pytest.fixture(scope="module")
def disturbed(
    cluster: Cluster,
    template: tuple[Target, ...],
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
) -> Disturbed:
    """Two tasks are paused at work. All else of their worker is killed, and one of them with it.

    Meanwhile Spark has begun both again, and another driver has tried the same fleet. The claims
    end 30 seconds later; then the task that was only paused comes back.
    """
    place = tmp_path_factory.mktemp("disturbed")
    fleet, worker = copy(template, place / "fleet"), cluster.second_worker()
    queries = str(write_queries(fleet, place / "queries.yaml"))
    driver = cluster.submit("disturbed", "maintain", "--queries", queries, "--json", conf=EAGER)
    at_work = pause_at_work(fleet, worker, driver, tasks=2)

    def second_attempts() -> int:
        return len(set(re.findall(r"Starting task \d+\.1 in stage \d+", driver.log.read_text())))

    before = second_attempts()  # at tasks that planned
    assert wait_until(lambda: second_attempts() > before, seconds=_SECONDS, needed=[driver.process])
    begun = second_attempts() - before
    with paused([one for other in cluster.workers if other != worker for one in tree(other)]):
        rows = maintain_fleet(spark, fleet, run="another").collect()
    spared_one, unit = next(iter(at_work.items()))
    spared = kill(tree(worker), but=spared_one)

    def taken_over() -> bool:  # there is a second claim, or the run has ended already
        return len(list((unit / "_statemaint" / "lease").glob("*.json"))) != 1

    assert wait_until(taken_over, seconds=_SECONDS, needed=[driver.process])
    resume([spared])
    assert driver.code() == 3, driver.log.read_text()
    assert wait_until(lambda: has_ended(spared), seconds=_SECONDS)
    other = {row["query"]: row["outcome"] for row in rows if row["operator"] is None}
    return Disturbed(fleet, driver, tuple(at_work.values()), begun, other)


def test_a_killed_worker_and_a_task_that_comes_back_lose_nothing_and_do_nothing_twice(
    disturbed: Disturbed, goal: Goal
) -> None:
    assert outcomes(disturbed.driver) == expected_codes(disturbed.fleet)
    must_be(goal, disturbed.fleet, disturbed=disturbed.units)


def test_spark_had_begun_tasks_a_second_time(disturbed: Disturbed) -> None:
    assert disturbed.second_attempts > 0


def test_a_second_driver_gets_no_query_that_the_first_is_at(disturbed: Disturbed) -> None:
    """A task that was paused at its very end has left nothing to do: its query has no row."""
    paused_at = {
        one.query
        for one in disturbed.fleet
        for unit in disturbed.units
        if unit.is_relative_to(one.checkpoint)
    }
    assert {disturbed.other[query] for query in paused_at if query in disturbed.other} == {"held"}


@dataclass(frozen=True, slots=True)
class Begun:
    """A run whose driver was killed at work, and the run that came after it.

    Attributes:
        fleet: its fleet.
        again: the driver that came after it, which has ended.
        units: the units that tasks were at when the first driver was killed.
    """

    fleet: tuple[Target, ...]
    again: Submitted
    units: tuple[Path, ...]


_AGAIN = {
    "a scheduler tries the run again": ("--run", "night", "--attempt", "2"),
    "an operator starts another run": ("--wait", "3m"),
}


@pytest.fixture(scope="module", params=_AGAIN)
def begun_again(
    request: pytest.FixtureRequest,
    cluster: Cluster,
    template: tuple[Target, ...],
    tmp_path_factory: pytest.TempPathFactory,
) -> Begun:
    """The driver is killed while its tasks work. Two of them are paused until all is over.

    The executors end with the driver, and the fleet is maintained by another one. Then the paused
    tasks come back, and find that their run has ended.
    """
    place = tmp_path_factory.mktemp("again")
    fleet, worker = copy(template, place / "fleet"), cluster.second_worker()
    name, queries = place.name, str(write_queries(fleet, place / "queries.yaml"))
    work = ("maintain", "--queries", queries, "--json")
    driver = cluster.submit(f"killed-{name}", *work, "--run", "night", "--attempt", "1")
    paused_tasks = pause_at_work(fleet, worker, driver, tasks=2)
    at_work = {*claims(fleet).values()}
    for one in reversed(tree(driver.process)):
        one.kill()
    assert wait_until(lambda: not any(map(executors, cluster.workers)), seconds=_SECONDS)
    at_work |= {*claims(fleet).values(), *paused_tasks.values()}
    again = cluster.submit(name, *work, *_AGAIN[request.param])
    assert again.code() == 3, again.log.read_text()
    signal_each([*paused_tasks], signal.SIGCONT)
    assert wait_until(lambda: all(map(is_over, paused_tasks)), seconds=_SECONDS)
    return Begun(fleet, again, tuple(at_work))


def executors(worker: Process) -> list[psutil.Process]:
    """Returns what runs below a worker; the shell that started it may be left as a zombie."""
    return [one for one in tree(worker)[1:] if not has_ended(one)]


def is_over(pid: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return has_ended(psutil.Process(pid))
    return True


def test_a_killed_driver_is_run_again_and_nothing_is_lost_or_done_twice(
    begun_again: Begun, goal: Goal
) -> None:
    assert len(begun_again.units) >= 2
    assert outcomes(begun_again.again) == expected_codes(begun_again.fleet)
    must_be(goal, begun_again.fleet, disturbed=begun_again.units)
