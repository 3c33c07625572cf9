"""The restarts of a query in an event log, as Spark's listeners write it."""

from typing import Any

import pytest

from statemaint.codec.metadata.event_log import PastRestart, restarts
from tests.support.event_logs import QUERY, event, header
from tests.support.event_logs import progress as progress_at
from tests.support.event_logs import started as started_at

NOON = 1_700_000_000.0


def started(run: str, second: float, query: str = QUERY) -> bytes:
    return started_at(run, NOON + second, query)


def progress(run: str, batch: int, second: float, whole: int, added: int | None) -> bytes:
    return progress_at(run, batch, NOON + second, whole, added)


def found(*lines: bytes, cores: int = 4, cpus: object = "2") -> list[PastRestart]:
    return [*restarts((*header(cores, cpus), *lines), QUERY)]


def test_a_restart_takes_from_the_start_to_the_end_of_its_first_batch() -> None:
    lines = (started("a", 0), progress("a", 7, 1.5, 2500, 2000))
    assert found(*lines) == [PastRestart(7, NOON, 4.0, warm=False, spark="4.3.0", slots=4)]


@pytest.mark.parametrize(("added", "seconds"), [((400, 600), 4.0 - 0.5), ((8000, 9000), 0.0)])
def test_what_later_batches_take_is_no_time_of_the_restart(
    added: tuple[int, int], seconds: float
) -> None:
    later = [progress("a", batch, 10 * batch, 600, took) for batch, took in enumerate(added, 8)]
    (restart,) = found(started("a", 0), progress("a", 7, 1.5, 2500, 2000), *later)
    assert restart.seconds == pytest.approx(seconds)


def test_a_trigger_without_a_batch_is_not_the_first() -> None:
    lines = (started("a", 0), progress("a", 7, 1, 30, None), progress("a", 7, 9, 1000, 900))
    (restart,) = found(*lines)
    assert restart.seconds == 10.0


def test_the_second_start_of_a_process_is_warm() -> None:
    lines = [started("a", 0), progress("a", 7, 1, 1000, 900)]
    lines += [started("b", 30), progress("b", 8, 31, 1000, 900)]
    assert [restart.warm for restart in found(*lines)] == [False, True]


def test_an_executor_that_has_left_has_no_slots() -> None:
    gone = event("SparkListenerExecutorRemoved", **{"Executor ID": "2"})
    (restart,) = found(gone, gone, started("a", 0), progress("a", 7, 1, 1000, 900), cpus="1")
    assert restart.slots == 4


def test_a_log_that_names_neither_its_spark_nor_its_cores_has_none() -> None:
    added = event("SparkListenerExecutorAdded", **{"Executor ID": "1"})
    begin = (event("SparkListenerLogStart"), added, started("a", 0))
    (restart,) = restarts((*begin, progress("a", 7, 1, 1000, 900)), QUERY)
    assert (restart.spark, restart.slots) == ("", 0)


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [started("a", 0)],
        [started("a", 0, "another-query"), progress("a", 7, 1, 1000, 900)],
        [started("a", 0), progress("b", 7, 1, 1000, 900)],
        [started("a", 0), progress("a", 0, 1, 1000, 900)],  # its first start of all
        [started("a", 0), progress("a", 7, 1, 1000, 900)[:-20]],  # a torn line
        [started("a", 0).replace(b"2023-", b"at "), progress("a", 7, 1, 1000, 900)],
        [b'{"Event":"SparkListenerLogStart","a":' + b"[" * 100_000],
        [b"", b"[]", b'{"Event":"SparkListenerLogStart"', b"\xff\xfe"],
    ],
)
def test_what_shows_no_restart_of_the_query_is_passed_over(lines: list[bytes]) -> None:
    assert found(*lines) == []


@pytest.mark.parametrize("cpus", ["", "many", "0", None])
def test_a_setting_of_no_sense_counts_as_one_cpu_a_task(cpus: Any) -> None:
    (restart,) = found(started("a", 0), progress("a", 7, 1, 1000, 900), cpus=cpus)
    assert restart.slots == 8
