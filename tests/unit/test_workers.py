"""Threads side by side: what they yield, how many there are, and that they stop when told."""

from collections.abc import Iterator
from threading import Barrier, Event, Lock, current_thread
from typing import Any, Self

import pytest

from statemaint import workers
from statemaint.errors import ConfigError
from statemaint.memory import Budget, memory_from, memory_size
from statemaint.workers import Job, Workers, as_they_come, cores, in_order, in_turn

WAIT = 30


class Crowd:
    """Counts how many are inside at once."""

    def __init__(self) -> None:
        self.inside, self.most, self._lock = 0, 0, Lock()

    def __enter__(self) -> Self:
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.inside -= 1


def test_there_is_a_core() -> None:
    assert cores() >= 1


def test_the_number_of_threads_goes_by_the_storage_and_the_size() -> None:
    mib = 1024 * 1024
    assert Workers().threads(1, 31 * mib) == 1
    assert Workers().threads(1, 32 * mib) == 2 * cores()
    assert Workers().threads(32, 0) == 32


def test_results_come_in_the_order_of_their_jobs() -> None:
    first = Event()

    def last() -> int:
        first.set()
        return 2

    jobs = [lambda: first.wait(WAIT) and 1, last]
    assert list(in_order(jobs, threads=2)) == [1, 2]


def test_one_thread_is_the_callers_own_where_an_interrupt_ends_a_job_at_once() -> None:
    assert set(in_order([current_thread] * 3, threads=1)) == {current_thread()}
    assert current_thread() not in set(in_order([current_thread] * 3, threads=2))
    assert list(as_they_come([Job(lambda: iter([current_thread()]))], threads=1)) == [
        current_thread()
    ]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_item_comes_once_and_those_of_a_job_in_their_order(threads: int) -> None:
    def items(number: int) -> Iterator[tuple[int, int]]:
        yield from ((number, item) for item in range(number))

    jobs = [Job(lambda number=number: items(number)) for number in range(8)]  # type: ignore[misc]
    found = list(as_they_come(jobs, threads=threads))
    for number in range(8):
        assert [item for job, item in found if job == number] == list(range(number))
    assert len(found) == 28


def test_as_many_jobs_run_at_once_as_there_are_threads() -> None:
    crowd, meet = Crowd(), Barrier(3)

    def items() -> Iterator[int]:
        with crowd:
            meet.wait(WAIT)  # breaks, unless three are here together
            yield 1

    assert sum(as_they_come([Job(items)] * 9, threads=3)) == 9
    assert crowd.most == 3


def test_one_thread_makes_an_item_when_it_is_asked_for() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for number in range(3):
            made.append(number)
            yield number

    both = as_they_come([Job(items), Job(items)], threads=1)
    assert (next(both), made) == (0, [0])
    both.close()
    assert made == [0]


def test_a_caller_who_stops_ends_every_job_between_two_items_and_starts_no_other() -> None:
    begun: list[int] = []
    closed: list[int] = []
    on = Event()

    def items(number: int) -> Iterator[int]:
        begun.append(number)
        try:
            yield number
            on.wait(WAIT)
            while True:
                yield number
        finally:
            closed.append(number)

    jobs = [Job(lambda number=number: items(number)) for number in range(5)]  # type: ignore[misc]
    found = as_they_come(jobs, threads=2)
    assert {next(found), next(found)} == {0, 1}
    on.set()
    found.close()
    assert sorted(begun) == sorted(closed) == [0, 1]


def test_an_error_of_one_job_ends_the_others_and_is_raised() -> None:
    running = Event()

    def endless() -> Iterator[int]:
        while True:
            running.set()
            yield 1

    def fails() -> Iterator[int]:
        running.wait(WAIT)
        nothing: dict[str, int] = {}
        yield nothing["gone"]

    with pytest.raises(KeyError, match="gone"):
        list(as_they_come([Job(endless), Job(fails)], threads=2))


@pytest.mark.parametrize(("need", "most"), [(1, 4), (25, 4), (30, 3), (50, 2), (51, 1), (1000, 1)])
def test_jobs_wait_for_their_memory(need: int, most: int) -> None:
    crowd, begun = Crowd(), Barrier(most)

    def items() -> Iterator[Any]:
        with crowd:
            begun.wait(WAIT)
            yield None

    jobs = [Job(items, need)] * (4 * most)
    assert len(list(as_they_come(jobs, threads=4, budget=Budget(100)))) == len(jobs)
    assert crowd.most == most


def test_a_budget_is_measured_once_when_a_part_of_it_is_held() -> None:
    measured = []

    def measure() -> int:
        measured.append(10)
        return 10

    budget = Budget(measure)
    with budget.hold(0):
        assert not measured
    with budget.hold(4), budget.hold(6), budget.hold(0):
        assert measured == [10]
    assert (budget.total, measured) == (10, [10])


def test_a_job_that_fails_gives_its_memory_back() -> None:
    budget = Budget(10)
    with pytest.raises(KeyError), budget.hold(10):
        raise KeyError
    with budget.hold(10):
        pass


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1B", 1), ("512MB", 512_000_000), ("1GB", 10**9), ("1.5 GB", 1_500_000_000),
        ("64KiB", 65_536), ("1GiB", 1 << 30), (" 2TB ", 2 * 10**12), ("0.5KiB", 512),
    ],
)  # fmt: skip
def test_a_size_of_memory_is_a_number_and_a_unit(text: str, size: int) -> None:
    assert memory_size(text) == size
    assert memory_from({"STATEMAINT_MEMORY": text}) == size


@pytest.mark.parametrize(
    "text", ["512", "", "0MB", "0.1B", "-1GB", "1gb", "1 PB", "1e9B", "\u0661MB"]
)
def test_anything_else_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ConfigError, match="write it like 512MB, 1GB or 1GiB"):
        memory_size(text)


def test_the_variable_counts_where_it_is_set_and_is_named_where_it_is_wrong() -> None:
    assert memory_from({}) is memory_from({"STATEMAINT_MEMORY": ""}) is None
    with pytest.raises(ConfigError, match="STATEMAINT_MEMORY: 'much' is not a size"):
        memory_from({"STATEMAINT_MEMORY": "much"})


def test_a_caller_may_give_a_number_alone() -> None:
    assert Workers.of(3) == Workers(3)
    assert Workers.of(None) == Workers()
    assert Workers.of(Workers(2, 5)) == Workers(2, 5)
    assert Workers(3).threads(32, 0) == 3
    assert Workers().threads(32, 0) == 32


def test_stores_share_what_the_process_leaves_of_the_memory_and_never_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gib = 1 << 30
    assert gib // 4 <= Workers(memory=gib).budget().total < gib
    monkeypatch.setattr(workers, "resident_memory", lambda: gib // 8)
    assert Workers(memory=gib).budget().total == gib - gib // 8
    assert Workers(memory=gib).budget(loading=gib // 4).total == gib - gib // 8 - gib // 4
    assert Workers(memory=gib).budget(loading=gib).total == gib // 4
    assert Workers(memory=1000).budget().total == 250
    assert Workers(memory=1).budget().total == 1
    assert Workers().budget().total > 0


@pytest.mark.parametrize(
    ("parallel", "jobs", "ahead"), [(1, 9, 1), (32, 1, 32), (32, 5, 6), (32, 32, 1), (32, 900, 1)]
)
def test_what_stores_leave_of_the_storages_requests_fetches_ahead(
    parallel: int, jobs: int, ahead: int
) -> None:
    assert Workers().ahead(parallel, jobs, 0) == ahead


def test_the_largest_job_starts_first_and_results_keep_the_order_of_the_jobs() -> None:
    begun: list[int] = []

    def job(size: int) -> Job[int]:
        def start() -> Iterator[int]:
            begun.append(size)
            yield size

        return Job(start, 10, size)

    sizes = [3, 1, 4, 1, 5]
    # One at a time: each takes the whole budget.
    assert in_turn([job(one) for one in sizes], threads=3, budget=Budget(10)) == sizes
    assert begun[0] == 5
    begun.clear()
    assert in_turn([job(one) for one in sizes], threads=1) == begun == sizes


def test_a_job_may_find_its_need_out_itself_in_its_thread() -> None:
    asked: list[object] = []

    def need() -> int:
        asked.append(current_thread())
        return 10

    jobs = [Job(lambda: iter([1]), need)] * 3
    assert in_turn(jobs, threads=2, budget=Budget(10)) == [1, 1, 1]
    assert len(asked) == 3
    assert current_thread() not in asked
    asked.clear()
    assert in_turn(jobs, threads=2) == in_turn(jobs, threads=1, budget=Budget(10)) == [1, 1, 1]
    assert asked == []


def test_stop_is_called_where_jobs_are_left_and_not_at_the_end() -> None:
    calls: list[bool] = []

    def items() -> Iterator[int]:
        yield 1

    def fails() -> Iterator[int]:
        nothing: dict[str, int] = {}
        yield nothing["gone"]

    in_turn([Job(items)] * 4, threads=2, stop=lambda: calls.append(True))
    assert calls == []
    with pytest.raises(KeyError):
        in_turn([Job(items), Job(fails)], threads=2, stop=lambda: calls.append(True))
    assert calls == [True]
