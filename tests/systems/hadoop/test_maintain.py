"""Maintenance on a real HDFS does what it does on a local disk, byte for byte."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from statemaint.audit import verify
from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.report.run import Report
from statemaint.storage import HadoopStorage, LocalStorage, Storage
from statemaint.storage.hadoop.jvm import Jvm
from tests.checkpoints.archive import contents
from tests.support.checkpoints import TIGHT, state, write_checkpoint

DAY = 86400.0
Build = Callable[[Storage], object]


def _of_spark(storage: Storage) -> None:
    checkpoints = contents("4.3.0")
    for path, content in checkpoints[min(checkpoints)].items():
        storage.write(path, [content])


@pytest.mark.parametrize("build", [write_checkpoint, _of_spark], ids=["ours", "of Spark"])
def test_maintains_as_on_a_local_disk(build: Build, folder: str, jvm: Jvm, tmp_path: Path) -> None:
    ours, local = HadoopStorage(folder, jvm=jvm), LocalStorage(tmp_path)
    for storage in (ours, local):
        build(storage)
    for _ in range(2):
        assert _counts(maintain(ours, TIGHT)) == _counts(maintain(local, TIGHT))
        assert state(ours) == state(local)
    assert state(ours).keys() >= {"state/0/0/25.snapshot"} or build is not write_checkpoint
    assert verify(ours, deep=True).findings == ()
    assert not [entry for entry in ours.list("") if entry.name.endswith(".tmp")]


def _counts(report: Report) -> tuple[object, ...]:
    said = (report.exit_code, report.snapshots_written, report.files_deleted, report.bytes_deleted)
    return (*said, report.bytes_written)


def test_180_moves_are_a_rename_each_and_ask_little_of_the_files(folder: str, jvm: Jvm) -> None:
    """Before, each was asked about four times: 752 `stat` for 180 moves."""
    storage, stores = HadoopStorage(folder, jvm=jvm), 12
    write_checkpoint(storage, last=24, partitions=stores)
    policy = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0)
    maintain(storage, policy.override(grace=DAY))  # writes the snapshots
    before = Counter(storage.requests)
    report = maintain(storage, policy.override(trash_for=DAY))
    added = Counter(storage.requests) - before
    assert report.files_deleted.total() == 180
    # Of each store also directories, three records, and looks at base, lease and commit.
    assert added["rename"] <= 180 + 4 * stores
    assert added["stat"] <= 25 * stores
