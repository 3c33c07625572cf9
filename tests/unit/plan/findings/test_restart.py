"""Whether a query restarts, by the findings of a look at its files."""

from dataclasses import replace

import pytest

from statemaint.model.checkpoint import Checkpoint
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import StoreId
from statemaint.model.verdict import Verdict
from statemaint.plan.findings.restart import is_doubt, is_replayable, resumes, verdict_by_names
from tests.support.checkpoints import STORE, checkpoint, store, versions


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (None, Verdict.HEALTHY),
        (FindingCode.CORRUPT_FILE, Verdict.DEGRADED),  # the changes below give its version
        (FindingCode.UNREADABLE_BY_QUERY, Verdict.BROKEN),
        (FindingCode.STORAGE_FAILED, Verdict.UNKNOWN),
    ],
)
def test_of_what_spoils_the_newest_batch_only_a_bad_snapshot_is_passed_over(
    code: FindingCode | None, verdict: Verdict
) -> None:
    seen = checkpoint(store("1d 2d 3d 3s"), batches=(2,))
    path = f"{STORE.directory}/3.snapshot"
    findings = () if code is None else (Finding(code, "", STORE, 3, path, batches=(2,)),)
    assert verdict_by_names(seen, findings) is verdict


@pytest.mark.parametrize(("changes", "replayable"), [(500, True), (501, False)])
def test_past_bad_snapshots_spark_replays_five_hundred_changes(
    changes: int, *, replayable: bool
) -> None:
    seen = checkpoint(store(versions("d", 1, changes)), batches=[changes - 1])
    assert is_replayable(seen, ()) is replayable
    assert is_replayable(replace(seen, batches=(), stores=(store("2d"),)), ())


def test_a_restart_loads_no_partition_that_the_newest_batch_does_not_have() -> None:
    seen = checkpoint(store("1d 2d 3d"), store("1d 2d", StoreId(0, 1)), batches=range(3))

    def loads(of: Checkpoint) -> tuple[bool, bool]:
        return resumes(of, ()), is_replayable(of, ())

    assert loads(seen) == (False, False)
    assert loads(replace(seen, counts={0: 2, 1: 2, 2: 1})) == (True, True)


@pytest.mark.parametrize(
    ("code", "name", "doubt"),
    [
        (FindingCode.STALE_CHECKSUM, ".3.delta.crc", True),
        (FindingCode.STALE_CHECKSUM, ".3.zip.crc", False),
        (FindingCode.ORPHAN_FILE, ".3.delta.crc", False),
    ],
)
def test_a_wrong_checksum_is_a_doubt_where_spark_does_not_read_it(
    code: FindingCode, name: str, *, doubt: bool
) -> None:
    assert is_doubt(Finding(code, "", STORE, path=f"{STORE.directory}/{name}")) is doubt
