"""On a local disk: what we write is for whoever reads the files beside it (S22)."""

import errno
import os
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

import google_crc32c
import pytest

from statemaint.audit import verify
from statemaint.codec.integrity import checksum_file
from statemaint.errors import UnreadableError
from statemaint.maintain import maintain, undo
from statemaint.model.findings import FindingCode
from statemaint.model.policy import Policy
from statemaint.recover import repair
from statemaint.report.run import Report
from statemaint.storage import LocalStorage, MemoryStorage
from tests.support.checkpoints import COMMIT, changes, delta_bytes, write_checkpoint
from tests.support.rocks import parts_of, write_rocks_checkpoint
from tests.support.users import (
    COLLEAGUE,
    MAINTAINER,
    SPARK,
    STAFF,
    STRANGER,
    TEAM,
    as_user,
    needs_root,
    shared_folder,
    umask,
)

DAY = 86400.0
TIGHT = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=4, grace=0)
KEEPING = TIGHT.override(trash_for=7 * DAY)
DELTA, SNAPSHOT = "state/0/0/25.delta", "state/0/0/25.snapshot"


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def who(file: Path) -> tuple[int, int, int]:
    status = file.stat()
    return status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)


def hand_over(root: Path, uid: int, gid: int, *, files: int, folders: int) -> None:
    """Gives a folder and all that is below it an owner, a group and modes."""
    for path in (root, *root.rglob("*")):
        os.chown(path, uid, gid)
        path.chmod(folders if path.is_dir() else files)


def can_read(path: Path, *, uid: int, gid: int, groups: tuple[int, ...] = ()) -> bool:
    """Tells whether a user can read a file; root is one, too."""

    def read() -> bool:
        try:
            path.read_bytes()
        except PermissionError:
            return False
        return True

    return as_user(read, uid=uid, gid=gid, groups=groups)


@pytest.fixture
def root() -> Iterator[Path]:
    """A checkpoint that other users can reach, and nobody has maintained."""
    with shared_folder() as folder:
        place = folder / "ck"
        place.mkdir()
        write_checkpoint(LocalStorage(place))
        yield place


@pytest.fixture(scope="module", autouse=True)
def _everything_is_imported() -> None:
    """A child that is another user can import nothing more."""
    storage = write_checkpoint(MemoryStorage())
    run = maintain(storage, KEEPING).run
    undo(storage, run)
    verify(storage)


# -- the scene: a maintainer with a strict umask


def test_under_a_strict_umask_a_snapshot_is_as_readable_as_its_deltas(tmp_path: Path) -> None:
    write_checkpoint(LocalStorage(tmp_path))
    hand_over(tmp_path, os.getuid(), os.getgid(), files=0o644, folders=0o755)
    with umask(0o077):
        report = maintain(LocalStorage(tmp_path), TIGHT)
    assert (report.exit_code, report.snapshots_written) == (0, 4)
    assert sum(report.files_deleted.values()) > 0
    assert {mode(path) for path in (tmp_path / "state").rglob("*.snapshot")} == {0o644}


@needs_root
def test_the_query_reads_what_root_wrote_under_a_strict_umask(root: Path) -> None:
    hand_over(root, SPARK, TEAM, files=0o640, folders=0o750)
    with umask(0o077):
        report = maintain(LocalStorage(root), TIGHT)
    assert (report.exit_code, report.snapshots_written) == (0, 4)
    snapshot = root / SNAPSHOT
    assert who(snapshot) == (SPARK, TEAM, 0o640)
    assert can_read(snapshot, uid=SPARK, gid=SPARK)
    assert can_read(snapshot, uid=COLLEAGUE, gid=TEAM)
    assert not can_read(snapshot, uid=STRANGER, gid=STAFF)
    healthy = as_user(lambda: verify(LocalStorage(root)).healthy, uid=SPARK, gid=TEAM)
    assert healthy


@needs_root
def test_a_snapshot_is_never_more_readable_than_its_deltas(root: Path) -> None:
    hand_over(root, SPARK, TEAM, files=0o600, folders=0o755)
    seen: list[int] = []

    def content() -> Iterator[bytes]:
        yield b"secret"
        seen.extend(mode(one) for one in (root / "state/0/0").glob(".25.snapshot.*.tmp"))

    with umask(0):
        LocalStorage(root).write(SNAPSHOT, content(), like=DELTA)
    assert seen == [0o600]
    assert who(root / SNAPSHOT) == (SPARK, TEAM, 0o600)


@needs_root
def test_a_group_that_we_are_in_is_given(root: Path) -> None:
    hand_over(root, MAINTAINER, TEAM, files=0o640, folders=0o770)
    storage = LocalStorage(root)

    def write() -> None:
        storage.write(SNAPSHOT, [b"x"], like=DELTA)

    as_user(write, uid=MAINTAINER, gid=STAFF, groups=[TEAM], mask=0o077)
    assert who(root / SNAPSHOT) == (MAINTAINER, TEAM, 0o640)
    hand_over(root, SPARK, TEAM, files=0o644, folders=0o777)  # whose owner we cannot give it to
    (root / SNAPSHOT).unlink()
    as_user(write, uid=MAINTAINER, gid=STAFF, groups=[TEAM], mask=0o077)
    assert who(root / SNAPSHOT) == (MAINTAINER, TEAM, 0o644)


@needs_root
def test_a_directory_that_gives_its_group_on_does_so(root: Path) -> None:
    hand_over(root, MAINTAINER, TEAM, files=0o660, folders=0o2770)
    storage = LocalStorage(root)

    def write() -> None:
        storage.write("state/0/0/SSTs/000012-x.sst", [b"x"], like=DELTA)

    as_user(write, uid=MAINTAINER, gid=STAFF, groups=[TEAM], mask=0o077)
    assert who(root / "state/0/0/SSTs") == (MAINTAINER, TEAM, 0o2770)
    assert who(root / "state/0/0/SSTs/000012-x.sst") == (MAINTAINER, TEAM, 0o660)


@needs_root
def test_another_user_writes_for_those_who_may_read_all(root: Path) -> None:
    hand_over(root, SPARK, TEAM, files=0o664, folders=0o777)
    report = as_user(
        lambda: maintain(LocalStorage(root), TIGHT).exit_code,
        uid=MAINTAINER, gid=STAFF, mask=0o077,
    )  # fmt: skip
    assert report == 0
    assert who(root / SNAPSHOT) == (MAINTAINER, STAFF, 0o664)
    assert can_read(root / SNAPSHOT, uid=SPARK, gid=TEAM)


@needs_root
def test_a_checksum_is_as_readable_as_its_snapshot(root: Path) -> None:
    storage = LocalStorage(root)
    for entry in list(storage.list("state")):  # as Spark 4.1 writes them
        content = storage.read(entry.path)
        side = checksum_file.spark(google_crc32c.value(content), len(content), 0)
        storage.write(f"{entry.path}.crc", [side])
    hand_over(root, SPARK, TEAM, files=0o640, folders=0o750)
    with umask(0o077):
        assert maintain(storage, TIGHT).snapshots_written == 4
    for path in (root / SNAPSHOT, root / f"{SNAPSHOT}.crc"):
        assert who(path) == (SPARK, TEAM, 0o640)


@needs_root
def test_zip_and_tables_are_as_readable_as_the_changelogs(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    write_rocks_checkpoint(storage, last=12, batches=range(9, 12), partitions=1)
    hand_over(tmp_path, SPARK, TEAM, files=0o640, folders=0o2750)
    with umask(0o077):
        assert maintain(storage, TIGHT).snapshots_written == 2
    folder = tmp_path / "state/0/0"
    tables = list((folder / "SSTs").iterdir())
    assert tables
    for path in (folder / "12.zip", *tables):
        assert who(path) == (SPARK, TEAM, 0o640)
    assert who(folder / "SSTs") == (SPARK, TEAM, 0o2750)


@needs_root
def test_a_zip_is_as_readable_as_its_least_readable_table(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    write_rocks_checkpoint(storage, last=12, batches=range(9, 12), partitions=1)
    hand_over(tmp_path, SPARK, TEAM, files=0o644, folders=0o2755)
    assert maintain(storage, TIGHT.override(grace=DAY)).snapshots_written == 2
    table = max(parts_of((tmp_path / "state/0/0/12.zip").read_bytes()))
    (tmp_path / "state/0/0/SSTs" / table).chmod(0o600)
    report = maintain(storage, TIGHT)
    (finding,) = report.findings
    assert (report.exit_code, report.files_deleted) == (3, {})
    assert (finding.code, finding.path) == (FindingCode.UNREADABLE_BY_QUERY, "state/0/0/12.zip")
    assert f"state/0/0/SSTs/{table}: group {TEAM} may read" in finding.detail


# -- where the query might not read it


@needs_root
def test_nothing_is_published_nor_deleted_that_the_query_could_not_read(root: Path) -> None:
    # The maintainer reads the deltas by their group, and cannot give its files to their owner, of
    # whom nobody here knows whether it is in that group, too.
    hand_over(root, SPARK, TEAM, files=0o640, folders=0o770)
    before = {path: path.read_bytes() for path in (root / "state").rglob("*") if path.is_file()}

    def run() -> tuple[int, int, dict[str, int], list[tuple[str, str]]]:
        report: Report = maintain(LocalStorage(root), TIGHT)
        found = [(one.code.value, one.detail) for one in report.findings]
        deleted = {str(reason): count for reason, count in report.files_deleted.items()}
        return report.exit_code, report.snapshots_written, deleted, found

    exit_code, written, deleted, findings = as_user(
        run, uid=MAINTAINER, gid=TEAM, groups=[TEAM], mask=0o077
    )
    assert (exit_code, written, deleted) == (3, 0, {})
    assert {code for code, _ in findings} == {"UNREADABLE_BY_QUERY"}
    assert any(
        f"{SNAPSHOT}: user {SPARK} may read {DELTA}, and could not read this (mode 0640, "
        f"user {MAINTAINER}, group {TEAM}); run statemaint as the query's user" in detail
        for _, detail in findings
    )
    after = {path: path.read_bytes() for path in (root / "state").rglob("*") if path.is_file()}
    assert after == before


@needs_root
def test_nothing_is_published_in_a_directory_that_the_query_could_not_use(root: Path) -> None:
    hand_over(root, SPARK, TEAM, files=0o664, folders=0o775)

    def write() -> None:
        LocalStorage(root).write("state/0/0/SSTs/000012-x.sst", [b"x"], like=DELTA)

    with pytest.raises(UnreadableError, match=f"state/0/0/SSTs: user {SPARK} may use state/0/0"):
        as_user(write, uid=MAINTAINER, gid=TEAM, groups=[TEAM], mask=0o077)
    assert not (root / "state/0/0/SSTs").exists()


def test_a_disk_that_keeps_its_modes_gets_no_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalStorage(tmp_path)
    storage.write("9.delta", [b"x"])
    (tmp_path / "9.delta").chmod(0o644)
    monkeypatch.setattr(os, "fchmod", _refuse)
    with pytest.raises(UnreadableError, match=r"9\.snapshot: .* \(mode 0600, "):
        storage.write("9.snapshot", [b"y"], like="9.delta")
    assert [path.name for path in tmp_path.iterdir()] == ["9.delta"]
    (tmp_path / "9.delta").chmod(0o600)  # and gets one where that is how all its files are
    storage.write("9.snapshot", [b"y"], like="9.delta")


def test_a_disk_that_says_nothing_and_changes_nothing_is_seen_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalStorage(tmp_path)
    storage.write("9.delta", [b"x"])
    (tmp_path / "9.delta").chmod(0o644)
    monkeypatch.setattr(os, "fchmod", lambda *_: None)
    with pytest.raises(UnreadableError):
        storage.write("9.snapshot", [b"y"], like="9.delta")


def _refuse(*_: object) -> None:
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


# -- snapshots from before


@needs_root
@pytest.mark.parametrize("policy", [TIGHT, KEEPING])
def test_nothing_is_deleted_for_an_old_snapshot_that_the_query_cannot_read(
    root: Path, policy: Policy
) -> None:
    snapshots_only = policy.override(grace=3600.0)
    assert maintain(LocalStorage(root), snapshots_only).snapshots_written == 4
    hand_over(root, SPARK, TEAM, files=0o644, folders=0o755)
    for path in (root / "state/0/0").glob("*.snapshot"):  # as an earlier build left it
        os.chown(path, 0, 0)
        path.chmod(0o600)
    before = sorted((root / "state/0/0").iterdir())
    report = maintain(LocalStorage(root), policy)
    findings = {one.code: one for one in report.findings}
    assert (report.exit_code, {*findings}) == (3, {FindingCode.UNREADABLE_BY_QUERY})
    assert findings[FindingCode.UNREADABLE_BY_QUERY].batches == (24,)
    assert sorted((root / "state/0/0").iterdir()) == before
    other = {path.name for path in (root / "state/0/1").glob("*.delta")}
    assert "1.delta" not in other  # the other store goes on
    assert not verify(LocalStorage(root)).healthy
    for path in (root / "state/0/0").glob("*.snapshot"):
        os.chown(path, SPARK, TEAM)
        path.chmod(0o644)
    assert verify(LocalStorage(root)).healthy
    assert sum(maintain(LocalStorage(root), policy).files_deleted.values()) > 0


# -- repair and undo


@needs_root
def test_repair_makes_anew_what_the_query_cannot_read(root: Path) -> None:
    maintain(LocalStorage(root), TIGHT.override(grace=DAY))
    hand_over(root, SPARK, TEAM, files=0o644, folders=0o755)
    os.chown(root / SNAPSHOT, 0, 0)
    (root / SNAPSHOT).chmod(0o600)
    with umask(0o077):
        repaired = repair(LocalStorage(root), trash_for=DAY)
    assert [one.path for one in repaired.removed] == [SNAPSHOT]
    assert [one.entry.path for one in repaired.written] == [SNAPSHOT]
    assert who(root / SNAPSHOT) == (SPARK, TEAM, 0o644)
    assert verify(LocalStorage(root), deep=True).healthy


@needs_root
def test_undo_brings_files_back_for_whoever_reads_those_beside_them(root: Path) -> None:
    hand_over(root, SPARK, TEAM, files=0o640, folders=0o750)
    with umask(0o077):
        run = maintain(LocalStorage(root), KEEPING).run
    moved = root / "_statemaint/trash" / run / "state/0/0/3.delta"
    assert who(moved) == (SPARK, TEAM, 0o640)  # a move keeps what a file has
    os.chown(moved, 0, 0)  # and a copy of the trash may not
    moved.chmod(0o600)
    with umask(0o077):
        undone = undo(LocalStorage(root), run)
    assert (undone.left, undone.files > 0) == ({}, True)
    assert {who(path) for path in (root / "state").rglob("*.delta")} == {(SPARK, TEAM, 0o640)}


@needs_root
def test_undo_leaves_in_the_trash_what_the_query_could_not_read(root: Path) -> None:
    hand_over(root, SPARK, TEAM, files=0o640, folders=0o770)
    run = maintain(LocalStorage(root), KEEPING).run
    for path in (root / "_statemaint/trash" / run).rglob("*.delta"):
        os.chown(path, MAINTAINER, TEAM)
    undone = as_user(
        lambda: undo(LocalStorage(root), run), uid=MAINTAINER, gid=TEAM, groups=[TEAM], mask=0o002
    )
    assert undone.files == 0
    assert (
        f"user {SPARK} may read {DELTA}, and could not read this"
        in undone.left["state/0/0/3.delta"]
    )
    assert not (root / "state/0/0/3.delta").exists()


# -- our own records


def test_our_records_are_for_those_who_use_the_checkpoint(tmp_path: Path) -> None:
    for bits in (0o2775, 0o750, 0o700):
        folder = tmp_path / f"{bits:o}"
        folder.mkdir()
        folder.chmod(bits)
        storage = LocalStorage(folder)
        with umask(0o077):
            storage.write("_statemaint/lease/1.json", [b"{}"])
            storage.append("_statemaint/ledger/0/0.jsonl", b"{}\n")
        records = [path for path in (folder / "_statemaint").rglob("*") if path.is_file()]
        assert {mode(path) for path in records} == {bits & 0o666}
        folders = [path for path in folder.rglob("*") if path.is_dir()]
        assert {mode(path) for path in folders} == {bits}


def test_a_record_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.append("l", b"1\n")
    (tmp_path / "l").chmod(0o664)
    storage.append("l", b"2\n")
    assert (mode(tmp_path / "l"), storage.read("l")) == (0o664, b"1\n2\n")


@needs_root
def test_two_maintainers_of_one_group_take_turns(root: Path) -> None:
    hand_over(root, SPARK, TEAM, files=0o664, folders=0o2775)
    storage = LocalStorage(root)

    def run(uid: int, policy: Policy) -> tuple[int, str, int]:
        return as_user(lambda: _run(root, policy), uid=uid, gid=STAFF, groups=[TEAM], mask=0o077)

    exit_code, first, written = run(MAINTAINER, KEEPING)
    assert (exit_code, written) == (0, 4)
    assert who(root / SNAPSHOT) == (MAINTAINER, TEAM, 0o664)
    for batch in (25, 26):  # the query goes on
        storage.write(f"offsets/{batch}", [storage.read("offsets/24")], like="offsets/24")
        storage.write(f"commits/{batch}", [COMMIT], like="commits/24")
        for partition in (0, 1):
            rows = delta_bytes(changes(batch + 1, partition))
            storage.write(f"state/0/{partition}/{batch + 1}.delta", [rows], like=DELTA)
    exit_code, _, written = run(COLLEAGUE, KEEPING.override(min_deltas_for_snapshot=1))
    assert (exit_code, written) == (0, 2)
    assert who(root / "state/0/0/27.snapshot") == (COLLEAGUE, TEAM, 0o664)
    undone = as_user(
        lambda: undo(LocalStorage(root), first), uid=COLLEAGUE, gid=STAFF, groups=[TEAM], mask=0o077
    )
    assert undone.files > 0


def _run(root: Path, policy: Policy) -> tuple[int, str, int]:
    report = maintain(LocalStorage(root), policy)
    return report.exit_code, report.run, report.snapshots_written


# -- ACLs

USER_OBJ, USER, GROUP_OBJ, MASK, OTHER, NOBODY = 1, 2, 4, 16, 32, 0xFFFFFFFF


def acl(*entries: tuple[int, int, int]) -> bytes:
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *one) for one in entries)


def for_user(uid: int, *, group: int = 0, mask: int = 4) -> bytes:
    """Returns the ACL `user::rw-, user:UID:r--, group::GROUP, mask::MASK, other::---`."""
    return acl(
        (USER_OBJ, 6, NOBODY), (USER, 4, uid), (GROUP_OBJ, group, NOBODY), (MASK, mask, NOBODY),
        (OTHER, 0, NOBODY),
    )  # fmt: skip


def set_acl(path: Path, value: bytes, name: str = "system.posix_acl_access") -> None:
    try:
        os.setxattr(path, name, value)
    except OSError as error:
        pytest.skip(f"this disk has no ACLs: {error}")


@needs_root
def test_the_acl_of_a_delta_is_the_snapshots(root: Path) -> None:
    hand_over(root, SPARK, TEAM, files=0o600, folders=0o755)
    set_acl(root / DELTA, for_user(COLLEAGUE))
    with umask(0o077):
        LocalStorage(root).write(SNAPSHOT, [b"x"], like=DELTA)
    assert os.getxattr(root / SNAPSHOT, "system.posix_acl_access") == for_user(COLLEAGUE)
    assert can_read(root / SNAPSHOT, uid=SPARK, gid=SPARK)
    assert can_read(root / SNAPSHOT, uid=COLLEAGUE, gid=STAFF)
    assert not can_read(root / SNAPSHOT, uid=STRANGER, gid=TEAM)


@needs_root
def test_what_a_directory_gives_to_new_files_is_taken_from_a_snapshot(root: Path) -> None:
    hand_over(root, SPARK, TEAM, files=0o640, folders=0o755)
    set_acl(root / "state/0/0", for_user(STRANGER), "system.posix_acl_default")
    LocalStorage(root).write(SNAPSHOT, [b"x"], like=DELTA)
    assert not can_read(root / SNAPSHOT, uid=STRANGER, gid=STAFF)
    assert who(root / SNAPSHOT) == (SPARK, TEAM, 0o640)


@needs_root
def test_an_entry_of_the_query_lets_another_user_write_for_it(root: Path) -> None:
    # As `setfacl -d -m u:spark:r` on the state's directories has it: owner or not, it reads.
    hand_over(root, SPARK, TEAM, files=0o640, folders=0o777)
    entry = for_user(SPARK, group=4)
    set_acl(root / DELTA, entry)
    as_user(
        lambda: LocalStorage(root).write(SNAPSHOT, [b"x"], like=DELTA),
        uid=MAINTAINER, gid=TEAM, groups=[TEAM], mask=0o077,
    )  # fmt: skip
    assert os.getxattr(root / SNAPSHOT, "system.posix_acl_access") == entry
    assert can_read(root / SNAPSHOT, uid=SPARK, gid=SPARK)


@needs_root
def test_a_snapshot_without_the_acl_of_its_delta_is_found(root: Path) -> None:
    hand_over(root, SPARK, TEAM, files=0o640, folders=0o755)
    storage = LocalStorage(root)
    storage.write(SNAPSHOT, [b"x"], like=DELTA)
    storage.check_readable(SNAPSHOT, like=DELTA)
    set_acl(root / DELTA, for_user(COLLEAGUE, group=4))
    with pytest.raises(UnreadableError, match=f"{SNAPSHOT}: user {COLLEAGUE} may read {DELTA}"):
        storage.check_readable(SNAPSHOT, like=DELTA)
