"""Golden listings: what the planner decides, and why."""

from collections import Counter
from dataclasses import replace

import pytest

from statemaint.errors import ConfigError
from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Operator, Provider, Store
from statemaint.model.files import Delta, Snapshot, classify_any
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import StoreId
from statemaint.model.pins import Pin
from statemaint.model.policy import Policy
from statemaint.model.restart_time import Forecast
from statemaint.model.verdict import Verdict
from statemaint.plan.actions import Action, Attest, Delete, Plan, Request, WriteSnapshot
from statemaint.plan.planner import _window, plan
from statemaint.plan.reasons import AttestReason, KeepReason, WithheldReason
from statemaint.plan.staleness import _unproved
from tests.support.checkpoints import NOW, STORE, checkpoint, names, store, versions
from tests.support.simulate import attest

TIGHT = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0)


def say(action: Action) -> str:
    word = {WriteSnapshot: "write", Attest: "attest", Delete: "delete"}[type(action)]
    return f"{word} {names([action.path])[0]} {action.reason.value}"


def decide(
    notation: str,
    *,
    batches: range = range(16, 25),
    policy: Policy = TIGHT,
    request: Request | None = None,
) -> Plan:
    return plan(checkpoint(store(notation), batches=batches), policy, NOW, request=request)


def actions(notation: str, **more: object) -> list[str]:
    return [say(one) for one in decide(notation, **more).actions]  # type: ignore[arg-type]


def kept(decided: Plan) -> dict[str, str]:
    return {one.entry.name: one.reason.value for one in decided.stores[0].kept}


def codes(decided: Plan) -> list[FindingCode]:
    return [one.code for one in decided.all_findings]


def deletions(first: int, last: int) -> list[str]:
    return [f"delete {number}.delta below_base" for number in range(first, last + 1)]


NEGLECTED = versions("d", 1, 25)


def test_a_neglected_chain_is_rebased_snapshotted_and_cut() -> None:
    assert actions(NEGLECTED) == [
        "write 25.snapshot chain_too_long",
        "write 17.snapshot rebase",
        *deletions(1, 16),
    ]


def test_an_interrupted_run_ends_as_an_uninterrupted_one() -> None:
    # A chain of 8 deltas above the floor is short: the rebase must not come first.
    ten = replace(TIGHT, min_deltas_for_snapshot=10)
    first, *rest = (say(one) for one in decide(NEGLECTED, policy=ten).actions)
    assert first == "write 25.snapshot chain_too_long"
    assert actions(f"{NEGLECTED} 25s", policy=ten) == rest


def test_says_why_each_file_stays() -> None:
    assert kept(decide(NEGLECTED)) == {
        "17.delta": "change_feed",
        **{f"{number}.delta": "needed_by_retained_version" for number in range(18, 26)},
    }


def test_within_grace_the_new_base_protects_and_nothing_goes() -> None:
    decided = decide(NEGLECTED, policy=replace(TIGHT, grace=3600))
    assert [say(one) for one in decided.actions] == [
        "write 25.snapshot chain_too_long",
        "write 17.snapshot rebase",
    ]
    assert Counter(kept(decided).values()) == {
        "base_within_grace": 16,
        "needed_by_retained_version": 9,
    }


def test_once_the_base_is_old_enough_what_lies_below_goes() -> None:
    grace = replace(TIGHT, grace=3600)
    assert actions(f"{NEGLECTED} 17s@3599 25s@3599", policy=grace) == []
    assert actions(f"{NEGLECTED} 17s@3600 25s@3600", policy=grace) == [
        "attest 17.snapshot base_of_deletion",
        *deletions(1, 16),
    ]


def test_the_old_base_stays_until_the_new_one_is_old_enough() -> None:
    grace = replace(TIGHT, grace=3600)
    decided = decide(f"{NEGLECTED} 10s 17s@60 25s@60", policy=grace)
    assert [say(one) for one in decided.actions] == [
        "attest 10.snapshot base_of_deletion",
        *deletions(1, 9),
    ]
    assert kept(decided)["10.snapshot"] == kept(decided)["10.delta"] == "base_within_grace"


def test_a_file_without_a_time_is_never_old_enough() -> None:
    seen = store(f"{NEGLECTED} 17s 25s")
    ageless = tuple(replace(one, entry=replace(one.entry, modified=None)) for one in seen.files)
    decided = plan(checkpoint(replace(seen, files=ageless), batches=range(16, 25)), TIGHT, NOW)
    assert decided.actions == ()


def test_without_rebase_spark_rules_hold() -> None:
    alone = replace(TIGHT, rebase=False)
    assert actions(NEGLECTED, policy=alone) == ["write 25.snapshot chain_too_long"]
    assert actions(f"{NEGLECTED} 12s 25s", policy=alone) == [
        "attest 12.snapshot base_of_deletion",
        *deletions(1, 11),
    ]


@pytest.mark.parametrize(("deltas", "written"), [(5, []), (6, ["write 6.snapshot chain_too_long"])])
def test_a_snapshot_needs_more_deltas_than_the_threshold(deltas: int, written: list[str]) -> None:
    assert actions(versions("d", 1, deltas), batches=range(deltas)) == written


def test_force_snapshots_the_target_however_short_its_chain() -> None:
    force = Request(force_snapshot=True)
    assert actions("1d 2d", batches=range(2), request=force) == ["write 2.snapshot forced"]
    assert actions("1d 2d 2s", batches=range(2), request=force) == []


def test_an_attested_base_is_not_read_again() -> None:
    seen = store(f"{NEGLECTED} 17s 25s")
    base = next(one.entry for one in seen.files if one.entry.name == "17.snapshot")
    proved = replace(seen, attestations=(attest(base, 17),))
    decided = plan(checkpoint(proved, batches=range(16, 25)), TIGHT, NOW)
    assert [say(one) for one in decided.actions] == deletions(1, 16)


def test_an_attestation_of_a_file_that_was_replaced_is_void() -> None:
    seen = store(f"{NEGLECTED} 17s 25s")
    base = next(one.entry for one in seen.files if one.entry.name == "17.snapshot")
    stale = replace(seen, attestations=(attest(replace(base, size=99), 17),))
    decided = plan(checkpoint(stale, batches=range(16, 25)), TIGHT, NOW)
    assert say(decided.actions[0]) == "attest 17.snapshot base_of_deletion"


def test_a_base_is_compared_with_what_lies_below_where_that_is_left() -> None:
    whole = decide(f"{NEGLECTED} 17s 25s").actions[0]
    assert isinstance(whole, Attest)
    assert whole.against is not None
    assert len(whole.against.deltas) == 17
    cut = decide(f"{versions('d', 9, 25)} 17s 25s").actions[0]
    assert isinstance(cut, Attest)
    assert cut.against is None


def test_a_snapshot_nobody_compared_is_not_folded_on_from() -> None:
    first, second, *_ = decide(f"{NEGLECTED} 10s").actions
    assert isinstance(first, WriteSnapshot)
    assert isinstance(second, WriteSnapshot)
    assert (first.chain.start, second.chain.start) == (0, 0)
    seen = store(f"{NEGLECTED} 10s")
    ten = next(one.entry for one in seen.files if one.entry.name == "10.snapshot")
    proved = replace(seen, attestations=(attest(ten, 10),))
    first, *_ = plan(checkpoint(proved, batches=range(16, 25)), TIGHT, NOW).actions
    assert isinstance(first, WriteSnapshot)
    assert first.chain.start == 10


def test_a_fold_from_a_base_compared_with_nothing_compares_the_newest_that_it_leads_past() -> None:
    """One of the two may be wrong: Spark would begin with the newest, and the fold does not."""
    cut = NEGLECTED.replace("1d ", "", 1)
    seen = store(f"{cut} 10s 12s")
    ten = next(one.entry for one in seen.files if one.entry.name == "10.snapshot")
    assert never_proved(decide(f"{cut} 10s 12s")) == [12]
    for files, expected in ((0, [12]), (3, [])):
        proved = replace(seen, attestations=(replace(attest(ten, 10), files=files),))
        decided = plan(checkpoint(proved, batches=range(16, 25)), TIGHT, NOW)
        assert never_proved(decided) == expected


def never_proved(decided: Plan) -> list[int]:
    return [
        one.snapshot.version
        for one in decided.actions
        if isinstance(one, Attest) and one.reason is AttestReason.NEVER_PROVED
    ]


def test_the_commit_log_lowers_the_floor() -> None:
    decided = decide(NEGLECTED, batches=range(9, 25))
    assert decided.floor == 10
    assert say(decided.actions[1]) == "write 10.snapshot rebase"
    assert decide(NEGLECTED, batches=range(25)).floor == 1


def test_the_policy_lowers_the_floor() -> None:
    assert decide(NEGLECTED, policy=replace(TIGHT, min_batches_to_retain=20)).floor == 5
    assert decide(NEGLECTED, policy=Policy()).floor == 1


def test_a_pin_lowers_the_floor_until_it_ends() -> None:
    ended, holds = (
        Pin(f"{batch}.json", batch, created=0.0, until=until, by="test")
        for batch, until in ((2, NOW), (4, NOW + 1))
    )
    seen = replace(checkpoint(store(NEGLECTED), batches=range(16, 25)), pins=(ended, holds))
    decided = plan(seen, TIGHT, NOW)
    assert (decided.floor, decided.pins) == (5, (holds,))


def test_what_lies_above_the_target_is_never_touched() -> None:
    decided = decide(f"{NEGLECTED} 26d 26c 26t")
    assert decided.target == 25
    assert not any(one.version > 25 for one in decided.actions)
    above = {name for name, reason in kept(decided).items() if reason == "above_target"}
    assert len(above) == 3


def test_a_snapshot_above_the_target_halts_the_store() -> None:
    decided = decide(f"{NEGLECTED} 26d 26s")
    assert codes(decided) == [FindingCode.SNAPSHOT_ABOVE_TARGET]
    assert decided.actions == ()
    assert set(kept(decided).values()) == {"store_halted"}


def test_a_missing_delta_halts_its_store_and_no_other() -> None:
    other = StoreId(0, 1)
    broken = store(f"{versions('d', 1, 19)} {versions('d', 21, 25)}")
    decided = plan(checkpoint(broken, store(NEGLECTED, other), batches=range(16, 25)), TIGHT, NOW)
    assert codes(decided) == [FindingCode.BROKEN_CHAIN]
    assert decided.findings == ()
    assert decided.stores[0].findings[0].version == 20
    assert decided.verdict is Verdict.BROKEN
    assert "state/0/0/20.delta is missing" in decided.stores[0].findings[0].detail
    assert {one.store for one in decided.actions} == {other}
    assert decided.units == (STORE.unit, other.unit)


def test_a_store_without_any_file_is_broken() -> None:
    assert codes(decide("")) == [FindingCode.BROKEN_CHAIN]


def test_a_hole_that_spark_left_below_the_log_is_no_damage() -> None:
    # What real Spark 3.5 leaves behind with five batches retained.
    decided = decide("16d 20d 20s 21d 22d 23d 24d 24s 25d", batches=range(19, 25))
    assert decided.findings == ()
    assert codes(decided) == []
    assert [say(one) for one in decided.actions] == [
        "attest 20.snapshot base_of_deletion",
        "delete 16.delta below_base",
    ]


def test_between_floor_and_log_a_version_that_no_longer_loads_is_kept() -> None:
    decided = decide("18d 20d 20s 21d 22d 23d 24d 25d", batches=range(19, 25))
    assert decided.floor == 17
    assert not any(isinstance(one, Delete) for one in decided.actions)


def test_side_files_go_before_their_file() -> None:
    assert actions("1d 1c 2d 2c 3d 3s 3k 4d", batches=range(3, 4), policy=Policy(10, 1, 0)) == [
        "attest 3.snapshot base_of_deletion",
        "delete .1.delta.crc side_file_of_deleted",
        "delete 1.delta below_base",
        "delete .2.delta.crc side_file_of_deleted",
        "delete 2.delta below_base",
    ]


def test_orphans_go_when_they_are_old() -> None:
    orphan = Policy(orphan_age=100)
    assert actions("1d 1t@99 2c@99 2d@1 3k@99", batches=range(2), policy=orphan) == []
    assert actions("1d 2d 1t@100 2k@100", batches=range(2), policy=orphan) == [
        f"delete .1.delta.{'0f6d2b1c-5a3e-4c7d-9b8a-112233445566'}.tmp orphan_temp_file",
        "delete .2.snapshot.crc orphan_side_file",
    ]


def test_a_stale_checksum_is_cleared_before_its_snapshot_is_written() -> None:
    assert actions(f"{NEGLECTED} 17k")[:3] == [
        "delete .17.snapshot.crc stale_side_file",
        "write 25.snapshot chain_too_long",
        "write 17.snapshot rebase",
    ]


def test_a_young_stale_checksum_delays_the_snapshot() -> None:
    assert actions(f"{NEGLECTED} 25k@60") == ["write 17.snapshot rebase", *deletions(1, 16)]


def test_unknown_files_are_kept_and_named() -> None:
    decided = decide(f"{NEGLECTED} x:foo.bar x:backup.delta.gz")
    assert codes(decided) == [FindingCode.UNKNOWN_FILE] * 2
    assert kept(decided)["foo.bar"] == "unknown_file"
    assert "stops Spark's own maintenance" in decided.stores[0].findings[1].detail
    assert len(decided.actions) == 18


def test_without_verification_nothing_is_deleted() -> None:
    decided = decide(f"{NEGLECTED} 3t", policy=replace(TIGHT, verify=False))
    assert not any(isinstance(one, Delete) for one in decided.actions)
    assert Counter(kept(decided).values())["verify_off"] == 17


def test_without_verification_no_snapshot_of_ours_is_compared() -> None:
    seen = replace(store(f"{NEGLECTED} 25s"), written=(f"{STORE.directory}/25.snapshot",))
    for verify, compared in ((True, ["attest 25.snapshot never_proved"]), (False, [])):
        policy = replace(TIGHT, verify=verify, rebase=False)
        decided = plan(checkpoint(seen, batches=range(16, 25)), policy, NOW)
        assert [say(one) for one in decided.actions] == compared


def test_the_oldest_go_first_when_deletions_are_limited() -> None:
    decided = plan(
        checkpoint(store(NEGLECTED), store(NEGLECTED, StoreId(0, 1)), batches=range(16, 25)),
        replace(TIGHT, max_deletes_per_run=5),
        NOW,
    )
    deleted = [one for one in decided.actions if isinstance(one, Delete)]
    assert [(one.store.partition, one.version) for one in deleted] == [
        (0, 1), (0, 2), (0, 3), (1, 1), (1, 2),
    ]  # fmt: skip
    assert kept(decided)["4.delta"] == KeepReason.LIMIT.value


def test_a_limit_leaves_stores_alone_that_delete_nothing() -> None:
    other = store("25s", StoreId(0, 1))
    seen = checkpoint(store(NEGLECTED), other, batches=range(24, 25))
    decided = plan(seen, replace(TIGHT, max_deletes_per_run=5), NOW)
    assert len([one for one in decided.actions if isinstance(one, Delete)]) == 5
    assert decided.stores[1].actions == ()


def test_what_clears_the_way_for_a_snapshot_does_not_count_against_the_limit() -> None:
    found = actions(f"{NEGLECTED} 17k", policy=replace(TIGHT, max_deletes_per_run=0))
    assert found[0] == "delete .17.snapshot.crc stale_side_file"
    assert len(found) == 3


def test_nothing_committed_is_nothing_to_do() -> None:
    found = Finding(FindingCode.NO_COMMITTED_BATCH, "")
    seen = replace(checkpoint(store("1d"), batches=()), findings=(found,))
    decided = plan(seen, TIGHT, NOW)
    assert (decided.target, decided.floor, decided.actions) == (None, None, ())
    assert decided.units == ()


def test_a_damaged_log_stops_every_store() -> None:
    found = Finding(FindingCode.UNREADABLE_COMMIT, "")
    seen = replace(checkpoint(store(NEGLECTED), batches=range(16, 25)), findings=(found,))
    decided = plan(seen, TIGHT, NOW)
    assert decided.actions == ()
    assert decided.halted
    assert {(one.version, one.wait.reason) for one in decided.withheld} == {
        (25, WithheldReason.HALTED),
        (17, WithheldReason.HALTED),
    }


def test_a_fixed_target_is_snapshotted_though_newer_ones_exist() -> None:
    found = actions(NEGLECTED, request=Request(target=24))
    assert found[:2] == ["write 24.snapshot chain_too_long", "write 16.snapshot rebase"]


def test_a_snapshot_of_a_batch_committed_after_the_target_was_fixed_is_no_damage() -> None:
    decided = decide(f"{NEGLECTED} 25s", request=Request(target=24))
    assert codes(decided) == []
    assert kept(decided)["25.snapshot"] == "above_target"


def test_a_fixed_target_that_was_cleaned_away_is_superseded() -> None:
    decided = decide(
        "20s 20d 21d 22d 23d 24d 25d", batches=range(20, 25), request=Request(target=19)
    )
    assert codes(decided) == [FindingCode.SUPERSEDED]
    (found,) = decided.stores[0].findings
    assert (found.store, found.version) == (STORE, 19)
    assert decided.actions == ()


@pytest.mark.parametrize("target", [0, 26])
def test_a_target_that_was_never_committed_is_refused(target: int) -> None:
    with pytest.raises(ConfigError, match="cannot be the target"):
        decide(NEGLECTED, request=Request(target=target))


def test_a_request_restricts_the_run() -> None:
    stores = [store(NEGLECTED, StoreId(op, part)) for op in range(2) for part in range(3)]
    seen = checkpoint(*stores, batches=range(16, 25))
    asked = Request(operators=frozenset({1}), partitions=frozenset({0, 2}))
    assert [one.store.id for one in plan(seen, TIGHT, NOW, request=asked).stores] == [
        StoreId(1, 0),
        StoreId(1, 2),
    ]
    nowhere = replace(asked, stores=frozenset({"left"}))
    named = r"operators \[1\], partitions \[0, 2\], stores \['left'\]"
    with pytest.raises(ConfigError, match=f"no store matches the {named}"):
        plan(seen, TIGHT, NOW, request=nowhere)


def empty() -> Checkpoint:
    return checkpoint(batches=range(3))


def test_a_checkpoint_without_state_has_nothing_to_do() -> None:
    decided = plan(empty(), TIGHT, NOW)
    assert (decided.actions, decided.loadable) == ((), 0)


def test_a_plan_names_all_that_it_was_made_of() -> None:
    commit, other = Entry("commits/24", 5, 1.0), Entry("b", 1, 1.0)
    found = replace(
        checkpoint(store("1d"), batches=range(2)), commit=commit, codec="zstd",
        row_checksums=True, provider=Provider.ROCKSDB, unclassified=(other, Entry("a", 1, 1.0)),
        commit_times={0: 0.0, 1: 7200.0, 2: 14_400.0},
    )  # fmt: skip
    asked = Request(operators=frozenset({0}))
    decided = plan(found, replace(TIGHT, restart_percent=50), NOW, request=asked)
    assert (decided.root, decided.query_id) == (found.root, found.query_id)
    assert (decided.commit, decided.codec, decided.row_checksums) == (commit, "zstd", True)
    assert (decided.provider, decided.now, decided.request) == (Provider.ROCKSDB, NOW, asked)
    assert (decided.silent_after, decided.forecast) == (21_600.0, Forecast.of(found, percent=50))
    assert [(one.entry.path, one.reason) for one in decided.unclassified] == [
        ("a", KeepReason.NOT_STATE),
        ("b", KeepReason.NOT_STATE),
    ]


def test_the_first_version_may_be_the_target() -> None:
    assert decide("1d 2d", batches=range(2), request=Request(target=1)).target == 1


def test_the_newest_committed_version_may_be_the_target_and_is_said() -> None:
    decided = decide("1d 2d", batches=range(2), request=Request(target=2))
    assert (decided.target, decided.committed) == (2, 1)


def test_the_first_zip_of_an_operator_with_families_shows_no_habit() -> None:
    operators = (
        Operator(0, "stateStoreSave", ("default",), 1),
        Operator(2, "transformWithStateExec", ("default",), 1),
    )
    whole = replace(checkpoint(store("1d 2d"), batches=range(2)), operators=operators)
    window = _window(whole, TIGHT, NOW, Request(), skewed=False)
    assert window is not None
    assert window.forced == {2}


REST = "so no age can be relied on and nothing is deleted; set the clocks right"


@pytest.mark.parametrize(
    ("skew", "detail"),
    [
        (300.0, None),
        (-300.0, None),
        (301.0, f"the storage stamps files 301 seconds off its own clock, {REST}"),
        (-301.0, f"the storage stamps files -301 seconds off its own clock, {REST}"),
    ],
)
def test_a_clock_is_wrong_from_five_minutes_on(skew: float, detail: str | None) -> None:
    found = plan(checkpoint(store("1d"), batches=range(1)), TIGHT, NOW, skew=skew).findings
    assert [one.detail for one in found] == ([detail] if detail else [])


def stamped(*times: float | None) -> Checkpoint:
    entries = (Entry(f"{STORE.directory}/{at}.delta", 1, one) for at, one in enumerate(times, 1))
    whole = Store(STORE, tuple(map(classify_any, entries)))
    return checkpoint(whole, batches=range(1))


@pytest.mark.parametrize(
    ("times", "seen", "detail"),
    [
        ((NOW + 300.0,), None, None),
        ((NOW + 301.0,), None, "1.delta is stamped 301 seconds in the future"),
        ((NOW + 400.0, NOW + 500.0, NOW + 350.0, None), None, "2.delta is stamped 500 seconds"),
        ((NOW + 400.0, NOW + 400.0), None, "2.delta is stamped 400 seconds"),
        ((NOW + 400.0,), NOW + 100.0, None),
        ((NOW + 450.0,), NOW + 100.0, "1.delta is stamped 350 seconds"),
    ],
)
def test_a_file_from_the_future_shows_a_wrong_clock(
    times: tuple[float | None, ...], seen: float | None, detail: str | None
) -> None:
    found = plan(stamped(*times), TIGHT, NOW, seen=seen).findings
    assert [one.code for one in found] == ([FindingCode.CLOCK_SKEW] if detail else [])
    for one in found:
        assert one.detail.startswith(f"{STORE.directory}/{detail}")
        assert one.detail.endswith(REST)


def test_a_restart_s_snapshot_that_is_older_than_a_change_says_of_which() -> None:
    for delta, which in ((4, "the changes of its version"), (3, "changes below")):
        snapshot, change = (
            Snapshot(4, Entry("4.snapshot", 1, 1.0)),
            Delta(delta, Entry("x", 1, 2.0)),
        )
        why = _unproved(snapshot, change, Chain(4, None, ())).why
        assert why.startswith(f"it is older than x, which has {which}: a query that was rewound")


def test_a_plan_shows_halted_stores_first_and_then_those_with_most_actions() -> None:
    seen = checkpoint(
        store(versions("d", 1, 25) + " 25s"),
        store(f"{NEGLECTED} 17s", StoreId(0, 1)),
        store(f"{NEGLECTED} x:foo.snapshot", StoreId(0, 2)),
        store(versions("d", 9, 25) + " 17s 25s", StoreId(0, 3)),
        batches=range(16, 25),
    )
    decided = plan(seen, replace(TIGHT, rebase=False), NOW)
    parts = "1 snapshot to write, 24 files to delete, 4 stores, broken"
    assert repr(decided) == f"Plan('memory:', {parts})"
    named = ("partitionId", "write", "attest", "delete")
    assert [tuple(row[name] for name in named) for row in decided._rows()] == [
        (2, "halted", 0, 0),
        (1, 1, 1, 16),
        (3, 0, 1, 8),
        (0, 0, 0, 0),
    ]


def test_nothing_is_said_to_be_halted_where_no_batch_is_committed() -> None:
    decided = plan(checkpoint(store("1d x:foo.bar"), batches=()), TIGHT, NOW)
    assert kept(decided) == {"1.delta": "above_target", "foo.bar": "unknown_file"}
