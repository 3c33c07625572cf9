"""The storages of this version against the contract, and what is special about each."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from statemaint.errors import (
    CodecError,
    ConfigError,
    NotFoundError,
    StorageError,
    UnsupportedError,
    WrongKindError,
)
from statemaint.listing import Entry
from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.storage import (
    HadoopStorage,
    LocalStorage,
    MemoryStorage,
    ReadOnly,
    Storage,
    Without,
    checkpoints_below,
    open_storage,
)
from tests.support.checkpoints import write_checkpoint
from tests.support.storage_contract import StorageContract


class TestLocal(StorageContract):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return LocalStorage(tmp_path)

    def test_follows_links_to_other_disks(self, tmp_path: Path) -> None:
        (tmp_path / "disk").mkdir()
        (tmp_path / "disk" / "1.delta").write_bytes(b"x")
        (tmp_path / "ck").mkdir()
        (tmp_path / "ck" / "state").symlink_to(tmp_path / "disk")
        assert self.paths(LocalStorage(tmp_path / "ck"), "state") == ["state/1.delta"]

    def test_a_loop_of_links_is_an_error_and_not_an_end(self, tmp_path: Path) -> None:
        (tmp_path / "loop").symlink_to(tmp_path / "loop")
        with pytest.raises(StorageError):
            list(LocalStorage(tmp_path).list("loop"))

    @pytest.mark.parametrize("target", ["self", ".", "..", "../..", "../b", "../../state"])
    def test_a_link_that_leads_in_circles_is_one_more_file(
        self, tmp_path: Path, target: str
    ) -> None:
        storage = LocalStorage(tmp_path)
        for path in ("state/a/1.delta", "state/b/1.delta"):
            storage.write(path, [b"x"])
        (tmp_path / "state/a/self").symlink_to(target)
        (tmp_path / "state/b/back").symlink_to("../a")
        found = list(storage.list("state"))
        assert {"state/a/1.delta", "state/b/1.delta"} <= {one.path for one in found}
        assert len(found) < 12
        unread = [one for one in found if one.size == 0]
        assert unread
        assert {one.modified for one in unread} == {None}

    def test_a_link_that_cannot_be_followed_is_an_error_and_not_an_end(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "disk").mkdir()
        (tmp_path / "state").mkdir()
        (tmp_path / "state/0").symlink_to(tmp_path / "disk")
        real = os.stat

        def refusing(path: object, *args: object, **named: object) -> os.stat_result:
            if str(path).endswith("state/0"):
                raise OSError(errno.EIO, "Input/output error")
            return real(path, *args, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(os, "stat", refusing)
        with pytest.raises(StorageError, match="Input/output error"):
            list(LocalStorage(tmp_path).list("state"))

    def test_two_links_to_one_place_are_both_followed(self, tmp_path: Path) -> None:
        storage = LocalStorage(tmp_path)
        storage.write("disk/1.delta", [b"x"])
        (tmp_path / "state").mkdir()
        for name in ("a-stray-link", "partition"):
            (tmp_path / "state" / name).symlink_to("../disk")
        assert self.paths(storage, "state") == [
            "state/a-stray-link/1.delta",
            "state/partition/1.delta",
        ]

    def test_a_web_of_links_is_an_error_and_ends(self, tmp_path: Path) -> None:
        storage = LocalStorage(tmp_path)
        for number in range(12):
            storage.write(f"state/{number}/1.delta", [b"x"])
            for other in range(12):
                (tmp_path / f"state/{number}/to-{other}").symlink_to(f"../{other}")
        with pytest.raises(StorageError, match="more than 1000 links to directories"):
            list(storage.list("state"))

    def test_a_pipe_is_neither_waited_for_nor_read(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "1.delta")
        storage = LocalStorage(tmp_path)
        unknown = Entry("1.delta", 0, None)
        assert (storage.stat("1.delta"), list(storage.list(""))) == (unknown, [unknown])
        with pytest.raises(CodecError, match=r"1\.delta: it is not a regular file"):
            storage.read("1.delta")
        with pytest.raises(CodecError, match="it is not a regular file"), storage.open("1.delta"):
            pass

    def test_a_directory_in_the_place_of_a_file_is_an_error(self, tmp_path: Path) -> None:
        (tmp_path / "metadata").mkdir()
        with pytest.raises(WrongKindError, match="metadata: it is a directory where Spark has a f"):
            LocalStorage(tmp_path).read("metadata")

    def test_a_file_of_gigabytes_is_not_read_whole(self, tmp_path: Path) -> None:
        with (tmp_path / "1.zip").open("wb") as stream:
            stream.truncate(3 * 1024**3)
        storage = LocalStorage(tmp_path)
        with pytest.raises(CodecError, match=r"1\.zip: it has more than 128 MiB"):
            storage.read("1.zip")
        with storage.open("1.zip") as large:
            assert large.read(4) == bytes(4)

    def test_a_file_where_a_folder_should_be_is_an_error(self, tmp_path: Path) -> None:
        (tmp_path / "state").write_bytes(b"")
        with pytest.raises(
            WrongKindError, match=r"^state: it is a file where Spark has a directory"
        ):
            list(LocalStorage(tmp_path).list("state"))

    def test_a_root_that_is_a_file_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "checkpoint").write_bytes(b"")
        with pytest.raises(WrongKindError, match="/checkpoint: it is a file"):
            list(LocalStorage(tmp_path / "checkpoint").list("offsets"))

    def test_a_directory_with_the_name_of_a_state_file_is_listed_itself(
        self, tmp_path: Path
    ) -> None:
        for name in ("11.delta", "left", "12.snapshot/below", "v1.5"):
            (tmp_path / name).mkdir(parents=True)
        (tmp_path / "12.snapshot" / "file").write_bytes(b"x")
        found = sorted(entry.path for entry in LocalStorage(tmp_path).list(""))
        assert found == ["11.delta/", "12.snapshot/", "12.snapshot/file"]

    def test_never_makes_the_root(self, tmp_path: Path) -> None:
        with pytest.raises(NotFoundError):
            LocalStorage(tmp_path / "typo").write("state/0/0/1.snapshot", [b""])
        assert not (tmp_path / "typo").exists()

    @pytest.mark.parametrize("seconds", [-1, 0, 1, 315_532_800, 253_402_300_800, 1 << 55])
    def test_a_time_that_no_write_left_is_unknown(self, tmp_path: Path, seconds: int) -> None:
        storage = LocalStorage(tmp_path)
        storage.write("1.delta", [b"x"])
        os.utime(tmp_path / "1.delta", (seconds, seconds))
        unknown = Entry("1.delta", 1, None)
        assert (storage.stat("1.delta"), list(storage.list(""))) == (unknown, [unknown])

    def test_what_has_no_time_is_of_no_age_and_stays(self, tmp_path: Path) -> None:
        storage = write_checkpoint(LocalStorage(tmp_path))
        orphan = tmp_path / "state/0/0/.9.delta.0f6d2b1c-5a3e-4c7d-9b8a-112233445566.tmp"
        orphan.touch()
        os.utime(orphan, (0, 0))
        snapshots = Policy(min_deltas_for_snapshot=1)
        report = maintain(storage, snapshots)
        assert report.snapshots_written > 0
        assert orphan.exists()
        os.utime(orphan, (1_500_000_000, 1_500_000_000))
        maintain(storage, snapshots)
        assert not orphan.exists()

    def test_works_where_the_file_system_has_no_links(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert LocalStorage(tmp_path).exclusive is True
        monkeypatch.setattr(os, "link", _refuse)
        self.test_never_overwrites_unless_told(LocalStorage(tmp_path))
        # No lease there: a file that appears between two steps of a write is replaced.
        assert LocalStorage(tmp_path).exclusive is False
        assert [entry.path for entry in LocalStorage(tmp_path).list("")] == ["a/1"]

    def test_a_full_disk_leaves_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "fsync", _full)
        with pytest.raises(StorageError, match="No space left"):
            LocalStorage(tmp_path).write("a", [b"x"])
        assert list(tmp_path.iterdir()) == []


def _refuse(*_: object, **__: object) -> None:
    raise PermissionError(1, "Operation not permitted")


def _full(*_: object) -> None:
    raise OSError(28, "No space left on device")


class TestMemory(StorageContract):
    @pytest.fixture
    def storage(self) -> Storage:
        return MemoryStorage()


@pytest.mark.parametrize(
    "write",
    [
        lambda storage: storage.write("a", [b""]),
        lambda storage: storage.write("a", [b""], overwrite=True),
        lambda storage: storage.append("a", b"\n"),
        lambda storage: storage.delete("a"),
        lambda storage: storage.delete_all(["a"]),
        lambda storage: storage.move("a", "b"),
        lambda storage: storage.write("b", [b""], like="a"),
        lambda storage: storage.move("a", "b", like="a"),
    ],
)
def test_read_only_lets_no_write_through(write: Callable[[Storage], object]) -> None:
    inner = MemoryStorage({"a": b"1"})
    with pytest.raises(StorageError, match="read-only"):
        write(ReadOnly(inner))
    assert inner.files == {"a": b"1"}


def test_read_only_reads() -> None:
    storage = ReadOnly(MemoryStorage({"a/1": b"x"}))
    assert storage.read("a/1") == b"x"
    assert [entry.path for entry in storage.list("a")] == ["a/1"]
    assert storage.stat("a/1").size == 1
    storage.check_readable("a/1", like="a/1")
    with pytest.raises(NotFoundError, match="a/2"):
        storage.check_readable("a/2", like="a/1")
    assert (storage.root, storage.now(), storage.exclusive) == ("memory:", 0.0, False)
    with storage.open("a/1") as stream:
        assert stream.read() == b"x"


def test_what_is_hidden_is_not_compared() -> None:
    storage = Without(MemoryStorage({"a": b"1", "b": b"2"}), {"b"})
    storage.check_readable("a", like="a")
    for path, like in (("a", "b"), ("b", "a")):
        with pytest.raises(NotFoundError, match="b: is left out"):
            storage.check_readable(path, like=like)


@pytest.mark.parametrize(
    ("uri", "root"),
    [
        ("/data/ck", "/data/ck"),
        ("file:/data/ck", "/data/ck"),
        ("file:///data/a%20b", "/data/a b"),
        ("file:/data/a#1", "/data/a#1"),
        ("FILE:///data/a?b", "/data/a?b"),
    ],
)
def test_an_address_names_a_folder(uri: str, root: str) -> None:
    assert open_storage(uri).root == root


def test_a_relative_path_is_made_absolute() -> None:
    assert open_storage("ck").root == str(Path.cwd() / "ck")


@pytest.mark.parametrize("uri", ["", "  ", "file://host/data", "hdfs://[nn]:8020/ck"])
def test_an_address_that_names_nothing_here_is_refused(uri: str) -> None:
    with pytest.raises(ConfigError):
        open_storage(uri)


@pytest.mark.parametrize(
    "uri",
    ["hdfs://nn:8020/ck", "viewfs://view/ck", "gs://b/ck", "abfss://c@a/ck", "hadoop+s3a://b/ck"],
)
def test_what_hadoop_reaches_is_asked_for_at_the_first_request(uri: str) -> None:
    storage = open_storage(uri)
    assert isinstance(storage, HadoopStorage)
    assert (storage.root, storage.requests) == (uri, {})


@pytest.mark.parametrize("root", ["hdfs:///ck", "hadoop+o3fs:///ck"])
def test_an_address_of_hadoop_without_a_host_is_made_whole(root: str) -> None:
    assert open_storage(root.replace(":///", ":/")).root == open_storage(root).root == root


@pytest.mark.parametrize("uri", ["nosuch://nn/ck", "ftp://host/ck"])
def test_a_storage_of_a_later_version_is_named(uri: str) -> None:
    with pytest.raises(UnsupportedError, match=f"{uri}: storage '{uri.partition(':')[0]}'"):
        open_storage(uri)


@pytest.mark.parametrize("root", ["/", "file:///", "hdfs:///", "hdfs://nn", "s3://lake"])
def test_checkpoints_are_found_below_a_root(root: str) -> None:
    below = f"{root.removesuffix('/')}/hourly"
    opened = {root: {"hourly/commits/0": b""}, below: {"commits/0": b""}}
    found = checkpoints_below(root, opened=lambda address: MemoryStorage(opened[address]))
    assert found == [below]


@pytest.mark.parametrize("scheme", ["", "file:", "FILE://"])
@pytest.mark.parametrize("name", ["a b", "a#1", "a?b", "a%20b"])
def test_a_checkpoint_is_found_whatever_its_name(tmp_path: Path, scheme: str, name: str) -> None:
    (tmp_path / name / "commits").mkdir(parents=True)
    (found,) = checkpoints_below(f"{scheme}{tmp_path}")
    assert open_storage(found).root == str(tmp_path / name)
