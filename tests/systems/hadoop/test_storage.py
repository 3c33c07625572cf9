"""Hadoop file systems: a real HDFS, and Hadoop's view of the local disk."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from statemaint.errors import (
    AlreadyExistsError,
    ConfigError,
    NotFoundError,
    RefusedLinkError,
    StorageError,
    WrongKindError,
)
from statemaint.listing import Entry
from statemaint.storage import HadoopStorage, LocalStorage, Storage
from statemaint.storage.hadoop.files import PlainNames
from statemaint.storage.hadoop.jvm import Jvm, _of_running_spark, launch_jvm, local_stream
from statemaint.storage.hadoop.listing import decode_statuses, single_lister, walk
from tests.support import outside
from tests.support.checkpoints import paths, write_checkpoint
from tests.support.hdfs import SUPERUSER, Hdfs, hdfs
from tests.support.paths import ROOT
from tests.support.storage_contract import StorageContract
from tests.systems.conftest import FS

MIB = 1 << 20
EVERY_WAY: list[Callable[[Storage], object]] = [
    lambda storage: list(storage.list("")),
    lambda storage: storage.stat("a/1"),
    lambda storage: storage.read("a/1"),
    lambda storage: storage.write("a/2", [b"x"]),
    lambda storage: storage.append("a/1", b"x\n"),
    lambda storage: storage.delete("a/1"),
    lambda storage: storage.move("a/1", "b/1"),
]


class TestHdfs(StorageContract):
    @pytest.fixture
    def storage(self, folder: str, jvm: Jvm) -> Storage:
        return HadoopStorage(folder, jvm=jvm)


class TestHadoopOnLocalDisk(StorageContract):
    @pytest.fixture
    def storage(self, tmp_path: Path, local_jvm: Jvm) -> Storage:
        return HadoopStorage(f"hadoop+file:{tmp_path}", jvm=local_jvm)

    def test_a_time_that_hadoop_does_not_know_is_unknown(
        self, storage: Storage, tmp_path: Path
    ) -> None:
        storage.write("1.delta", [b"x"])
        os.utime(tmp_path / "1.delta", (0, 0))
        unknown = Entry("1.delta", 1, None)
        assert (storage.stat("1.delta"), list(storage.list(""))) == (unknown, [unknown])

    # Hadoop's Java starts a program for each file that it makes on a local disk, so that the two
    # tests of many files find them made.

    def test_lists_more_than_a_page(self, storage: Storage) -> None:
        wanted = _touch(storage, "many", 1100)
        assert self.paths(storage, "many") == wanted

    def test_deletes_many_at_once(self, storage: Storage) -> None:
        made = _touch(storage, "a", 450)
        storage.delete_all([*made[1:], "a/none"])
        assert self.paths(storage) == made[:1]

    def test_makes_no_side_files(self, storage: Storage, tmp_path: Path) -> None:
        storage.write("1.delta", [b"x"])
        storage.append("1.delta", b"y\n")
        assert [path.name for path in tmp_path.iterdir()] == ["1.delta"]

    def test_knows_whether_writers_exclude_each_other(self, storage: Storage) -> None:
        assert storage.exclusive is False

    def test_appends_where_hadoop_cannot(self, tmp_path: Path, local_jvm: Jvm) -> None:
        # Hadoop's usual view of a local disk, with checksums, cannot append.
        storage = HadoopStorage(f"hadoop+file:{tmp_path}", jvm=local_jvm)
        files = storage._files
        files._files = local_jvm.java(FS + "FileSystem").getLocal(local_jvm.configuration())
        self.test_appends_whole_lines(storage)
        self.test_a_line_that_was_cut_spoils_no_other(_emptied(storage))


@pytest.fixture
def storage(folder: str, jvm: Jvm) -> HadoopStorage:
    return HadoopStorage(folder, jvm=jvm)


@pytest.fixture
def path(folder: str, jvm: Jvm) -> Any:
    """The folder, as Hadoop's own `Path`."""
    return jvm.java(FS + "Path")(folder)


# -- links


def test_hdfs_refuses_links(storage: HadoopStorage, path: Any, jvm: Jvm) -> None:
    storage.write("kept/1.delta", [b"x"])
    context = jvm.java(FS + "FileContext").getFileContext(path.toUri(), jvm.configuration())
    names = (jvm.java(FS + "Path")(path, name) for name in ("kept", "link"))
    with pytest.raises(jvm.errors, match=r"[Ss]ymlinks? .*(not supported|not enabled)|disabled"):
        context.createSymlink(*names, False)
    assert paths(storage) == ["kept/1.delta"]
    assert storage.links("") == ()


@pytest.fixture
def linked(tmp_path: Path, local_jvm: Jvm) -> tuple[HadoopStorage, Path]:
    """A root on the local disk with links, and the folder beside it that they lead to."""
    for name in ("beside", "root/kept", "root/state/1", "root/_statemaint/runs"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "1.delta").write_bytes(b"one")
    (tmp_path / "root/state/0").symlink_to(tmp_path / "beside")
    (tmp_path / "root/state/2").symlink_to("../kept")
    (tmp_path / "root/_statemaint/trash").symlink_to("../kept")
    (tmp_path / "root/_statemaint/runs/2.delta").symlink_to(tmp_path / "beside/1.delta")
    (tmp_path / "link").symlink_to("root")
    return HadoopStorage(f"hadoop+file:{tmp_path / 'link'}", jvm=local_jvm), tmp_path / "beside"


def test_nothing_is_changed_where_a_link_of_a_local_disk_leads_out(
    linked: tuple[HadoopStorage, Path],
) -> None:
    storage, beside = linked
    before = outside.facts(beside)
    for change in (
        lambda: storage.write("state/0/2.delta", [b"x"]),
        lambda: storage.write("state/0/1.delta", [b"x"], overwrite=True, like="kept/1.delta"),
        lambda: storage.append("state/0/1.delta", b"x\n"),
        lambda: storage.delete("state/0/1.delta"),
        lambda: storage.move("state/0/1.delta", "kept/2.delta"),
        lambda: storage.move("kept/1.delta", "state/0/2.delta"),
        lambda: storage.delete("../beside/1.delta"),
    ):
        with pytest.raises(RefusedLinkError, match="outside the checkpoint"):
            change()
    assert outside.facts(beside) == before
    storage.write("state/2/2.delta", [b"two"])
    marked = {entry.path: entry.outside for entry in storage.list("state")}
    assert marked == {
        "state/0/1.delta": True, "state/1/1.delta": False,
        "state/2/1.delta": False, "state/2/2.delta": False,
    }  # fmt: skip


def test_no_link_of_a_local_disk_is_followed_below_our_own_folder(
    linked: tuple[HadoopStorage, Path],
) -> None:
    storage, _ = linked
    links = ("_statemaint/runs/2.delta", "_statemaint/trash")
    assert storage.links("_statemaint") == links
    for link, use in (
        (links[1], lambda: list(storage.list("_statemaint/trash"))),
        (links[1], lambda: storage.write("_statemaint/trash/x", [b""])),
        (links[1], lambda: storage.delete("_statemaint/trash/1.delta")),
        (links[0], lambda: storage.append("_statemaint/runs/2.delta", b"x\n")),
        (links[0], lambda: storage.read("_statemaint/runs/2.delta")),
        (links[0], lambda: storage.stat("_statemaint/runs/2.delta")),
    ):
        with pytest.raises(RefusedLinkError, match=f"^{link}: it is a link"):
            use()


# -- what is special about HDFS


def test_is_exclusive(storage: HadoopStorage) -> None:
    assert storage.exclusive


def test_a_file_system_is_closed_after_its_storage(folder: str, jvm: Jvm, path: Any) -> None:
    storage = HadoopStorage(folder, jvm=jvm)
    files = storage._files._files
    assert files.getFileStatus(path).isDirectory()
    del storage
    assert HadoopStorage(folder, jvm=jvm)._files.exists("")
    with pytest.raises(jvm.errors, match="Filesystem closed"):
        files.getFileStatus(path)


def test_never_makes_the_root(folder: str, jvm: Jvm) -> None:
    typo = HadoopStorage(f"{folder}/typo", jvm=jvm)
    with pytest.raises(NotFoundError, match="typo: no such directory"):
        typo.write("state/0/0/1.snapshot", [b""])
    with pytest.raises(NotFoundError, match="typo: no such directory"):
        typo.append("_statemaint/ledger/0/0.jsonl", b"x\n")
    assert paths(typo) == paths(HadoopStorage(folder, jvm=jvm)) == []


def test_a_directory_is_no_file(storage: HadoopStorage) -> None:
    storage.write("a/b/1", [b""])
    with pytest.raises(NotFoundError):
        storage.stat("a/b")


def test_a_file_where_a_folder_should_be_is_an_error(storage: HadoopStorage) -> None:
    storage.write("state", [b""])
    with pytest.raises(WrongKindError, match="state: it is a file where Spark has a directory"):
        list(storage.list("state"))


def test_a_directory_with_the_name_of_a_state_file_is_listed_itself(
    storage: HadoopStorage,
) -> None:
    storage.write("state/0/0/11.delta/file", [b"x"])
    assert paths(storage) == ["state/0/0/11.delta/", "state/0/0/11.delta/file"]


def test_names_stand_for_themselves(storage: HadoopStorage) -> None:
    odd = ["a b/1%20.delta", "a b/é#1?.delta", "a b/{1}+[2],*"]
    for name in odd:
        storage.write(name, [name.encode()])
    assert paths(storage) == sorted(odd)
    assert [storage.read(name).decode() for name in odd] == odd


def test_batched_listing_equals_asking_for_each(storage: HadoopStorage, jvm: Jvm) -> None:
    for number in range(5):
        for depth in range(4):
            directory = "/".join(str(number + one) for one in range(depth))
            storage.write(f"{directory}/.{number}".lstrip("/"), [bytes(number * 100)])
    files = storage._files
    naive = single_lister(jvm, files._files)
    # Asked for each, who may use a file would cost a request of its own.
    batched = [one._replace(access=None) for one in walk(files.root, files.list)]
    assert sorted(batched) == sorted(walk(files.root, naive))
    assert len(paths(storage)) == 20


def test_a_time_that_hdfs_does_not_know_is_unknown(
    storage: HadoopStorage, path: Any, jvm: Jvm, admin: Any
) -> None:
    storage.write("1.delta", [b"x"])
    admin.setTimes(jvm.java(FS + "Path")(path, "1.delta"), 0, -1)
    unknown = Entry("1.delta", 1, None)
    assert (storage.stat("1.delta"), list(storage.list(""))) == (unknown, [unknown])


def test_leaves_out_only_the_directory_that_vanished(storage: HadoopStorage, jvm: Jvm) -> None:
    for number in range(3):
        storage.write(f"{number}/x", [b""])
    files = storage._files

    def lister(directories: Any) -> Any:
        if len(directories) == 3:
            files._files.delete(jvm.java(FS + "Path")(f"{storage.root}/1"), True)
        return files.list(directories)

    found = [status.path for status in walk(files.root, lister)]
    assert sorted(found) == [f"{files.root}/0/x", f"{files.root}/2/x"]


def test_counts_each_request(storage: HadoopStorage) -> None:
    assert storage.requests == {}
    storage.write("a/1", [b"x"])
    # The directory was not there, and for whom the root is was not known.
    made = {"mkdir": 1, "acl": 1}
    assert storage.requests == {"write": 2, "stat": 4, "rename": 1, **made}
    storage.write("a/2", [b"x"])
    assert storage.requests == {"write": 3, "stat": 5, "rename": 2, **made}
    list(storage.list(""))
    storage.read("a/1")
    storage.delete("a/1")
    more = {"list": 2, "read": 1, "delete": 1}
    assert storage.requests == {"write": 3, "stat": 5, "rename": 2, **made, **more}
    storage.write("a/2", [b"x"], overwrite=True)
    before = storage.requests
    storage.write("a/3", [b"x"], like="a/2")
    added = {verb: count - before[verb] for verb, count in storage.requests.items()}
    # Two looks at modes and ACLs; the file itself is made with the mode of the other.
    cost = {"write": 1, "rename": 1, "stat": 3, "acl": 2}
    assert {verb: count for verb, count in added.items() if count} == cost


def test_a_move_is_one_request_and_a_check_is_made_now_and_then(storage: HadoopStorage) -> None:
    for number in range(60):
        storage.write(f"a/{number}", [b"x"])
    moves = [(one, f"_statemaint/trash/run/a/{one.name}") for one in storage.list("a")]
    before, checks = storage.requests, []
    last = moves[-1][0].path
    storage.move_all(moves, before=lambda: checks.append(storage.stat(last)))
    added = {verb: count - before.get(verb, 0) for verb, count in storage.requests.items()}
    made = 4  # directories, each of which takes a few requests
    assert added["rename"] == 61  # the first one finds that they are missing
    assert added["stat"] - len(checks) <= 1 + 3 * made
    assert 1 <= len(checks) <= 10
    assert len([*storage.list("_statemaint")]) == 60


def test_appends_after_a_writer_that_died(
    storage: HadoopStorage, path: Any, jvm: Jvm, admin: Any
) -> None:
    storage.append("l.jsonl", b"one\n")
    stream = admin.append(jvm.java(FS + "Path")(path, "l.jsonl"))
    stream.write(b'{"cut')
    stream.hflush()  # and it is not closed: HDFS keeps the file for this writer
    storage.append("l.jsonl", b"two\n")
    assert storage.read("l.jsonl") == b'one\n{"cut\ntwo\n'
    assert paths(storage) == ["l.jsonl"]


def test_works_through_a_view(cluster: Hdfs, folder: str, jvm: Jvm) -> None:
    view = HadoopStorage(folder.replace(f"{cluster.uri}/tests", "viewfs://view/mounted"), jvm=jvm)
    contract = TestHdfs()
    contract.test_never_overwrites_unless_told(view)
    contract.test_moves_onto_no_other_file_and_nothing_from_nowhere(_emptied(view))
    contract.test_appends_whole_lines(view)
    assert view.exclusive
    assert paths(view) == paths(HadoopStorage(folder, jvm=jvm)) != []


@pytest.mark.parametrize(
    "fact",
    [
        StorageContract.test_never_overwrites_unless_told,
        StorageContract.test_moves_a_file,
        StorageContract.test_moves_onto_no_other_file_and_nothing_from_nowhere,
        StorageContract.test_of_many_writers_one_wins,
    ],
)
def test_works_without_file_contexts(
    storage: HadoopStorage, jvm: Jvm, fact: Callable[[StorageContract, Storage], None]
) -> None:
    files = storage._files
    files._names = PlainNames(jvm, files._files)
    fact(TestHdfs(), storage)


def test_a_write_without_file_contexts_never_makes_the_root(folder: str, jvm: Jvm) -> None:
    typo = HadoopStorage(f"{folder}/typo", jvm=jvm)
    typo._files._names = PlainNames(jvm, typo._files._files)
    with pytest.raises(NotFoundError):
        typo.write("a/1", [b""])
    assert not typo._files.exists("")


# -- what goes wrong


def test_no_rights_is_said(storage: HadoopStorage, path: Any, jvm: Jvm, admin: Any) -> None:
    storage.write("a/1", [b"x"])
    admin.setPermission(path, jvm.java(FS + "permission.FsPermission")("700"))
    for way in EVERY_WAY:
        with pytest.raises(
            StorageError, match="no rights: Permission denied: user=maintainer"
        ) as e:
            way(storage)
        assert "\n" not in str(e.value)


def test_a_quota_of_bytes_leaves_nothing(storage: HadoopStorage, path: Any, admin: Any) -> None:
    storage.write("a/1", [b"x"])
    admin.setQuota(path, 1000, MIB)
    with pytest.raises(StorageError, match="a/2: the quota of bytes is used up"):
        storage.write("a/2", [bytes(MIB)])
    assert paths(storage) == ["a/1"]


def test_a_quota_of_names_is_said(storage: HadoopStorage, path: Any, admin: Any) -> None:
    admin.setQuota(path, 2, 1 << 40)
    with pytest.raises(StorageError, match="the quota of names is used up"):
        storage.write("a/1", [b"x"])
    assert paths(storage) == []


def test_safe_mode_is_said(storage: HadoopStorage, jvm: Jvm, admin: Any) -> None:
    storage.write("a/1", [b"x"])
    action = jvm.java(FS + "SafeModeAction")
    admin.setSafeMode(action.ENTER)
    try:
        with pytest.raises(StorageError, match="the NameNode is in safe mode"):
            storage.write("a/2", [b"x"])
        assert storage.read("a/1") == b"x"
    finally:
        admin.setSafeMode(action.LEAVE)


def test_an_unreachable_namenode_is_one_clear_line(tmp_path: Path, jvm: Jvm) -> None:
    with hdfs(tmp_path) as dying:
        storage = HadoopStorage(_open_to_all(dying, jvm), jvm=jvm)
        storage.write("a/1", [b"x"])
        dying.stop("namenode")
        for way in EVERY_WAY:
            _is_one_line(storage, way, "cannot be reached: Call From|the connection ended")
        never_there = HadoopStorage(storage.root, jvm=jvm)
        for way in EVERY_WAY:
            _is_one_line(never_there, way, "cannot be reached: Call From")


def test_an_unknown_host_is_one_clear_line(jvm: Jvm) -> None:
    storage = HadoopStorage("hdfs://no-such-host.invalid:8020/ck", jvm=jvm)
    _is_one_line(storage, EVERY_WAY[0], "cannot be reached, no such host")


@pytest.mark.parametrize(
    ("uri", "jar"),
    [
        ("abfss://c@account.dfs.core.windows.net/ck", "add org.apache.hadoop:hadoop-azure"),
        ("hadoop+s3a://bucket/ck", "s3a.*add org.apache.hadoop:hadoop-aws"),
        ("hadoop+nosuch://x/ck", "no file system for 'nosuch'.*add the jar"),
    ],
)
def test_a_file_system_without_its_jar_is_named(local_jvm: Jvm, uri: str, jar: str) -> None:
    with pytest.raises(ConfigError, match=jar):
        list(HadoopStorage(uri, jvm=local_jvm).list(""))


def test_an_address_without_a_host_is_one_clear_line(local_jvm: Jvm) -> None:
    storage = HadoopStorage("hdfs:///ck", jvm=local_jvm)
    _is_one_line(storage, EVERY_WAY[0], "Incomplete HDFS URI, no host")


def test_a_full_disk_here_is_said(
    storage: HadoopStorage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    storage.write("a/1", [b"x"])
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    for way in EVERY_WAY[2:4]:
        _is_one_line(storage, way, r"its copy in .*gone failed: No such file")


@pytest.mark.parametrize("kind", ["Input", "Output"])
def test_a_lost_temp_file_is_no_answer_about_the_storage(
    local_jvm: Jvm, tmp_path: Path, kind: str
) -> None:
    with pytest.raises(StorageError, match=r"a/1: its copy on this machine: .*No such") as caught:
        local_stream(local_jvm, kind, str(tmp_path / "gone" / "x"), "a/1")
    assert not isinstance(caught.value, NotFoundError)


def test_a_copy_that_java_has_created_again_is_read(
    local_jvm: Jvm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = HadoopStorage(f"hadoop+file:{tmp_path}", jvm=local_jvm)
    storage.write("a/1", [b"x"])
    copy_out = storage._files.copy_out

    def cleaned(path: str, local: str) -> None:
        Path(local).unlink()
        copy_out(path, local)

    monkeypatch.setattr(storage._files, "copy_out", cleaned)
    assert storage.read("a/1") == b"x"


def test_a_killed_java_is_one_clear_line(tmp_path: Path) -> None:
    jvm = launch_jvm()
    storage = HadoopStorage(f"hadoop+file:{tmp_path}", jvm=jvm)
    storage.write("a/1", [b"x"])
    process = jvm._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    for way in EVERY_WAY:
        _is_one_line(storage, way, "the Java process that reaches Hadoop has ended")
    assert not jvm.alive
    jvm.end()
    assert LocalStorage(tmp_path).read("a/1") == b"x"


@pytest.mark.parametrize("size", range(0, 60, 7))
def test_an_answer_that_was_cut_is_an_error(size: int) -> None:
    message = (
        b"\x08\x02\x12\x04/a/1\x18\x05\x38\x80\x08\x90\x01\x00\x59" + bytes(8) + b"\x2d" + bytes(4)
    )
    whole = (1).to_bytes(4) + len(message).to_bytes(4) + message
    assert decode_statuses(whole) == [("/a/1", False, 5, 1.024, None)]
    if size < len(whole):
        with pytest.raises(StorageError, match="cut short"):
            decode_statuses(whole[:size])


# -- Java


def test_settings_of_the_user_go_before_ours(jvm: Jvm, local_jvm: Jvm) -> None:
    name = "ipc.client.connect.max.retries"
    assert (jvm.configuration().get(name), local_jvm.configuration().get(name)) == ("1", "3")


def test_settings_of_the_charts_variable_apply_and_name_their_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = "--conf 'spark.hadoop.lake.key=${env.LAKE_KEY}' --conf 'spark.hadoop.lake.name=a b'"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"{settings} pyspark-shell")
    monkeypatch.setenv("LAKE_KEY", "of the environment")
    jvm = launch_jvm()
    try:
        conf = jvm.configuration()
        assert conf.get("lake.key") == "of the environment"
        assert conf.get("lake.name") == "a b"
    finally:
        jvm.end()


def test_a_running_spark_is_shared(local_jvm: Jvm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", None)
    assert _of_running_spark() is None
    monkeypatch.setattr(SparkContext, "_gateway", local_jvm._gateway)
    shared = _of_running_spark()
    assert shared is not None
    assert shared.java("java.lang.Math").abs(-1) == 1


def test_without_pyspark_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.java_gateway", None)
    with pytest.raises(ConfigError, match=re.escape("pip install 'statemaint[hadoop]'")):
        launch_jvm()


def test_without_java_it_is_said_what_to_install(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "statemaint", "scan", f"hadoop+file:{tmp_path}"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
    )
    assert (done.returncode, done.stdout) == (ConfigError.exit_code, "")
    (line,) = done.stderr.splitlines()
    assert "Java 17 or later, which did not start: " in line
    assert f"{tmp_path}/bin/java" in line


def test_the_program_says_nothing_but_its_result(tmp_path: Path) -> None:
    write_checkpoint(LocalStorage(tmp_path))
    program = ROOT / "tests" / "support" / "with_java.py"
    done = subprocess.run(
        [sys.executable, program, "scan", f"hadoop+file:{tmp_path}", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["target_version"] == 25
    with pytest.raises(ProcessLookupError):  # Java has gone, and that is all there was to say
        os.kill(int(done.stderr), 0)


def _touch(storage: Storage, folder: str, count: int) -> list[str]:
    root = Path(storage.root.removeprefix("hadoop+file:"))
    (root / folder).mkdir()
    made = [f"{folder}/{number:04d}" for number in range(count)]
    for path in made:
        (root / path).touch()
    return made


def _is_one_line(storage: Storage, way: Callable[[Storage], object], said: str) -> None:
    with pytest.raises(StorageError, match=said) as caught:
        way(storage)
    assert not isinstance(caught.value, NotFoundError | AlreadyExistsError)
    assert "\n" not in str(caught.value)
    assert "Traceback" not in str(caught.value)


def _emptied(storage: Storage) -> Storage:
    storage.delete_all(paths(storage))
    return storage


def _open_to_all(cluster: Hdfs, jvm: Jvm) -> str:
    uri = jvm.java("java.net.URI")(cluster.uri)
    files = jvm.java(FS + "FileSystem").newInstance(uri, jvm.configuration(), SUPERUSER)
    root = jvm.java(FS + "Path")(f"{cluster.uri}/")
    files.setPermission(root, jvm.java(FS + "permission.FsPermission")("777"))
    return cluster.uri
