"""Nothing is deleted for a snapshot that whoever reads the log beside it might not read (S22)."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from statemaint.audit import doctor, verify
from statemaint.errors import StorageError, Superseded, UnreadableError
from statemaint.execute.fence import Neighbours
from statemaint.listing import Access, Entry
from statemaint.maintain import maintain, undo
from statemaint.model.findings import FindingCode
from statemaint.model.policy import Policy
from statemaint.model.proof import Attestation, FileRecord
from statemaint.plan.findings.health import diagnose
from statemaint.records.attestations import attestation_path
from statemaint.recover import plan_repair, rollback
from statemaint.scan.scanner import scan
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import COMMIT, NOW, STORE, files, store, write_checkpoint
from tests.support.faults import Clock, CopyingStorage
from tests.support.rocks import (
    rocks_changes,
    rocks_checkpoint,
    rocks_store,
    write_changelog,
    write_rocks_checkpoint,
)

DAY = 86400.0
TIGHT = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=4, grace=0)
DELTA, SNAPSHOT = "state/0/0/10.delta", "state/0/0/10.snapshot"


class Strict(MemoryStorage):
    """Refuses to make some files like any other, or to call them readable, and notes what for."""

    def __init__(self, *refused: str, clock: Clock | None = None) -> None:
        super().__init__(clock=clock or Clock())
        self.refused = set(refused)
        self.written: dict[str, str | None] = {}
        self.moved: dict[str, str | None] = {}
        self.checked: list[tuple[str, str]] = []

    def write(
        self,
        path: str,
        chunks: Iterable[bytes],
        *,
        overwrite: bool = False,
        like: str | None = None,
    ) -> Entry:
        self._check(path, like)
        self.written[path] = like
        return super().write(path, chunks, overwrite=overwrite, like=like)

    def move(self, path: str, to: str, *, like: str | None = None) -> None:
        self._check(to, like)
        super().move(path, to, like=like)
        self.moved[to] = like

    def check_readable(self, path: str, *, like: str) -> None:
        super().check_readable(path, like=like)
        self.checked.append((path, like))
        self._check(path, like)

    def _check(self, path: str, like: str | None) -> None:
        if like is not None and path in self.refused:
            raise UnreadableError(path, f"user spark may read {like}, and could not read this")


def strict(*refused: str) -> Strict:
    return write_checkpoint(Strict(*refused), last=10, batches=range(6, 10), partitions=2)


def state(storage: MemoryStorage, partition: int = 0) -> dict[str, bytes]:
    below = f"state/0/{partition}/"
    return {path: one for path, one in storage.files.items() if path.startswith(below)}


# -- writing


def test_both_snapshots_of_a_fold_are_like_the_newest_change_that_it_reads() -> None:
    storage = strict()
    maintain(storage, TIGHT)
    likes = {path: like for path, like in storage.written.items() if path.endswith(".snapshot")}
    assert likes == {
        f"state/0/{partition}/{version}.snapshot": f"state/0/{partition}/10.delta"
        for partition in (0, 1)
        for version in (6, 10)
    }
    records = {path: like for path, like in storage.written.items() if path.startswith("_state")}
    assert records
    assert {*records.values()} == {None}


def test_zips_and_their_tables_are_like_the_newest_changelog() -> None:
    storage = write_rocks_checkpoint(Strict(), last=10, batches=range(6, 10), partitions=1)
    maintain(storage, TIGHT)
    written = {path: like for path, like in storage.written.items() if like}
    assert {path.rpartition(".")[2] for path in written} == {"zip", "sst"}
    assert {*written.values()} == {"state/0/0/6.changelog", "state/0/0/10.changelog"}


def test_a_snapshot_that_might_not_be_read_is_not_written_and_halts_its_store() -> None:
    storage = strict(SNAPSHOT)
    before = state(storage)
    report = maintain(storage, TIGHT)
    (finding,) = report.findings
    assert (report.exit_code, finding.code) == (3, FindingCode.UNREADABLE_BY_QUERY)
    assert finding.detail == f"{SNAPSHOT}: user spark may read {DELTA}, and could not read this"
    assert finding.damage
    assert state(storage) == before
    assert "state/0/1/1.delta" not in storage.files  # the other store is maintained
    storage.refused.clear()
    assert maintain(storage, TIGHT).exit_code == 0
    assert "state/0/0/1.delta" not in storage.files


def test_a_change_that_goes_meanwhile_supersedes_the_run() -> None:
    class Cleaning(Strict):
        def write(self, path, chunks, *, overwrite=False, like=None):  # type: ignore[no-untyped-def]
            if like == DELTA:
                content = list(chunks)
                self.delete(DELTA)
                return super().write(path, content, overwrite=overwrite, like=like)
            return super().write(path, chunks, overwrite=overwrite, like=like)

    storage = write_checkpoint(Cleaning(), last=10, batches=range(6, 10), partitions=1)
    report = maintain(storage, TIGHT)
    (finding,) = report.findings
    assert (report.exit_code, finding.code) == (6, FindingCode.SUPERSEDED)
    assert f"{DELTA}: existed when the run was planned and is missing" in finding.detail


# -- deleting


def forget_readable(storage: MemoryStorage) -> None:
    """Leaves the proofs as an earlier build made them."""
    path = attestation_path(STORE)
    old = storage.read(path).replace(b'"readable":true,', b"")
    storage.write(path, [old], overwrite=True)


def test_what_this_build_wrote_is_known_to_be_readable() -> None:
    storage = strict()
    maintain(storage, TIGHT.override(grace=DAY))
    assert sum(maintain(storage, TIGHT).files_deleted.values()) > 0
    assert storage.checked == []


def test_what_an_earlier_build_wrote_is_compared_once_before_anything_goes() -> None:
    storage = strict()
    maintain(storage, TIGHT.override(grace=DAY))
    forget_readable(storage)
    limited = TIGHT.override(max_deletes_per_run=2)
    maintain(storage, limited)
    assert storage.checked == [("state/0/0/6.snapshot", "state/0/0/6.delta")]
    maintain(storage, limited)
    assert len(storage.checked) == 1


def test_nothing_is_deleted_for_one_that_might_not_be_read() -> None:
    storage = strict()
    maintain(storage, TIGHT.override(grace=DAY))
    forget_readable(storage)
    storage.refused.add("state/0/0/6.snapshot")
    before = state(storage)
    report = maintain(storage, TIGHT)
    (finding,) = report.findings
    assert (report.exit_code, finding.code) == (3, FindingCode.UNREADABLE_BY_QUERY)
    assert state(storage) == before
    assert "state/0/1/1.delta" not in storage.files


def test_one_that_goes_meanwhile_supersedes_the_run() -> None:
    class Cleaning(Strict):
        def check_readable(self, path: str, *, like: str) -> None:
            self.delete(like)
            super().check_readable(path, like=like)

    storage = write_checkpoint(Cleaning(), last=10, batches=range(6, 10), partitions=1)
    maintain(storage, TIGHT.override(grace=DAY))
    forget_readable(storage)
    report = maintain(storage, TIGHT)
    assert report.exit_code == 6
    assert "state/0/0/6.delta: existed when the run was planned" in report.findings[0].detail
    assert "state/0/0/1.delta" in storage.files


def test_what_executors_wrote_is_the_querys_own() -> None:
    storage = strict()
    maintain(storage, TIGHT.override(grace=DAY))
    path = attestation_path(STORE)
    storage.delete(path)  # so that nothing says that the snapshots are ours
    storage.refused |= {"state/0/0/6.snapshot", SNAPSHOT}
    report = maintain(storage, TIGHT)
    assert (report.exit_code, storage.checked) == (0, [])
    assert "state/0/0/1.delta" not in storage.files


def test_a_zip_shares_no_table_of_one_that_might_not_be_read() -> None:
    storage = write_rocks_checkpoint(Strict(), last=10, batches=range(6, 10), partitions=1)
    maintain(storage, TIGHT.override(grace=DAY))
    forget_readable(storage)
    storage.refused.add("state/0/0/10.zip")
    for version in range(11, 36):  # long enough without a zip of executors
        write_changelog(storage, STORE, version, rocks_changes(version))
        storage.write(f"offsets/{version - 1}", [storage.read("offsets/9")])
        storage.write(f"commits/{version - 1}", [COMMIT])
    before = {path for path in storage.files if path.startswith("state/")}
    report = maintain(storage, TIGHT.override(grace=DAY, rebase=False))
    assert [one.code for one in report.findings] == [FindingCode.UNREADABLE_BY_QUERY]
    assert storage.checked == [("state/0/0/10.zip", "state/0/0/10.changelog")]
    assert {path for path in storage.files if path.startswith("state/")} == before


def test_a_copy_need_not_be_readable() -> None:
    own, part = FileRecord("5.zip", 1, 1.5), FileRecord("SSTs/1.sst", 1, 1.5)
    delta = FileRecord("5.changelog", 1, 1.5)
    proof = Attestation(
        "5.zip", 5, 1, 1.5, "d", 1, 1, readable=True, inputs=(delta,), parts=(part,)
    )
    copies = {one: Entry(one.path, 1, 9.5) for one in (own, part, delta)}
    assert proof.refreshed({delta: copies[delta]}, 10.0).readable
    assert not proof.refreshed({own: copies[own]}, 10.0).readable
    assert not proof.refreshed({part: copies[part]}, 10.0).readable
    assert not replace(proof, readable=False).refreshed({delta: copies[delta]}, 10.0).readable


# -- which file tells


@pytest.mark.parametrize(
    ("notation", "version", "beside"),
    [
        ("1d 2d 3d3s 4d", 3, "3.delta"),
        ("1d 2d 3s 5d", 3, "2.delta"),
        ("3s 5d 6d", 3, "5.delta"),
        ("3s 5s", 3, "3.snapshot"),
        ("", 3, None),
    ],
)
def test_the_nearest_change_tells_who_reads_a_version(
    notation: str, version: int, beside: str | None
) -> None:
    found = store(notation).beside(version)
    assert (found.name if found else None) == beside


def test_where_there_are_no_changes_a_snapshot_of_executors_tells() -> None:
    mine = replace(store("3s 5s"), written=("state/0/0/3.snapshot",))
    found = mine.beside(3)
    assert found is not None
    assert found.name == "5.snapshot"
    assert replace(mine, files=files("3s")).beside(3) is None


def test_beside_a_path_the_newest_change_or_log_entry_counts() -> None:
    paths = [
        "commits/7", "commits/12", "commits/.12.crc", "state/0/0/9.delta", "state/0/0/10.delta",
        "state/0/0/11.snapshot", "state/0/0/.12.delta.crc", "state/0/0/x", "state/0/1/SSTs/1.sst",
        "state/0/2/5.zip", "state/0/2/12.zip", "state/0/2/SSTs/1.sst", "state/0/0/left/99.delta",
    ]  # fmt: skip
    storage = MemoryStorage(dict.fromkeys(paths, b""))
    found = Neighbours(storage)
    assert found.of("commits/3") == "commits/12"
    assert found.of("state/0/0/3.delta") == "state/0/0/10.delta"
    assert found.of("state/0/1/SSTs/2.sst") == "commits/12"  # nothing of the query's is there
    assert found.of("state/0/2/SSTs/2.sst") == "state/0/2/12.zip"
    storage.delete("state/0/0/10.delta")
    assert found.of("state/0/0/4.delta") == "state/0/0/10.delta"
    found.note("state/0/0/11.delta")
    assert found.of("state/0/0/4.delta") == "state/0/0/11.delta"
    assert Neighbours(MemoryStorage()).of("state/0/0/3.delta") is None


# -- what a listing says

SPARK, ROOT = Access("spark", "data", 0o644), Access("root", "root", 0o600)


class Listed(Strict):
    """Lists files with modes: those of ours, and the query's own."""

    def __init__(self, **ours: Access) -> None:
        super().__init__()
        self.ours = {name.replace("_", "."): access for name, access in ours.items()}

    def _entry(self, path: str, file: tuple[bytes, float]) -> Entry:
        name = path.rpartition("/")[2].removeprefix("v")
        return replace(super()._entry(path, file), access=self.ours.get(f"v{name}", SPARK))


def listed(**ours: Access) -> Listed:
    found = write_checkpoint(Listed(), last=10, batches=range(6, 10), partitions=1)
    maintain(found, TIGHT.override(grace=DAY))
    found.ours = {name.replace("_", "."): access for name, access in ours.items()}
    return found


def test_a_snapshot_that_the_query_cannot_read_halts_its_store_and_is_not_healthy() -> None:
    storage = listed(v10_snapshot=ROOT)
    storage.refused.add(SNAPSHOT)
    before = {*storage.files}
    report = maintain(storage, TIGHT, dry_run=True)
    (finding,) = report.findings
    assert (finding.code, finding.path, finding.version) == (
        FindingCode.UNREADABLE_BY_QUERY,
        SNAPSHOT,
        10,
    )
    assert finding.batches == (9,)
    assert finding.detail.endswith("; nothing is deleted until it can be read")
    assert maintain(storage, TIGHT).exit_code == 3
    assert {*storage.files} == before
    found = verify(storage)
    assert (found.healthy, [one.code for one in found.findings]) == (False, [finding.code])
    diagnosis = doctor(storage)
    assert not diagnosis.restarts
    assert diagnosis.loadable == (6, 7, 8)
    assert diagnosis.next[0] == "see what `statemaint repair` can repair from the log"
    assert "give the snapshots that the query cannot read" in diagnosis.next[1]
    (step,) = plan_repair(storage).repairs
    assert (step.finding.code, step.removes[-1].path) == (finding.code, SNAPSHOT)
    assert step.rebuild is not None


def test_what_only_seems_unreadable_is_not_found() -> None:
    storage = listed(v10_snapshot=Access("maint", "data", 0o640))
    assert verify(storage).findings == ()  # the storage knows better: an ACL, or a group
    assert storage.checked == [(SNAPSHOT, DELTA)]


def test_what_nobody_loads_is_not_found() -> None:
    storage = listed(v6_snapshot=ROOT)
    storage.refused.add("state/0/0/6.snapshot")
    assert [one.path for one in verify(storage).findings] == ["state/0/0/6.snapshot"]
    for batch in range(6, 9):  # the query moves on
        storage.delete(f"commits/{batch}")
    assert [one.path for one in verify(storage).findings] == []


def test_a_listing_that_is_as_readable_asks_for_nothing_more() -> None:
    storage = listed(v10_snapshot=Access("maint", "maint", 0o644))
    before = storage.requests.get("stat", 0)
    scan(storage)
    assert (storage.requests.get("stat", 0), storage.checked) == (before, [])


def test_a_snapshot_that_may_be_an_executors_counts_if_it_has_another_owner() -> None:
    storage = listed()
    forget_readable(storage)
    path = attestation_path(STORE)
    unproved = storage.read(path).replace(b'"ours":true', b'"ours":false')
    storage.write(path, [unproved], overwrite=True)
    storage.refused.add(SNAPSHOT)
    for owner, found in (("spark", 0), ("root", 1)):
        storage.ours = {"v10.snapshot": Access(owner, "data", 0o600)}
        assert len(verify(storage).findings) == found


def test_one_that_is_cleaned_up_while_it_is_looked_at_is_no_finding() -> None:
    storage = listed(v10_snapshot=ROOT)

    def gone(path: str, *, like: str) -> None:
        storage.delete(path)
        MemoryStorage.check_readable(storage, path, like=like)

    storage.check_readable = gone  # type: ignore[method-assign]
    assert scan(storage).stores[0].unreadable == {}


def test_a_zip_with_a_table_that_the_query_cannot_read_is_unreadable() -> None:
    mine = rocks_store("4c 5c 5z:a 6c sa")
    assert mine.rocks is not None
    found = replace(mine, unreadable={"state/0/0/5.zip": "a is not for spark"})
    (finding,) = [
        one
        for one in diagnose(found, rocks_checkpoint(found, batches=range(4, 6)))
        if one.code is FindingCode.UNREADABLE_BY_QUERY
    ]
    assert (finding.path, finding.batches) == ("state/0/0/5.zip", (4, 5))


# -- undo


def test_undo_puts_each_file_beside_the_querys_own() -> None:
    storage = strict()
    run = maintain(storage, TIGHT.override(trash_for=DAY)).run
    storage.moved.clear()
    assert undo(storage, run).left == {}
    deltas = {path: like for path, like in storage.moved.items() if path.startswith("state/0/0")}
    assert deltas
    assert {*deltas.values()} == {DELTA}


def test_undo_leaves_what_might_not_be_read_and_says_why() -> None:
    storage = strict()
    run = maintain(storage, TIGHT.override(trash_for=DAY)).run
    storage.refused.add("state/0/0/3.delta")
    undone = undo(storage, run)
    assert undone.left == {
        "state/0/0/3.delta": f"user spark may read {DELTA}, and could not read this"
    }
    assert "state/0/0/4.delta" in storage.files
    storage.refused.clear()
    assert undo(storage, run).left == {}


def test_undo_of_a_rollback_brings_nothing_back_that_might_not_be_read() -> None:
    storage = write_checkpoint(Strict(), last=10, batches=range(6, 10), partitions=1)
    run = rollback(storage, 8, trash_for=DAY).run
    trash = f"_statemaint/trash/{run}/"
    moved = [path for path in storage.files if path.startswith(trash) and "manifest" not in path]
    storage.refused = {path.removeprefix(trash) for path in moved}
    with pytest.raises(StorageError, match="could not read this"):
        undo(storage, run)
    assert all(path in storage.files for path in moved)
    storage.refused.clear()
    assert undo(storage, run).files == len(moved)


def test_undo_ends_where_the_file_beside_which_it_puts_others_is_gone() -> None:
    storage = CopyingStorage(clock=Clock(NOW))
    write_checkpoint(storage, last=10, batches=range(6, 10), partitions=1)
    run = maintain(storage, TIGHT.override(trash_for=DAY)).run
    move = storage.move

    def cleaned(path: str, to: str, *, like: str | None = None) -> None:
        if like:
            storage.delete(like)
        move(path, to, like=like)

    storage.move = cleaned  # type: ignore[method-assign]
    with pytest.raises(Superseded, match=f"{DELTA}: existed when this undo began"):
        undo(storage, run)
