"""One partition that cannot be listed or read halts its own stores, and no other (S10, S16)."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from statemaint.audit import doctor, verify
from statemaint.cli.main import program
from statemaint.errors import IncompleteListingError, StorageError
from statemaint.listing import Entry
from statemaint.maintain import maintain
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.policy import Policy
from statemaint.plan.actions import Request
from statemaint.planning import plan_checkpoint, scan_checkpoint
from statemaint.records.remembered import REMEMBERED
from statemaint.scan.handover import Recorder
from statemaint.storage import LocalStorage, MemoryStorage, Storage
from tests.support.checkpoints import JOIN, write_checkpoint
from tests.support.faults import Clock
from tests.support.rocks import write_rocks_checkpoint
from tests.support.users import MAINTAINER, as_user, needs_root, shared_folder

TIGHT = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=4, grace=0, orphan_age=0)
PARTITION = "state/0/1"


class Refusing(MemoryStorage):
    """Refuses to list or to read below one folder, as a permission that is missing does."""

    def __init__(self, files: dict[str, bytes], *, folder: str, lists: bool = False) -> None:
        super().__init__(files, clock=Clock())
        self.folder, self._lists = folder, lists

    def list(self, prefix: str) -> Iterator[Entry]:
        hidden = False
        for entry in super().list(prefix):
            if self._lists or not entry.path.startswith(f"{self.folder}/"):
                yield entry
            else:
                hidden = True
        if hidden:
            raise IncompleteListingError([StorageError(self.folder, "Permission denied")])

    def read(self, path: str) -> bytes:
        if path.startswith(f"{self.folder}/"):
            error = StorageError(path, "Permission denied")
            error.lasting = True
            raise error
        return super().read(path)


def files(**options: Any) -> dict[str, bytes]:
    memory = write_checkpoint(MemoryStorage(clock=Clock()), **{"partitions": 3, **options})
    return dict(memory.files)


def damage(findings: tuple[Finding, ...]) -> set[tuple[str, str, str | None]]:
    return {(one.code.value, str(one.store), one.path) for one in findings if one.damage}


def state(storage: Storage) -> dict[str, bytes]:
    found = storage.list("state")
    return {one.path: storage.read(one.path) for one in found if f"{PARTITION}/" not in one.path}


OWN = {"op 0 / part 1 / default"}
ONLY = {(FindingCode.STORAGE_FAILED.value, "op 0 / part 1 / default", PARTITION)}


def test_every_verb_names_the_partition_and_its_store_alone() -> None:
    storage = Refusing(files(), folder=PARTITION)
    checkpoint = scan_checkpoint(storage)
    assert [(str(one.id), one.unread) for one in checkpoint.stores] == [
        ("op 0 / part 0 / default", False),
        ("op 0 / part 1 / default", True),
        ("op 0 / part 2 / default", False),
    ]
    _, plan = plan_checkpoint(storage, TIGHT)
    assert damage(plan.all_findings) == ONLY
    assert {str(one.store) for one in plan.actions} == {
        "op 0 / part 0 / default",
        "op 0 / part 2 / default",
    }
    for deep in (False, True):
        assert damage(verify(storage, deep=deep).findings) == ONLY
        assert damage(doctor(storage, deep=deep).findings) == ONLY
    (finding,) = (one for one in plan.all_findings if one.damage)
    assert finding.detail == (
        "state/0/1: Permission denied; nothing is written or deleted in state/0/1 until it can be "
        "read"
    )


def test_the_other_partitions_are_maintained_as_ever() -> None:
    content = files()
    storage, healthy = Refusing(content, folder=PARTITION), MemoryStorage(content, clock=Clock())
    report, expected = maintain(storage, TIGHT), maintain(healthy, TIGHT)
    assert (report.exit_code, expected.exit_code) == (5, 0)
    assert damage(report.findings) == ONLY
    cured = MemoryStorage(clock=Clock())
    cured._files = storage._files
    assert state(cured) == state(healthy)
    untouched = {path for path in content if path.startswith(f"{PARTITION}/")}
    assert {one.path for one in cured.list(PARTITION)} == untouched


@pytest.mark.parametrize("number", [0, 1, 2])
def test_any_partition_of_a_join_may_be_the_one(number: int) -> None:
    folder = f"state/0/{number}"
    storage = Refusing(files(stores=JOIN), folder=folder)
    _, plan = plan_checkpoint(storage, TIGHT)
    code = FindingCode.STORAGE_FAILED.value
    assert damage(plan.all_findings) == {
        (code, f"op 0 / part {number} / {name}", folder) for name in JOIN
    }
    assert {one.store.partition for one in plan.actions} == {0, 1, 2} - {number}


def test_attestations_that_cannot_be_listed_or_read_halt_their_own_store() -> None:
    content = files()
    before = MemoryStorage(content, clock=Clock())
    maintain(before, TIGHT)
    before.delete(REMEMBERED)
    folder = "_statemaint/attestations/0/1"
    for lists, path in ((False, folder), (True, f"{folder}/default.json")):
        storage = Refusing(dict(before.files), folder=folder, lists=lists)
        _, plan = plan_checkpoint(storage, TIGHT)
        code = FindingCode.STORAGE_FAILED.value
        assert damage(plan.all_findings) == {(code, "op 0 / part 1 / default", path)}


def test_files_that_cannot_be_read_halt_their_own_store() -> None:
    content = files()
    storage = Refusing(content, folder=PARTITION, lists=True)
    assert {store for _, store, _ in damage(verify(storage).findings)} == {
        "op 0 / part 1 / default"
    }
    report = maintain(storage, TIGHT)
    assert {store for _, store, _ in damage(report.findings)} == OWN
    assert report.snapshots_written == 4


@pytest.mark.parametrize("folder", ["state/0", "state", "state/0/_metadata", "commits"])
def test_a_folder_that_is_not_of_one_partition_stops_all_and_is_named(folder: str) -> None:
    content = {**files(), "state/0/_metadata/metadata": b"x"}
    with pytest.raises(StorageError, match=rf"^{folder}: Permission denied") as caught:
        plan_checkpoint(Refusing(content, folder=folder), TIGHT)
    assert caught.value.exit_code == 5


# -- a local disk


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path, int], None]:
    """Refuses to list a directory, as it does users without the right, which tests have."""

    def refuse(folder: Path, number: int) -> None:
        scandir = os.scandir

        def scan(path: Any = ".") -> Any:
            if isinstance(path, str) and Path(path) == folder:
                raise OSError(number, os.strerror(number))
            return scandir(path)

        monkeypatch.setattr(os, "scandir", scan)

    return refuse


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_a_directory_of_a_disk_that_cannot_be_listed_halts_its_own_store(
    tmp_path: Path, refused: Callable[[Path, int], None], number: int
) -> None:
    storage = write_checkpoint(LocalStorage(tmp_path), partitions=3)
    refused(tmp_path / PARTITION, number)
    report = maintain(storage, TIGHT)
    assert (report.exit_code, damage(report.findings)) == (5, ONLY)
    assert report.snapshots_written == 4
    assert os.strerror(number) in report.findings[0].detail


@needs_root
@pytest.mark.parametrize(
    ("mode", "below", "path"),
    [
        (0o000, 0o644, PARTITION),
        (0o755, 0o000, f"{PARTITION}/1.delta"),
        (0o555, 0o644, f"{PARTITION}/25.snapshot"),
    ],
    ids=["a folder that may not be listed", "files that may not be read", "a folder to read only"],
)
def test_a_partition_that_another_user_owns_halts_its_own_store(
    mode: int, below: int, path: str
) -> None:
    with shared_folder() as root:
        storage = write_checkpoint(LocalStorage(root), partitions=3)
        owned = {path for path in root.rglob("*") if not path.is_relative_to(root / PARTITION)}
        for one in (root, *owned):
            os.chown(one, MAINTAINER, MAINTAINER)
        for one in (root / PARTITION).iterdir():
            one.chmod(below)
        (root / PARTITION).chmod(mode)
        if not below:
            os.chown(root / PARTITION, MAINTAINER, MAINTAINER)
        before = {one.name for one in (root / PARTITION).iterdir()}

        def work() -> tuple[int, int, list[tuple[str, str]]]:
            report = maintain(storage, TIGHT.override(trash_for=86_400.0))
            found = [(str(one.store), one.detail) for one in report.findings if one.damage]
            return report.exit_code, report.snapshots_written, found

        exit_code, written, found = as_user(work, uid=MAINTAINER, gid=MAINTAINER)
        ((store, detail),) = found
        assert (exit_code, written, store) == (5, 4, "op 0 / part 1 / default")
        assert detail.startswith(f"{path}: Permission denied")
        assert {one.name for one in (root / PARTITION).iterdir()} == before


def test_a_listing_without_some_directories_ends_with_an_error_that_names_each(
    tmp_path: Path, refused: Callable[[Path, int], None]
) -> None:
    storage = write_checkpoint(LocalStorage(tmp_path), partitions=3)
    refused(tmp_path / PARTITION, errno.EACCES)
    listed = storage.list("state")
    found: list[str] = []
    with pytest.raises(IncompleteListingError, match=r"^state/0/1: Permission denied$"):
        found.extend(entry.path for entry in listed)
    assert len(found) == 50


# -- RocksDB, the tasks of a run, and the program


def test_a_zip_that_cannot_be_read_halts_its_own_store() -> None:
    memory = write_rocks_checkpoint(MemoryStorage(clock=Clock()), partitions=3)
    maintain(memory, TIGHT)
    assert any(path.endswith(".zip") for path in memory.files)
    storage = Refusing(dict(memory.files), folder=PARTITION, lists=True)
    checkpoint = scan_checkpoint(storage)
    assert [one.unread for one in checkpoint.stores] == [False, True, False]
    (finding,) = checkpoint.stores[1].findings
    assert (finding.path or "").endswith(".zip")
    assert {store for _, store, _ in damage(verify(storage).findings)} == {
        "op 0 / part 1 / default"
    }


def test_a_task_of_several_partitions_goes_on_without_the_refused_one() -> None:
    content = files()
    healthy = Recorder(MemoryStorage(content, clock=Clock()))
    handover = healthy.handover(scan_checkpoint(healthy))
    request = Request(operators=frozenset({0}), partitions=frozenset({1, 2}))
    storage = Refusing(content, folder=PARTITION)
    _, plan = plan_checkpoint(storage, TIGHT, request=request, handover=handover)
    assert damage(plan.all_findings) == ONLY
    assert {one.store.partition for one in plan.actions} == {2}


@pytest.mark.parametrize("verb", ["scan", "plan", "verify", "doctor", "maintain"])
def test_the_program_ends_with_the_code_of_a_storage_that_refuses(
    tmp_path: Path, refused: Callable[[Path, int], None], verb: str
) -> None:
    write_checkpoint(LocalStorage(tmp_path), partitions=3)
    refused(tmp_path / PARTITION, errno.EACCES)
    done = CliRunner().invoke(program, [verb, str(tmp_path)])
    assert done.exit_code == 5, done.output
    assert "state/0/1: Permission denied" in done.output
    assert "BROKEN_CHAIN" not in done.output
    assert "restart:  NO" not in done.output
