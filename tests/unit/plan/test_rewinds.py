"""What the times of files say of a log that a rewound query wrote again."""

from dataclasses import replace

import pytest

from statemaint.listing import Entry
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.files import Delta, Snapshot
from statemaint.model.ids import StoreId
from statemaint.model.proof import Attestation, FileRecord
from statemaint.plan.rewinds import contestable, earlier_than_their_log, loose, written_below
from tests.support.checkpoints import store

HOME = "state/0/0"
SNAPSHOT = Snapshot(4, Entry(f"{HOME}/4.snapshot", 1, 100.0))
BASE = FileRecord(f"{HOME}/2.snapshot", 1, 20.0)


@pytest.mark.parametrize(("target", "found"), [(1, 0), (2, 1), (3, 1)])
def test_a_snapshot_of_the_target_may_be_older_than_its_log(target: int, found: int) -> None:
    one = store("1d@50 2d@10 2s@20")
    assert len([*earlier_than_their_log(one, target)]) == found


def rewritten(*times: float) -> tuple[Store, Checkpoint]:
    """Returns a store whose changes have these times; the proof of version 4 begins with 2."""
    deltas = tuple(
        Delta(version, Entry(f"{HOME}/{version}.delta", 1, at))
        for version, at in enumerate(times, 1)
    )
    named = tuple(FileRecord(one.entry.path, 1, 50.0) for one in deltas[2:4])
    proof = Attestation(SNAPSHOT.entry.path, 4, 1, 100.0, "", 0, 0, start=2, inputs=(BASE, *named))
    commits = {version - 1: at + 1 for version, at in enumerate(times, 1)}
    found = Store(StoreId(0, 0), (*deltas, SNAPSHOT), attestations=(proof,))
    return found, Checkpoint("memory:", batches=tuple(commits), commit_times=commits)


@pytest.mark.parametrize(
    ("times", "target", "replaced"),
    [
        ((10.0, 130.0, 140.0, 150.0), 4, [2]),
        ((110.0, 130.0, 140.0, 150.0), 4, [1, 2]),
        ((10.0, 130.0, 140.0, 150.0), 3, None),  # the snapshot is above the target
        ((10.0, 145.0, 140.0, 150.0), 4, None),  # no query writes them in this order
        ((10.0, 20.0, 140.0, 150.0), 4, None),  # only what the proof names
        ((10.0, 130.0, 140.0, 50.0), 4, None),  # the newest change was not written again
        ((10.0, 130.0, 140.0, 150.0, 145.0), 4, [2]),  # what is above the target says nothing
    ],
)
def test_a_log_may_be_written_again_below_what_a_proof_names(
    times: tuple[float, ...], target: int, replaced: list[int] | None
) -> None:
    one, whole = rewritten(*times)
    found = [*written_below(loose(one, whole, target), one, whole, target)]
    paths = [[f"{HOME}/{version}.delta" for version in replaced]] if replaced else []
    assert [[entry.path for entry in one.replaced] for one in found] == [
        sorted(some, reverse=True) for some in paths
    ]


@pytest.mark.parametrize(
    ("times", "without", "compared"),
    [
        ((110.0, 130.0, 140.0, 150.0), (), 4),
        ((110.0, 130.0, 140.0, 150.0), (1,), None),  # the log does not give the version
        ((110.0, 130.0, 140.0, 135.0), (), 4),  # in an order in which no query writes them
        ((10.0, 20.0, 140.0, 150.0), (), None),  # only what the proof names
        ((110.0, 130.0, 140.0, 50.0), (), None),  # the newest change was not written again
    ],
)
def test_without_commits_only_a_comparison_tells_a_rewind_from_a_copy(
    times: tuple[float, ...], without: tuple[int, ...], compared: int | None
) -> None:
    one, whole = rewritten(*times)
    kept = (
        file for file in one.files if not isinstance(file, Delta) or file.version not in without
    )
    one, whole = replace(one, files=tuple(kept)), replace(whole, commit_times={})
    found = [*loose(one, whole, 4)]
    assert [*written_below(found, one, whole, 4)] == []
    pairs = [(snapshot.version, delta.version) for snapshot, delta in contestable(found, one)]
    assert pairs == ([(4, compared)] if compared else [])


@pytest.mark.parametrize(
    ("inputs", "compared"),
    [
        (2, [4]),  # the proof of 2.snapshot reaches the beginning, so the log gives version 4
        (0, []),  # it was compared with nothing itself: which of the two is right is unknown
    ],
)
def test_a_log_gives_a_version_from_the_beginning_or_from_a_proof_that_reaches_it(
    inputs: int, compared: list[int]
) -> None:
    one, whole = rewritten(10.0, 130.0, 140.0, 150.0)
    low = Snapshot(2, Entry(BASE.path, 1, 20.0))
    named = tuple(FileRecord(f"{HOME}/{version}.delta", 1, 10.0) for version in (1, 2))
    proof = Attestation(BASE.path, 2, 1, 20.0, "", 0, 0, inputs=named[:inputs])
    kept = tuple(file for file in one.files if file.entry.path != named[0].path)
    of_four = replace(one.attestations[0], inputs=())
    one = replace(one, files=(*kept, low), attestations=(proof, of_four))
    whole = replace(whole, commit_times={})
    found = contestable(loose(one, whole, 4), one)
    assert [snapshot.version for snapshot, _ in found] == compared


def test_the_proof_of_an_attempt_that_does_not_count_says_nothing() -> None:
    one, whole = rewritten(10.0, 130.0, 140.0, 150.0)
    other = Snapshot(4, Entry(f"{HOME}/4_b.snapshot", 1, 100.0))
    of_four = replace(one, files=(*one.files, other))
    assert of_four.versions.snapshots[4] == other
    assert [*loose(of_four, whole, 4)] == []
    low, counts = (Snapshot(3, Entry(f"{HOME}/{name}.snapshot", 1, 100.0)) for name in ("3", "3_b"))
    proof = replace(one.attestations[0], path=low.entry.path, version=3)
    one = replace(one, files=(*one.files, low, counts), attestations=(proof, *one.attestations))
    assert [found.snapshot.version for found in loose(one, whole, 4)] == [4]


def test_what_a_proof_names_below_the_first_rewritten_change_was_not_written_again() -> None:
    """The proof names another attempt of version 3."""
    one, whole = rewritten(10.0, 20.0, 130.0, 140.0)
    named = tuple(FileRecord(f"{HOME}/{version}.delta", 1, 20.0) for version in (2, 4))
    proof = replace(one.attestations[0], start=1, inputs=named)
    one = replace(one, attestations=(proof,))
    (found,) = loose(one, whole, 4)
    both = [*written_below([replace(found, shown=False), found], one, whole, 4)]
    assert [[entry.path for entry in it.replaced] for it in both] == [[f"{HOME}/3.delta"]]
