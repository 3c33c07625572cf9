"""What executors do, without Spark."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from statemaint.execute.attempts import SubdirectoryStorage, UnitClaim
from statemaint.execute.lease import acquire, leased
from statemaint.maintain.bundles import Bundle
from statemaint.maintain.work import WorkOrder, maintain_part
from statemaint.model.policy import Policy
from statemaint.records.claims import Holder
from statemaint.spark import units
from statemaint.spark.fleet import Target
from statemaint.spark.frames import NOTED
from statemaint.spark.units import Piece, maintain_unit, prepare_query, task_workers, unit_piece
from statemaint.storage import LocalStorage, MemoryStorage
from tests.support.checkpoints import write_checkpoint

TIGHT = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=2, grace=0)
HOLDER = Holder("run")


@pytest.fixture
def target(tmp_path: Path) -> Target:
    write_checkpoint(LocalStorage(tmp_path), last=9, batches=range(6, 9), partitions=2)
    return Target("query", str(tmp_path), TIGHT)


def unit(target: Target, holder: Holder = HOLDER) -> list[dict[str, Any]]:
    return list(maintain_unit(unit_piece(target, *ordered(target, holder))[0]))


def ordered(target: Target, holder: Holder) -> tuple[WorkOrder, Bundle]:
    bundle = Bundle(0, (0, 1), 9, holder)
    return WorkOrder(target.query, target.policy, "run", (bundle,)), bundle


def test_a_plan_tells_the_driver_of_its_partitions_and_its_version(target: Target) -> None:
    rows = list(prepare_query(Piece(target, {"run": "r", "force_snapshot": False}).to_json()))
    note = json.loads(rows[-1]["note"])
    assert note["summary"]["target"] == 9
    assert [one[:2] for one in note["weights"]] == [[0, 0], [0, 1]]
    assert {row["run"] for row in rows} == {"r"}


def test_what_has_no_work_has_its_rows_from_the_plan(target: Target) -> None:
    lazy = Target(target.query, target.checkpoint, Policy(grace=1e9, min_deltas_for_snapshot=100))
    *rows, note = prepare_query(Piece(lazy, {"run": "r", "force_snapshot": False}).to_json())
    assert json.loads(note["note"])["summary"]["facts"]["sums"]["partitions"] == 2
    assert [(row["partition"], row["outcome"], row["chain_after"]) for row in rows] == [
        (0, "done", 9),
        (1, "done", 9),
    ]


def test_a_unit_is_as_heavy_as_its_bundle(target: Target) -> None:
    order, bundle = ordered(target, HOLDER)
    piece, weight = unit_piece(target, order, replace(bundle, weight=7.0))
    assert Piece.from_json(piece).options["weight"] == weight == 7.0


def test_a_unit_is_maintained_under_the_drivers_lease(target: Target) -> None:
    with leased(LocalStorage(Path(target.checkpoint)), HOLDER, keep=True):
        *rows, note = unit(target)
    assert json.loads(note["note"])["facts"]["sums"]["snapshots"] == 4
    assert [(row["partition"], row["outcome"], row["chain_after"]) for row in rows] == [
        (0, "done", 0),
        (1, "done", 0),
    ]
    assert {row["unit"] for row in rows} == {"op 0 / parts 0-1"}
    assert all(set(row) <= set(NOTED) for row in rows)


@pytest.mark.parametrize("holder", [None, Holder("another")])
def test_a_unit_that_outlives_its_driver_does_nothing(
    target: Target, holder: Holder | None
) -> None:
    before = sorted(Path(target.checkpoint).glob("state/**/*"))
    storage = LocalStorage(Path(target.checkpoint))
    if holder:
        with leased(storage, holder, keep=True):
            rows = unit(target)
    else:
        rows = unit(target)
    assert [row["exit_code"] for row in rows] == [4]
    assert "LEASE_LOST" in rows[0]["error"]
    assert "driver" in rows[0]["error"]
    assert sorted(Path(target.checkpoint).glob("state/**/*")) == before


def test_a_fault_of_ours_is_the_row_of_its_unit(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(units, "scan_with_logs", fault)
    rows = list(units.take_inventory(Piece(target).to_json()))
    assert [(row["exit_code"], row["error"]) for row in rows] == [
        (1, "FAULT: ZeroDivisionError: oops")
    ]


def test_a_task_keeps_within_the_memory_that_spark_gives_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("STATEMAINT_MEMORY", raising=False)
    monkeypatch.setenv("PYSPARK_EXECUTOR_MEMORY_MB", "512")
    assert task_workers(MemoryStorage()).memory == 512 * 1024 * 1024
    monkeypatch.setenv("STATEMAINT_MEMORY", "1GB")
    assert task_workers(MemoryStorage()).memory == 1_000_000_000
    monkeypatch.delenv("STATEMAINT_MEMORY")
    monkeypatch.setenv("PYSPARK_EXECUTOR_MEMORY_MB", "")
    assert task_workers(MemoryStorage()).memory is None


@pytest.mark.parametrize("lost", ["executor", "driver"])
def test_what_a_lost_attempt_wrote_and_deleted_counts_in_the_rows_and_the_record(
    target: Target, lost: str
) -> None:
    storage = LocalStorage(Path(target.checkpoint))
    holder = Holder("run", attempt=1 if lost == "executor" else 2)
    order, bundle = ordered(target, holder)
    with leased(storage, holder, keep=True):
        report = maintain_part(storage, order, bundle)  # it never reports this
        if lost == "executor":
            claim = UnitClaim(storage, holder.nonce, bundle.key)
            acquire(SubdirectoryStorage(storage, claim.folder), Holder("unit"), seconds=0.0)
        *rows, note = unit(target, holder)
    assert report.snapshots_written == sum(one["snapshots_written"] for one in rows) == 4
    assert report.bytes_written == sum(one["bytes_written"] for one in rows)
    deleted = report.files_deleted.total()
    assert deleted == sum(one["files_deleted"] for one in rows) > 0
    sums = json.loads(note["note"])["facts"]["sums"]
    assert (sums["snapshots"], sums["deleted"]) == (4, report.bytes_deleted)
