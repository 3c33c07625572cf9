"""Who has replaced the log below a proved snapshot: a query that was rewound, or something else."""

from dataclasses import replace
from typing import Any

import pytest

from statemaint.listing import Entry
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.files import Delta, Snapshot, StateFile
from statemaint.model.findings import FindingCode
from statemaint.model.ids import StoreId
from statemaint.model.proof import Attestation, FileRecord, Outdated
from statemaint.model.rocks import Rocks
from statemaint.plan.findings.health import diagnose
from statemaint.plan.staleness import Judgement, judge, was_replaced

HOME = "state/0/0"
PROVED = 100.0
Times = dict[int, float | None]


def delta(version: int, modified: float | None) -> Delta:
    return Delta(version, Entry(f"{HOME}/{version}.delta", 100, modified))


def seen(again: Times, *, first: int = 1, commits: Times | None = None, last: int = 6,
         ours: bool = True) -> tuple[Store, Checkpoint]:  # fmt: skip
    """A store of deltas and a proved 4.snapshot, some of whose inputs were written again."""
    times: Times = {1: 11.0, 2: 12.0, 3: 13.0, 4: 14.0, 5: 200.0, 6: 210.0}
    snapshot = Snapshot(4, Entry(f"{HOME}/4.snapshot", 100, PROVED))
    records = tuple(FileRecord(f"{HOME}/{one}.delta", 100, times[one]) for one in range(1, 5))
    proof = Attestation(
        snapshot.entry.path, 4, 100, PROVED, "", 0, 0, ours=ours, inputs=records
    )  # fmt: skip
    deltas = [delta(one, (times | again)[one]) for one in range(first, last + 1)]
    files: tuple[StateFile, ...] = (*deltas, snapshot)
    replaced = tuple(one.entry for one in deltas if one.version in again and one.version < 5)
    store = Store(StoreId(0, 0), files, outdated=(Outdated(proof, replaced),))
    every: Times = dict.fromkeys(range(last), 300.0)
    committed = every if commits is None else commits
    batches = tuple(range(last))
    return store, Checkpoint("x", batches=batches, stores=(store,), commit_times=committed)


def judged(again: Times, **named: object) -> Judgement:
    return judge(*seen(again, **named))  # type: ignore[arg-type]


def kind(found: Judgement) -> str:
    (name,) = [one for one in ("stale", "disputed", "lost") if getattr(found, one)]
    return name


@pytest.mark.parametrize("again", [{4: 150.0}, {3: 140.0, 4: 150.0}, {3: 150.0, 4: 150.0}])
def test_what_a_query_wrote_again_in_order_makes_a_snapshot_stale(again: Times) -> None:
    found = judged(again)
    assert kind(found) == "stale"
    assert found.stale[0].replaced == tuple(again)
    assert found.stale[0].instead.paths[-1] == f"{HOME}/4.delta"


@pytest.mark.parametrize(
    "again",
    [
        {3: 140.0},  # the one above it was not written again
        {3: 160.0, 4: 150.0},  # not in order
        {3: 90.0, 4: 150.0},  # before the snapshot
        {4: 100.0},  # as old as the snapshot
        {4: 205.0},  # after the next version
        {4: None},
        {3: None, 4: 150.0},
    ],
)
def test_a_log_that_no_query_writes_is_in_doubt(again: Times) -> None:
    found = judged(again)
    assert kind(found) == "disputed"
    assert not found.disputed[0].by_query


def test_a_commit_may_have_the_time_of_its_change() -> None:
    assert kind(judged({4: 150.0}, commits={3: 150.0})) == "stale"


def test_what_lies_above_the_newest_commit_says_nothing_of_the_log() -> None:
    store, checkpoint = seen({4: 205.0}, last=5)
    assert kind(judge(store, checkpoint)) == "disputed"
    assert kind(judge(store, replace(checkpoint, batches=(0, 1, 2, 3)))) == "stale"


@pytest.mark.parametrize("committed", [140.0, 90.0, 100.0, None])
def test_a_commit_that_is_older_than_its_change_puts_the_log_in_doubt(
    committed: float | None,
) -> None:
    commits = dict.fromkeys(range(6), 300.0) | {3: committed}
    assert kind(judged({4: 150.0}, commits=commits)) == "disputed"


def test_once_its_commit_is_purged_one_replaced_file_may_be_an_edit() -> None:
    commits: Times = {4: 300.0, 5: 300.0}
    assert kind(judged({4: 150.0}, commits=commits)) == "disputed"
    assert kind(judged({3: 140.0, 4: 150.0}, commits=commits)) == "stale"


def test_two_files_that_changed_places_are_no_rewind_once_no_commit_tells() -> None:
    """Copied over one another in their order, they look like what a rewound query writes."""
    store, checkpoint = seen({3: 140.0, 4: 150.0}, commits={})
    assert kind(judge(store, checkpoint)) == "stale"
    swapped = tuple(replace(one, swapped=True) for one in store.outdated)
    assert kind(judge(replace(store, outdated=swapped), checkpoint)) == "disputed"
    committed = replace(checkpoint, commit_times=seen({})[1].commit_times)
    assert kind(judge(replace(store, outdated=swapped), committed)) == "stale"


def test_a_stale_snapshot_of_executors_is_compared_first() -> None:
    found = judged({4: 150.0}, ours=False)
    assert kind(found) == "disputed"
    assert found.disputed[0].by_query
    assert found.disputed[0].doubts == ()


def test_where_the_log_below_is_missing_nothing_takes_the_place_of_a_stale_snapshot() -> None:
    store, checkpoint = seen({4: 150.0}, first=4)
    assert kind(judge(store, checkpoint)) == "lost"
    retained = replace(checkpoint, batches=(3, 4, 5))
    (found,) = [one for one in diagnose(store, retained) if one.damage]
    assert (found.code, found.version) == (FindingCode.SNAPSHOT_MISMATCH, 4)
    assert (found.store, found.path) == (StoreId(0, 0), f"{HOME}/4.snapshot")
    assert "4.snapshot was written before 4.delta" in found.detail


def test_where_nothing_lies_below_a_file_of_the_change_feed_may_be_replaced() -> None:
    store, checkpoint = seen({4: 90.0}, first=4)
    assert judge(store, checkpoint) == Judgement(edited=store.outdated)
    (found,) = [one for one in diagnose(store, checkpoint) if one.code == "LOG_REPLACED"]
    assert not found.damage
    assert "4.delta replaced after state/0/0/4.snapshot was proved from it" in found.detail


def unproved(version: int) -> Snapshot:
    return Snapshot(version, Entry(f"{HOME}/{version}.snapshot", 100, 220.0))


def test_where_the_log_was_edited_all_snapshots_above_are_compared() -> None:
    """Another file of it, which no proof names, may have been edited as well."""
    store, checkpoint = seen({4: 90.0}, first=4)
    above, later = unproved(5), unproved(6)
    store = replace(store, files=(*store.files, above, later))
    found = judge(store, checkpoint)
    low, high = found.disputed
    assert (low.path, high.path) == (above.entry.path, later.entry.path)
    assert low.instead.paths == (f"{HOME}/4.snapshot", f"{HOME}/5.delta")
    assert high.instead.paths == (f"{HOME}/4.snapshot", f"{HOME}/5.delta", f"{HOME}/6.delta")
    assert {(one.by_query, one.replaced, one.doubts) for one in found.disputed} == {
        (False, (4,), ())
    }
    assert judge(replace(store, outdated=()), checkpoint) == Judgement()


def test_they_are_still_compared_once_the_lowest_was_proved_again() -> None:
    store, checkpoint = seen({4: 90.0}, first=4)
    (one,) = store.outdated
    doubted = FileRecord(f"{HOME}/4.delta", 100, 90.0)
    proof = replace(one.proof, inputs=(), doubted=(doubted,))
    files = (*store.files, unproved(5))
    again = replace(store, files=files, outdated=(), attestations=(proof,))
    assert [one.path for one in judge(again, checkpoint).disputed] == [f"{HOME}/5.snapshot"]
    proved = Attestation(f"{HOME}/5.snapshot", 5, 100, 220.0, "", 0, 0)
    known = replace(again, attestations=(proof, proved))
    assert judge(known, checkpoint).disputed == ()


def test_a_snapshot_above_the_target_bears_no_witness() -> None:
    store, checkpoint = seen({4: 90.0}, first=4, last=4)
    store = replace(store, files=(*store.files, delta(5, 200.0), unproved(5)))
    assert judge(store, checkpoint).disputed == ()


def test_the_lowest_snapshot_is_the_witness_of_those_above_whose_log_was_replaced() -> None:
    """Files 3 and 4 changed places, and all that lay below the snapshots of both is gone."""
    store, checkpoint = seen({3: 90.0, 4: 80.0}, first=3)
    low = Snapshot(3, Entry(f"{HOME}/3.snapshot", 100, PROVED))
    inputs = (FileRecord(f"{HOME}/3.delta", 100, 13.0),)
    proof = Attestation(low.entry.path, 3, 100, PROVED, "", 0, 0, ours=True, inputs=inputs)
    replaced = Outdated(proof, (delta(3, 90.0).entry,))
    store = replace(store, files=(*store.files, low), outdated=(*store.outdated, replaced))
    (found,) = judge(store, checkpoint).disputed
    assert found.path == f"{HOME}/4.snapshot"
    assert found.instead.paths == (low.entry.path, f"{HOME}/4.delta")


def test_a_snapshot_older_than_its_change_is_compared_however_young_its_base_is() -> None:
    store, checkpoint = seen({4: 150.0})
    base = Snapshot(2, Entry(f"{HOME}/2.snapshot", 100, 120.0))
    proved = Attestation(base.entry.path, 2, 100, 120.0, "", 0, 0, ours=True)
    store = replace(store, files=(*store.files, base), attestations=(proved,), outdated=())
    (found,) = judge(store, checkpoint).disputed
    assert (found.path, found.instead.base) == (f"{HOME}/4.snapshot", base)


def test_where_the_base_alone_was_replaced_no_query_has_written_the_log_again() -> None:
    """The deltas have other times, as copies have, and the bytes that they had."""
    store, checkpoint = seen({3: 140.0, 4: 150.0})
    base = Snapshot(2, Entry(f"{HOME}/2.snapshot", 90, 120.0))
    proof = replace(
        store.outdated[0].proof,
        inputs=(FileRecord(base.entry.path, 100, 99.0), *store.outdated[0].proof.inputs[2:]),
    )
    outdated = (Outdated(proof, (base.entry,)),)
    store = replace(store, files=(*store.files, base), outdated=outdated)
    (found,) = judge(store, checkpoint).disputed
    assert (found.replaced, found.doubts, found.by_query) == ((), (), False)


def test_where_nothing_gives_the_version_a_replaced_base_says_nothing_of_the_log() -> None:
    store, checkpoint = seen({4: 150.0}, first=4)
    base = Snapshot(2, Entry(f"{HOME}/2.snapshot", 90, 120.0))
    outdated = (Outdated(store.outdated[0].proof, (base.entry,)),)
    found = judge(replace(store, files=(*store.files, base), outdated=outdated), checkpoint)
    assert (found.stale, found.disputed, found.lost, found.edited) == ((), (), (), ())


@pytest.mark.parametrize(("again", "edited"), [({4: 90.0}, 1), ({4: 150.0}, 0)])
def test_the_proof_of_a_file_that_was_overwritten_tells_where_nothing_lies_below(
    again: Times, edited: int
) -> None:
    store, checkpoint = seen(again, first=4)
    found = judge(replace(store, outdated=(), former=store.outdated), checkpoint)
    assert (len(found.edited), found.disputed) == (edited, ())


@pytest.mark.parametrize(
    ("change", "heard"),
    [
        ({}, 1),
        ({"replaced": ()}, 0),  # nothing of its log was replaced
        ({"target": 4}, 1),
        ({"target": 3}, 0),
        ({"proved": True}, 0),  # the file that took its place was proved since
    ],
    ids=["replaced", "the same log", "the target", "above the target", "proved again"],
)
def test_a_file_in_place_of_a_proved_one_is_heard_once(change: dict[str, Any], heard: int) -> None:
    store, checkpoint = seen({4: 90.0})
    (former,) = store.outdated
    listed = next(one.entry for one in store.files if isinstance(one, Snapshot))
    again = replace(former.proof, size=listed.size, modified=listed.modified, inputs=())
    doubted = Outdated(replace(former.proof, path="x", version=99), former.replaced)
    known = replace(
        store,
        outdated=(),
        former=(replace(former, replaced=change.get("replaced", former.replaced)), doubted),
        attestations=(again,) if "proved" in change else (),
    )
    batches = tuple(range(change.get("target", 6)))
    assert len(judge(known, replace(checkpoint, batches=batches)).disputed) == heard


def test_a_log_with_doubted_files_was_replaced() -> None:
    store, _ = seen({})
    proof = store.outdated[0].proof
    doubting = replace(proof, doubted=proof.inputs[1:2])
    plain = replace(store, outdated=())
    assert not was_replaced(replace(plain, attestations=(proof,)))
    assert was_replaced(replace(plain, attestations=(doubting,)))


def beyond(
    times: Times, *, base: float | None = None, commits: Times | None = None
) -> tuple[Store, Checkpoint]:
    """4.snapshot was folded from 2.snapshot, and 3 and 4, whose bytes are as they were."""
    store, checkpoint = seen(times, commits=commits)
    proof = store.outdated[0].proof
    records = (FileRecord(f"{HOME}/2.snapshot", 100, 99.0), *proof.inputs[2:])
    counts = (replace(proof, inputs=records, start=2),)
    low = Snapshot(2, Entry(f"{HOME}/2.snapshot", 100, base))
    files = store.files if base is None else (*store.files, low)
    return replace(store, files=files, attestations=counts, outdated=()), checkpoint


@pytest.mark.parametrize("known", [True, False], ids=["seen again", "never since"])
def test_a_log_that_was_written_again_below_what_a_proof_names_makes_it_stale(
    *, known: bool
) -> None:
    """A rewound query wrote the last changes with the bytes that they had, and others below.

    Once their bytes were read, the proof names them by their new times.
    """
    store, checkpoint = beyond({2: 130.0, 3: 140.0, 4: 150.0})
    if known:
        (proof,), listed = store.attestations, store.versions.deltas
        records = (FileRecord.of(listed[one].entry, {}) for one in (3, 4))
        inputs = (proof.inputs[0], *records)
        store = replace(store, attestations=(replace(proof, inputs=inputs),))
    (found,) = judge(store, checkpoint).stale
    assert (found.path, found.replaced, found.instead.start) == (f"{HOME}/4.snapshot", (2,), 0)
    assert "2.delta was replaced" in found.why


@pytest.mark.parametrize(
    ("start", "inputs", "modified", "stale"),
    [
        (0, 2, 99.0, False),  # it names all that lies below it
        (1, 1, 99.0, True),  # the snapshot that it began with is gone
        (0, 0, 99.0, True),  # it was compared with nothing
        (1, 1, 145.0, False),  # it is younger than what lies below it
    ],
)
def test_a_log_is_not_in_doubt_where_the_snapshot_that_a_comparison_began_with_is_right(
    start: int, inputs: int, modified: float, *, stale: bool
) -> None:
    store, checkpoint = beyond({2: 130.0, 3: 140.0, 4: 150.0}, base=modified)
    records = tuple(FileRecord(f"{HOME}/{one}.delta", 100, 100.0) for one in (1, 2))
    proof = Attestation(
        f"{HOME}/2.snapshot", 2, 100, modified, "", 0, 0, ours=True,
        inputs=records[2 - inputs :], start=start,
    )  # fmt: skip
    found = judge(replace(store, attestations=(*store.attestations, proof)), checkpoint)
    assert (f"{HOME}/4.snapshot" in {suspect.path for suspect in found.stale}) is stale


@pytest.mark.parametrize(
    "times",
    [
        {3: 140.0, 4: 150.0},  # all that is new is named
        {1: 120.0, 2: 130.0},  # what came back below from a trash or a copy
        {2: 130.0, 4: 150.0},
        {5: 99.0, 6: 101.0},
    ],
)
def test_what_else_is_new_below_a_proof_says_nothing(times: Times) -> None:
    assert judge(*beyond(times)) == Judgement()


@pytest.mark.parametrize(
    ("times", "commits"),
    [
        ({2: 130.0, 3: 140.0, 4: 150.0}, {}),  # purged since a rewind, if it was one
        ({2: 130.0, 3: 140.0, 4: 150.0}, {4: 300.0, 5: 300.0}),
        ({2: 130.0, 3: 140.0, 4: 150.0}, dict.fromkeys(range(6), 90.0)),  # of before
        ({1: 160.0, 2: 155.0, 3: 152.0, 4: 150.0}, {}),  # as an undo puts files back
    ],
)
def test_where_nothing_shows_a_rewind_a_snapshot_and_a_younger_log_are_compared(
    times: Times, commits: dict[int, float | None]
) -> None:
    found = judge(*beyond(times, commits=commits))
    (one,) = found.disputed
    assert (one.path, one.instead.start, one.doubts) == (f"{HOME}/4.snapshot", 0, ())
    assert "it is older than 4.delta, which has the changes of its version" in one.why
    assert (found.stale, found.lost, found.edited) == ((), (), ())


def with_low(*, proved: bool, first: int = 1) -> tuple[Store, Checkpoint]:
    """A stale 4.snapshot, and 2.snapshot below it, which is younger than its log."""
    store, checkpoint = seen({4: 150.0}, first=first)
    low = Snapshot(2, Entry(f"{HOME}/2.snapshot", 100, 250.0))
    proof = Attestation(low.entry.path, 2, 100, 250.0, "", 0, 0, ours=True)
    proofs = (proof,) if proved else ()
    return replace(store, files=(*store.files, low), attestations=proofs), checkpoint


def test_what_a_stale_snapshot_hid_is_compared_before_it_is_loaded_for_the_first_time() -> None:
    found = judge(*with_low(proved=False))
    assert [one.path for one in found.stale] == [f"{HOME}/4.snapshot"]
    (heir,) = found.disputed
    assert (heir.path, heir.instead.start, heir.doubts) == (f"{HOME}/2.snapshot", 0, ())
    assert f"once {HOME}/4.snapshot, which is stale, is deleted" in heir.why


def test_the_newest_snapshot_below_a_stale_one_is_compared_and_none_above_it() -> None:
    store, checkpoint = with_low(proved=False)
    others = tuple(
        Snapshot(version, Entry(f"{HOME}/{version}.snapshot", 100, 250.0)) for version in (3, 5)
    )
    found = judge(replace(store, files=(*store.files, *others)), checkpoint)
    assert [one.path for one in found.disputed] == [f"{HOME}/3.snapshot"]


@pytest.mark.parametrize(("proved", "first"), [(True, 1), (False, 3)])
def test_what_is_proved_or_cannot_be_disproved_takes_its_place(
    proved: bool,  # noqa: FBT001
    first: int,
) -> None:
    assert judge(*with_low(proved=proved, first=first)).disputed == ()


def test_a_snapshot_above_the_target_is_left_to_another_finding() -> None:
    store, checkpoint = seen({4: 150.0})
    assert judge(store, replace(checkpoint, batches=(0, 1))) == Judgement()
    assert judge(store, replace(checkpoint, batches=())) == Judgement()


@pytest.mark.parametrize(
    ("again", "text"),
    [({4: 150.0}, "version 4 was written"), ({3: 140.0, 4: 150.0}, "versions 3 to 4 were written")],
)
def test_the_notice_names_what_was_written_again(again: Times, text: str) -> None:
    (found,) = diagnose(*seen(again))
    assert found.code is FindingCode.STALE_SNAPSHOT
    assert f"{text} again" in found.detail


@pytest.mark.parametrize(
    ("count", "text"), [(1, "1.delta was"), (3, "3.delta were"), (5, "and 2 more were")]
)
def test_a_proof_says_what_was_replaced(count: int, text: str) -> None:
    entries = tuple(delta(version, 1.0).entry for version in range(1, count + 1))
    proof = Attestation("p", 9, 1, 1.0, "", 0, 0)
    assert text in Outdated(proof, entries).why


def test_a_zip_that_a_restart_begins_with_once_a_stale_one_is_gone_has_to_be_sound() -> None:
    store, checkpoint = seen({4: 150.0})
    cut = Snapshot(2, Entry(f"{HOME}/2.zip", 100, 20.0))
    rocks = Rocks({}, 0, {}, frozenset(), {cut.entry.path: "cut"}, frozenset({cut.entry.path}))
    store = replace(store, files=(*store.files, cut), rocks=rocks)
    later = replace(checkpoint, batches=(4, 5), stores=(store,))
    assert kind(judge(store, later)) == "stale"
    (finding,) = [one for one in diagnose(store, later) if one.damage]
    assert (finding.code, finding.path) == (FindingCode.CORRUPT_FILE, cut.entry.path)
    proved = replace(store, outdated=())
    assert [one.code for one in diagnose(proved, later) if one.damage] == []
