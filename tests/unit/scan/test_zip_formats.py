"""The format of a zip's metadata: Spark 4.0 reads only that of its sessions, with unique ids."""

from dataclasses import replace

import pytest

from statemaint.audit import verify
from statemaint.codec.rocksdb import snapshot_zip
from statemaint.errors import UnsupportedError
from statemaint.maintain import maintain
from statemaint.model.findings import FindingCode
from statemaint.model.policy import Policy
from statemaint.plan.reasons import WithheldReason
from statemaint.recover import repair
from statemaint.savepoint import savepoint
from statemaint.scan.query_logs import ENCODING, ROW_CHECKSUMS
from statemaint.scan.scanner import scan
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import offsets_bytes
from tests.support.rocks import PROVIDER, write_rocks_checkpoint

POLICY = Policy(min_deltas_for_snapshot=2, min_batches_to_retain=3, grace=0.0)
AS_4_0 = {"providerClass": PROVIDER, ENCODING: "unsaferow"}
AS_4_2 = {**AS_4_0, ROW_CHECKSUMS: "false"}


class Dest(MemoryStorage):
    """Another place than that of the checkpoint."""

    @property
    def root(self) -> str:
        return "memory:dest"


def checkpoint(conf: dict[str, str], *, with_ids: bool = True) -> MemoryStorage:
    storage = MemoryStorage()
    write_rocks_checkpoint(storage, last=9, batches=range(5, 9), partitions=1, with_ids=with_ids)
    for batch in range(5, 9):
        storage.write(f"offsets/{batch}", [offsets_bytes(conf)], overwrite=True)
    return storage


def zips(storage: MemoryStorage) -> dict[str, str]:
    """Returns the format of each zip's metadata, by its path."""
    paths = (path for path in storage.files if path.endswith(".zip"))
    return {path: snapshot_zip.parse_metadata(storage.read(path)).format for path in paths}


def executors(storage: MemoryStorage, word: str) -> MemoryStorage:
    """Makes the zips in a storage those of executors, in a format."""
    for path in zips(storage):
        members = snapshot_zip.members(storage.read(path))
        metadata = replace(snapshot_zip.metadata_of(members), format=word)
        storage.write(path, [snapshot_zip.render(members, metadata)], overwrite=True)
    for path in [path for path in storage.files if path.startswith("_statemaint/")]:
        storage.delete(path)
    return storage


def put_ours_as(storage: MemoryStorage, word: str) -> str:
    """Makes the newest zip one of ours, in a format; returns its path."""
    path = max(zips(storage))
    members = snapshot_zip.members(storage.read(path))
    metadata = replace(snapshot_zip.metadata_of(members), format=word)
    storage.write(path, [snapshot_zip.render(members, metadata, mark=True)], overwrite=True)
    return path


def snapshotted(word: str) -> MemoryStorage:
    """Returns a checkpoint of Spark 4.0 with zips of executors in a format."""
    storage = checkpoint(AS_4_2)
    assert maintain(storage, POLICY).snapshots_written == 2
    for batch in range(5, 9):
        storage.write(f"offsets/{batch}", [offsets_bytes(AS_4_0)], overwrite=True)
    return executors(storage, word)


def test_without_any_zip_no_zip_is_written_for_spark_4_0_with_unique_ids() -> None:
    storage = checkpoint(AS_4_0)
    before = dict(storage.files)
    report = maintain(storage, POLICY)
    assert {one.wait.reason for one in report.withheld} == {WithheldReason.UNSETTLED}
    assert {path for path in storage.files if path.startswith("state/")} == {
        path for path in before if path.startswith("state/")
    }
    dest = Dest()
    with pytest.raises(UnsupportedError, match="there is no zip that shows which"):
        savepoint(storage, dest)
    assert not dest.files


@pytest.mark.parametrize("conf", [AS_4_2, {"providerClass": PROVIDER}])
def test_every_other_spark_reads_the_plain_format(conf: dict[str, str]) -> None:
    storage = checkpoint(conf)
    assert maintain(storage, POLICY).snapshots_written
    assert {*zips(storage).values()} == {"v1"}


def test_without_unique_ids_the_plain_format_is_written() -> None:
    storage = checkpoint(AS_4_0, with_ids=False)
    assert maintain(storage, POLICY).snapshots_written
    assert {*zips(storage).values()} == {"v1"}


def test_a_checksum_file_of_spark_s_is_of_spark_4_1_or_later() -> None:
    storage = checkpoint(AS_4_0)
    changes = [path for path in storage.files if path.endswith(".changelog")]
    for path in changes:
        storage.write(f"{path}.crc", [b"{}"])
    (store,) = scan(storage).stores
    assert not store.unsettled


@pytest.mark.parametrize("word", ["v1", "v2"])
def test_a_savepoint_has_the_format_of_the_executors_zips(word: str) -> None:
    storage, dest = snapshotted(word), Dest()
    storage.delete(max(zips(storage)))
    assert verify(storage, deep=True).healthy
    savepoint(storage, dest)
    assert {*zips(dest).values()} == {word}
    assert verify(dest, deep=True).healthy


def test_the_format_of_spark_4_0_is_damage_for_a_later_spark() -> None:
    storage = snapshotted("v2")
    for batch in range(5, 9):
        storage.write(f"offsets/{batch}", [offsets_bytes(AS_4_2)], overwrite=True)
    (store,) = scan(storage).stores
    assert store.rocks is not None
    assert {*store.rocks.unsound} == {*zips(storage)}
    assert all("which only Spark 4.0 reads" in why for why in store.rocks.unsound.values())


def test_after_an_upgrade_our_zip_counts_whatever_the_executors_of_spark_4_0_had() -> None:
    storage = snapshotted("v2")
    path = put_ours_as(storage, "v1")
    for batch in range(5, 9):
        storage.write(f"offsets/{batch}", [offsets_bytes(AS_4_2)], overwrite=True)
    (store,) = scan(storage).stores
    assert store.rocks is not None
    assert {*store.rocks.unsound} == {*zips(storage)} - {path}


def test_our_zip_in_another_format_than_the_executors_is_damage_and_is_repaired() -> None:
    storage = snapshotted("v2")
    path = put_ours_as(storage, "v1")
    found = verify(storage)
    assert [one.code for one in found.findings if one.damage] == [FindingCode.CORRUPT_FILE]
    assert "Spark 4.0 reads only that of its sessions" in found.findings[0].detail
    repair(storage, trash_for=0)
    assert zips(storage)[path] == "v2"
    assert verify(storage, deep=True).healthy
