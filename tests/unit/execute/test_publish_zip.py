"""A zip is put in place after its SST files, with a checksum file where the query writes these.

Each file has the readers of the query's own, and the time and tag of what was written.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from statemaint.codec.integrity.digest import StateDigest
from statemaint.codec.rocksdb import snapshot_zip
from statemaint.codec.rocksdb.snapshot_zip import ImmutableFile, ZipMetadata
from statemaint.errors import LeaseLostError, NotFoundError, Superseded
from statemaint.execute.publish import dated, publish, publish_zip, write_like
from statemaint.fold import Folding, Pieces
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


class Likes(MemoryStorage):
    """Remembers whose readers each file has."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(files)
        self.likes: dict[str, str | None] = {}

    def write(self, path: str, chunks: Iterable[bytes], **how: Any) -> Entry:
        self.likes[path] = how.get("like")
        return super().write(path, chunks, **how)


@pytest.fixture
def made(tmp_path: Path) -> Built:
    local = tmp_path / "000008.sst"
    local.write_bytes(b"table")
    metadata = ZipMetadata((ImmutableFile("000008.sst", SST, 5),))
    return Built(2, metadata, {"CURRENT": b"x"}, (Fresh(local, SST, 5),), (), DIGEST)


@pytest.fixture
def storage() -> Likes:
    return Likes({CHANGE: b"change"})


def write(*, checksum: bool) -> WriteSnapshot:
    chain = Chain(2, None, (Delta(2, Entry(CHANGE, 6, None)),))
    return WriteSnapshot(STORE, ZIP, chain, SnapshotReason.FORCED, checksum=checksum)


@pytest.mark.parametrize("checksum", [False, True])
def test_a_zip_has_a_checksum_file_where_its_query_writes_them(
    storage: Likes, made: Built, *, checksum: bool
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
    assert storage.likes == dict.fromkeys(storage.files.keys() - {CHANGE}, CHANGE)
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


def test_a_snapshot_and_its_checksum_file_have_the_readers_of_the_newest_change(
    storage: Likes,
) -> None:
    def pieces() -> Pieces:
        yield 2, b"snapshot"
        return {2: DIGEST}

    action = write(checksum=True)
    (found,) = publish(storage, [action], Folding(pieces()), like=CHANGE, before=lambda: None)
    assert (found.written, found.digest) == (8, DIGEST)
    assert storage.likes == {ZIP: CHANGE, f"{ZIP}.crc": CHANGE}


def test_only_a_missing_change_whose_readers_a_file_gets_is_superseded(storage: Likes) -> None:
    def missing() -> Iterator[bytes]:
        yield b"begun"
        raise NotFoundError("another")

    with pytest.raises(Superseded, match="theirs"):
        write_like(storage, "theirs", ZIP, [b""])
    for like in (CHANGE, None):
        with pytest.raises(NotFoundError, match="another"):
            write_like(storage, like, ZIP, missing())


@pytest.mark.parametrize("tag", ["tag", None])
@pytest.mark.parametrize("shown", [False, True])
def test_a_file_whose_time_is_unknown_has_the_time_shown_or_is_asked_for_by_its_tag(
    tag: str | None, *, shown: bool
) -> None:
    storage = MemoryStorage({ZIP: b"a zip"}, clock=lambda: 7.0, tagged=tag is not None)
    there = storage.stat(ZIP)
    written, seen = replace(there, modified=None), there if shown else None
    known = shown or tag is not None
    assert dated(storage, written, seen) == (there if known else written)
    other = replace(written, size=4)
    if known:
        with pytest.raises(Superseded, match="was replaced after it was written"):
            dated(storage, other, seen)
    dated_already = replace(other, modified=3.0)
    assert dated(storage, dated_already, seen) == dated_already
