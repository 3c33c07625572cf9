"""The ledger: every write and deletion, its reason, and the proofs of each snapshot (S18).

    _statemaint/ledger/<op>/<partition>/...                      see `segments`: a line per action
    _statemaint/attestations/<op>/<partition>/<store>.json       replaced as a whole

A deletion's line is durable before the file is deleted: after a crash the ledger may name a file
that still exists, which the next run deletes and names again, but no deleted file is missing.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from statemaint.execute.fence import Fence, and_then
from statemaint.listing import Entry
from statemaint.model.ids import StoreId
from statemaint.model.proof import Attestation
from statemaint.plan.actions import Attest, Delete, WriteSnapshot
from statemaint.plan.recovery.recovery_plan import Remove
from statemaint.records.attestations import StoreNotes, attestation_path, render_attestations
from statemaint.records.segments import BOOTSTRAP, UNDO, add_segment, ledger_of, page_of
from statemaint.report.outcome import SnapshotWritten
from statemaint.report.to_json import action_json
from statemaint.storage import Storage
from statemaint.workers import nothing

Noted = Callable[[str, bytes], object]


@dataclass(frozen=True, slots=True)
class Ledger:
    """One run's view of a checkpoint's ledger."""

    storage: Storage
    run: str
    fence: Fence = field(default_factory=Fence)
    noted: Noted = nothing  # gets the path and content of each store's record that was replaced
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def deleting(
        self, deletes: Sequence[Delete], *, trash: bool = False, after: Sequence[bytes] = ()
    ) -> None:
        """Notes files about to be deleted or trashed, `after` lines of what was done before."""
        how = {"trash": True} if trash else {}
        lines = [
            self._line({**action_json(delete), **_listed(delete.entry), **how})
            for delete in deletes
        ]
        self._add(ledger_of(deletes[0].store.unit), [*after, *lines])

    def adding(self, batch: int) -> None:
        self.storage.append(BOOTSTRAP, self._line({"action": "bootstrap", "batch": batch}))

    def restoring(self, run: str, files: Sequence[Mapping[str, Any]]) -> None:
        lines = [self._line({"action": "restore", **file, "of": run}) for file in files]
        self._add(UNDO, lines)

    def removing(self, verb: str, removes: Sequence[Remove]) -> None:
        """Notes files that are about to be moved to the trash at the operator's request."""
        lines = []
        for remove in removes:
            named = {"action": "remove", "path": remove.path, "reason": remove.reason.value}
            lines.append(self._line({**named, **_listed(remove.entry), "trash": True}))
        self._add(verb, lines)

    def wrote(self, snapshot: SnapshotWritten) -> bytes:
        return self._proved(
            snapshot.action,
            snapshot.entry,
            snapshot.attestation,
            checksum=snapshot.checksum.path if snapshot.checksum else None,
            **({"parts": [part.path for part in snapshot.parts]} if snapshot.parts else {}),
        )

    def attested(self, action: Attest, entry: Entry, proof: Attestation) -> bytes:
        return self._proved(action, entry, proof, checksum=None)

    def note(self, store: StoreId, lines: Sequence[bytes]) -> None:
        self._add(ledger_of(store.unit), lines)

    def _proved(
        self, step: WriteSnapshot | Attest, entry: Entry, proof: Attestation | None, **more: object
    ) -> bytes:
        shown = {**proof.shown(), "inputs": len(proof.inputs)} if proof else None
        fields = {**action_json(step), "bytes": entry.size, "attestation": shown}
        return self._line({**fields, **more})

    def knows(self, store: StoreId, notes: StoreNotes) -> None:
        """Replaces the record of a store, unless another run has taken over the lease.

        Otherwise snapshots of that run would count as an executor's, and its observations of
        executors would be lost.
        """
        content, path = render_attestations(notes), attestation_path(store)
        self.storage.replace(path, and_then([content], self.fence.check))
        self.noted(path, content)

    def _line(self, fields: dict[str, Any]) -> bytes:
        now = self.storage.now()
        stamped = {"run": self.run, "fence": self.fence.number, "time": now, **fields}
        return json.dumps(stamped).encode() + b"\n"

    def _add(self, ledger: str, lines: Sequence[bytes]) -> None:
        add_segment(self.storage, ledger, page_of(self.run, next(self.numbers)), lines)


def _listed(entry: Entry) -> dict[str, Any]:
    return {"bytes": entry.size, "modified": entry.modified}
