"""The line that Python shows of a result, and the table that a notebook shows."""

import re

import pytest

from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import RecoveryVerb, StoreId
from statemaint.plan.actions import WriteSnapshot
from statemaint.plan.reasons import SnapshotReason
from statemaint.plan.recovery.recovery_plan import RecoveryPlan, Remove, RemoveReason, RepairStep
from statemaint.wording import Displayed
from tests.support.checkpoints import STORE, checkpoint, store

BAD = Finding(FindingCode.CORRUPT_FILE, "a byte differs", STORE, 2, "2.snapshot")
COLUMNS = ["operatorId", "partitionId", "storeName"]
REMOVE = Remove(Entry("2.snapshot", 9, None), RemoveReason.BAD_SNAPSHOT, STORE, 2)
WRITE = WriteSnapshot(STORE, "2.snapshot", Chain(2, None, ()), SnapshotReason.REBUILT)


@pytest.mark.parametrize(
    ("result", "line", "table"),
    [
        (
            checkpoint(
                store("1d 2d 3s 4d", StoreId(0, 0)),
                store("1d 2d 3d 4d", StoreId(0, 1)),
                store("1d", StoreId(2, 0, "left")),
                batches=range(4),
            ),
            "Checkpoint('memory:', batch 3, 2 operators, 3 stores)",
            [
                [*COLUMNS, "snapshots", "chain", "files", "bytes"],
                ["2", "0", "left", "0", "broken", "1", "100"],
                ["0", "1", "default", "0", "4", "4", "400"],
                ["0", "0", "default", "1", "1", "4", "400"],
            ],
        ),
        (
            Checkpoint("memory:", stores=(store("1d"),), findings=(BAD,)),
            "Checkpoint('memory:', nothing committed, 1 operator, 1 store, 1 finding)",
            [
                [*COLUMNS, "snapshots", "chain", "files", "bytes"],
                ["0", "0", "default", "0", "0", "1", "100"],
            ],
        ),
        (
            BAD,
            "Finding(CORRUPT_FILE, a byte differs)",
            [
                ["code", *COLUMNS, "path", "detail"],
                ["CORRUPT_FILE", "0", "0", "default", "2.snapshot", "a byte differs"],
            ],
        ),
        (
            Finding(FindingCode.NO_STATE, "it is missing"),
            "Finding(NO_STATE, it is missing)",
            [
                ["code", *COLUMNS, "path", "detail"],
                ["NO_STATE", "", "", "", "", "it is missing"],
            ],
        ),
        (
            RecoveryPlan(
                RecoveryVerb.REPAIR,
                "memory:",
                "",
                None,
                repairs=(RepairStep(BAD, (REMOVE,), 2, rebuild=WRITE),),
                unrepaired=("1.delta is missing",),
            ),
            "RecoveryPlan('memory:', repair, 1 file to move to the trash, 1 damage left)",
            [
                ["action", "path", "reason"],
                ["move to the trash", "2.snapshot", "bad snapshot"],
                ["write", "2.snapshot", "rebuilt"],
            ],
        ),
        (
            RecoveryPlan(RecoveryVerb.ROLLBACK, "/q", "", 7),
            "RecoveryPlan('/q', rollback to batch 7, 0 files to move to the trash, all proved)",
            [],
        ),
    ],
    ids=["checkpoint", "new", "finding", "of all", "repair", "rollback"],
)
def test_a_result_is_shown_as_a_line_and_a_table(
    result: Displayed, line: str, table: list[list[str]]
) -> None:
    assert repr(result) == line
    rows = result._repr_html_().split("<tr>")[1:]
    assert [re.findall("<t[hd]>(.*?)</t[hd]>", row) for row in rows] == table
