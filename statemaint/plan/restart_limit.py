"""The snapshots that keep a restart within the policy's limit (`restart_within`). Pure.

Nothing is due while the forecast is within the limit. When it passes it, the chains that take
longest are due, until the forecast is well below: the next runs then have nothing to write. A limit
that no snapshot can keep leaves the decision to the length of each chain.
"""

from collections.abc import Iterable

from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.forecast import Forecast, replay_seconds
from statemaint.model.policy import Policy
from statemaint.model.restart_time import Load, after_snapshot, replay_of_chain

BY_LENGTH, NEVER = -1.0, 1e18
_WELL_BELOW = 0.75


def forecast_of(checkpoint: Checkpoint, policy: Policy) -> Forecast:
    return Forecast.of(checkpoint, policy.restart_slots, policy.restart_percent)


def snapshots_from(
    checkpoint: Checkpoint, stores: Iterable[Store], policy: Policy, target: int
) -> float:
    """Returns the seconds of replay from which a chain is due for a snapshot.

    `BY_LENGTH` without a limit, or with one that cannot be kept.
    """
    limit, forecast = policy.restart_within, forecast_of(checkpoint, policy)
    if limit is None:
        return BY_LENGTH
    asked = ((store, store.versions.chain(target)) for store in stores)
    found = [(store, chain) for store, chain in asked if isinstance(chain, Chain)]
    works = [replay_of_chain(store, chain, forecast.record) for store, chain in found]
    if forecast.seconds(Load.of(works)).high <= limit:
        return NEVER
    least = [after_snapshot(work, forecast.record) for work in works]
    if forecast.seconds(Load.of(least)).high > limit:
        return BY_LENGTH
    replays = [replay_seconds(store, chain) for store, chain in found]
    slowest = sorted(range(len(found)), key=lambda number: -replays[number])
    for number in _few(slowest):
        cut = replays[number]
        left = [
            after if replay >= cut else work
            for work, after, replay in zip(works, least, replays, strict=True)
        ]
        if forecast.seconds(Load.of(left)).high <= _WELL_BELOW * limit:
            return cut
    return min((replay for replay in replays if replay), default=NEVER)


def _few(slowest: list[int]) -> list[int]:
    """Returns some of many, from the first to the last: to try each would take their square."""
    return slowest[:: max(1, len(slowest) // 50)]
