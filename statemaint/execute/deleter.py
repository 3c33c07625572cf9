"""Deletes files page by page, each page only while the files it relies on are in place (S6-S8)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from statemaint.errors import StorageError, Superseded
from statemaint.execute.fence import TRUSTED, must_stand
from statemaint.execute.snapshot_writer import SnapshotWriter, must_be_unchanged
from statemaint.execute.store_record import RunContext, StoreRecord
from statemaint.execute.trash import Trash, maintained
from statemaint.model.proof import Attestation
from statemaint.plan.actions import Delete
from statemaint.plan.reasons import DeleteReason
from statemaint.plan.store import RELY_ON_BASE
from statemaint.report.outcome import Deleted

# One check of the base and one append to the ledger cover this many deletions.
_PAGE = 200
_LOOKS = 5  # at base and lease in turn, before a deletion: a slow listing makes any look outdated
# Moved to the trash under every policy: these files were once trusted.
_ASIDE = (DeleteReason.STALE_SNAPSHOT, DeleteReason.STALE_SIDE)
Page = tuple[Delete, ...]


@dataclass(frozen=True, slots=True)
class Deleter:
    """Deletes files of one store."""

    context: RunContext
    writer: SnapshotWriter
    record: StoreRecord
    base: str | None

    def delete(self, deletes: Page) -> Iterator[Deleted]:
        stale = tuple(delete for delete in deletes if delete.reason in _ASIDE)
        for delete in stale:
            if delete.instead:
                self.record.settle()  # the fold may take long
                must_be_unchanged(self.context.storage, delete.entry)
                self.writer.folds.must_give(delete.instead)
        yield from self._pages(stale, self.context.trash or self.context.aside)
        if _relies_on_base(deletes):
            self.writer.must_be_readable(self.base)
        others = tuple(delete for delete in deletes if delete not in stale)
        yield from self._pages(others, self.context.trash)

    def _pages(self, deletes: Page, trash: Trash | None) -> Iterator[Deleted]:
        context, store = self.context, self.record.store
        for start in range(0, len(deletes), _PAGE):
            page = deletes[start : start + _PAGE]
            placed = any(entry.path == self.base for entry in self.record.placed)
            # A base in one file whose proof is yet to be noted was read a moment ago.
            if not placed or not self.record.held or store.rocks:
                self._base_must_stand(page)
            self._instead_must_stand(page)
            self._tables_must_stand(page)
            self.record.settle(page, trash=trash is not None)
            if trash:
                newest = max(delete.version for delete in deletes)
                log = context.storage, store, context.target, newest, self._proof
                trash.note(page, None if start else maintained(*log))
            # As late as possible, once a page: the lease, the pins, then the commit.
            must_stand(context.storage, context.commit, store, context.look, first=self._may_delete)
            removed: list[Delete] = []
            try:
                self._remove(page, trash, removed)
            except (StorageError, Superseded):
                yield from map(Deleted, removed)
                raise
            yield from map(Deleted, page)

    def _remove(self, page: Page, trash: Trash | None, removed: list[Delete]) -> None:
        storage = self.context.storage
        looked = storage.now()

        def before() -> None:
            nonlocal looked
            if storage.now() - looked >= TRUSTED:  # copies to the trash take their time
                must_stand(storage, self.context.commit, self.record.store)
                looked = storage.now()
            self._must_stand(page)

        # One call may remove in any order, but no checksum may outlive its file, and no shared
        # file may be removed before the snapshot that needs it.
        for rank in sorted({delete.rank for delete in page}):
            ranked = [delete for delete in page if delete.rank == rank]
            try:
                if trash:
                    trash.take(ranked, before=before, after=removed.append)
                    continue
                storage.delete_all([delete.path for delete in ranked], before=before)
            except (StorageError, Superseded):
                removed += self._missing([delete for delete in ranked if delete not in removed])
                raise
            removed += ranked

    def _missing(self, deletes: Sequence[Delete]) -> list[Delete]:
        """Returns the files that no longer exist after a failure, as far as it is seen."""
        try:
            listed = [*self.context.storage.list(self.record.store.id.directory)]
        except StorageError:
            return []
        there = {entry.path for entry in listed}
        return [delete for delete in deletes if delete.path not in there]

    def _must_stand(self, page: Page) -> None:
        # Until all was checked within a short time: during a check, a file that was checked earlier
        # may be replaced.
        for _ in range(_LOOKS):
            self._base_must_stand(page)
            self._instead_must_stand(page)
            self._no_other_snapshot(page)
            if self.context.fence.is_fresh and self.context.pins.is_fresh:
                return
            self._may_delete()

    def _may_delete(self) -> None:
        self.context.fence.must_hold()
        self.context.pins.check()

    def _base_must_stand(self, page: Page) -> None:
        if not _relies_on_base(page):
            return
        proof = self._proof
        if proof is None:
            place = self.base or self.record.store.id.directory
            raise Superseded(place, "the base has no attestation")
        must_be_unchanged(self.context.storage, proof.entry)

    @property
    def _proof(self) -> Attestation | None:
        return self.record.proofs.get(self.base) if self.base else None

    def _instead_must_stand(self, page: Page) -> None:
        """Checks that the files that take the place of stale snapshots are still those planned.

        Once one is changed, the stale snapshot is the only right state.
        """
        if not (chains := [delete.instead for delete in page if delete.instead]):
            return
        record = self.record
        there = set(self.context.storage.list(record.store.id.directory))
        for chain in chains:
            if lacking := [entry.path for entry in record.inputs_of(chain) if entry not in there]:
                why = f"version {chain.version} is loaded from it once a stale snapshot is deleted"
                raise Superseded(lacking[0], f"{why}; it was replaced or is missing")

    def _tables_must_stand(self, page: Page) -> None:
        if not self.base or not self.record.store.rocks or not _relies_on_base(page):
            return
        named = self.record.tables_of(self.base)
        folders = {table.path.rpartition("/")[0] for table in named}
        storage = self.context.storage
        there = {entry for folder in sorted(folders) for entry in storage.list(folder)}
        if lacking := sorted(table.path for table in named if table not in there):
            raise Superseded(lacking[0], f"{self.base} needs it; it was replaced or is missing")

    def _no_other_snapshot(self, page: Page) -> None:
        """Checks again that no snapshot outside the plan needs an SST file of the page."""
        if all(delete.version for delete in page):
            return
        record = self.record
        used = {table.path for entry in record.placed for table in record.tables[entry.path]}
        if used := used & {delete.path for delete in page}:
            raise Superseded(min(used), "a snapshot of this run refers to it")
        record.must_have_no_newcomer()


def _relies_on_base(deletes: Page) -> bool:
    return any(delete.reason in RELY_ON_BASE for delete in deletes)
