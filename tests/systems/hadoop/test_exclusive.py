"""The exclusive create of file systems whose rename does not refuse an existing name in one step.

No server of `gs`, flat `abfs`, `wasb` or `o3fs` installs here. Fakes stand for them: Hadoop's own
classes under these schemes, on a real HDFS and on a local disk (`tests/support/hdfs.py`), and in
this module three file systems that decide at different moments who created a file.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from statemaint.errors import AlreadyExistsError, ConfigError, NotExclusiveError, NotFoundError
from statemaint.maintain import maintain
from statemaint.storage import HadoopStorage, LocalStorage, MemoryStorage, Storage, open_storage
from statemaint.storage.hadoop.exclusive import obstacle_of
from statemaint.storage.hadoop.files import HadoopFiles
from statemaint.storage.hadoop.jvm import Jvm
from tests.support.checkpoints import TIGHT, state, write_checkpoint
from tests.support.hdfs import Hdfs
from tests.support.storage_contract import StorageContract

# -- fakes that decide at different moments


class RefusedError(Exception):
    """What a client raises for an answer like `412 Precondition Failed`."""


class Bucket:
    """Files that appear when they are closed, as in an object store; the kind says what is checked.

    `conditional`: the server refuses a second close. `looks`: only the client looks, at opening.
    `opens`: files appear when they are opened, and a second opening is refused.
    """

    def __init__(self, kind: str) -> None:
        self.kind, self.scheme = kind, "gs"
        self.jvm = cast("Jvm", self)
        self.errors, self.alive = (RefusedError,), True
        self.content: dict[str, bytes] = {}

    def open_new(self, path: str, _mode: int) -> "Stream":
        if path in self.content and self.kind != "blind":
            raise AlreadyExistsError(path, "taken")
        if self.kind == "opens":
            self.content[path] = b""
        return Stream(self, path)

    def delete(self, path: str) -> None:
        self.content.pop(path, None)

    def read(self, path: str) -> bytes:
        if path not in self.content:
            raise NotFoundError(path, "no such file")
        return self.content[path]


class Stream:
    def __init__(self, bucket: Bucket, path: str) -> None:
        self._bucket, self._path, self._text = bucket, path, ""

    def writeBytes(self, text: str) -> None:  # noqa: N802 -- Java's name
        self._text = text

    def close(self) -> None:
        if self._bucket.kind == "conditional" and self._path in self._bucket.content:
            raise RefusedError
        self._bucket.content[self._path] = self._text.encode()


@pytest.mark.parametrize(
    ("kind", "allowed", "why"),
    [
        ("conditional", (), ""),
        ("looks", (), "of two writers of one file on 'gs' both succeeded"),
        ("looks", ("gs",), "of two writers of one file on 'gs' both succeeded"),
        ("blind", ("gs",), "of two writers of one file on 'gs' both succeeded"),
        ("opens", (), "set STATEMAINT_HADOOP_EXCLUSIVE=gs"),
        ("opens", ("wasb",), "set STATEMAINT_HADOOP_EXCLUSIVE=gs"),
        ("opens", ("gs",), ""),
    ],
)
def test_what_two_writers_show_decides_and_the_setting_only_where_they_cannot(
    kind: str, allowed: tuple[str, ...], why: str
) -> None:
    bucket = Bucket(kind)
    found = obstacle_of(cast("HadoopFiles", bucket), bucket.read, allowed)
    assert (why in found) if why else (found == "")
    assert bucket.content == {}


# -- a scheme without an atomic rename, on a real HDFS


@pytest.fixture
def address(cluster: Hdfs, folder: str) -> str:
    return folder.replace(f"{cluster.uri}/tests", "gs://bucket/lake")


class TestExclusiveCreate(StorageContract):
    """The whole contract, on a file system that only a setting allows."""

    @pytest.fixture
    def storage(self, address: str, jvm: Jvm) -> Storage:
        return HadoopStorage(address, jvm=jvm, exclusive_on=["gs"])

    def test_lists_more_than_a_page(self, storage: Storage) -> None:
        """The same listing as of HDFS, which makes 1,100 files in its own test."""

    def test_deletes_many_at_once(self, storage: Storage) -> None:
        """The same deletions."""


def test_a_file_system_that_no_trial_shows_is_refused_with_the_setting_in_words(
    address: str, jvm: Jvm
) -> None:
    storage = write_checkpoint(HadoopStorage(address, jvm=jvm), last=12)
    before = {entry.path for entry in storage.list("")}
    with pytest.raises(NotExclusiveError, match="set STATEMAINT_HADOOP_EXCLUSIVE=gs, else keep"):
        maintain(storage, TIGHT)
    assert {entry.path for entry in storage.list("")} == before


def test_with_the_setting_it_is_maintained_as_ever(address: str, jvm: Jvm) -> None:
    storage, memory = HadoopStorage(address, jvm=jvm, exclusive_on=["gs"]), MemoryStorage()
    for one in (storage, memory):
        write_checkpoint(one, last=12)
    assert (maintain(storage, TIGHT).exit_code, maintain(memory, TIGHT).exit_code) == (0, 0)
    assert state(storage) == state(memory)
    assert not [entry for entry in storage.list("") if entry.name.endswith(".tmp")]


def test_of_eight_that_create_one_of_our_records_one_wins(address: str, jvm: Jvm) -> None:
    storage = HadoopStorage(address, jvm=jvm, exclusive_on=["gs"])

    def create(number: int) -> bool:
        try:
            storage.write("_statemaint/lease/1.json", [b"%d" % number])
        except AlreadyExistsError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(create, range(8))) == 1


def test_a_disk_under_another_scheme_is_not_taken_for_exclusive(cluster: Hdfs, jvm: Jvm) -> None:
    root = cluster.folder / "disk" / "ck"
    root.mkdir()
    write_checkpoint(LocalStorage(root), last=12)
    storage = HadoopStorage("wasb://box/disk/ck", jvm=jvm)
    # Of two writers at once both may succeed on a local disk: then it is refused for that.
    with pytest.raises(NotExclusiveError, match=r"EXCLUSIVE=wasb|on 'wasb' both succeeded"):
        maintain(storage, TIGHT)


# -- the setting


@pytest.mark.parametrize(
    ("value", "schemes"), [("", set()), ("gs", {"gs"}), (" gs, O3FS,", {"gs", "o3fs"})]
)
def test_the_setting_names_schemes(
    monkeypatch: pytest.MonkeyPatch, value: str, schemes: set[str]
) -> None:
    monkeypatch.setenv("STATEMAINT_HADOOP_EXCLUSIVE", value)
    storage: Any = open_storage("gs://bucket/ck")
    assert storage._exclusive_on == schemes


def test_a_setting_that_is_no_list_of_schemes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATEMAINT_HADOOP_EXCLUSIVE", "gs://bucket")
    with pytest.raises(ConfigError, match=r"^STATEMAINT_HADOOP_EXCLUSIVE: 'gs://bucket' is not"):
        open_storage("gs://bucket/ck")
