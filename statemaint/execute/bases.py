"""What deletions rely on: that it is the file that was proved, and that the query reads it."""

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
    """Makes sure that a snapshot is the file that was listed or written.

    Raises:
        Superseded: when it is gone, or another one.
        StorageError: when the storage fails.
    """
    try:
        found = storage.stat(entry.path)
    except NotFoundError as error:
        raise Superseded(entry.path, "the snapshot is gone") from error
    if found != entry:
        raise Superseded(entry.path, "the snapshot was replaced after the run was planned")


def as_planned(
    folding: Folding, storage: Storage, chain: Chain, done: Callable[[frozenset[str]], object]
) -> Pieces:
    """Yields the pieces of a fold whose files must be those that the run was planned with.

    Args:
        folding: of the chain.
        storage: where the chain lives.
        chain: what is folded.
        done: receives the chain's paths once all of it was folded.

    Raises:
        Superseded: when a file is gone, or the base was replaced.
        StorageError: when the storage fails.
        CheckpointError: what the fold raises.
    """
    try:
        yield from folding
    except NotFoundError as error:
        gone = "was there when the run was planned and is gone"
        raise Superseded(error.path, gone) from error
    if chain.base:  # what is proved of it is proved of the file that was listed
        must_be_unchanged(storage, chain.base.entry)
    done(frozenset(chain.paths))
    return folding.digests


def must_be_readable(storage: Storage, store: Store, known: Known, path: str) -> bool:
    """Makes sure that whoever reads the log beside a proved snapshot of ours reads it, too (S22).

    A snapshot that an earlier build wrote had what the maintainer's umask or the bucket gave it.
    Those that executors wrote are the query's own. It is asked once: the proof remembers it.

    Args:
        storage: where it lives.
        store: its store as it was listed.
        known: what the ledger knows of that; its proof is replaced once it is seen to be readable.
        path: of the snapshot.

    Returns:
        Whether that is new.

    Raises:
        UnreadableError: when somebody might not.
        Superseded: when the snapshot, or what it is compared with, is gone.
        StorageError: when the storage fails.
    """
    proof = known.proofs[path]
    ours = proof.ours or path in (store.rocks.ours if store.rocks else known.written)
    beside = store.beside(proof.version)
    if proof.readable or not ours or beside is None:
        return False
    try:
        storage.check_readable(path, like=beside.path)
    except NotFoundError as error:
        raise Superseded(error.path, "was there when the run was planned and is gone") from error
    known.proofs[path] = replace(proof, readable=True)
    return True
