"""The decision for a checkpoint."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from statistics import median

from statemaint.errors import ConfigError
from statemaint.listing import Entry
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.findings import Finding, FindingCode, damaged
from statemaint.model.pins import Pin
from statemaint.model.policy import Policy
from statemaint.plan.actions import Delete, Kept, Plan, Request, StorePlan, Window
from statemaint.plan.findings.health import diagnose
from statemaint.plan.findings.restart import verdict_by_names
from statemaint.plan.reasons import DeleteReason, KeepReason
from statemaint.plan.snapshots import forecast_of, snapshots_from
from statemaint.plan.staleness import judge
from statemaint.plan.store import decide, decide_old, halt, uncommitted
from statemaint.plan.withheld import long_waits

_STATE = "spark.sql.streaming.stateStore"
# A file in the way of a new snapshot never waits, nor does one that a restart must not load.
_FIRST = (DeleteReason.STALE_SIDE, DeleteReason.STALE_SNAPSHOT)
# Clocks further apart than this make ages meaningless (S19).
MOST_SKEW = 300.0
# The versions between executors' snapshots that make them rare. With unique ids the header of each
# changelog names all versions since its executor's last snapshot, and Spark fails once the header
# exceeds 65,535 bytes, at some 860 versions.
_NEVER, _MOST_WITH_IDS = 1_000_000, 500
_HOUR, _DAY, _TIMES = 3600.0, 86_400.0, 3


def plan(
    checkpoint: Checkpoint,
    policy: Policy,
    now: float,
    *,
    request: Request | None = None,
    skew: float = 0.0,
    seen: float | None = None,
) -> Plan:
    """Returns the plan: the files to write, keep and delete, each with its reason.

    The same input gives the same plan, whatever the order of the listing. Damage to the
    checkpoint's own logs, or no committed batch, gives a plan without actions.

    `now` is in seconds since the epoch by the storage's clock, and `seen` the time of the scan if
    that is later, as when a plan is made again. `skew` is by how many seconds the storage's stamps
    were seen to be ahead of its clock (S19).
    """
    scope = request or Request()
    stores = _requested(checkpoint, scope)
    skewed = tuple(_skewed(stores, now if seen is None else seen, skew))
    checkpoint = replace(checkpoint, pins=tuple(pin for pin in checkpoint.pins if pin.holds(now)))
    window = _window(checkpoint, policy, now, scope, skewed=bool(skewed))
    decided = _store_plans(checkpoint, stores, window)
    waits = long_waits(withheld for store in decided for withheld in store.withheld)
    of_stores = (finding for store in decided for finding in store.findings)
    return Plan(
        root=checkpoint.root,
        query_id=checkpoint.query_id,
        committed=checkpoint.committed,
        target=window.target if window else None,
        floor=window.floor if window else None,
        policy=policy,
        stores=decided,
        findings=(*checkpoint.findings, *skewed, *_foreign(checkpoint), *waits),
        codec=checkpoint.codec,
        row_checksums=checkpoint.row_checksums,
        provider=checkpoint.provider,
        now=now,
        request=scope,
        unclassified=tuple(
            Kept(it, KeepReason.NOT_STATE) for it in sorted(checkpoint.unclassified)
        ),
        commit=checkpoint.commit,
        silent_after=silent_after(checkpoint.commit_times.values()),
        counts=checkpoint.counts,
        pins=checkpoint.pins,
        verdict=verdict_by_names(checkpoint, (*checkpoint.findings, *of_stores)),
        forecast=forecast_of(checkpoint, policy),
        snapshots_from=window.snapshots_from if window and policy.restart_within else None,
    )


def _requested(checkpoint: Checkpoint, request: Request) -> tuple[Store, ...]:
    stores = [store for store in checkpoint.stores if request.covers(store.id)]
    if (checkpoint.stores or checkpoint.left_out) and not stores:
        parts = f"partitions {sorted(request.partitions)}, stores {sorted(request.stores)}"
        operators = sorted(request.operators)
        raise ConfigError(f"{checkpoint.root}: no store matches the operators {operators}, {parts}")
    return tuple(sorted(stores, key=lambda store: store.id))


def _floor(policy: Policy, target: int, required: int, pins: Iterable[Pin]) -> int:
    """Returns the lowest of the policy's floor, the commit log's and the pins' (S3)."""
    pinned = (pin.version for pin in pins)
    return max(1, min(target - policy.min_batches_to_retain, required, *pinned))


def _window(
    checkpoint: Checkpoint, policy: Policy, now: float, request: Request, *, skewed: bool
) -> Window | None:
    newest, required = checkpoint.target, checkpoint.required
    if newest is None or required is None:
        return None
    target = newest if request.target is None else request.target
    if not 1 <= target <= newest:
        why = f"cannot be the target, the committed versions end at {newest}"
        raise ConfigError(f"{checkpoint.root}: version {target} {why}")
    cut = request.snapshots_from
    if cut is None:
        stores = (store for store in checkpoint.stores if request.covers(store.id))
        cut = snapshots_from(checkpoint, stores, policy, target)
    return Window(
        floor=_floor(policy, target, required, checkpoint.pins),
        required=required,
        target=target,
        newest=newest,
        now=now,
        policy=policy,
        force_snapshot=request.force_snapshot,
        skewed=skewed,
        forced=frozenset(operator.id for operator in checkpoint.operators if operator.has_families),
        snapshots_from=cut,
    )


def silent_after(times: Iterable[float | None]) -> float:
    """Returns the age of the newest commit, in seconds, from which the query may have stopped.

    That is three times the longest pause between commits, or a day if commits are usually closer;
    but never less than an hour, nor than one and a half times a pause that it has made twice. An
    `AvailableNow` query commits several batches, and then pauses. Equal times are those of a copy.
    """
    ordered = sorted({time for time in times if time is not None})
    pauses = sorted(later - earlier for earlier, later in pairwise(ordered))
    if not pauses:
        return _DAY
    usual, made_twice = max(_DAY, _TIMES * median(pauses)), pauses[-2] if pauses[1:] else 0.0
    return max(_HOUR, 1.5 * made_twice, min(_TIMES * pauses[-1], usual))


def _foreign(checkpoint: Checkpoint) -> Iterator[Finding]:
    """Yields the finding that executors still write snapshots (S9)."""
    stores, by_repartition = checkpoint.stores, checkpoint.repartitioned
    snapshots = (file for store in stores for file in store.foreign if not store.is_forced(file))
    theirs = [(it.version, it.entry.path) for it in snapshots if it.version not in by_repartition]
    if theirs:
        _, newest = max(theirs)
        with_ids = any(store.rocks and store.rocks.ids for store in stores)
        rarely = _MOST_WITH_IDS if with_ids else _NEVER
        detail = (
            f"{newest} and {len(theirs) - 1} more snapshots were written by executors: their "
            f"maintenance runs as well. Set {_STATE}.minDeltasForSnapshot to {rarely} for the "
            "query and leave its maintenanceInterval as it is; from Spark 4.2 on also set "
            f"{_STATE}.forceSnapshotUploadOnLag=false, and only then "
            f"{_STATE}.coordinatorReportSnapshotUploadLag=false"
        )
        yield Finding(FindingCode.FOREIGN_MAINTAINER, detail)


def _skewed(stores: tuple[Store, ...], now: float, skew: float) -> Iterator[Finding]:
    """Yields the finding that clocks disagree: by measurement, or by a file from the future."""
    rest = "so no age can be relied on and nothing is deleted; set the clocks right"
    if abs(skew) > MOST_SKEW:
        detail = f"the storage stamps files {skew:.0f} seconds off its own clock, {rest}"
        yield Finding(FindingCode.CLOCK_SKEW, detail)
        return
    entries = (file.entry for store in stores for file in store.files)
    times = ((entry.modified, entry.path) for entry in entries if entry.modified is not None)
    stamp, path = max(times, default=(now, ""))
    if stamp > now + MOST_SKEW:
        detail = f"{path} is stamped {stamp - now:.0f} seconds in the future, {rest}"
        yield Finding(FindingCode.CLOCK_SKEW, detail)


def _store_plans(
    checkpoint: Checkpoint, stores: tuple[Store, ...], window: Window | None
) -> tuple[StorePlan, ...]:
    halted, plans = damaged(checkpoint.findings), []
    for unsorted in stores:
        files = tuple(sorted(unsorted.files, key=lambda file: file.entry.path))
        store = replace(unsorted, files=files)
        findings = diagnose(store, checkpoint)
        if halted:
            plans.append(halt(store, findings, window))
        elif window is None:
            plans.append(uncommitted(store, findings))
        elif not checkpoint.asks(store.id, window.target):
            plans.append(decide_old(store, checkpoint, window, findings))
        else:
            plans.append(decide(store, window, findings, judge(store, checkpoint)))
    return _bounded(tuple(plans), window.policy.max_deletes_per_run) if window else tuple(plans)


def _bounded(stores: tuple[StorePlan, ...], most: int) -> tuple[StorePlan, ...]:
    """Returns the plans with at most `most` deletions, the oldest versions first (S12)."""
    actions = (action for store in stores for action in store.actions)
    deletes = [it for it in actions if isinstance(it, Delete) and it.reason not in _FIRST]
    # Shared files wait for all snapshots: a snapshot that waits may be the last to refer to one.
    # The stores are in order, and a sort by version alone keeps that order.
    deletes.sort(key=lambda delete: (delete.version == 0, delete.version))
    later = {delete.entry for delete in deletes[most:]}
    return tuple(_postponed(store, later) for store in stores) if later else stores


def _postponed(store: StorePlan, late: set[Entry]) -> StorePlan:
    waits = [it.entry for it in store.actions if isinstance(it, Delete) and it.entry in late]
    actions = tuple(it for it in store.actions if not (isinstance(it, Delete) and it.entry in late))
    kept = (Kept(entry, KeepReason.LIMIT) for entry in sorted(waits))
    return replace(store, actions=actions, kept=(*store.kept, *kept))
