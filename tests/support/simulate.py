"""Carries a plan out on the model alone, for properties of the planner."""

from dataclasses import replace

from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.files import Snapshot, SstFile
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from statemaint.model.proof import Attestation, FileRecord
from statemaint.model.rocks import Rocks
from statemaint.plan.actions import Action, Attest, Delete, Plan, StorePlan, WriteSnapshot
from statemaint.plan.uploads import observed
from statemaint.report.run import Report


def after(checkpoint: Checkpoint, actions: tuple[Action, ...], now: float) -> Checkpoint:
    """Returns the checkpoint as it is once some actions have happened."""
    noted = (replace(store, uploads=observed(store)) for store in checkpoint.stores)
    stores = {store.id: store for store in noted}
    for action in actions:
        stores[action.store] = _step(stores[action.store], action, now)
    return replace(checkpoint, stores=tuple(stores.values()))


def unexplained(decided: Plan) -> list[tuple[StoreId, int]]:
    """Returns the versions whose chains are too long, and get neither a snapshot nor a reason."""
    wanted = {decided.target, decided.floor if decided.policy.rebase else decided.target}
    return [
        (one.store.id, version)
        for one in decided.stores
        for version in sorted(version for version in wanted if version is not None)
        if _is_long(one.store, version, decided.policy) and version not in _spoken_of(one)
    ]


def left_long(report: Report) -> list[StoreId]:
    """Returns the stores that a run has left with too long a chain, without a reason."""
    policy, target = report.plan.policy, report.plan.target
    return [
        one.after.id
        for one in report.stores
        if target is not None and _is_long(one.after, target, policy) and not one.withheld
    ]


def _is_long(store: Store, version: int, policy: Policy) -> bool:
    chain = store.versions.chain(version)
    least = policy.min_deltas_for_snapshot + (store.rocks is None)
    return isinstance(chain, Chain) and len(chain.deltas) >= least


def _spoken_of(store: StorePlan) -> set[int]:
    written = {one.version for one in store.actions if isinstance(one, WriteSnapshot)}
    return written | {one.version for one in store.withheld}


def _step(store: Store, action: Action, now: float) -> Store:
    match action:
        case WriteSnapshot():
            entry = Entry(action.path, 100, now)
            snapshot = Snapshot(action.version, entry, action.id)
            new, rocks = _parts(store, action, now)
            return replace(
                store,
                files=(*store.files, snapshot, *new),
                attestations=(*store.attestations, _proof(entry, action.version, action.chain)),
                written=(*store.written, action.path),
                rocks=rocks,
            )
        case Attest():
            found = _proof(action.snapshot.entry, action.version, action.against)
            outdated = tuple(one for one in store.outdated if one.path != action.path)
            others = (one for one in store.attestations if one.path != action.path)
            return replace(store, attestations=(*others, found), outdated=outdated)
        case Delete():
            kept = tuple(file for file in store.files if file.entry != action.entry)
            outdated = tuple(one for one in store.outdated if one.path != action.path)
            return replace(store, files=kept, outdated=outdated)


def _parts(
    store: Store, action: WriteSnapshot, now: float
) -> tuple[tuple[SstFile, ...], Rocks | None]:
    """Returns a table of its own for a zip, and what else it refers to if it may."""
    if store.rocks is None:
        return (), None
    table = Entry(f"{store.id.directory}/SSTs/ours-{action.version}.sst", 10, now)
    base = action.chain.base
    old = store.rocks.parts.get(base.entry.path, {}) if base and action.reuse else {}
    rocks = store.rocks.with_parts(action.path, {**old, table.path: table.size})
    return (SstFile(table),), replace(rocks, ours=rocks.ours | {action.path})


def _proof(entry: Entry, version: int, chain: Chain | None) -> Attestation:
    base = [chain.base.entry] if chain and chain.base else []
    files = (*base, *(one.entry for one in chain.deltas)) if chain else ()
    return replace(attest(entry, version), inputs=tuple(FileRecord.of(one, {}) for one in files))


def attest(entry: Entry, version: int, *, target: int | None = None) -> Attestation:
    """Returns an attestation of a file, with an empty digest."""
    return Attestation(entry.path, version, entry.size, entry.modified, "", 0, 0, target=target)
