"""What is done together, and when executors' snapshots are noted."""

from dataclasses import replace
from typing import Any

import pytest

from statemaint.execute.fence import Fence, PinWatch
from statemaint.execute.ledger import Ledger
from statemaint.execute.store_record import RunContext
from statemaint.execute.stores import StoreExecutor, _folds
from statemaint.fold import ClearEngine, Source
from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store
from statemaint.plan.actions import Delete, StorePlan, WriteSnapshot
from statemaint.plan.reasons import DeleteReason, SnapshotReason
from statemaint.records.attestations import attestation_path
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import STORE, checkpoint, store
from tests.support.rocks import rocks_checkpoint, rocks_store

DELETE = Delete(STORE, 0, Entry("x", 1, None), DeleteReason.ORPHAN_SST)


def notes(found: Store, *actions: Delete) -> bool:
    """Returns whether the work on a store begins with a note of executors' snapshots."""
    storage = MemoryStorage()
    described = (rocks_checkpoint if found.rocks else checkpoint)(found, batches=range(3))
    context = RunContext(
        storage, ClearEngine(), Ledger(storage, "r"), Fence(), PinWatch(storage, None), target=3
    )
    plan = StorePlan(found, None, actions, (), ())
    StoreExecutor.of(plan, Source.of(storage, found, described), context)._note_uploads()
    return attestation_path(STORE) in storage.files


def test_new_uploads_are_noted_before_a_deletion_or_alone_where_they_count() -> None:
    theirs, none = rocks_store("1c 2c 2z 3c"), rocks_store("1c 2c 3c")
    assert (notes(theirs), notes(theirs, DELETE)) == (True, True)
    assert (notes(none), notes(none, DELETE)) == (False, False)
    plain = store("1d 2d 2s 3d")
    assert (notes(plain), notes(plain, DELETE)) == (False, True)


CHANGED = rocks_store("1c 2c 2z 3c 4c 4z")


@pytest.mark.parametrize(
    ("floor", "families", "share"),
    [(2, None, True), (2, CHANGED.versions.base(2), False), (4, None, False)],
    ids=["the beginning of a fold", "other families", "no beginning"],
)
def test_two_snapshots_share_a_fold_that_passes_through_both(
    floor: int, families: Any, *, share: bool
) -> None:
    versions = store("1d 2d 3d 4d").versions
    chains = {version: versions.from_log(version, proved=()) for version in (floor, 3)}
    target, below = (
        WriteSnapshot(STORE, "x", chain, SnapshotReason.FORCED)
        for chain in (chains[3], chains[floor])
        if isinstance(chain, Chain)
    )
    folds = _folds((target, replace(below, families=families)))
    assert (len(folds) == 1) is share
