"""Settings tried on a history: what they write, and the restarts that they allow."""

from dataclasses import dataclass, replace

import pytest

from statemaint.model.checkpoint import Checkpoint
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from statemaint.model.restart_costs import Replay
from statemaint.model.restart_time import Forecast, Load
from statemaint.plan.backtest import (
    PastBatches,
    PastRuns,
    back_test,
    candidates,
    history_of,
    recommended,
)
from tests.support.checkpoints import checkpoint, store, versions

BATCHES = 24
HOURLY = {batch: 3600.0 * batch for batch in range(BATCHES)}


def _checkpoint(size: int = 4_000_000) -> Checkpoint:
    stores = [store(f"1s {versions('d', 2, BATCHES)}", StoreId(0, part)) for part in range(2)]
    sized = [
        replace(
            each,
            files=tuple(replace(it, entry=replace(it.entry, size=size)) for it in each.files),
        )
        for each in stores
    ]
    return replace(checkpoint(*sized, batches=range(BATCHES)), commit_times=HOURLY)


def _history() -> PastBatches:
    seen = _checkpoint()
    history = history_of(seen, Forecast.of(seen))
    assert history
    return history


def _after(changes: int) -> Load:
    """Returns what a restart reads so many batches after a snapshot."""
    history = _history()
    base, change = history.base, history.changes[0]
    total = sum([change.total] * changes, base.total)
    return Load(total, sum([change.largest] * changes, base.largest))


def test_the_history_is_the_changes_of_each_listed_batch() -> None:
    history = _history()
    assert history.interval == 3600
    change = Replay(change_files=2, change_bytes=8_000_000, change_records=200_000)
    assert [each.total for each in history.changes] == [change] * 23
    assert history.base.total.stores == 2
    assert history.base.total.change_files == 0


def test_a_checkpoint_without_changes_has_no_history() -> None:
    seen = checkpoint(store("1s"), batches=[0])
    assert history_of(seen, Forecast.of(seen)) is None
    uncommitted = checkpoint(store("1d"), batches=[])
    assert history_of(uncommitted, Forecast.of(uncommitted)) is None


def test_the_history_leaves_out_partitions_that_the_newest_batch_does_not_have() -> None:
    seen = replace(_checkpoint(), counts={BATCHES - 2: 2, BATCHES - 1: 1})
    history = history_of(seen, Forecast.of(seen))
    assert history
    assert [each.total.change_files for each in history.changes] == [1] * 23


@pytest.mark.parametrize(
    ("times", "interval"),
    [
        ((0.0, 600.0, 600.0, None, 1200.0, 2400.0, 2400.0, 2400.0), 600.0),
        ((600.0, 600.0), 3600.0),  # those of a copy
        ((None,), 3600.0),
    ],
)
def test_batches_come_at_the_median_of_different_times(
    times: tuple[float | None, ...], interval: float
) -> None:
    seen = replace(_checkpoint(), commit_times=dict(enumerate(times)))
    history = history_of(seen, Forecast.of(seen))
    assert history
    assert history.interval == interval


def test_a_length_of_ten_writes_a_snapshot_every_eleven_hourly_runs() -> None:
    trial = back_test(_history(), Policy(), every=3600, days=11)
    assert trial.snapshots == 2 * 24
    assert trial.written == 24 * _history().base.total.snapshot_bytes
    assert trial.requests == 264 * 12 + 48 * (4 + 11)
    for runs, snapshots in ((10, 0), (11, 2)):
        assert back_test(_history(), Policy(), every=3600, days=runs / 24).snapshots == snapshots


def test_a_restart_is_forecast_after_one_run_at_least() -> None:
    seen = _checkpoint()
    history = history_of(seen, Forecast.of(seen, percent=10))
    assert history
    trial = back_test(history, Policy(), every=3600, days=0.001)
    assert trial.requests == 12
    assert trial.restart == history.forecast.seconds(_after(1)).high < 1


def test_more_runs_than_are_tried_go_on_like_them() -> None:
    month, years = (
        back_test(_history(), Policy(), every=3600, days=days) for days in (110, 11_000)
    )
    assert years.snapshots == pytest.approx(100 * month.snapshots, rel=1e-3)
    assert years.written == years.snapshots * _history().base.largest.snapshot_bytes
    assert years.requests == pytest.approx(100 * month.requests, rel=1e-3)
    assert years.restart == month.restart


def test_fewer_runs_leave_longer_restarts() -> None:
    hourly, daily = (
        back_test(_history(), Policy(), every=every, days=30) for every in (3600, 86400)
    )
    assert hourly.restart < daily.restart
    assert hourly.snapshots > daily.snapshots


def test_a_limit_is_passed_by_one_run_at_most_and_writes_less() -> None:
    history = _history()
    least, limit, passed = (
        history.forecast.seconds(_after(changes)).high for changes in (0, 20, 21)
    )
    kept = back_test(history, Policy(restart_within=limit), every=3600, days=30)
    assert kept.restart == passed
    assert kept.snapshots == 2 * (720 // 21)
    tight = back_test(history, Policy(restart_within=least), every=3600, days=30)
    assert tight.snapshots == 2 * 720
    assert kept.written < back_test(history, Policy(), every=3600, days=30).written


def test_a_limit_that_cannot_be_kept_leaves_the_length_to_decide() -> None:
    history = _history()
    trial = back_test(history, Policy(restart_within=0.1), every=3600, days=11)
    assert trial.snapshots == back_test(history, Policy(), every=3600, days=11).snapshots


def test_the_recommendation_writes_least_within_the_limit() -> None:
    history = _history()
    trials = [
        back_test(history, policy, every=3600, days=30) for policy in candidates(history, Policy())
    ]
    limit = sorted(trial.restart for trial in trials)[len(trials) // 2]
    best = recommended(trials, limit)
    assert best
    assert best.restart <= limit
    assert best.written == min(trial.written for trial in trials if trial.restart <= limit)
    assert recommended(trials, 0.1) is None
    of_itself = recommended(trials, None)
    assert of_itself
    as_short = [trial for trial in trials if trial.restart <= trials[0].restart]
    assert of_itself.written == min(trial.written for trial in as_short)


def test_the_policy_itself_is_the_first_trial() -> None:
    policy = Policy(min_deltas_for_snapshot=77, restart_within=3600)
    first, *policies = candidates(_history(), policy)
    assert first == policy
    lengths = [each.min_deltas_for_snapshot for each in policies if each.restart_within is None]
    assert lengths == sorted({*lengths} - {77}) != []
    limits = [each.restart_within for each in policies if each.restart_within is not None]
    assert limits == sorted(limits)
    least = _history().forecast.seconds(_history().base).high
    assert limits[0] == pytest.approx(1.25 * least, abs=1)


@dataclass(frozen=True, slots=True)
class _Ran:
    started: float
    snapshots_written: int = 2
    bytes_written: int = 5


@pytest.mark.parametrize(
    ("starts", "ends", "past"),
    [
        ((), (), PastRuns(0, 0.0, 0, 0, None)),
        ((40.0,), (50.0,), PastRuns(1, 0.0, 2, 5, None)),
        ((40.0, 900.0, 10.0), (100.0, 160.0, 160.0, 300.0), PastRuns(3, 890.0, 6, 15, 100.0)),
    ],
)
def test_past_runs_are_summed_and_come_at_the_median_of_different_ends(
    starts: tuple[float, ...], ends: tuple[float, ...], past: PastRuns
) -> None:
    assert PastRuns.of(map(_Ran, starts), ends) == past
