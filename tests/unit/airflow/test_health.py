from pathlib import Path

import pytest

from statemaint.airflow.hooks import health_of, longest_chain, repaired_health, valid_spark
from statemaint.errors import LeaseHeldError
from statemaint.execute.lease import acquire
from statemaint.maintain import maintain
from statemaint.maintain.record import read_record
from statemaint.model.policy import Policy
from statemaint.records.claims import Holder
from statemaint.storage import LocalStorage
from tests.support.checkpoints import write_checkpoint

LAST = 25


def made(folder: Path) -> LocalStorage:
    folder.mkdir()
    return write_checkpoint(LocalStorage(folder), last=LAST, batches=range(16, LAST), partitions=2)


def torn(folder: Path) -> LocalStorage:
    """Makes a checkpoint with a bad snapshot that the log can replace."""
    storage = made(folder)
    (folder / f"state/0/1/{LAST}.snapshot").write_bytes(b"torn")
    return storage


def test_a_query_that_restarts_is_healthy(tmp_path: Path) -> None:
    health = health_of(made(tmp_path / "c"))
    assert (health.reason, health.committed, health.chain) == (None, LAST - 1, LAST)
    assert health.to_json()["healthy"]


def test_a_missing_change_is_why_a_query_does_not_restart(tmp_path: Path) -> None:
    storage = made(tmp_path / "c")
    (tmp_path / "c/state/0/1/7.delta").unlink()
    found = health_of(storage, spark="4.3").to_json()
    assert found["reason"].startswith("the query would not restart: BROKEN_CHAIN: ")
    assert found["todo"][0]["command"] == f"statemaint doctor {storage.root}"


def test_a_bad_snapshot_stops_a_spark_that_does_not_pass_over_it(tmp_path: Path) -> None:
    storage = torn(tmp_path / "c")
    assert "unless its Spark is 4.2 or later: CORRUPT_FILE" in str(health_of(storage).reason)
    assert "with Spark 4.1.4: " in str(health_of(storage, spark="4.1.4").reason)
    assert health_of(storage, spark="4.2").reason is None
    assert health_of(storage, spark="4.10").reason is None


def test_a_repair_makes_it_healthy_and_names_its_run(tmp_path: Path) -> None:
    storage = torn(tmp_path / "c")
    health = repaired_health(storage)
    assert health.reason is None
    assert health.repaired
    record = read_record(storage)
    assert record is not None
    assert record.last is not None
    assert (record.last.run, record.last.failed) == (health.repaired, ())


def test_a_repair_that_waits_for_another_run_is_no_failed_run(tmp_path: Path) -> None:
    storage = torn(tmp_path / "c")
    acquire(storage, Holder("another"))
    with pytest.raises(LeaseHeldError):
        repaired_health(storage)
    assert read_record(storage) is None


def test_what_no_repair_can_prove_stays_broken(tmp_path: Path) -> None:
    storage = made(tmp_path / "c")
    (tmp_path / "c/state/0/1/7.delta").unlink()
    health = repaired_health(storage)
    assert health.reason is not None
    assert health.repaired is None


def test_the_longest_chain_is_read_from_listings(tmp_path: Path) -> None:
    storage = made(tmp_path / "c")
    assert longest_chain(storage) == LAST
    maintain(storage, Policy(min_batches_to_retain=5, grace=0.0))
    assert longest_chain(storage) == 0
    (tmp_path / f"c/state/0/1/{LAST}.snapshot").unlink()
    (tmp_path / f"c/state/0/1/{LAST}.delta").unlink()
    assert longest_chain(storage) is None


@pytest.mark.parametrize("version", ["4", "latest", "4.2-preview", ""])
def test_a_version_of_spark_has_numbers(version: str) -> None:
    with pytest.raises(ValueError, match="spark_version: must be"):
        valid_spark(version)
