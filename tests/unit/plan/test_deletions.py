"""In which order files are deleted, and what takes the place of a stale snapshot (S7)."""

from dataclasses import replace

import pytest

from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store
from statemaint.model.files import Delta
from statemaint.model.policy import Policy
from statemaint.model.proof import Attestation, FileRecord
from statemaint.plan.actions import Delete, Window, WriteSnapshot
from statemaint.plan.facts import Boundary, Facts, _doubted, boundary_of, gather
from statemaint.plan.fates import Fate, VersionPlace, clearances, deletions, fates_of, place_of
from statemaint.plan.reasons import DeleteReason, KeepReason, SnapshotReason, WithheldReason
from statemaint.plan.snapshots import _taken
from statemaint.plan.staleness import Judgement, Suspect
from tests.support.checkpoints import NOW, STORE, names, store

HOME = STORE.directory
ONE = store("1d 2d 3d 3s 4d 4s 4k 5d")


def suspect(version: int, *replaced: int, by_query: bool = True) -> Suspect:
    snapshot = ONE.versions.snapshots[version]
    chain = ONE.versions.from_log(version, proved=())
    assert isinstance(chain, Chain)
    return Suspect(snapshot, chain, replaced or (version,), by_query=by_query, why="")


STALE = Judgement(stale=(suspect(3), suspect(4)))


def facts(found: Judgement = STALE) -> Facts:
    window = Window(2, 2, 5, 5, NOW, Policy(grace=0))
    versions = found.without_stale(ONE).versions
    return gather(ONE, window, judgement=found, versions=versions, floor=2)


def decided(**reasons: DeleteReason) -> dict[Entry, Fate]:
    """Returns fates: the named files go, all others stay."""
    return {
        file.entry: reasons.get(file.entry.name.strip(".").replace(".", "_"), KeepReason.NEEDED)
        for file in ONE.files
    }


def test_a_stale_snapshot_goes_only_for_the_chain_that_gives_its_version() -> None:
    reasons = {"4_snapshot": DeleteReason.STALE_SNAPSHOT, "1_delta": DeleteReason.BELOW_BASE}
    fates = decided(**reasons)
    change, snapshot = deletions(facts(), fates)
    assert (change.path, change.version, change.instead) == (f"{HOME}/1.delta", 1, None)
    assert (snapshot.version, snapshot.instead) == (4, suspect(4).instead)


@pytest.mark.parametrize(("written", "cleared"), [(3, [3]), (4, [3, 4, 4]), (5, [])])
def test_only_stale_snapshots_up_to_a_new_one_go_before_it_is_written(
    written: int, cleared: list[int]
) -> None:
    reasons = {
        "1_delta": DeleteReason.BELOW_BASE,
        "3_snapshot": DeleteReason.STALE_SNAPSHOT,
        "4_snapshot": DeleteReason.STALE_SNAPSHOT,
        "4_snapshot_crc": DeleteReason.STALE_SIDE,
    }
    deletes: tuple[Delete, ...] = deletions(facts(), decided(**reasons))
    chain = ONE.versions.from_log(written, proved=())
    assert chain is not None
    write = WriteSnapshot(STORE, f"{HOME}/{written}.snapshot", chain, SnapshotReason.FORCED)
    assert [one.version for one in clearances(facts(), deletes, (write,))] == cleared


def test_only_a_stale_snapshot_makes_room_for_a_new_one() -> None:
    path = f"{HOME}/4.snapshot"
    assert _taken(facts(), path) is None
    assert _taken(facts(Judgement()), path) is WithheldReason.NAME_TAKEN
    held = replace(facts(), window=replace(facts().window, policy=Policy(verify=False)))
    assert _taken(held, path) is WithheldReason.VERIFY_OFF
    assert _taken(facts(), f"{HOME}/5.snapshot") is None


# -- versions in doubt


def test_versions_from_a_replaced_one_up_to_its_witness_are_in_doubt() -> None:
    one = suspect(4, 2, 3, by_query=False)
    assert [*_doubted(ONE, Judgement(disputed=(one,)))] == [2, 3]
    assert [*_doubted(ONE, Judgement(disputed=(suspect(4, 2),)))] == []


@pytest.mark.parametrize(("files", "doubted"), [(4, [2, 3]), (0, [])])
def test_versions_that_an_earlier_comparison_left_in_doubt_stay_in_doubt(
    files: int, doubted: list[int]
) -> None:
    record = FileRecord(f"{HOME}/2.delta", 100, NOW - 1e9)
    proof = Attestation(
        f"{HOME}/4.snapshot", 4, 100, NOW - 1e9, "", 0, 0, files=files, doubted=(record,)
    )
    found: Store = replace(ONE, attestations=(proof,))
    assert [*_doubted(found, Judgement())] == doubted
    edited = tuple(
        replace(one, entry=replace(one.entry, modified=NOW)) if isinstance(one, Delta) else one
        for one in ONE.files
    )
    assert [*_doubted(replace(found, files=edited), Judgement())] == []


# -- fates


def test_checksums_of_stale_snapshots_go_with_them() -> None:
    left = STALE.without_stale(ONE)
    assert names(one.entry.path for one in left.files) == [
        "1.delta", "2.delta", "3.delta", "4.delta", "5.delta"
    ]  # fmt: skip


def test_a_temporary_file_of_the_target_is_of_no_running_batch() -> None:
    seen = replace(facts(), store=store("5t 6t"))
    assert list(fates_of(seen, boundary_of(seen, ()), ()).values()) == [
        DeleteReason.ORPHAN_TEMP,
        KeepReason.ABOVE_TARGET,
    ]


def test_without_a_base_every_retained_version_is_above_it() -> None:
    none = Boundary(None, 0, 0)
    found = [place_of(facts(), none, version) for version in (1, 5, 6)]
    above = VersionPlace.ABOVE_BASE
    assert found == [above, above, VersionPlace.ABOVE_TARGET]


@pytest.mark.parametrize(
    ("version", "place"),
    [
        (1, VersionPlace.BELOW_BASE),
        (2, VersionPlace.FLOOR_TO_BASE),
        (3, VersionPlace.AT_BASE),
        (4, VersionPlace.ABOVE_BASE),
    ],
)
def test_a_version_from_the_floor_to_a_later_base_is_between_them(
    version: int, place: VersionPlace
) -> None:
    assert place_of(facts(), Boundary(ONE.versions.snapshots[3], 2, 2), version) is place


def test_a_stale_snapshot_is_deleted_with_its_checksum() -> None:
    seen = facts()
    fates = {one.name: fate for one, fate in fates_of(seen, boundary_of(seen, ()), ()).items()}
    assert fates["4.snapshot"] is DeleteReason.STALE_SNAPSHOT
    assert fates[".4.snapshot.crc"] is DeleteReason.STALE_SIDE
