"""The examples of queries run, and their state is maintained from outside."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from statemaint.cli.main import program
from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.report.run import Report
from statemaint.storage import LocalStorage
from tests.support.paths import ROOT

EXAMPLES = ROOT / "docs/examples"
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
POLICY = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=2, grace=0, orphan_age=0)
Row = Mapping[str, Any]


def example(name: str) -> dict[str, Any]:
    return run_path(str(EXAMPLES / name))


def session_of(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Returns a session with an example's settings; few partitions, and a short history."""
    session = spark.newSession()
    for name, value in settings.items():
        session.conf.set(name, value)
    session.conf.set("spark.sql.shuffle.partitions", "2")
    session.conf.set("spark.sql.streaming.minBatchesToRetain", "2")
    return session


def write(folder: Path, number: int, rows: Iterable[Row]) -> None:
    folder.mkdir(exist_ok=True)
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    (folder / f".{number}").write_text(lines)
    (folder / f".{number}").rename(folder / f"{number}.json")


def maintained(checkpoint: Path) -> Report:
    report = maintain(LocalStorage(checkpoint), POLICY)
    assert report.exit_code == 0, report.findings
    return report


def restarts(checkpoint: Path) -> bool:
    done = CliRunner().invoke(program, ["doctor", str(checkpoint), "--deep"])
    return done.exit_code == 0


def names(checkpoint: Path, kind: str) -> set[str]:
    return {
        str(one.relative_to(checkpoint)) for one in (checkpoint / "state").rglob(f"[0-9]*{kind}")
    }


def at(**delta: int) -> str:
    return (EPOCH + timedelta(**delta)).isoformat()


def orders(hour: int) -> list[Row]:
    """Returns an hour's orders, one of which is told twice."""
    found = [
        {
            "order_id": f"{hour}-{number}",
            "region": "AB"[number % 2],
            "amount_cents": 100,
            "ordered_at": at(hours=hour, minutes=number),
        }
        for number in range(10)
    ]
    return [*found, found[3]]


@pytest.mark.slow
def test_the_hourly_query_is_maintained_after_its_runs_and_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = example("hourly_revenue.py")
    session = session_of(spark, query["SETTINGS"])
    places = [str(tmp_path / name) for name in ("orders", "revenue", "checkpoint")]
    checkpoint = Path(places[2])
    reports = []
    for hour in range(4):
        write(tmp_path / "orders", hour, orders(hour))
        query["run"](session, *places)
        if hour >= 2:
            assert bool(names(checkpoint, ".snapshot")) == (hour > 2)
            reports.append(maintained(checkpoint))
    assert restarts(checkpoint)
    assert reports[0].snapshots_written > 0
    assert sum(report.files_deleted.total() for report in reports) > 0
    rows = session.read.parquet(places[1]).collect()
    assert {row.orders for row in rows} == {5}
    assert {row.hour.start.hour for row in rows} >= {0, 1}
    assert len(rows) == len({(row.hour.start, row.region) for row in rows})


def readings(number: int) -> list[Row]:
    """Returns the readings of some minutes, of three devices."""
    return [
        {"device": device, "celsius": 20.0 + number, "read_at": at(minutes=5 * number)}
        for device in "abc"
    ]


@pytest.mark.slow
def test_the_long_running_query_is_maintained_while_it_runs_and_restarts(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = example("device_readings.py")
    session = session_of(spark, query["SETTINGS"])
    places = [str(tmp_path / name) for name in ("readings", "means", "checkpoint")]
    checkpoint = Path(places[2])
    write(tmp_path / "readings", 0, readings(0))
    reports = []
    for first in (1, 5):  # the second time it is started again
        running = query["start"](session, *places, every="0 seconds")
        for number in range(first, first + 4):
            write(tmp_path / "readings", number, readings(number))
            running.processAllAvailable()
        assert running.isActive
        reports.append(maintained(checkpoint))
        assert running.exception() is None
        running.stop()
    assert restarts(checkpoint)
    assert [report.snapshots_written for report in reports] == [
        4,
        4,
    ]  # at the target and at the floor
    assert not any(one.code.value == "FOREIGN_MAINTAINER" for one in reports[1].findings)
    rows = session.read.parquet(places[1]).collect()
    assert sorted({(row.celsius, row.readings) for row in rows})[:5] == [
        (20.0 + number, 1) for number in range(5)
    ]
