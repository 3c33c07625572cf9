"""What a run moved to the trash of a failing HDFS comes back, whichever call failed (S17).

The faults are those of a real NameNode: connections that end before or after it has carried a call
out, safe mode, and directories that may not be written to.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from statemaint.errors import StatemaintError, StorageError
from statemaint.maintain import maintain, undo
from statemaint.recover import rollback
from statemaint.storage import HadoopStorage
from statemaint.storage.hadoop.jvm import Jvm
from tests.support.checkpoints import of_the_query, write_checkpoint
from tests.support.hdfs import SUPERUSER, Hdfs, hdfs
from tests.support.ipc_proxy import Fault, IpcProxy, ipc_proxy
from tests.support.marks import long, undo_cases
from tests.support.undone import DAY, KEEPING, end_lease, must_be_whole, undo_all
from tests.systems.conftest import FS
from tools.demo.processes import wait_until

STATE = "state/0/0"
Step = tuple[str, str, int]
"""A method of the NameNode, a part of the paths that it is called with, and which such call."""
MAINTAIN: dict[str, Step] = {
    "first move": ("rename2", "/trash/a/state/", 1),
    "move": ("rename2", "/trash/a/state/", 2),
    "last move": ("rename2", "/trash/a/state/", 4),
    "create of the manifest": ("create", "/manifest/", 1),
    "block of the manifest": ("addBlock", "/manifest/", 1),
    "end of the manifest": ("complete", "/manifest/", 1),
    "name of the manifest": ("rename2", "/manifest/", 1),
    "folder of the trash": ("mkdirs", "/trash/a/state", 1),
    "name of the ledger's page": ("rename2", "/ledger/0/0/", 1),
    "end of a snapshot": ("complete", ".snapshot", 1),
    "name of a snapshot": ("rename2", ".snapshot", 1),
    "name of the proofs": ("rename2", "/attestations/", 1),
}
UNDO: dict[str, Step] = {
    "first move": ("rename2", "/trash/a/state/", 1),
    "move": ("rename2", "/trash/a/state/", 2),
    "name of the ledger's page": ("rename2", "/ledger/undo/", 1),
    "delete of the manifest": ("delete", "/manifest/", 1),
}
ROLLBACK: dict[str, Step] = {
    "move of state": ("rename2", "/state/0/0/10.delta", 1),
    "move of a log's entry": ("rename2", "/commits/9", 1),
    "name of the manifest": ("rename2", "/manifest/", 1),
    "name of the ledger's page": ("rename2", "/ledger/rollback/", 1),
}
FAULTS = ("cut", "lost", "safe mode", "safe mode that lasts", "denied")


class Bench:
    """A neglected checkpoint on a real HDFS, and as a client sees it whose calls fail."""

    def __init__(self, folder: str, jvm: Jvm, admin: Any, proxy: IpcProxy) -> None:
        self._jvm, self._admin, self._proxy, self._folder = jvm, admin, proxy, folder
        self.sound = HadoopStorage(folder, jvm=jvm)
        write_checkpoint(self.sound, partitions=1, last=10, batches=range(6, 10))
        self.before = of_the_query(self.sound)

    @contextmanager
    def failing(self, step: Step, fault: str) -> Iterator[HadoopStorage]:
        """A client of which one call fails, or all from that on; the server is mended in the end.

        At least one call fails.
        """
        method, about, nth = step
        plan: dict[str, Fault] = {
            "cut": "cut",
            "lost": "lost",
            "safe mode": self._enter_once,
            "safe mode that lasts": self._enter,
            "denied": self._deny,
        }
        self._proxy.fail(method, plan[fault], about=about, nth=nth)
        try:
            yield self.behind(self._proxy)
            assert not self._proxy.waits
        finally:
            self._leave()
            self._allow("755")
            end_lease(self.sound)

    def behind(self, proxy: IpcProxy) -> HadoopStorage:
        """Returns the checkpoint as a client of a proxy sees it."""
        address = self._folder.replace(f":{proxy.behind}/", f":{proxy.port}/", 1)
        return HadoopStorage(address, jvm=self._jvm)

    def _enter(self) -> None:
        self._admin.setSafeMode(self._jvm.java(FS + "SafeModeAction").ENTER)

    def _enter_once(self) -> Callable[[], None]:
        self._enter()
        return self._leave

    def _deny(self) -> None:
        self._allow("555")

    def _leave(self) -> None:
        self._admin.setSafeMode(self._jvm.java(FS + "SafeModeAction").LEAVE)

    def _allow(self, mode: str) -> None:
        path = self._jvm.java(FS + "Path")(f"{self._folder}/{STATE}")
        self._admin.setPermission(path, self._jvm.java(FS + "permission.FsPermission")(mode))


@pytest.fixture
def bench(cluster: Hdfs, folder: str, jvm: Jvm, admin: Any) -> Iterator[Bench]:
    with ipc_proxy(cluster.port) as proxy:
        yield Bench(folder, jvm, admin, proxy)


def cases(steps: dict[str, Step]) -> list[Any]:
    """Returns each step with each fault, or some of these."""
    every = [
        long(step, fault, id=f"{step}-{fault}")
        for step, (method, *_) in steps.items()
        for fault in FAULTS
        if fault != "denied" or (method == "rename2" and "move" in step)
    ]
    return [*undo_cases(every, 7)]


@pytest.mark.parametrize(("step", "fault"), cases(MAINTAIN))
def test_every_file_comes_back_after_a_call_that_failed(
    bench: Bench, step: str, fault: str
) -> None:
    """In either order: the newest run first in every second case."""
    moves = "move" in step
    with bench.failing(MAINTAIN[step], fault) as storage, suppress(StatemaintError):
        report = maintain(storage, KEEPING, run="a")
        assert report.exit_code == 5
        gone = bench.before.keys() - of_the_query(bench.sound).keys()
        if not moves or fault != "lost":
            assert report.files_deleted.total() == len(gone)
        if moves and fault in ("denied", "safe mode"):
            (finding,) = report.findings
            assert finding.detail.startswith(f"{STATE}/")
    assert maintain(bench.sound, KEEPING, run="b").exit_code == 0
    newest_first = [*MAINTAIN].index(step) % 2 == 0
    undo_all(bench.sound, newest_first=newest_first)
    must_be_whole(bench.sound, bench.before)


@pytest.mark.parametrize(("step", "fault"), cases(UNDO))
def test_an_undo_whose_call_failed_is_done_again(bench: Bench, step: str, fault: str) -> None:
    maintain(bench.sound, KEEPING, run="a")
    with bench.failing(UNDO[step], fault) as storage, suppress(StatemaintError):
        undo(storage, "a")
    undo_all(bench.sound)
    must_be_whole(bench.sound, bench.before)


@pytest.mark.parametrize(("step", "fault"), cases(ROLLBACK))
def test_a_rollback_whose_call_failed_is_undone(bench: Bench, step: str, fault: str) -> None:
    with bench.failing(ROLLBACK[step], fault) as storage, suppress(StatemaintError):
        rollback(storage, 8, trash_for=DAY)
    undo_all(bench.sound, newest_first=True)
    must_be_whole(bench.sound, bench.before)


@pytest.mark.long
def test_every_file_comes_back_after_the_datanode_was_gone(tmp_path: Path, jvm: Jvm) -> None:
    """Names still change without it, but no file can be read or written."""
    with hdfs(tmp_path) as cluster, ipc_proxy(cluster.port) as proxy:
        admin, address = _admin_of(cluster, jvm), f"{cluster.uri}/tests"
        bench = Bench(address, jvm, admin, proxy)

        def stop() -> None:
            cluster.stop("datanode")

        for run, step in (("a", MAINTAIN["block of the manifest"]), ("b", MAINTAIN["move"])):
            proxy.fail(step[0], stop, about=step[1].replace("/a/", f"/{run}/"), nth=step[2])
            with suppress(StatemaintError):
                maintain(bench.behind(proxy), KEEPING, run=run)
            assert not proxy.waits
            with pytest.raises(StorageError):
                bench.sound.write("_statemaint/x", [b"x"], overwrite=True)
            cluster.start("datanode")
            assert wait_until(lambda: _writes(bench.sound), seconds=60)
            end_lease(bench.sound)
        assert maintain(bench.sound, KEEPING, run="c").exit_code == 0
        undo_all(bench.sound)
        must_be_whole(bench.sound, bench.before)


def _admin_of(cluster: Hdfs, jvm: Jvm) -> Any:
    """Returns the superuser's file system, with a folder that everybody may write to."""
    address, path = jvm.java("java.net.URI")(cluster.uri), jvm.java(FS + "Path")("/tests")
    admin = jvm.java(FS + "FileSystem").newInstance(address, jvm.configuration(), SUPERUSER)
    admin.mkdirs(path)
    admin.setPermission(path, jvm.java(FS + "permission.FsPermission")("777"))
    return admin


def _writes(storage: HadoopStorage) -> bool:
    with suppress(StorageError):
        storage.write("_statemaint/x", [b"x"], overwrite=True)
        storage.delete("_statemaint/x")
        return True
    return False
