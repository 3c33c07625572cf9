"""What a deletion looks at once more, right before the files go, and in which order they go."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import google_crc32c
import pytest

from statemaint.errors import AlreadyExistsError, StorageError, Superseded
from statemaint.execute.fence import Fence, PinWatch, SharedLook
from statemaint.execute.ledger import Ledger
from statemaint.execute.store_record import RunContext
from statemaint.execute.stores import StoreExecutor
from statemaint.execute.trash import Trash, maintained
from statemaint.fold import ClearEngine, Source
from statemaint.listing import Entry
from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.model.proof import Attestation, FileRecord
from statemaint.plan.actions import Delete
from statemaint.plan.reasons import DeleteReason
from statemaint.planning import plan_checkpoint
from statemaint.records.manifest import StoreWorld, contents
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import COMMIT, drop, write_checkpoint
from tests.support.faults import Clock, HookedStorage, refuse
from tests.support.ledgers import ledger_lines
from tests.support.rocks import write_rocks_checkpoint

TIGHT = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0)
FIRST = TIGHT.override(max_deletes_per_run=1)
HOME = "state/0/0"


class Watched(HookedStorage):
    """Remembers what is deleted together, and has something happen before a deletion."""

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        super().__init__(files)
        self.pages: list[tuple[str, ...]] = []
        self.happens: Callable[[], object] = lambda: None

    def delete_all(
        self, paths: Sequence[str], *, before: Callable[[], object] = lambda: None
    ) -> None:
        self.pages.append(tuple(paths))
        self.happens()
        super().delete_all(self.pages[-1], before=before)


class Noting(Trash):
    """Remembers what is noted in the manifest."""

    def note(self, deletes: Any, world: StoreWorld | None = None) -> None:
        self.noted = [*getattr(self, "noted", ()), (len(deletes), world)]
        super().note(deletes, world)


def executor(storage: MemoryStorage, **context: Any) -> tuple[StoreExecutor, tuple[Delete, ...]]:
    """Returns the work on a store with a proved base, and the deletions that are left."""
    maintain(storage, FIRST)
    plan = plan_checkpoint(storage, TIGHT)[1]
    run = RunContext(
        storage, ClearEngine(), Ledger(storage, "r"), Fence(), PinWatch(storage, None), **context
    )
    store = plan.stores[0]
    found = StoreExecutor.of(store, Source.of(storage, store.store, plan), run)
    return found, tuple(one for one in store.actions if isinstance(one, Delete))


def hdfs(files: int = 25) -> Watched:
    return write_checkpoint(Watched(), last=files, partitions=1)


def rocks() -> Watched:
    return write_rocks_checkpoint(Watched(), partitions=1)


# -- the base


def test_a_base_that_is_replaced_after_the_page_began_ends_it() -> None:
    storage = hdfs()
    run, deletes = executor(storage)
    base = run.deleter.base
    assert base is not None
    before = storage.files
    storage.happens = lambda: storage.write(base, [b"another"], overwrite=True)
    with pytest.raises(Superseded, match="the snapshot was replaced after the run was planned"):
        list(run.deleter.delete(deletes))
    assert before.keys() - storage.files.keys() == set()


def test_nothing_that_relies_on_a_base_goes_without_one() -> None:
    storage = hdfs()
    run, deletes = executor(storage)
    before = storage.files
    for deleter in (replace(run.deleter, base=None), replace(run.deleter, base=f"{HOME}/9.zip")):
        with pytest.raises(Superseded, match=f"{deleter.base or HOME}: the base has no attestat"):
            deleter._base_must_stand(deletes)
    assert storage.files == before


def test_what_relies_on_no_base_goes_without_one() -> None:
    storage = rocks()
    run, _ = executor(storage)
    table = Entry(f"{HOME}/SSTs/old.sst", 1, None)
    storage.write(table.path, [b"x"])
    page = (Delete(run.plan.store.id, 0, table, DeleteReason.ORPHAN_SST),)
    storage.calls.clear()
    deleter = replace(run.deleter, base=None)
    deleter._base_must_stand(page)
    deleter._tables_must_stand(page)
    assert storage.paths("list") == []
    assert [one.action.path for one in deleter.delete(page)] == [table.path]
    assert table.path not in storage.files


@pytest.mark.parametrize(
    ("placed", "held", "first"),
    [(False, False, True), (False, True, True), (True, False, True), (True, True, False)],
)
def test_a_base_is_checked_before_a_page_is_noted_unless_it_was_just_read_back(
    *, placed: bool, held: bool, first: bool
) -> None:
    storage = hdfs()
    run, deletes = executor(storage)
    base = run.deleter.base
    assert base is not None
    run.record.placed += [storage.stat(base)] * placed
    run.record.held += [b"{}\n"] * held
    storage.calls.clear()
    list(run.deleter._pages(deletes, None))
    assert (storage.calls[0] == ("stat", base)) is first


def test_a_stale_snapshot_stays_when_a_file_that_takes_its_place_is_missing() -> None:
    storage = hdfs()
    run, _ = executor(storage)
    chain = run.plan.store.versions.from_log(25, proved=())
    assert chain is not None
    entry = storage.stat(f"{HOME}/25.snapshot")
    stale = Delete(run.plan.store.id, 25, entry, DeleteReason.STALE_SNAPSHOT, instead=chain)
    run.deleter._instead_must_stand((stale,))
    storage.delete(f"{HOME}/20.delta")
    why = r"20\.delta: version 25 is loaded from it once a stale snapshot is deleted; it was repl"
    with pytest.raises(Superseded, match=why):
        run.deleter._instead_must_stand((stale,))


# -- tables of RocksDB


def test_a_table_that_the_base_needs_and_that_is_gone_ends_the_deletion() -> None:
    storage = rocks()
    run, deletes = executor(storage)
    base = run.deleter.base
    assert base is not None
    run.deleter._tables_must_stand(deletes)
    needed = run.record.tables_of(base)
    storage.calls.clear()
    run.deleter._tables_must_stand(deletes)
    assert storage.paths("list") == [f"{HOME}/SSTs"]
    storage.delete(needed[0].path)
    with pytest.raises(Superseded, match=f"{needed[0].path}: {base} needs it; it was replaced or"):
        list(run.deleter.delete(deletes))
    assert {one.path for one in deletes} <= storage.files.keys()


def test_what_relies_on_no_base_goes_without_the_tables_of_the_base() -> None:
    storage = rocks()
    run, _ = executor(storage)
    temp = Entry(f"{HOME}/.5.zip.tmp", 1, None)
    storage.calls.clear()
    run.deleter._tables_must_stand((Delete(run.plan.store.id, 5, temp, DeleteReason.ORPHAN_TEMP),))
    assert storage.paths("list") == []


def test_a_snapshot_of_hdfs_needs_no_tables() -> None:
    storage = hdfs()
    run, deletes = executor(storage)
    storage.calls.clear()
    run.deleter._tables_must_stand(deletes)
    assert storage.paths("list") == []


def test_an_sst_file_that_a_zip_of_this_very_run_names_stays() -> None:
    storage = write_rocks_checkpoint(MemoryStorage(), partitions=1)
    plan = plan_checkpoint(storage, Policy())[1]
    context = RunContext(
        storage, ClearEngine(), Ledger(storage, "r"), Fence(), PinWatch(storage, None)
    )
    store = plan.stores[0]
    run = StoreExecutor.of(store, Source.of(storage, store.store, plan), context)
    written = Entry("state/0/0/25.zip", 1, None)
    table, other = (Entry(f"state/0/0/SSTs/{one}.sst", 1, None) for one in "ab")
    page = (Delete(store.store.id, 0, table, DeleteReason.UNUSED_SST),)
    run.deleter._no_other_snapshot(page)
    run.record.placed.append(written)
    run.record.tables[written.path] = (other,)
    run.deleter._no_other_snapshot(page)
    run.record.tables[written.path] = (other, table)
    with pytest.raises(Superseded, match=r"a\.sst.*a snapshot of this run refers to it"):
        run.deleter._no_other_snapshot(page)


# -- pages, and where the files go


def test_files_go_page_by_page_in_their_order_and_each_page_is_noted_first() -> None:
    storage = hdfs(450)
    run, deletes = executor(storage)
    assert len(deletes) > 400
    assert [one.action for one in run.deleter.delete(deletes)] == [*deletes]
    paths = [one.path for one in deletes]
    assert storage.pages[-3:] == [
        tuple(paths[:200]), tuple(paths[200:400]), tuple(paths[400:])
    ]  # fmt: skip
    noted = [one["path"] for one in ledger_lines(storage, "0/0") if one["run"] == "r"]
    assert noted == paths


def test_the_trash_has_the_store_s_log_once_and_what_goes_in_all() -> None:
    storage = hdfs(450)
    trash = Noting(storage, "r", 60.0)
    run, deletes = executor(storage, trash=trash, target=450)
    list(run.deleter.delete(deletes))
    (first, world), *others = trash.noted
    assert (first, others) == (200, [(200, None), (len(deletes) - 400, None)])
    read = [_version(one.path) for one in world.files if one.sum is not None]
    assert (world.target, read) == (450, [max(one.version for one in deletes) + 1])
    assert {f"_statemaint/trash/r/{one.path}" for one in deletes} <= storage.files.keys()


@pytest.mark.parametrize("trash", [False, True])
def test_a_stale_snapshot_goes_aside_whatever_the_policy(*, trash: bool) -> None:
    storage = hdfs()
    places = {"aside": Trash(storage, "aside", 60.0)}
    if trash:
        places["trash"] = Trash(storage, "trash", 60.0)
    run, _ = executor(storage, **places)
    (file,) = (one.entry for one in run.plan.store.files if one.entry.name == "17.snapshot")
    stale = Delete(run.plan.store.id, 17, file, DeleteReason.STALE_SNAPSHOT)
    list(run.deleter.delete((stale,)))
    kept = f"_statemaint/trash/{'trash' if trash else 'aside'}/{file.path}"
    assert kept in storage.files
    assert file.path not in storage.files


class RequestOrder(Fence, SharedLook):
    """Remembers when the lease and the commit were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[str] = []

    def must_hold(self) -> None:
        self.requests.append("lease")

    def at(self, storage: Any, path: str, *, first: Any = None) -> Entry:
        entry = super().at(storage, path, first=first)
        self.requests.append(path)
        return entry


def test_each_page_asks_for_the_lease_and_once_for_the_commit_by_the_look_of_all_stores() -> None:
    storage = hdfs(450)
    storage._clock = Clock()
    commit = max(storage.list("commits"), key=lambda entry: int(entry.name))
    run, deletes = executor(storage, commit=commit)
    order = RequestOrder()
    context = replace(run.deleter.context, fence=order, look=order)
    storage.calls.clear()
    list(replace(run.deleter, context=context).delete(deletes))
    assert order.requests == ["lease", commit.path] * 3
    assert storage.paths("stat").count(commit.path) == 3


def test_a_deletion_that_fails_halfway_reports_the_files_that_are_missing() -> None:
    storage = hdfs()
    side = f"{HOME}/.2.delta.crc"
    storage.write(side, [b"crc"])
    run, deletes = executor(storage)
    last = deletes[-1].path
    storage.before = refuse("delete", last)
    done: list[str] = []
    with pytest.raises(StorageError):
        done.extend(outcome.action.path for outcome in run.deleter.delete(deletes))
    assert {side, f"{HOME}/2.delta"} < {*done}
    assert sorted(done) == sorted(delete.path for delete in deletes if delete.path != last)


# -- moves


class Copying(Watched):
    """Moves as S3 does: copies of all files, then one deletion; copies take their time."""

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        super().__init__(files)
        self._clock = self.clock = Clock(0.0)
        self.seconds = 0.0
        self.moved: list[tuple[str, ...]] = []

    def move_all(self, moves: Any, *, before: Any = None, after: Any = None) -> None:
        self.moved.append(tuple(entry.path for entry, _ in moves))
        self.clock.now += self.seconds
        self.happens()
        super().move_all(moves, before=before, after=after)


def copying(files: int = 25) -> Copying:
    return write_checkpoint(Copying(), last=files, partitions=1)


def test_the_files_of_a_page_are_moved_together_by_their_rank() -> None:
    storage = copying(450)
    for version in (1, 2):
        storage.write(f"{HOME}/.{version}.delta.crc", [b"crc"])
    run, deletes = executor(storage, trash=Trash(storage, "r", 60.0))
    list(run.deleter.delete(deletes))
    assert len(deletes) > 400
    assert [len(one) for one in storage.moved if len(one) > 2] == [
        len([one for one in deletes[start : start + 200] if one.rank == 1])
        for start in range(0, len(deletes), 200)
    ]
    assert storage.moved[0] == (f"{HOME}/.2.delta.crc",)  # the first run has taken the other


def test_a_base_that_is_replaced_during_the_copies_keeps_the_files() -> None:
    storage = copying()
    run, deletes = executor(storage, trash=Trash(storage, "r", 60.0))
    base = run.deleter.base
    assert base is not None
    storage.happens = lambda: storage.write(base, [b"another"], overwrite=True)
    with pytest.raises(Superseded, match="the snapshot was replaced after the run was planned"):
        list(run.deleter.delete(deletes))
    assert {one.path for one in deletes} <= storage.files.keys()


@pytest.mark.parametrize("purged", [False, True])
def test_a_rewind_during_copies_that_take_long_keeps_the_files(*, purged: bool) -> None:
    storage = copying()
    newest = max(path for path in storage.files if path.startswith("commits/2"))
    commit = storage.stat(newest)
    run, deletes = executor(storage, trash=Trash(storage, "r", 60.0), commit=commit)
    storage.seconds = 2.0

    def rewound() -> None:
        storage.write(newest, [b"v1\n{}\n"], overwrite=True)
        if purged:  # the entry itself no longer tells
            storage.happens = lambda: None
            drop(storage, "commits")
            storage.write("commits/90", [COMMIT])
            storage.write(f"{HOME}/20.delta", [b"written again"], overwrite=True)

    storage.happens = rewound
    with pytest.raises(Superseded, match="the query was rewound"):
        list(run.deleter.delete(deletes))
    assert {one.path for one in deletes} <= storage.files.keys()


def test_a_file_written_again_since_the_plan_is_not_moved_and_the_moves_are_reported() -> None:
    storage = hdfs()
    run, deletes = executor(storage, trash=Trash(storage, "r", 60.0))
    path = deletes[-1].path
    storage.write(path, [b"written again"], overwrite=True)
    storage.before = refuse("list", HOME)  # nothing else shows which files were moved
    done: list[str] = []
    with pytest.raises(Superseded, match=f"{path}: was replaced since it was listed"):
        done.extend(outcome.action.path for outcome in run.deleter.delete(deletes))
    assert storage.read(path) == b"written again"
    assert done == [delete.path for delete in deletes[:-1]]


class Overwriting(Watched):
    """Moves as S3 does, whose copies replace whatever has the new name."""

    def move_all(self, moves: Any, *, before: Any = None, after: Any = None) -> None:
        for _, to in moves:
            self._files.pop(to, None)
        super().move_all(moves, before=before, after=after)


def test_a_file_that_an_earlier_attempt_has_copied_is_compared_before_it_goes() -> None:
    storage = write_checkpoint(Overwriting(), partitions=1)
    trash = Trash(storage, "r", 60.0)
    run, deletes = executor(storage, trash=trash)
    same, other = deletes[0], deletes[1]
    storage.write(trash.path_of(same.entry), [storage.read(same.path)])
    storage.write(trash.path_of(other.entry), [b"another"])
    with pytest.raises(AlreadyExistsError):
        list(run.deleter.delete(deletes))
    assert storage.read(trash.path_of(other.entry)) == b"another"
    assert other.path in storage.files


def test_the_file_above_those_moved_is_not_read_if_the_proof_has_its_checksum() -> None:
    storage = hdfs()
    trash = Trash(storage, "r", 60.0)
    run, deletes = executor(storage, trash=trash, target=25)
    reads = storage.requests["read"]
    list(run.deleter.delete(deletes))
    assert storage.requests["read"] == reads
    notes = contents(storage, "r").notes
    (world,) = {id(one.world): one.world for one in notes.values()}.values()
    assert world is not None
    first = min(
        (one for one in world.files if _version(one.path) > max(d.version for d in deletes)),
        key=lambda one: _version(one.path),
    )
    assert first.sum == google_crc32c.value(storage.read(first.path))


def test_the_checksum_in_a_proof_is_of_the_file_of_that_path_alone() -> None:
    storage = hdfs()
    store = plan_checkpoint(storage, TIGHT)[1].stores[0].store
    entry = storage.stat(f"{HOME}/9.delta")
    unread = FileRecord.of(entry, {})
    other = unread._replace(path=f"{HOME}/8.delta", sum=7)
    proof = Attestation(f"{HOME}/25.snapshot", 25, 1, None, "", 0, 0, inputs=(other, unread))
    world = maintained(storage, store, 25, 8, proof)
    read = [(file.path, file.sum) for file in world.files if file.sum is not None]
    assert read == [(entry.path, google_crc32c.value(storage.read(entry.path)))]


def _version(path: str) -> int:
    return int(path.rpartition("/")[2].partition(".")[0])
