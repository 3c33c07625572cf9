"""What no change of the rules may change: every combination of traits is put to them.

What cannot occur is left out, with the reason why.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from statemaint.model.files import ChecksumFile
from statemaint.model.policy import Policy
from statemaint.plan.actions import Window
from statemaint.plan.facts import Facts, gather
from statemaint.plan.fates import (
    Executors,
    Fate,
    Standing,
    StateTraits,
    VersionPlace,
    _of_checksum,
    state_fate,
)
from statemaint.plan.reasons import DeleteReason, KeepReason
from statemaint.plan.staleness import Judgement
from tests.support.checkpoints import NOW, files, store

HELD = (KeepReason.CLOCK_SKEW, KeepReason.VERIFY_OFF)
GUARDS = (*HELD, KeepReason.YOUNG, None)


def combinations() -> Iterator[StateTraits]:
    for snapshot, place, standing, executors, guard in product(
        (True, False), VersionPlace, Standing, Executors, GUARDS
    ):
        # A change is the truth, and never stale (S1); no zip names a changelog, so that no
        # executor needs one.
        if snapshot or (standing is not Standing.STALE and executors is Executors.NONE):
            yield StateTraits(snapshot, place, standing, executors, guard)


def deleted() -> list[StateTraits]:
    return [one for one in combinations() if isinstance(state_fate(one), DeleteReason)]


def test_nothing_is_deleted_under_a_hold() -> None:
    assert not [one for one in deleted() if one.guard in HELD]


def test_no_young_file_of_a_dead_attempt_is_deleted() -> None:
    young = [state_fate(one) for one in deleted() if one.guard is KeepReason.YOUNG]
    assert set(young) == {DeleteReason.STALE_SNAPSHOT, DeleteReason.BELOW_BASE}


def test_what_is_above_the_target_is_never_touched() -> None:
    above = [one for one in combinations() if one.place is VersionPlace.ABOVE_TARGET]
    assert {state_fate(one) for one in above} == {KeepReason.ABOVE_TARGET}


def test_a_change_is_deleted_below_the_base_alone_or_where_no_commit_names_it() -> None:
    changes = [one for one in deleted() if not one.snapshot]
    assert {
        (one.place is VersionPlace.BELOW_BASE, one.standing is Standing.DEAD) for one in changes
    } == {(True, False), (True, True), (False, True)}


def test_files_within_grace_stay_unless_they_are_stale() -> None:
    within = [one for one in deleted() if one.place is VersionPlace.WITHIN_GRACE]
    assert {one.standing for one in within} == {Standing.STALE}


def test_while_executors_upload_no_zip_is_deleted_but_a_stale_one() -> None:
    uploading = [one for one in deleted() if one.executors is Executors.UPLOADING]
    assert {state_fate(one) for one in uploading} == {DeleteReason.STALE_SNAPSHOT}


def test_a_zip_that_an_executor_has_loaded_stays_below_the_base() -> None:
    loaded = [one for one in deleted() if one.executors is Executors.LOADED]
    assert {state_fate(one) for one in loaded} == {
        DeleteReason.STALE_SNAPSHOT,
        DeleteReason.DEAD_ATTEMPT,
    }


@pytest.mark.parametrize(
    ("snapshot", "place", "fate"),
    [
        (True, VersionPlace.AT_BASE, KeepReason.BASE),
        (True, VersionPlace.ABOVE_BASE, KeepReason.SNAPSHOT),
        (True, VersionPlace.FLOOR_TO_BASE, KeepReason.SNAPSHOT),
        (False, VersionPlace.AT_BASE, KeepReason.CHANGE_FEED),
        (False, VersionPlace.ABOVE_BASE, KeepReason.NEEDED),
        (False, VersionPlace.FLOOR_TO_BASE, KeepReason.CHANGE_FEED),
    ],
)
def test_retained_files_stay_for_their_place(
    *, snapshot: bool, place: VersionPlace, fate: Fate
) -> None:
    for guard in GUARDS:
        traits = StateTraits(snapshot, place, Standing.COUNTS, Executors.NONE, guard)
        assert state_fate(traits) is fate


# -- checksum files


def facts() -> Facts:
    seen, window = store("1d"), Window(1, 1, 5, 5, NOW, Policy(orphan_age=50))
    return gather(seen, window, judgement=Judgement(), versions=seen.versions, floor=1)


@pytest.mark.parametrize(
    ("owner", "fate"),
    [
        (KeepReason.BASE, KeepReason.SIDE_FILE),
        (DeleteReason.STALE_SNAPSHOT, DeleteReason.STALE_SIDE),
        (DeleteReason.BELOW_BASE, DeleteReason.SIDE_FILE),
        (DeleteReason.UNUSED_SST, DeleteReason.SIDE_FILE),
        (DeleteReason.ORPHAN_SST, DeleteReason.ORPHAN_SIDE),
        (DeleteReason.DEAD_ATTEMPT, DeleteReason.ORPHAN_SIDE),
        (None, KeepReason.YOUNG),
    ],
)
def test_a_young_checksum_follows_its_file_and_stays_without_one(
    owner: Fate | None, fate: Fate
) -> None:
    (side,) = files("3c@0")
    assert isinstance(side, ChecksumFile)
    assert _of_checksum(facts(), side, owner) is fate
    assert _of_checksum(facts(), replace(side, version=6), owner) is KeepReason.ABOVE_TARGET


def test_an_old_checksum_without_its_file_is_deleted() -> None:
    (side,) = files("3c")
    assert isinstance(side, ChecksumFile)
    assert _of_checksum(facts(), side, None) is DeleteReason.ORPHAN_SIDE
