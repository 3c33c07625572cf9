"""The reasons that a log may be wrong, and not the snapshot that differs from it."""

from collections.abc import Iterator
from itertools import pairwise

from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.ids import batch_of


def doubts_of(store: Store, chain: Chain, snapshot: Entry, checkpoint: Checkpoint) -> Iterator[str]:
    """Yields why a chain may be wrong, by the times of its files and the proof of its base."""
    if store.rocks and (older := _of_another_run(chain, checkpoint)):
        yield older
    if edited := _edited(store, chain, snapshot):
        yield f"{edited}; one of the two is wrong"
    if chain.base and not _is_proved(store, chain.base.entry.path):
        yield (
            f"the chain that it differs from begins with {chain.base.entry.path}, which is "
            "not proved; one of the two is wrong"
        )


def _of_another_run(chain: Chain, checkpoint: Checkpoint) -> str | None:
    """Returns why a changelog may be of an earlier run of its batch; `None` if none is.

    A batch that runs again without changelogs writes a zip, and leaves the changelog.
    """
    for delta in chain.deltas:
        batch = batch_of(delta.version)
        if (delta.entry.modified or 0.0) < (checkpoint.planned.get(batch) or 0.0):
            return (
                f"{delta.entry.path} is older than offsets/{batch}: if the batch ran again "
                "without changelogs, the zip is right; move the changelog away then"
            )
    return None


def _edited(store: Store, chain: Chain, snapshot: Entry) -> str | None:
    """Returns why a log may have been changed by something other than its query; `None` if not.

    A query writes one change after another. A rewound query writes every change again, from some
    version up to the snapshot's and beyond.
    """
    above = store.versions.deltas.get(chain.version + 1)
    entries = [one.entry for one in (*chain.deltas, *((above,) if above else ()))]
    for earlier, later in pairwise(entries):
        if (earlier.modified or 0.0) > (later.modified or 0.0):
            if snapshot.modified is not None and (earlier.modified or 0.0) > snapshot.modified:
                return f"{earlier.path} was written after it, and not by a query that was rewound"
            return f"{earlier.path} was written after {later.path}, which no query does"
    return None


def _is_proved(store: Store, path: str) -> bool:
    return any(proof.path == path for proof in store.attestations)
