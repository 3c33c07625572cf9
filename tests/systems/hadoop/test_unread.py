"""A directory of a real HDFS that may not be listed halts its own stores only."""

from typing import Any

import pytest

from statemaint.audit import verify
from statemaint.errors import IncompleteListingError, StorageError
from statemaint.maintain import maintain
from statemaint.model.findings import FindingCode
from statemaint.storage import HadoopStorage
from statemaint.storage.hadoop.jvm import Jvm
from tests.support.checkpoints import TIGHT, write_checkpoint
from tests.systems.conftest import FS


@pytest.fixture
def denied(folder: str, jvm: Jvm, admin: Any) -> HadoopStorage:
    """A checkpoint of three partitions, the second of which only the superuser may list."""
    storage = write_checkpoint(HadoopStorage(folder, jvm=jvm), partitions=3, last=12)
    path = jvm.java(FS + "Path")(f"{folder}/state/0/1")
    admin.setOwner(path, "superuser", "supergroup")
    admin.setPermission(path, jvm.java(FS + "permission.FsPermission")("700"))
    return storage


def test_a_listing_names_the_directory_and_yields_all_others(denied: HadoopStorage) -> None:
    found: list[str] = []
    with pytest.raises(IncompleteListingError, match=r"^state/0/1: no rights: ") as caught:
        found.extend(entry.path for entry in denied.list("state"))
    assert len(found) == 24
    assert not any(path.startswith("state/0/1/") for path in found)
    assert caught.value.lasting
    with pytest.raises(StorageError, match=r"^state/0/1: no rights"):
        list(denied.list("state/0/1"))


def test_the_other_partitions_are_maintained(denied: HadoopStorage) -> None:
    report = maintain(denied, TIGHT)
    damage = [one for one in report.findings if one.damage]
    assert [(str(one.store), one.path) for one in damage] == [
        ("op 0 / part 1 / default", "state/0/1")
    ]
    assert (report.exit_code, report.snapshots_written) == (5, 4)
    checked = [one for one in verify(denied, deep=True).findings if one.damage]
    assert [(str(one.store), one.path) for one in checked] == [
        ("op 0 / part 1 / default", "state/0/1")
    ]


@pytest.mark.parametrize(
    "kind",
    [
        ("555", "644", "state/0/1/12.snapshot", "maintainer"),
        ("755", "000", "state/0/1/", "stranger"),
    ],
    ids=["a folder to read only", "files that may not be read"],
)
def test_a_partition_that_may_not_be_written_or_read_halts_its_own_store(
    folder: str, jvm: Jvm, admin: Any, kind: tuple[str, str, str, str]
) -> None:
    folder_mode, file_mode, path, who = kind
    storage = write_checkpoint(HadoopStorage(folder, jvm=jvm), partitions=3, last=12)
    make, permission = jvm.java(FS + "Path"), jvm.java(FS + "permission.FsPermission")
    for entry in list(storage.list("state/0/1")):
        admin.setOwner(make(f"{folder}/{entry.path}"), who, who)
        admin.setPermission(make(f"{folder}/{entry.path}"), permission(file_mode))
    admin.setPermission(make(f"{folder}/state/0/1"), permission(folder_mode))
    before = {entry.path for entry in storage.list("state/0/1")}
    report = maintain(storage, TIGHT.override(trash_for=86_400.0))
    (damage,) = (one for one in report.findings if one.damage)
    assert (str(damage.store), damage.code) == (
        "op 0 / part 1 / default", FindingCode.STORAGE_FAILED
    )  # fmt: skip
    assert damage.detail.startswith(path)
    assert ": no rights: Permission denied: user=maintainer" in damage.detail
    assert (report.exit_code, report.snapshots_written) == (5, 4)
    assert {entry.path for entry in storage.list("state/0/1")} == before
