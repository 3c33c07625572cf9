"""Carries a plan out on the model alone, for properties of the planner."""

from dataclasses import replace

from statemaint.listing import Entry
from statemaint.model.checkpoint import Attestation, Checkpoint, Store
from statemaint.model.files import Snapshot
from statemaint.plan import Action, Attest, Delete, WriteSnapshot


def after(checkpoint: Checkpoint, actions: tuple[Action, ...], now: float) -> Checkpoint:
    """Returns the checkpoint as it is once some actions have happened."""
    stores = {store.id: store for store in checkpoint.stores}
    for action in actions:
        stores[action.store] = _step(stores[action.store], action, now)
    return replace(checkpoint, stores=tuple(stores.values()))


def _step(store: Store, action: Action, now: float) -> Store:
    match action:
        case WriteSnapshot():
            entry = Entry(action.path, 100, now)
            snapshot = Snapshot(action.version, entry)
            return replace(
                store,
                files=(*store.files, snapshot),
                attestations=(*store.attestations, attest(entry, action.version)),
            )
        case Attest():
            found = attest(action.snapshot.entry, action.version)
            return replace(store, attestations=(*store.attestations, found))
        case Delete():
            kept = tuple(file for file in store.files if file.entry != action.entry)
            return replace(store, files=kept)


def attest(entry: Entry, version: int) -> Attestation:
    """Returns an attestation of a file, with an empty digest."""
    return Attestation(entry.path, version, entry.size, entry.modified, "", 0, 0)
