"""Checks on the snapshots that deletions rely on: still the proved file, readable by the query."""

from collections.abc import Callable
from dataclasses import replace

from statemaint.errors import NotFoundError, Superseded
from statemaint.execute.ledger import Known
from statemaint.fold import Folding, Pieces
from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store
from statemaint.storage import Storage


def must_be_unchanged(storage: Storage, entry: Entry) -> None:
    """Makes sure that a snapshot is the file that was listed or written."""
    try:
        current = storage.stat(entry.path)
    except NotFoundError as error:
        raise Superseded(entry.path, "the snapshot is missing") from error
    if current != entry:
        raise Superseded(entry.path, "the snapshot was replaced after the run was planned")


def as_planned(
    folding: Folding, storage: Storage, chain: Chain, done: Callable[[frozenset[str]], object]
) -> Pieces:
    """Yields the pieces of a fold, whose files must be those that the run was planned with.

    `done` is called with the chain's paths once the whole chain was folded.
    """
    try:
        yield from folding
    except NotFoundError as error:
        why = "existed when the run was planned and is missing"
        raise Superseded(error.path, why) from error
    if chain.base:  # its proof is of the listed file
        must_be_unchanged(storage, chain.base.entry)
    done(frozenset(chain.paths))
    return folding.digests


def must_be_readable(storage: Storage, store: Store, known: Known, path: str) -> bool:
    """Makes sure that readers of the log beside a proved snapshot of ours can also read it (S22).

    Earlier builds wrote snapshots with the permissions of the maintainer's umask or of the bucket.
    Snapshots of executors are the query's own. The check runs once: the proof records its success.

    Its proof in `known` is replaced once the snapshot is found readable.

    Returns:
        Whether the proof was replaced.
    """
    proof = known.proofs[path]
    ours = proof.ours or path in (store.rocks.ours if store.rocks else known.written)
    beside = store.beside(proof.version)
    if proof.readable or not ours or beside is None:
        return False
    try:
        storage.check_readable(path, like=beside.path)
    except NotFoundError as error:
        raise Superseded(error.path, "existed when the run was planned and is missing") from error
    known.proofs[path] = replace(proof, readable=True)
    return True
