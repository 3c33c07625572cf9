"""On a real HDFS: what we write is for whoever reads the files beside it (S22)."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from statemaint.audit import verify
from statemaint.errors import UnreadableError
from statemaint.listing import Access
from statemaint.maintain import maintain, undo
from statemaint.model.findings import FindingCode
from statemaint.model.policy import Policy
from statemaint.recover import repair
from statemaint.storage import HadoopStorage
from statemaint.storage.hadoop.files import PlainNames, spec, with_entries
from statemaint.storage.hadoop.jvm import Jvm, launch_jvm
from tests.support.checkpoints import write_checkpoint
from tests.support.hdfs import SUPERUSER, USER, Hdfs
from tests.support.ledgers import page_of_ledger
from tests.systems.conftest import FS

DAY = 86400.0
TIGHT = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=4, grace=0)
DELTA, SNAPSHOT = "state/0/0/25.delta", "state/0/0/25.snapshot"


class Tree:
    """A checkpoint in the hands of the superuser, and as each user sees it."""

    def __init__(self, cluster: Hdfs, jvm: Jvm, admin: Any, root: str) -> None:
        self.cluster, self.jvm, self.admin, self.root = cluster, jvm, admin, root

    def path(self, path: str) -> Any:
        return self.jvm.java(FS + "Path")(f"{self.root}/{path}" if path else self.root)

    def own(self, path: str, owner: str, group: str, mode: str) -> None:
        self.admin.setOwner(self.path(path), owner, group)
        self.admin.setPermission(
            self.path(path), self.jvm.java(FS + "permission.FsPermission")(mode)
        )

    def hand_over(self, owner: str, group: str, *, files: str, folders: str) -> None:
        """Gives the folder and all that is below it an owner, a group and modes."""
        found = self.admin.listFiles(self.path(""), True)
        paths = set()
        while found.hasNext():
            path = found.next().getPath().toUri().getPath().removeprefix(self.plain)
            self.own(path.lstrip("/"), owner, group, files)
            parts = path.strip("/").split("/")
            paths |= {"/".join(parts[:depth]) for depth in range(len(parts))}
        for path in paths:
            self.own(path, owner, group, folders)

    @property
    def plain(self) -> str:
        return self.root.removeprefix(self.cluster.uri)

    def who(self, path: str) -> tuple[str, str, str]:
        status = self.admin.getFileStatus(self.path(path))
        mode = f"{status.getPermission().toShort():o}"
        return status.getOwner(), status.getGroup(), mode

    def can_read(self, path: str, user: str) -> bool:
        address = self.jvm.java("java.net.URI")(self.cluster.uri)
        files = self.jvm.java(FS + "FileSystem").newInstance(
            address, self.jvm.configuration(), user
        )
        try:
            files.open(self.path(path)).close()
        except self.jvm.errors as error:
            assert "Permission denied: user=" + user in str(error)  # noqa: PT017
            return False
        finally:
            files.close()
        return True

    def acl(self, path: str) -> str:
        return str(self.admin.getAclStatus(self.path(path)).getEntries().toString())

    def set_acl(self, path: str, entries: str) -> None:
        parsed = self.jvm.java(FS + "permission.AclEntry").parseAclSpec(entries, True)
        self.admin.modifyAclEntries(self.path(path), parsed)


@pytest.fixture
def tree(cluster: Hdfs, jvm: Jvm, admin: Any, folder: str) -> Tree:
    write_checkpoint(HadoopStorage(folder, jvm=jvm))
    return Tree(cluster, jvm, admin, folder)


@pytest.fixture(scope="module")
def launch(
    cluster: Hdfs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Jvm]]:
    """Launches a Java of some user whose configuration says that new files are nobody else's."""
    conf = tmp_path_factory.mktemp("strict")
    for file in (Path(cluster.environ["HADOOP_CONF_DIR"])).iterdir():
        shutil.copy(file, conf)
    site = (conf / "core-site.xml").read_text()
    strict = "<property><name>fs.permissions.umask-mode</name><value>077</value></property>\n"
    (conf / "core-site.xml").write_text(
        site.replace("</configuration>", f"{strict}</configuration>")
    )
    running: dict[str, Jvm] = {}

    def started(user: str) -> Jvm:
        if user not in running:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("HADOOP_CONF_DIR", str(conf))
                patch.setenv("HADOOP_USER_NAME", user)
                running[user] = launch_jvm()
        return running[user]

    yield started
    for jvm in running.values():
        jvm.end()


def test_under_a_strict_umask_the_query_reads_what_the_superuser_wrote(
    tree: Tree, launch: Callable[[str], Jvm]
) -> None:
    tree.hand_over("spark", "team", files="640", folders="750")
    storage = HadoopStorage(tree.root, jvm=launch(SUPERUSER))
    report = maintain(storage, TIGHT)
    assert (report.exit_code, report.snapshots_written) == (0, 4)
    assert sum(report.files_deleted.values()) > 0
    assert tree.who(SNAPSHOT) == ("spark", "team", "640")
    assert tree.can_read(SNAPSHOT, "spark")
    assert tree.can_read(SNAPSHOT, "colleague")
    assert not tree.can_read(SNAPSHOT, "stranger")


def test_under_a_strict_umask_another_user_writes_for_those_who_may_read_all(
    tree: Tree, launch: Callable[[str], Jvm]
) -> None:
    tree.hand_over("spark", "team", files="644", folders="775")
    storage = HadoopStorage(tree.root, jvm=launch(USER))
    storage.append("_statemaint/ledger/undo.jsonl", b"{}\n")
    report = maintain(storage, TIGHT)
    assert (report.exit_code, report.snapshots_written) == (0, 4)
    assert tree.who(SNAPSHOT) == (USER, "team", "644")
    assert tree.can_read(SNAPSHOT, "spark")
    assert tree.who(page_of_ledger(storage)) == (USER, "team", "664")
    assert tree.who("_statemaint/ledger/0") == (USER, "team", "775")


def test_a_group_that_we_are_in_is_given(tree: Tree, jvm: Jvm) -> None:
    tree.hand_over(USER, "maintainers", files="640", folders="755")
    tree.own(DELTA, USER, "team", "640")
    HadoopStorage(tree.root, jvm=jvm).write(SNAPSHOT, [b"x"], like=DELTA)
    assert tree.who(SNAPSHOT) == (USER, "team", "640")
    assert tree.can_read(SNAPSHOT, "colleague")


def test_nothing_is_published_nor_deleted_that_the_query_could_not_read(
    tree: Tree, jvm: Jvm
) -> None:
    tree.hand_over("spark", "team", files="640", folders="770")
    storage = HadoopStorage(tree.root, jvm=jvm)
    before = {entry.path for entry in storage.list("state")}
    report = maintain(storage, TIGHT)
    assert (report.exit_code, report.snapshots_written, report.files_deleted) == (3, 0, {})
    assert {one.code for one in report.findings} == {FindingCode.UNREADABLE_BY_QUERY}
    assert f"{SNAPSHOT}: user spark may read {DELTA}" in report.findings[0].detail
    assert {entry.path for entry in storage.list("state")} == before


def test_a_directory_is_for_those_who_use_its_parent(tree: Tree, jvm: Jvm) -> None:
    tree.hand_over("spark", "team", files="664", folders="775")
    storage, table = HadoopStorage(tree.root, jvm=jvm), "state/0/0/SSTs/000012-x.sst"
    # Nobody here knows whether the owner of the store's directory is in its group.
    with pytest.raises(UnreadableError, match=r"^state/0/0/SSTs: user spark may use state/0/0, "):
        storage.write(table, [b"x"], like=DELTA)
    assert not [one for one in storage.list("state/0/0") if "SSTs" in one.path]
    tree.own("state/0/0", USER, "team", "775")
    storage.write(table, [b"x"], like=DELTA)
    assert (tree.who("state/0/0/SSTs"), tree.who(table)) == (
        (USER, "team", "775"),
        (USER, "team", "664"),
    )


def test_nothing_is_deleted_for_an_old_snapshot_that_the_query_cannot_read(
    tree: Tree, jvm: Jvm
) -> None:
    storage = HadoopStorage(tree.root, jvm=jvm)
    assert maintain(storage, TIGHT.override(grace=DAY)).snapshots_written == 4
    tree.hand_over("spark", "team", files="666", folders="777")
    tree.own(SNAPSHOT, USER, "team", "600")
    before = {entry.path for entry in storage.list("state/0/0")}
    report = maintain(storage, TIGHT)
    (finding,) = report.findings
    assert (finding.code, finding.path) == (FindingCode.UNREADABLE_BY_QUERY, SNAPSHOT)
    assert {entry.path for entry in storage.list("state/0/0")} == before
    assert not verify(storage).healthy
    repair(storage, trash_for=DAY)
    assert tree.who(SNAPSHOT) == (USER, "team", "666")
    assert verify(storage).healthy


def test_undo_brings_files_back_for_whoever_reads_those_beside_them(
    tree: Tree, launch: Callable[[str], Jvm]
) -> None:
    tree.hand_over("spark", "team", files="640", folders="750")
    storage = HadoopStorage(tree.root, jvm=launch(SUPERUSER))
    run = maintain(storage, TIGHT.override(trash_for=DAY)).run
    moved = f"_statemaint/trash/{run}/state/0/0/3.delta"
    assert tree.who(moved) == ("spark", "team", "640")
    tree.own(moved, SUPERUSER, "supergroup", "600")
    assert undo(storage, run).left == {}
    assert tree.who("state/0/0/3.delta") == ("spark", "team", "640")


# -- ACLs


def test_the_acl_of_a_delta_is_the_snapshots(tree: Tree, jvm: Jvm) -> None:
    tree.hand_over(USER, "maintainers", files="600", folders="755")
    tree.set_acl(DELTA, "user:spark:r--,group:team:r--")
    storage = HadoopStorage(tree.root, jvm=jvm)
    storage.write(SNAPSHOT, [b"x"], like=DELTA)
    assert tree.acl(SNAPSHOT) == tree.acl(DELTA) != "[]"
    readers = {user: tree.can_read(SNAPSHOT, user) for user in ("spark", "colleague", "stranger")}
    assert readers == {"spark": True, "colleague": True, "stranger": False}
    storage.check_readable(SNAPSHOT, like=DELTA)
    tree.set_acl(DELTA, "user:stranger:r--")
    with pytest.raises(UnreadableError, match=f"^{SNAPSHOT}: user stranger may read {DELTA}"):
        storage.check_readable(SNAPSHOT, like=DELTA)


def test_an_entry_of_the_query_lets_another_user_write_for_it(tree: Tree, jvm: Jvm) -> None:
    tree.hand_over("spark", "team", files="640", folders="777")
    tree.set_acl("state/0/0", "default:user:spark:r-x,default:user:stranger:r-x")
    tree.set_acl(DELTA, "user:spark:r--")
    HadoopStorage(tree.root, jvm=jvm).write(SNAPSHOT, [b"x"], like=DELTA)
    assert tree.acl(SNAPSHOT) == tree.acl(DELTA)
    assert tree.can_read(SNAPSHOT, "spark")
    assert not tree.can_read(SNAPSHOT, "stranger")


def test_what_a_directory_gives_to_new_files_is_taken_from_a_snapshot(tree: Tree, jvm: Jvm) -> None:
    tree.hand_over(USER, "team", files="640", folders="755")
    tree.set_acl("state/0/0", "default:user:stranger:r-x")
    HadoopStorage(tree.root, jvm=jvm).write(SNAPSHOT, [b"x"], like=DELTA)
    assert (tree.acl(SNAPSHOT), tree.who(SNAPSHOT)) == ("[]", (USER, "team", "640"))


def test_records_are_for_those_whom_the_acl_of_the_root_names(tree: Tree, jvm: Jvm) -> None:
    tree.set_acl("", "user:colleague:rwx")
    storage = HadoopStorage(tree.root, jvm=jvm)
    storage.write("_statemaint/lease/1.json", [b"{}"])
    assert "user:colleague:rw-" in tree.acl("_statemaint/lease/1.json")


def test_without_file_contexts_modes_are_given_all_the_same(tree: Tree, jvm: Jvm) -> None:
    tree.hand_over(USER, "team", files="664", folders="775")
    storage = HadoopStorage(tree.root, jvm=jvm)
    storage._files._names = PlainNames(jvm, storage._files._files)
    storage.write("state/0/0/SSTs/1-x.sst", [b"x"], like=DELTA)
    storage.write("_statemaint/l", [b"x"])
    assert tree.who("state/0/0/SSTs/1-x.sst") == (USER, "team", "664")
    assert tree.who("state/0/0/SSTs") == tree.who("_statemaint") == (USER, "team", "775")
    assert tree.who("_statemaint/l") == (USER, "team", "664")


@pytest.mark.parametrize(
    ("text", "group", "named"),
    [
        ("[]", None, ()),
        ("[user:bob:r-x, group::rw-]", 6, (("user", "bob", 5),)),
        ("[group::r--, group:a:b:-wx, default:user:x:rwx]", 4, (("group", "a:b", 3),)),
        ("[user:bob:r--]", 5, (("user", "bob", 4),)),
        ("[default:user:bob:r--]", None, ()),
    ],
)
def test_an_acl_in_hadoops_words(
    text: str, group: int | None, named: tuple[tuple[str, str, int], ...]
) -> None:
    found = with_entries(Access("o", "g", 0o754), text)
    assert (found.group_bits, found.named) == (group, named)


def test_an_acl_is_written_in_hadoops_words() -> None:
    access = Access("o", "g", 0o651, 4, (("user", "bob", 6), ("group", "team", 1)))
    wanted = "user::rw-,user:bob:rw-,group:team:--x,group::r--,mask::r-x,other::--x"
    assert spec(access) == wanted
