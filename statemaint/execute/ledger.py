"""The ledger: every write and deletion, its reason, and the proofs of each snapshot (S18).

    _statemaint/ledger/<op>/<partition>/...                      see `segments`: a line per action
    _statemaint/attestations/<op>/<partition>/<store>.json       replaced as a whole

A deletion's line is durable before the file is deleted: after a crash the ledger may name a file
that still exists, which the next run deletes and names again, but no deleted file is missing.

A compaction merges many segments into one. In it a line stays as long as anything relies on it:

* `statemaint runs` lists its run, or would if it had not been killed
* its run's trash is kept, or it is younger than such a run: an undo checks later events
* an undo restored its file, and the line of that undo stays
* it is about a snapshot that is proved or ours, or about a file that a proof names

The old segments are deleted once the merged one is durable, so a crash at any step leaves each
line in at least one segment. Two runs that compact at the same time do no harm: neither deletes a
segment that it has not read, and both results stay.
"""

import json
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from statemaint.errors import CodecError
from statemaint.execute.fence import Fence, and_then
from statemaint.listing import Entry
from statemaint.model.ids import RecoveryVerb, StoreId
from statemaint.model.proof import Attestation
from statemaint.plan.actions import Attest, Delete, WriteSnapshot
from statemaint.plan.recovery.recovery_plan import Remove
from statemaint.records import attestations, segments
from statemaint.records.attestations import StoreNotes
from statemaint.records.runs import RememberedRuns
from statemaint.records.segments import Line, ledger_of
from statemaint.report.outcome import SnapshotWritten
from statemaint.report.to_json import action_json
from statemaint.storage.base import Check, Storage
from statemaint.workers import nothing

# A ledger is compacted when it has this many segments.
MOST_SEGMENTS = 16

_log = logging.getLogger(__name__)

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
        lines = [self._removal(action_json(it), it.entry, trash=trash) for it in deletes]
        self._add(ledger_of(deletes[0].store.unit), [*after, *lines])

    def adding(self, batch: int) -> None:
        self.storage.append(segments.BOOTSTRAP, self._line({"action": "bootstrap", "batch": batch}))

    def restoring(self, run: str, files: Sequence[Mapping[str, Any]]) -> None:
        lines = [self._line({"action": "restore", **file, "of": run}) for file in files]
        self._add(segments.UNDO, lines)

    def removing(self, verb: str, removes: Sequence[Remove]) -> None:
        lines = []
        for remove in removes:
            named = {"action": "remove", "path": remove.path, "reason": remove.reason.value}
            lines.append(self._removal(named, remove.entry, trash=True))
        self._add(verb, lines)

    def _removal(self, named: Mapping[str, Any], entry: Entry, *, trash: bool) -> bytes:
        how = {"trash": True} if trash else {}
        return self._line({**named, "bytes": entry.size, "modified": entry.modified, **how})

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
        path = attestations.attestation_path(store)
        content = attestations.render_attestations(notes)
        self.storage.replace(path, and_then([content], self.fence.check))
        self.noted(path, content)

    def _line(self, fields: dict[str, Any]) -> bytes:
        now = self.storage.now()
        stamped = {"run": self.run, "fence": self.fence.number, "time": now, **fields}
        return json.dumps(stamped).encode() + b"\n"

    def _add(self, ledger: str, lines: Sequence[bytes]) -> None:
        page = segments.page_of(self.run, next(self.numbers))
        segments.add_segment(self.storage, ledger, page, lines)


@dataclass(frozen=True, slots=True)
class _Needs:
    """The reasons to keep lines."""

    window: RememberedRuns
    since: float  # the time from which all lines stay
    fence: float = math.inf  # the fencing number from which all lines stay
    paths: AbstractSet[str] = frozenset()  # the files whose lines all stay
    # The restored files: the run that had moved each away, and its path.
    restored: AbstractSet[tuple[str, str]] = frozenset()

    def keep(self, line: Line) -> bool:
        return (
            line.time is None
            or line.time >= self.since
            or line.fence >= self.fence
            or self.window.remembers(line.run)
            or line.path in self.paths
            or (line.run, line.path) in self.restored
        )


def is_due(storage: Storage) -> bool:
    return any(len(entries) >= MOST_SEGMENTS for entries in segments.ledgers(storage).values())


def compact(storage: Storage, window: RememberedRuns, *, before: Check) -> None:
    """Compacts every ledger that has many segments; safe to kill and to repeat.

    An unreadable ledger is left as it is, and so are all if that of an undo or a repair is.
    """
    by_ledger = segments.ledgers(storage)
    needs = _Needs(window, window.begins)
    for verb in RecoveryVerb:  # which move files of any partition
        needs = _for_trash(needs, _lines(storage, by_ledger.get(verb, ())))
    undone = filter(needs.keep, _lines(storage, by_ledger.get(segments.UNDO, ())))
    needs = replace(needs, restored=frozenset((line.restored_of, line.path) for line in undone))
    for ledger, entries in by_ledger.items():
        if len(entries) < MOST_SEGMENTS:
            continue
        try:
            mine = replace(needs, paths=_proved(storage, ledger))
            mine = _for_trash(mine, _lines(storage, entries))
            kept = segments.in_order(filter(mine.keep, _lines(storage, entries)))
            merged = segments.write_merged(storage, ledger, kept) if kept else None
            old = [entry.path for entry in entries if entry.path != merged]
            storage.delete_all(old, before=before)
        except CodecError as error:
            _log.warning("the ledger of %s is not compacted: %s", ledger, error)


def _lines(storage: Storage, entries: Iterable[Entry]) -> Iterator[Line]:
    for entry in entries:
        yield from segments.read_segment(storage, entry.path)


def _for_trash(needs: _Needs, lines: Iterable[Line]) -> _Needs:
    """Returns the needs extended by those of the trash, by the lines of its runs.

    In a copied checkpoint the manifests have other times; these lines do not.
    """
    since, fence = needs.since, needs.fence
    for line in lines if needs.window.trashed else ():
        if line.run in needs.window.trashed and line.removes:
            since = since if line.time is None else min(since, line.time)
            fence = min(fence, line.fence)
    return replace(needs, since=since, fence=fence)


def _proved(storage: Storage, ledger: str) -> frozenset[str]:
    paths = set[str]()
    for entry in storage.list(f"{attestations.ATTESTATIONS}/{ledger}"):
        notes = attestations.parse_attestations(storage.read(entry.path))
        paths.update(notes.written)
        for proof in notes.proofs:
            paths.update((proof.path, *(file.path for file in (*proof.inputs, *proof.parts))))
    return frozenset(paths)
