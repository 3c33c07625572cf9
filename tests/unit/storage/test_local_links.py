"""Links on a local disk: what is read through them, and what is refused (S24)."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from statemaint.errors import AlreadyExistsError, NotFoundError, RefusedLinkError, StorageError
from statemaint.storage import LocalStorage, Storage
from tests.support import outside

Change = Callable[[Storage], object]
CHANGES: list[Change] = [
    lambda storage: storage.write("state/0/new", [b"x"]),
    lambda storage: storage.write("state/0/1.delta", [b"x"], overwrite=True),
    lambda storage: storage.write("state/0/new", [b"x"], like="kept/1.delta"),
    lambda storage: storage.replace("state/0/deeper/new", [b"x"]),
    lambda storage: storage.append("state/0/lines", b"x\n"),
    lambda storage: storage.delete("state/0/1.delta"),
    lambda storage: storage.delete_all(["state/0/1.delta"]),
    lambda storage: storage.move("state/0/1.delta", "kept/2.delta"),
    lambda storage: storage.move("kept/1.delta", "state/0/2.delta"),
    lambda storage: storage.move("kept/1.delta", "state/0/2.delta", like="kept/1.delta"),
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a store, and another place beside it."""
    for path in ("root/kept", "root/state/0", "beside/0"):
        (tmp_path / path).mkdir(parents=True)
        (tmp_path / path / "1.delta").write_bytes(b"one")
    return tmp_path / "root"


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("link", ["state", "state/0"])
@pytest.mark.parametrize("absent", [False, True])
def test_nothing_is_changed_where_a_link_leads_out(
    root: Path, tmp_path: Path, change: Change, link: str, *, absent: bool
) -> None:
    outside.lead_out(root, link, tmp_path / "outside")
    if absent:
        (tmp_path / "outside" / link).rename(tmp_path / "outside" / "elsewhere")
    before, inside = outside.facts(tmp_path / "outside"), outside.facts(root)
    with pytest.raises(RefusedLinkError, match=r"^state/0(/.*)?: its real place.* is outside"):
        change(LocalStorage(root))
    assert outside.facts(tmp_path / "outside") == before
    assert outside.facts(root) == inside


@pytest.mark.parametrize("path", ["../beside/0/1.delta", "kept/../../beside/0/1.delta"])
def test_no_path_leads_out_of_the_root(root: Path, tmp_path: Path, path: str) -> None:
    before, storage = outside.facts(tmp_path), LocalStorage(root)
    for change in (
        lambda: storage.write(path, [b""]),
        lambda: storage.append(path, b"\n"),
        lambda: storage.delete(path),
        lambda: storage.move("kept/1.delta", path),
        lambda: storage.move(path, "kept/2.delta"),
    ):
        with pytest.raises(RefusedLinkError, match="outside the checkpoint"):
            change()
    assert outside.facts(tmp_path) == before


def test_listed_files_that_are_elsewhere_are_marked(root: Path, tmp_path: Path) -> None:
    os.link(root / "kept/1.delta", root / "kept/hard")
    (root / "state/1").symlink_to(tmp_path / "beside/0")
    (root / "state/2").symlink_to("../kept")
    (root / "state/0/out").symlink_to(tmp_path / "beside/0/1.delta")
    (root / "state/0/in").symlink_to("../../kept/1.delta")
    (tmp_path / "beside/0/back").symlink_to(root / "kept")
    marked = {one.path: one.outside for one in LocalStorage(root).list("state")}
    assert marked == {
        "state/0/1.delta": False,
        "state/0/in": False,
        "state/0/out": True,
        "state/1/1.delta": True,
        "state/1/back/1.delta": False,
        "state/1/back/hard": False,
        "state/2/1.delta": False,
        "state/2/hard": False,
    }


def test_a_listing_below_a_link_is_marked_too(root: Path, tmp_path: Path) -> None:
    outside.lead_out(root, "state", tmp_path / "outside")
    for folder in ("state", "state/0"):
        assert [one.outside for one in LocalStorage(root).list(folder)] == [True]


def test_a_root_that_is_a_link_is_the_root(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    storage = LocalStorage(tmp_path / "link")
    storage.write("state/1/1.delta", [b"x"])
    storage.move("state/1/1.delta", "_statemaint/trash/run/state/1/1.delta")
    (root / "inside").symlink_to(tmp_path / "link" / "kept")
    storage.delete("inside/1.delta")
    assert not (root / "kept/1.delta").exists()
    assert not any(one.outside for one in storage.list(""))


def test_a_neighbour_whose_name_begins_alike_is_outside(root: Path, tmp_path: Path) -> None:
    (tmp_path / "root-2").mkdir()
    (root / "state/1").symlink_to(tmp_path / "root-2")
    with pytest.raises(RefusedLinkError):
        LocalStorage(root).write("state/1/1.delta", [b"x"])


def test_links_that_stay_inside_are_written_through(root: Path) -> None:
    storage = LocalStorage(root)
    (root / "state/1").symlink_to("../kept")
    storage.write("state/1/2.delta", [b"two"])
    storage.append("state/1/deeper/lines", b"x\n")
    storage.delete("state/1/1.delta")
    assert sorted(one.path for one in storage.list("kept")) == ["kept/2.delta", "kept/deeper/lines"]


def test_a_link_to_a_file_is_moved_as_that_file(root: Path) -> None:
    storage = LocalStorage(root)
    (root / "state/0/2.delta").symlink_to("1.delta")
    storage.move("state/0/2.delta", "_statemaint/trash/run/2.delta")
    assert storage.links("_statemaint") == ()
    assert storage.read("_statemaint/trash/run/2.delta") == b"one"
    assert not os.path.lexists(root / "state/0/2.delta")
    storage.move("_statemaint/trash/run/2.delta", "state/0/2.delta")
    assert storage.read("state/0/1.delta") == storage.read("state/0/2.delta") == b"one"


def test_a_link_to_a_file_elsewhere_is_neither_moved_nor_opened_up(
    root: Path, tmp_path: Path
) -> None:
    storage = LocalStorage(root)
    (root / "state/0/2.delta").symlink_to(tmp_path / "beside/0/1.delta")
    (tmp_path / "beside/0/1.delta").chmod(0o600)
    before = outside.facts(tmp_path / "beside")
    for like in (None, "kept/1.delta"):
        with pytest.raises(RefusedLinkError, match=r"^state/0/2\.delta: its real place"):
            storage.move("state/0/2.delta", "kept/2.delta", like=like)
    storage.write("state/0/2.delta", [b"ours"], overwrite=True)
    storage.delete("state/0/2.delta")
    assert outside.facts(tmp_path / "beside") == before


def test_a_link_to_nothing_is_no_file_to_move(root: Path) -> None:
    (root / "state/0/2.delta").symlink_to("nowhere")
    with pytest.raises(NotFoundError, match=r"^state/0/2\.delta"):
        LocalStorage(root).move("state/0/2.delta", "kept/2.delta")


def test_a_link_that_goes_round_is_an_error(root: Path) -> None:
    (root / "state/1").symlink_to("1")
    with pytest.raises(StorageError) as caught:
        LocalStorage(root).write("state/1/1.delta", [b"x"])
    assert not isinstance(caught.value, RefusedLinkError)


OURS = "_statemaint/runs/one"
USES: list[Change] = [
    lambda storage: list(storage.list(OURS)),
    lambda storage: list(storage.list("_statemaint")),
    lambda storage: storage.stat(f"{OURS}/a.json"),
    lambda storage: storage.read(f"{OURS}/a.json"),
    lambda storage: storage.open(f"{OURS}/a.json").__enter__(),
    lambda storage: storage.write(f"{OURS}/b.json", [b"x"]),
    lambda storage: storage.replace(f"{OURS}/a.json", [b"x"]),
    lambda storage: storage.append(f"{OURS}/a.json", b"x\n"),
    lambda storage: storage.delete(f"{OURS}/a.json"),
    lambda storage: storage.move(f"{OURS}/a.json", "kept/2.delta"),
    lambda storage: storage.move("kept/1.delta", f"{OURS}/b.json"),
]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("link", ["_statemaint", "_statemaint/runs", OURS])
@pytest.mark.parametrize("inside", [False, True])
def test_no_link_is_followed_below_our_own_folder(
    root: Path, tmp_path: Path, use: Change, link: str, *, inside: bool
) -> None:
    (root / OURS).mkdir(parents=True)
    (root / OURS / "a.json").write_bytes(b"{}")
    target = root / "elsewhere" if inside else tmp_path / "outside"
    outside.lead_out(root, link, target)
    before = outside.facts(tmp_path)
    with pytest.raises(RefusedLinkError, match=f"^{link}: it is a link, and below _statemaint/"):
        use(LocalStorage(root))
    assert outside.facts(tmp_path) == before


@pytest.mark.parametrize("use", USES[2:5] + USES[7:8])
def test_a_file_of_ours_that_is_a_link_is_not_opened(root: Path, use: Change) -> None:
    (root / OURS).mkdir(parents=True)
    (root / OURS / "a.json").symlink_to(root / "kept/1.delta")
    before = outside.facts(root)
    with pytest.raises(RefusedLinkError, match=f"^{OURS}/a.json: it is a link"):
        use(LocalStorage(root))
    assert outside.facts(root) == before


def test_all_links_of_a_folder_are_named_and_none_is_followed(root: Path, tmp_path: Path) -> None:
    storage = LocalStorage(root)
    assert storage.links("_statemaint") == ()
    (root / OURS).mkdir(parents=True)
    (root / OURS / "file").symlink_to("nowhere")
    (root / "_statemaint/trash").symlink_to(tmp_path / "beside")
    (tmp_path / "beside/0/deeper").symlink_to(root)
    assert storage.links("_statemaint") == (f"{OURS}/file", "_statemaint/trash")
    assert storage.links("_statemaint/trash") == ("_statemaint/trash",)
    assert storage.links("kept/1.delta") == ()


def test_a_link_that_appears_after_the_check_is_not_followed(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, real_open = LocalStorage(root), os.open

    def swapping(path: str, flags: int, *args: int, **named: int) -> int:
        handle = real_open(path, flags, *args, **named)
        if path == "state" and not (root / "old").exists():  # the way so far was checked
            (root / "state/0").rename(root / "old")
            (root / "state/0").symlink_to(tmp_path / "beside/0")
        return handle

    monkeypatch.setattr(os, "open", swapping)
    before = outside.facts(tmp_path / "beside")
    with pytest.raises(RefusedLinkError):
        storage.delete("state/0/1.delta")
    assert outside.facts(tmp_path / "beside") == before


def test_a_name_that_is_taken_by_a_link_is_taken(root: Path, tmp_path: Path) -> None:
    (root / "state/0/2.delta").symlink_to(tmp_path / "nowhere")
    with pytest.raises(AlreadyExistsError):
        LocalStorage(root).write("state/0/2.delta", [b"x"])
    assert not (tmp_path / "nowhere").exists()
