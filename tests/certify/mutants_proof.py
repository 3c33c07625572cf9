"""Maintainers that believe a proof too long, or forget what they have seen."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

from statemaint.errors import ConfigError
from statemaint.listing import Entry
from statemaint.model.checkpoint import Store
from statemaint.model.files import Snapshot
from statemaint.model.proof import Attestation, FileRecord
from statemaint.plan import fates
from statemaint.plan.actions import Attest
from statemaint.plan.fates import Fate, StateTraits, state_fate
from statemaint.plan.reasons import DeleteReason, KeepReason
from statemaint.plan.staleness import Judgement
from statemaint.scan.proofs import _Comparison
from tests.certify.mutant import RARE, REWOUND, ROCKS, ROLLED_BACK, Mutant

# Their packages have functions of the same names.
attesting = import_module("statemaint.records.attestations")
deciding = import_module("statemaint.plan.store")
judging = import_module("statemaint.plan.staleness")
rewinding = import_module("statemaint.plan.rewinds")
restoring = import_module("statemaint.undo.run")
writing = import_module("statemaint.plan.snapshots")

_replaced = _Comparison.replaced


def _no_inputs(self: Any, records: Iterable[FileRecord], proof: Attestation) -> Any:
    """Looks at the snapshot's own file alone, as proofs did that named no inputs."""
    return () if records is proof.inputs else _replaced(self, records, proof)


def _by_size(_: Any, record: FileRecord, entry: Entry, __: float) -> bool:
    """Takes any file of the same size for the one that was read."""
    return record.size == entry.size


def _none_early(_: Store, __: int) -> Iterator[Snapshot]:
    return iter(())


def _folds_on(_: Judgement, store: Store) -> Store:
    return store


def _stays(file: StateTraits) -> Fate:
    """Leaves a stale snapshot where a restart finds it."""
    found = state_fate(file)
    return KeepReason.SNAPSHOT if found is DeleteReason.STALE_SNAPSHOT else found


def _any_rewind(one: Any, versions: Any, *_: Any) -> bool:
    return bool(judging._replaced(one, versions))


def _always(*_: Any) -> bool:
    return True


def _never(*_: Any) -> bool:
    return False


def _all_fit(*_: Any, **__: Any) -> dict[str, str]:
    return {}


def _by_files_alone(storage: Any, found: Any, _: Any) -> None:
    """Refuses to undo a rollback only where a file of it is there again."""
    if found.of_rollback and any(_is_there(storage, path) for path in found.files):
        raise ConfigError("the query has gone on")


def _is_there(storage: Any, path: str) -> bool:
    return any(entry.path == path for entry in storage.list(path.rpartition("/")[0]))


_uploads = attesting._uploads


def _no_gap(stored: Any) -> Any:
    return replace(_uploads(stored), widest_gap=0)


def _none_compared(*_: Any) -> tuple[Attest, ...]:
    return ()


PROOF_MUTANTS = (
    Mutant("proof without inputs", "S6", "believes a proof whose log was written again",
           ((_Comparison, "replaced", _no_inputs), (judging, "earlier_than_their_log",
                                                    _none_early))),
    Mutant("input by size", "S6", "takes a log file of the same size for the one it read",
           ((_Comparison, "_equal", _by_size),), REWOUND),
    Mutant("unproved is never early", "S6",
           "does not look whether an unproved snapshot is older than its own change",
           ((judging, "earlier_than_their_log", _none_early),), REWOUND),
    Mutant("stale base", "S6", "folds on from a snapshot of before a rewind",
           ((Judgement, "without_stale", _folds_on),), REWOUND),
    Mutant("stale stays", "S6", "leaves a stale snapshot where a restart loads it",
           ((fates, "state_fate", _stays),)),
    Mutant("any change is a rewind", "S6", "takes an edited log for one that the query wrote",
           ((judging, "written_by_query", _any_rewind),)),
    Mutant("commits tell nothing", "S6", "does not ask whether the commits were written again",
           ((rewinding, "_committed", _always),), REWOUND),
    Mutant("undo of what went stale", "S17", "puts back what was proved from another log",
           ((restoring, "undo_refusals", _all_fit),), REWOUND),
    Mutant("nothing compared first", "S6", "goes on beside a snapshot of ours that nobody proved",
           ((deciding, "comparisons", _none_compared),)),
    Mutant("rollback undone by files", "S17", "asks only whether a file is there again",
           ((restoring, "check_rollback_undoable", _by_files_alone),), ROLLED_BACK),
    Mutant("gap forgotten", "S9", "forgets how far apart executors upload",
           ((attesting, "_uploads", _no_gap), (writing, "may_share", _never)), RARE),
    Mutant("window moved", "S9", "has Spark's clean-up delete what an executor's next zip names",
           ((writing, "overtakes", _never),), ROCKS),
)  # fmt: skip
