"""The records that a fleet on Spark leaves for its metrics, compared with the command line's."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from statemaint.cli.main import program as command_line
from statemaint.maintain.record import read_record
from statemaint.report.record import Cause, Record
from statemaint.spark import Target, maintain_fleet, verify_fleet
from statemaint.spark.reporting import note_verifications
from statemaint.storage import LocalStorage
from tests.support.checkpoints import offsets_bytes, write_checkpoint
from tests.systems.spark.fleets import FLAGS, POLICY

QUERIES = 60
# What a run costs depends on who runs it, and in how many tasks.
COSTS = ("requests", "seconds", "memory", "tasks")


def write_sixty(root: Path, *, every_unit: bool = False) -> tuple[Target, ...]:
    """Writes a fleet: every tenth query is damaged, has an unknown codec, or was never started."""
    fleet = []
    for number in range(QUERIES):
        place = root / f"q{number:02}"
        place.mkdir(parents=True)
        fleet.append(Target(place.name, str(place), POLICY, every_unit))
        if number % 10 == 3:
            continue
        write_checkpoint(LocalStorage(place), partitions=1 + number % 4)
        if number % 10 == 1:
            (place / "state/0/0/20.delta").unlink()
        if number % 10 == 2:
            (place / "offsets/24").write_bytes(offsets_bytes(codec="gzip"))
    return tuple(fleet)


def record_of(target: Target) -> Record | None:
    return read_record(LocalStorage(Path(target.checkpoint)))


def told(target: Target) -> Any:
    """Returns all that the record of a query tells of it, without times and costs."""
    record = record_of(target)
    if record is None or record.last is None:
        return record
    known = record.last.facts.to_json() if record.last.facts else {}
    kept = {
        name: {key: one for key, one in value.items() if key not in COSTS}
        if isinstance(value, dict)
        else value
        for name, value in known.items()
        if name != "snapshot"
    }
    totals = {key: one for key, one in record.totals.items() if not key.startswith("requests/")}
    last = record.last
    return (
        (last.failed, last.silent, last.storage_errors, last.committed, last.lag),
        (kept, totals, record.success is None, record.verified and record.verified.healthy),
        (record.trash and (record.trash.files, record.trash.bytes)),
    )


def by_command_line(fleet: Iterable[Target], verb: str, *flags: str) -> None:
    for one in fleet:
        CliRunner().invoke(command_line, [verb, one.checkpoint, *flags])


@pytest.mark.parametrize("every_unit", [False, True])
def test_sixty_queries_on_spark_have_the_records_of_the_command_line(
    spark: SparkSession, tmp_path: Path, *, every_unit: bool
) -> None:
    ours = write_sixty(tmp_path / "spark", every_unit=every_unit)
    theirs = write_sixty(tmp_path / "cli")
    maintain_fleet(spark, ours, run="fleet")
    by_command_line(theirs, "maintain", *FLAGS, *(["--detail=partition"] if every_unit else []))
    for one, other in zip(ours, theirs, strict=True):
        assert told(one) == told(other), one.query
    records = {one.query: record_of(one) for one in ours}
    assert sum(one is not None for one in records.values()) == QUERIES * 9 // 10
    for query, cause in {"q01": Cause.DAMAGE, "q02": Cause.PLAN, "q00": None}.items():
        record = records[query]
        assert record is not None
        assert record.last is not None
        assert record.last.failed == ((cause,) if cause else ())
    facts = records["q00"] and records["q00"].known and records["q00"].known.facts
    assert facts
    assert len(facts.units) == every_unit


def test_a_verification_on_spark_is_in_the_records_as_by_the_command_line(
    spark: SparkSession, tmp_path: Path
) -> None:
    ours, theirs = write_sixty(tmp_path / "spark"), write_sixty(tmp_path / "cli")
    table = verify_fleet(spark, ours, shares=2).collect()
    note_verifications(ours, (row.asDict(recursive=True) for row in table))
    by_command_line(theirs, "verify")
    for one, other in zip(ours, theirs, strict=True):
        record, expected = record_of(one), record_of(other)
        assert (record is None) == (expected is None), one.query
        if record and expected:
            assert record.verified
            assert expected.verified
            assert record.verified.healthy == expected.verified.healthy, one.query
            assert record.verdicts == expected.verdicts, one.query
    assert sum(record_of(one) is not None for one in ours) == QUERIES * 8 // 10


def test_a_repeated_attempt_at_a_run_counts_once(spark: SparkSession, tmp_path: Path) -> None:
    target = write_sixty(tmp_path)[0]
    maintain_fleet(spark, [target], run="one", attempt=1)
    first = record_of(target)
    maintain_fleet(spark, [target], run="one", attempt=2)
    again = record_of(target)
    assert first is not None
    assert again is not None
    assert again.totals["runs/succeeded"] == first.totals["runs/succeeded"] == 1
