"""Scanning and planning, repeated where a single scan may be misleading."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import product
from typing import TypeVar, assert_never

from statemaint.errors import ConfigError, DamagedError, NotExclusiveError
from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import StoreId, UnitId, version_of
from statemaint.model.policy import Policy
from statemaint.plan.actions import Action, Attest, Delete, Plan, Request, WriteSnapshot
from statemaint.plan.findings.health import diagnose
from statemaint.plan.findings.restart import with_log_damage
from statemaint.plan.planner import plan
from statemaint.records.remembered import recalling
from statemaint.scan.handover import Handover, Recalling, ScanPart
from statemaint.scan.query_logs import caught_up, missing_source_logs
from statemaint.scan.restart_evidence import with_record_size
from statemaint.scan.rollbacks import unfinished_rollbacks
from statemaint.scan.scanner import scan
from statemaint.storage import Storage

# A query that deletes faster than we can list would otherwise keep us scanning forever.
_MOST_LOOKS = 5
Seen = TypeVar("Seen")


def settled(look: Callable[[], Seen], doubtful: Callable[[Seen], Collection[object]]) -> Seen:
    """Returns what a look at a checkpoint shows; what is doubtful in it was seen by two looks.

    The query continues meanwhile: it purges its log and cleans up below it, so one listing may be
    older than another. What is real appears again in the next look (S3).
    """
    seen = look()
    for _ in range(_MOST_LOOKS):
        before = frozenset(doubtful(seen))
        if not before:
            break
        seen = look()
        if before.issuperset(doubtful(seen)):
            break
    return seen


def look_at(
    storage: Storage,
    only: Callable[[StoreId], bool] | None = None,
    *,
    part: ScanPart | None = None,
) -> Checkpoint:
    """Returns what a scan shows; nothing in it is damage because the query went on meanwhile."""
    checkpoint = scan(storage, only, part=part)
    return caught_up(storage, checkpoint) if damage(checkpoint) else checkpoint


def scan_checkpoint(storage: Storage, only: Callable[[StoreId], bool] | None = None) -> Checkpoint:
    """Returns a checkpoint whose findings a second scan has confirmed.

    `only` is the filter of stores to read; all of them by default.
    """
    reading = recalling(storage)
    return settled(lambda: look_at(reading, only), damage)


def scan_with_logs(storage: Storage) -> Checkpoint:
    """Returns the same of all stores, with the findings of the logs that decide on a restart."""
    reading = recalling(storage)
    return settled(lambda: with_log_damage(look_at(reading)), damage)


def not_committed(root: str, batch: int, batches: Sequence[int]) -> ConfigError:
    has = f"has batches {batches[0]} to {batches[-1]}" if batches else "is empty"
    return ConfigError(f"{root}: batch {batch} is not committed, the commit log {has}")


def damage(checkpoint: Checkpoint) -> frozenset[Finding]:
    stores = (finding for store in checkpoint.stores for finding in diagnose(store, checkpoint))
    return frozenset(finding for finding in (*checkpoint.findings, *stores) if finding.damage)


def chains_at(checkpoint: Checkpoint, batch: int, refused: str) -> tuple[tuple[Store, Chain], ...]:
    """Returns the stores that a restart after a committed batch reads, each with its chain.

    Raises `DamagedError`, which begins with `refused`, when the restart would fail or load wrong
    rows as far as names show.
    """
    if batch not in checkpoint.batches:
        raise not_committed(checkpoint.root, batch, checkpoint.batches)
    for finding in sorted(damage(checkpoint), key=lambda finding: (finding.code, finding.detail)):
        if not finding.batches or batch in finding.batches:
            detail = f"{refused}: {finding.detail}"
            raise DamagedError(checkpoint.root, detail, code=finding.code.value)
    version, chains = version_of(batch), []
    for store in checkpoint.needed(version):
        chain = store.versions.chain(version)
        if not isinstance(chain, Chain):
            detail = f"{refused}: version {version} does not load in {store.id.directory}"
            raise DamagedError(checkpoint.root, detail, code=FindingCode.BROKEN_CHAIN.value)
        chains.append((store, chain))
    return tuple(chains)


def plan_checkpoint(  # noqa: PLR0913 -- each is a separate choice
    storage: Storage,
    policy: Policy,
    *,
    request: Request | None = None,
    as_of: float | None = None,
    skew: float = 0.0,
    handover: Handover | None = None,
    dry: bool = False,
) -> tuple[Checkpoint, Plan]:
    """Returns a checkpoint and its plan; writes nothing (S13).

    A snapshot that is trusted because no file below it was listed must be the lowest in a second
    scan, too: a listing made while another writer snapshots and deletes is partly outdated.

    Args:
        storage: the storage of the checkpoint.
        policy: when to snapshot and what to keep.
        request: the scope to restrict the plan to.
        as_of: the time of the first plan, for a plan that is made again; now by default.
        skew: seconds by which the storage's stamps were seen to be ahead of its clock.
        handover: an earlier scan's result for all but the partitions that the request names.
        dry: whether the plan is only shown: a run, which tries what the storage can do, may refuse
            to carry it out, and as far as reading shows that, it is a finding that halts all.

    Raises:
        ConfigError: when the request names a store or version that does not exist.
        NotACheckpointError: when there is no checkpoint.
        UnsupportedError: when it is of a kind that cannot be maintained.
    """
    part = None
    if handover and request and request.operators and request.partitions:
        pairs = product(request.operators, request.partitions)
        part = ScanPart(handover, frozenset(UnitId(*pair) for pair in pairs))
    reading = Recalling(storage, part.handover) if part else recalling(storage)
    only = request.covers if request else None

    def look() -> tuple[Checkpoint, Plan]:
        checkpoint, now = look_at(reading, only, part=part), reading.now()
        # A task looks again: one may have begun, and been killed, before the run had its lease.
        findings = (*checkpoint.findings, *unfinished_rollbacks(reading))
        findings += () if part else tuple(missing_source_logs(reading, checkpoint))
        checkpoint = with_log_damage(replace(checkpoint, findings=findings))
        if policy.restart_within and not part:
            checkpoint = with_record_size(reading, checkpoint)
        ages = now if as_of is None else as_of
        decided = plan(checkpoint, policy, ages, request=request, skew=skew, seen=now)
        if dry and decided.actions and (why := storage.obstacle):
            detail = NotExclusiveError(storage.root, why).detail
            refused = Finding(FindingCode.UNSUPPORTED, detail)
            checkpoint = replace(checkpoint, findings=(*findings, refused))
            return checkpoint, plan(checkpoint, policy, ages, request=request, seen=now)
        return checkpoint, decided

    return settled(look, lambda seen: damage(seen[0]) | _trusted(seen[1]))


def _trusted(decided: Plan) -> frozenset[str]:
    bases = {base for action in decided.actions if (base := _begins_at(action))}
    proved = {proof.entry for store in decided.stores for proof in store.store.attestations}
    return frozenset(base.path for base in bases - proved)


def _begins_at(action: Action) -> Entry | None:
    match action:
        case WriteSnapshot(chain=chain) | Attest(against=Chain() as chain):
            return chain.base.entry if chain.base else None
        case Attest(snapshot=snapshot):
            return snapshot.entry
        case Delete():
            return None
        case _:
            assert_never(action)
