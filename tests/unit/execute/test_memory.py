"""The memory that a store's plan is reckoned to take: its largest fold, with all that it holds."""

from dataclasses import replace

import pytest

from statemaint.execute.stores import bytes_read, chains_of, need_of
from statemaint.fold import Source
from statemaint.fold.needs import UNKNOWN, density, fold_need, read_need
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Provider, Store
from statemaint.model.files import Delta, Snapshot
from statemaint.plan.actions import Action, Attest, Delete, StorePlan, WriteSnapshot
from statemaint.plan.reasons import DeleteReason, SnapshotReason
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import STORE, checkpoint, delta_bytes, store
from tests.support.faults import HookedStorage
from tests.support.rocks import SIZE, rocks_checkpoint, rocks_store

HDFS, ROCKS = Provider.HDFS_BACKED, Provider.ROCKSDB
LARGE = 1 << 30


def chain(one: Store, version: int) -> Chain:
    found = one.versions.chain(version)
    assert isinstance(found, Chain)
    return found


def write(one: Store, version: int) -> WriteSnapshot:
    return WriteSnapshot(STORE, "x", chain(one, version), SnapshotReason.FORCED)


def plan(one: Store, *actions: Action) -> StorePlan:
    return StorePlan(one, None, actions, (), ())


def source(one: Store, storage: MemoryStorage | None = None) -> Source:
    described = (rocks_checkpoint if one.rocks else checkpoint)(one, batches=range(3))
    return Source.of(storage or HookedStorage(parallel=8), one, described)


PLAIN = store("1d 2d 2s 3d 4d")
ZIPS = rocks_store("1c 2c 2z:a+b 3c 4c sa sb")


def snapshot(one: Store) -> Snapshot:
    return one.versions.snapshots[2]


def test_every_chain_that_is_folded_counts() -> None:
    stale = Delete(STORE, 2, snapshot(PLAIN).entry, DeleteReason.STALE_SNAPSHOT)
    found = plan(
        PLAIN,
        write(PLAIN, 4),
        replace(stale, instead=chain(PLAIN, 3)),
        stale,
        Attest(STORE, snapshot(PLAIN), chain(PLAIN, 1)),
        Attest(STORE, snapshot(PLAIN), None),
    )
    assert chains_of(found) == tuple(chain(PLAIN, version) for version in (4, 3, 1))
    assert bytes_read(found) == 300 + 200 + 100


@pytest.mark.parametrize("far", [False, True])
def test_what_is_only_read_is_read_a_window_at_a_time(*, far: bool) -> None:
    found = source(PLAIN, HookedStorage(parallel=8) if far else MemoryStorage())
    read = plan(PLAIN, Attest(STORE, snapshot(PLAIN), None))
    assert need_of(read, found) == read_need(100, far=found.far)
    assert found.far is far
    assert need_of(plan(PLAIN), found) == 0


def test_a_fold_needs_what_its_chain_does_and_each_snapshot_that_is_written() -> None:
    found = plan(PLAIN, write(PLAIN, 4), write(PLAIN, 3))
    expected = fold_need(chain(PLAIN, 4), HDFS, UNKNOWN, writes=2, far=True)
    assert need_of(found, source(PLAIN)) == expected
    near = need_of(found, source(PLAIN, MemoryStorage()))
    assert near == fold_need(chain(PLAIN, 4), HDFS, UNKNOWN, writes=2) < expected


def test_a_zip_is_folded_with_the_tables_of_its_base() -> None:
    size = 1 << 20
    assert ZIPS.rocks is not None
    tables = {path: dict.fromkeys(parts, size) for path, parts in ZIPS.rocks.parts.items()}
    one = replace(ZIPS, rocks=replace(ZIPS.rocks, parts=tables))
    found = need_of(plan(one, write(one, 4), write(one, 3)), source(one))
    assert found == fold_need(chain(one, 4), ROCKS, writes=2, tables=2 * size, far=True)
    assert SIZE < size
    below = need_of(plan(one, write(one, 1)), source(one))
    assert below == fold_need(chain(one, 1), ROCKS, writes=1, far=True)


def test_large_changes_are_looked_into() -> None:
    content = delta_bytes([(b"key", b"value")])
    storage = HookedStorage({file.entry.path: content for file in PLAIN.files}, parallel=8)
    files = tuple(
        replace(one, entry=replace(one.entry, size=LARGE)) if isinstance(one, Delta) else one
        for one in PLAIN.files
    )
    one = replace(PLAIN, files=files)
    found = density(source(one, storage), chain(one, 4).deltas, HDFS)
    assert found != UNKNOWN
    expected = fold_need(chain(one, 4), HDFS, found, writes=1, far=True)
    assert expected != fold_need(chain(one, 4), HDFS, writes=1, far=True)
    assert need_of(plan(one, write(one, 4)), source(one, storage)) == expected
