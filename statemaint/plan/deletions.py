"""The deletions that a run carries out in a store, in their order. Pure."""

from collections.abc import Collection, Iterator, Mapping

from statemaint.listing import Entry
from statemaint.model.files import ChecksumFile, StateFile, UnknownFile
from statemaint.plan.actions import Delete, Kept, WriteSnapshot
from statemaint.plan.facts import Facts
from statemaint.plan.fates import Fate
from statemaint.plan.reasons import DeleteReason, KeepReason
from statemaint.plan.snapshots import checksums_left_of


def deletions(facts: Facts, fates: Mapping[Entry, Fate]) -> tuple[Delete, ...]:
    """Returns the deletions of a store, in the order in which they happen.

        version 1: checksum, file | version 2: checksum, file | ... | SST files: checksum, file

    Lower versions come before higher ones and a checksum before its file, so that an interrupted
    run leaves neither a gap nor a lone checksum. Shared files come after all snapshots (S7).
    """
    pairs = ((file, fates[file.entry]) for file in facts.store.files)
    deletes = [_delete(facts, file, one) for file, one in pairs if isinstance(one, DeleteReason)]
    return tuple(sorted(deletes, key=lambda one: one.order))


def _delete(facts: Facts, file: StateFile, reason: DeleteReason) -> Delete:
    suspect = facts.stale.get(file.entry.path)
    version = 0 if isinstance(file, UnknownFile) else file.version
    instead = suspect.instead if suspect else None
    return Delete(facts.store.id, version, file.entry, reason, instead)


def clearances(
    facts: Facts, deletes: Collection[Delete], writes: Collection[WriteSnapshot]
) -> tuple[Delete, ...]:
    """Returns the deletions that must happen before the snapshots are written.

    These are the checksum files that outlived their snapshots, and the stale snapshots that have
    the name of a new one.
    """
    return (*_left_checksums(facts, writes), *_stale_in_the_way(facts, deletes, writes))


def _left_checksums(facts: Facts, writes: Collection[WriteSnapshot]) -> Iterator[Delete]:
    for write in writes:
        for side in checksums_left_of(facts, write.version):
            yield Delete(facts.store.id, side.version, side.entry, DeleteReason.STALE_SIDE)


def _stale_in_the_way(
    facts: Facts, deletes: Collection[Delete], writes: Collection[WriteSnapshot]
) -> Iterator[Delete]:
    """Yields the deletions of stale snapshots and their checksums, the lowest first.

    A stale snapshot hides those below it. If it alone were deleted, a restart would begin with one
    of them.
    """
    in_the_way = [one.version for one in writes if one.path in facts.stale]
    if not in_the_way:
        return
    owners = {
        one.entry.path: one.owner for one in facts.store.files if isinstance(one, ChecksumFile)
    }
    for delete in deletes:
        stale = owners.get(delete.path, delete.path) in facts.stale
        if stale and delete.version <= max(in_the_way):
            yield delete


def kept_files(fates: Mapping[Entry, Fate]) -> tuple[Kept, ...]:
    kept = (Kept(entry, one) for entry, one in fates.items() if isinstance(one, KeepReason))
    return tuple(sorted(kept, key=lambda one: one.entry.path))
