"""Whole runs on a disk that fails in the middle: told, nothing lost, and no lock left behind."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from statemaint.audit import verify
from statemaint.errors import NotExclusiveError, StorageError
from statemaint.maintain import maintain, undo
from statemaint.storage import LocalStorage, MemoryStorage
from statemaint.storage.local import storage as local
from tests.support.checkpoints import TIGHT, state, write_checkpoint
from tests.support.users import MAINTAINER, as_user, needs_root, shared_folder


@pytest.mark.parametrize("kind", [".snapshot", "default.json"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_trouble_is_told_and_the_next_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, number: int
) -> None:
    storage, untroubled = LocalStorage(tmp_path), MemoryStorage()
    for one in (storage, untroubled):
        write_checkpoint(one)
    maintain(untroubled, TIGHT)
    fill = local._fill

    def full(directory: int, temp: str, *rest: Any) -> None:
        fill(directory, temp, *rest)
        if kind in temp:
            raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(local, "_fill", full)
        report = maintain(storage, TIGHT, run="one")
    assert report.exit_code == 5
    assert {one.detail.partition(": ")[2] for one in report.findings} == {os.strerror(number)}
    assert not any(path.name.endswith(".tmp") for path in tmp_path.rglob("*"))
    assert verify(storage, deep=True).healthy
    # Another run, which a lease that was left behind would keep out.
    assert maintain(storage, TIGHT, run="two").exit_code == 0
    assert state(storage) == state(untroubled)


@pytest.mark.parametrize("verb", ["write", "append", "move"])
def test_a_file_system_without_fsync_is_named_with_the_path_and_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    storage = LocalStorage(tmp_path)
    storage.write("a/1", [b"x"])

    def refuse(_handle: int) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "fsync", refuse)
    steps: dict[str, Callable[[], object]] = {
        "write": lambda: storage.write("a/2", [b"x"]),
        "append": lambda: storage.append("a/2", b"x\n"),
        "move": lambda: storage.move("a/1", "a/2"),
    }
    words = r"^a/2: its file system refuses fsync \(Invalid argument\).*keep the checkpoint on"
    with pytest.raises(StorageError, match=words):
        steps[verb]()


def test_a_disk_without_hard_links_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = write_checkpoint(LocalStorage(tmp_path))

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(NotExclusiveError, match="its file system has no hard links; keep the"):
        maintain(storage, TIGHT)


@needs_root
@pytest.mark.parametrize(("path", "to", "named"), [("a/1", "b/1", "a/1"), ("b/2", "a/2", "a/2")])
def test_a_move_names_the_file_whose_directory_refuses_it(path: str, to: str, named: str) -> None:
    with shared_folder() as root:
        for name in ("a/1", "b/2"):
            (root / name).parent.mkdir()
            (root / name).write_bytes(b"x")
            os.chown(root / name, MAINTAINER, MAINTAINER)
        for folder in (root, root / "b"):
            os.chown(folder, MAINTAINER, MAINTAINER)
        storage = LocalStorage(root)
        with pytest.raises(StorageError, match=f"^{named}: Permission denied$"):
            as_user(lambda: storage.move(path, to), uid=MAINTAINER, gid=MAINTAINER)


# -- a state/ that is mounted: a fake, since not every machine lets tests mount


@pytest.fixture
def mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the disk refuse a link from one folder to another, as from one mount to another."""
    link = os.link

    def across(src: str, dst: str, *, src_dir_fd: int, dst_dir_fd: int, **rest: Any) -> None:
        if not os.path.samestat(os.fstat(src_dir_fd), os.fstat(dst_dir_fd)):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        link(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, **rest)

    monkeypatch.setattr(os, "link", across)


@pytest.mark.usefixtures("mounted")
def test_files_move_to_the_trash_of_another_mount_and_back(tmp_path: Path) -> None:
    storage = write_checkpoint(LocalStorage(tmp_path))
    for file in (tmp_path / "state").rglob("*.delta"):
        file.chmod(0o640)
        os.utime(file, ns=(0, 1_700_000_000_123_456_789))
    before = {each.path: each for each in storage.list("state")}
    run = maintain(storage, TIGHT.override(trash_for=600.0)).run
    gone = before.keys() - {each.path for each in storage.list("state")}
    assert gone
    trash = {each.path.partition(f"{run}/")[2]: each for each in storage.list("_statemaint/trash")}
    for path in gone:
        assert (trash[path].size, trash[path].access) == (before[path].size, before[path].access)
        assert trash[path].modified == before[path].modified
    assert not any(path.name.endswith(".tmp") for path in tmp_path.rglob("*"))
    undo(storage, run)
    found = {each.path: each for each in storage.list("state")}
    assert {path: found.get(path) for path in before} == before


@pytest.mark.usefixtures("mounted")
def test_a_file_that_is_replaced_while_it_is_copied_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, fill = LocalStorage(tmp_path), local._fill
    storage.write("state/1", [b"old"])

    def replaced(*arguments: Any) -> None:
        fill(*arguments)
        (tmp_path / "new").write_bytes(b"new")
        (tmp_path / "new").rename(tmp_path / "state/1")

    monkeypatch.setattr(local, "_fill", replaced)
    with pytest.raises(StorageError, match=r"^state/1: it was replaced while it was copied"):
        storage.move("state/1", "trash/1")
    assert storage.read("state/1") == b"new"
    assert [*storage.list("trash")] == []
