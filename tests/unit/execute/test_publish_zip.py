"""A zip is put in place after its SST files, with a checksum file where the query writes these."""

from pathlib import Path

import pytest

from statemaint.codec.integrity.digest import StateDigest
from statemaint.codec.rocksdb import snapshot_zip
from statemaint.codec.rocksdb.snapshot_zip import ImmutableFile, ZipMetadata
from statemaint.errors import LeaseLostError, Superseded
from statemaint.execute.publish import publish_zip
from statemaint.fold.rocksdb.write import Built, Fresh
from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.files import Delta
from statemaint.plan.actions import WriteSnapshot
from statemaint.plan.reasons import SnapshotReason
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import STORE

HOME = STORE.directory
SST = "000008-82f52d94-7c5c-45e0-a72c-f24a4fab8a5d.sst"
TABLE, ZIP, CHANGE = f"{HOME}/SSTs/{SST}", f"{HOME}/2.zip", f"{HOME}/2.changelog"
DIGEST = StateDigest(3, 40, "0" * 32)


@pytest.fixture
def made(tmp_path: Path) -> Built:
    local = tmp_path / "000008.sst"
    local.write_bytes(b"table")
    metadata = ZipMetadata((ImmutableFile("000008.sst", SST, 5),))
    return Built(2, metadata, {"CURRENT": b"x"}, (Fresh(local, SST, 5),), (), DIGEST)


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage({CHANGE: b"change"})


def write(*, checksum: bool) -> WriteSnapshot:
    chain = Chain(2, None, (Delta(2, Entry(CHANGE, 6, None)),))
    return WriteSnapshot(STORE, ZIP, chain, SnapshotReason.FORCED, checksum=checksum)


@pytest.mark.parametrize("checksum", [False, True])
def test_a_zip_has_a_checksum_file_where_its_query_writes_them(
    storage: MemoryStorage, made: Built, *, checksum: bool
) -> None:
    there: list[int] = []

    def before() -> None:
        there.append(len(storage.files))

    def last() -> None:
        there.append(-1)

    found = publish_zip(
        storage, write(checksum=checksum), made, like=CHANGE, before=before, last=last
    )
    content = snapshot_zip.render(made.members, made.metadata, mark=True)
    assert storage.read(ZIP) == content
    assert storage.read(TABLE) == b"table"
    assert there == [1, 1, -1, 2]
    assert (found.entry.path, found.written, found.digest) == (ZIP, len(content) + 5, DIGEST)
    assert (found.checksum and found.checksum.path) == (f"{ZIP}.crc" if checksum else None)
    assert (f"{ZIP}.crc" in storage.files) is checksum
    assert ([one.path for one in found.parts], found.refers) == ([TABLE], {TABLE: 5})


def test_a_zip_that_must_not_come_leaves_nothing(storage: MemoryStorage, made: Built) -> None:
    def last() -> None:
        assert TABLE in storage.files
        raise Superseded("state/0/0/3.zip", "appeared")

    with pytest.raises(Superseded, match="appeared"):
        publish_zip(
            storage, write(checksum=True), made, like=CHANGE, before=lambda: None, last=last
        )
    assert storage.files.keys() == {CHANGE}


def test_who_has_lost_the_lease_deletes_not_even_its_own_tables(
    storage: MemoryStorage, made: Built
) -> None:
    seen: list[str] = []

    def before() -> None:
        if seen:
            raise LeaseLostError("memory:", 1)

    def last() -> None:
        seen.append("another zip")
        raise Superseded("state/0/0/3.zip", "appeared")

    with pytest.raises(LeaseLostError):
        publish_zip(storage, write(checksum=True), made, like=CHANGE, before=before, last=last)
    assert storage.files.keys() == {CHANGE, TABLE}


def test_where_an_executor_was_first_its_zip_stays_and_our_files_go(
    storage: MemoryStorage, made: Built
) -> None:
    storage.write(ZIP, [b"theirs"])
    found = publish_zip(
        storage, write(checksum=True), made, like=CHANGE, before=lambda: None, last=lambda: None
    )
    assert storage.files.keys() == {CHANGE, ZIP}
    assert storage.read(ZIP) == b"theirs"
    assert (found.entry.size, found.written, found.digest) == (6, 0, DIGEST)
    assert (found.checksum, found.parts, dict(found.refers)) == (None, (), {})
