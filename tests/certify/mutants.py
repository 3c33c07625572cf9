"""Maintainers that break one rule each. The certificate is worth something if it catches them all.

A mutant is a change of the code in memory, for as long as its context lasts.
"""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

from statemaint.codec.integrity.digest import StateDigest
from statemaint.execute import deleter, ledger, snapshot_writer
from statemaint.execute.deleter import Deleter
from statemaint.execute.lease import Lease
from statemaint.execute.snapshot_writer import StoreFolds
from statemaint.listing import Entry
from statemaint.model.chain import Chain, Versions
from statemaint.model.checkpoint import Checkpoint
from statemaint.model.files import ChecksumFile, Snapshot, TempFile
from statemaint.model.policy import Policy
from statemaint.model.proof import Attestation
from statemaint.plan import facts as boundaries
from statemaint.plan import fates
from statemaint.plan import store as deciding
from statemaint.plan.actions import Action, Attest, Delete, Window
from statemaint.plan.facts import Boundary, Facts
from statemaint.plan.fates import Fate, VersionPlace
from statemaint.plan.reasons import DeleteReason, KeepReason
from statemaint.plan.snapshots import base_proof
from tests.certify.mutant import SHARED, Mutant
from tests.certify.mutants_links import LINK_MUTANTS
from tests.certify.mutants_operators import OPERATOR_MUTANTS
from tests.certify.mutants_proof import PROOF_MUTANTS
from tests.certify.mutants_recovery import RECOVERY_MUTANTS
from tests.certify.mutants_rocks import ROCKS_MUTANTS
from tests.certify.mutants_savepoints import SAVEPOINT_MUTANTS

# Their packages have functions of the same names.
planning = import_module("statemaint.plan.planner")
looking = import_module("statemaint.planning")


def _one_look(look: Callable[[], Any], _: Any) -> Any:
    return look()


# -- S1: the only copy of a change is never deleted

_place_of = fates.place_of


def _base_goes_too(facts: Facts, boundary: Boundary, version: int) -> VersionPlace:
    """Deletes the base together with what lies below it."""
    found = _place_of(facts, boundary, version)
    goes = (
        found is VersionPlace.AT_BASE and version <= facts.window.floor and facts.versions.all[1:]
    )
    return VersionPlace.BELOW_BASE if goes else found


def _below_the_newest_snapshot(facts: Facts, _: Any) -> Snapshot | None:
    """Takes the newest snapshot for the base, whatever versions are retained."""
    found: Snapshot | None = max(
        facts.versions.snapshots.values(), key=lambda one: one.version, default=None
    )
    return found


def _all_below_the_base(facts: Facts, boundary: Boundary, version: int) -> VersionPlace:
    found = _place_of(facts, replace(boundary, cut=0, eventual=0), version)
    return VersionPlace.BELOW_BASE if found is VersionPlace.FLOOR_TO_BASE else found


# -- S2: plan from the commit log


def _target_of_files(self: Checkpoint) -> int | None:
    found = [one for store in self.stores for one in Versions.of(store.files).deltas]
    return max(found, default=None) if self.batches else None


def _target_of_the_running_batch(self: Checkpoint) -> int | None:
    deltas = [set(Versions.of(store.files).deltas) for store in self.stores]
    after = self.batches[-1] + 2 if self.batches else 0
    running = bool(deltas) and all(after in one for one in deltas)
    return (after if running else after - 1) or None


def _above_target_goes(facts: Facts, file: TempFile) -> Fate:
    """Takes what an attempt of the running batch has not renamed yet for nobody's."""
    return facts.window.guard(file.entry) or DeleteReason.ORPHAN_TEMP


# -- S3: the floor


def _floor_of_policy(policy: Policy, target: int, _: int, __: object) -> int:
    return max(1, target - policy.min_batches_to_retain)


def _floor_of_log(_: Any, __: int, required: int, ___: object) -> int:
    return required


_true_floor = planning._floor


def _floor_off_by_one(policy: Policy, target: int, required: int, pins: Any) -> int:
    found: int = _true_floor(policy, target, required, pins)
    return min(found + 1, target)


# -- S4: a young snapshot protects nothing

_base = boundaries._base


def _young_base(facts: Facts, writes: Any) -> Snapshot | None:
    window = facts.window
    hasty = replace(window, policy=window.policy.override(grace=0.0))
    return _base(replace(facts, window=hasty), writes)


def _planned_base(facts: Facts, writes: Any) -> Snapshot | None:
    """Trusts what this very run is about to write."""
    planned = [
        Snapshot(one.version, Entry(one.path, 0, None))
        for one in writes
        if one.version <= facts.floor
    ]
    found = [one for one in (_base(facts, writes), *planned) if one]
    return max(found, key=lambda one: one.version, default=None)


# -- S5: the age guard


def _no_age(self: Window, _: Entry) -> KeepReason | None:
    return self.hold


# -- S6: verify before delete


def _no_attest(*_: Any) -> tuple[Attest, ...]:
    return ()


def _trusting(*_: Any) -> None:
    return None


def _attest_alone(*of: Any) -> tuple[Attest, ...]:
    return tuple(replace(one, against=None) for one in base_proof(*of))


def _equal(_: str, __: StateDigest, ___: StateDigest) -> None:
    return None


def _nearest(self: Versions, version: int, *, proved: Any) -> Chain | None:
    del proved
    starts = sorted((one for one in (0, *self.snapshots) if one < version), reverse=True)
    return next((one for start in starts if (one := self._chain_from(start, version))), None)


def _covers_name(self: Attestation, entry: Any) -> bool:
    """Believes an old proof of a file that was replaced since."""
    return bool(self.path == entry.path)


def _covers_size(self: Attestation, entry: Any) -> bool:
    """Believes a proof of a file that was rewritten with as many bytes."""
    return bool((self.path, self.size) == (entry.path, entry.size))


def _any_file(_: Any, __: Any) -> None:
    return None


def _fold_unguarded(self: Any, source: Any, chain: Chain, versions: Any, *, write: bool) -> Any:
    """Does not look whether the proved snapshot that it folded on from is still the same."""
    return self.engine.fold(source, chain, versions, write=write)


# -- S7: order

_in_order, _of_checksum = deciding._in_order, fates._of_checksum


def _deletes_first(*steps: Any) -> tuple[Action, ...]:
    found = _in_order(*steps)
    first = [one for one in found if isinstance(one, Delete)]
    return (*first, *(one for one in found if not isinstance(one, Delete)))


def _sides_stay(facts: Facts, side: ChecksumFile, owner: Fate | None) -> Fate:
    return KeepReason.SIDE_FILE if owner else _of_checksum(facts, side, owner)


def _sides_last(self: Any, page: Any, _: Any, removed: Any) -> None:
    for sides in (False, True):
        some = [one.path for one in page if (one.reason is DeleteReason.SIDE_FILE) is sides]
        if some:
            self.context.storage.delete_all(some)
    removed += page


def _no_clearing(*_: Any) -> tuple[Delete, ...]:
    return ()


def _unnoted(*_: Any, **__: Any) -> None:
    return None


_UNLOOKED = tuple((one, "must_be_unchanged", _any_file) for one in (deleter, snapshot_writer))
MUTANTS: tuple[Mutant, ...] = (
    Mutant("base goes too", "S1", "deletes the base with what lies below it",
           ((fates, "place_of", _base_goes_too),)),
    Mutant("newest snapshot is the base", "S1", "deletes below the newest snapshot",
           ((boundaries, "_base", _below_the_newest_snapshot),
            (fates, "place_of", _all_below_the_base))),
    Mutant("target of file names", "S2", "plans from the highest file name",
           ((Checkpoint, "target", property(_target_of_files)),)),
    Mutant("target of a running batch", "S2", "takes a running batch for committed",
           ((Checkpoint, "target", property(_target_of_the_running_batch)),)),
    Mutant("temp files above the target", "S2", "touches temp files of the running batch",
           ((fates, "_of_temp", _above_target_goes),)),
    Mutant("floor of the policy", "S3", "ignores what the commit log still holds",
           ((planning, "_floor", _floor_of_policy),)),
    Mutant("floor of the log", "S3", "ignores the policy's min_batches_to_retain",
           ((planning, "_floor", _floor_of_log),)),
    Mutant("floor off by one", "S3", "keeps one version too few",
           ((planning, "_floor", _floor_off_by_one),)),
    Mutant("one look", "S3", "believes a finding that no second scan has confirmed",
           ((looking, "settled", _one_look),)),
    Mutant("young base", "S4", "relies on any snapshot, however young",
           ((boundaries, "_base", _young_base),)),
    Mutant("planned base", "S4", "relies on the snapshot that it has just written",
           ((boundaries, "_base", _planned_base),)),
    Mutant("no age guard", "S5", "deletes temp files at once",
           ((Window, "guard", _no_age),)),
    Mutant("no proof", "S6", "deletes without an attestation",
           ((deciding, "base_proof", _no_attest), (Deleter, "_base_must_stand", _trusting))),
    Mutant("proof of itself", "S6", "reads a snapshot of Spark's and compares it with nothing",
           ((deciding, "base_proof", _attest_alone),)),
    Mutant("no comparison", "S6", "reads back and does not compare",
           ((snapshot_writer, "must_equal", _equal),)),
    Mutant("nearest snapshot", "S6", "folds on from a snapshot that nobody proved",
           ((Versions, "from_log", _nearest),)),
    Mutant("proof by name", "S6", "believes a proof of a file that was replaced",
           ((Attestation, "covers", _covers_name), *_UNLOOKED)),
    Mutant("base replaced under a fold", "S6", "folds on from what has taken a proved file's place",
           ((StoreFolds, "_fold", _fold_unguarded),)),
    Mutant("deletes first", "S7", "deletes before it writes and proves",
           ((deciding, "_in_order", _deletes_first),
             (Deleter, "_base_must_stand", _trusting))),
    Mutant("side files stay", "S7", "deletes files and leaves their checksums",
           ((fates, "_of_checksum", _sides_stay),)),
    Mutant("side files last", "S7", "deletes a checksum after its file",
           ((Deleter, "_remove", _sides_last),)),
    Mutant("stale checksum stays", "S7", "writes a snapshot beside another one's checksum",
           ((deciding, "clearances", _no_clearing),)),
    Mutant("no fence", "S8", "never asks whether it still holds the lease",
           ((Lease, "must_hold", _unnoted), (Lease, "check", _unnoted))),
    Mutant("unseen end", "S8", "ends a run without a word to those of its tasks that live",
           ((Lease, "_end", Lease._release),), SHARED),
    Mutant("no ledger", "S18", "deletes what the ledger does not name",
           ((ledger.Ledger, "deleting", _unnoted),)),
    Mutant("skewed clocks", "S19", "deletes although clocks are far apart",
           ((planning, "_skewed", lambda *_: iter(())),)),
    Mutant("proof by size", "S6", "believes a proof of a file of the same size",
           ((Attestation, "covers", _covers_size), *_UNLOOKED)),
    *PROOF_MUTANTS,
    *LINK_MUTANTS,
    *OPERATOR_MUTANTS,
    *RECOVERY_MUTANTS,
    *ROCKS_MUTANTS,
    *SAVEPOINT_MUTANTS,
)  # fmt: skip
