"""Compacts the ledger: merges many segments into one, without the lines that are not needed.

A line stays as long as anything relies on it:

* `statemaint runs` lists its run, or would if it had not been killed
* its run's trash is kept, or it is younger than such a run: an undo checks later events
* an undo restored its file, and the line of that undo stays
* it is about a snapshot that is proved or ours, or about a file that a proof names

The old segments are deleted once the merged one is durable, so a crash at any step leaves each
line in at least one segment. Two runs that compact at the same time do no harm: neither deletes a
segment that it has not read, and both results stay.
"""

import logging
import math
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from statemaint.errors import CodecError
from statemaint.listing import Entry
from statemaint.model.ids import RecoveryVerb
from statemaint.records.attestations import ATTESTATIONS, parse_attestations
from statemaint.records.runs import RememberedRuns
from statemaint.records.segments import (
    UNDO,
    Line,
    in_order,
    ledgers,
    read_segment,
    write_merged,
)
from statemaint.storage import Storage
from statemaint.storage.base import Check

# A ledger is compacted when it has this many segments.
MOST_SEGMENTS = 16

_log = logging.getLogger(__name__)


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
    return any(len(segments) >= MOST_SEGMENTS for segments in ledgers(storage).values())


def compact(storage: Storage, window: RememberedRuns, *, before: Check) -> None:
    """Compacts every ledger that has many segments.

    Safe to kill and to repeat. An unreadable ledger is left as it is, and so are all of them if
    that of an undo or a repair is. `before` is called before each deletion.
    """
    by_ledger = ledgers(storage)
    needs = _Needs(window, window.begins)
    for verb in RecoveryVerb:  # which move files of any partition
        needs = _for_trash(needs, _lines(storage, by_ledger.get(verb, ())))
    undone = filter(needs.keep, _lines(storage, by_ledger.get(UNDO, ())))
    needs = replace(needs, restored=frozenset((line.restored_of, line.path) for line in undone))
    for ledger, segments in by_ledger.items():
        if len(segments) < MOST_SEGMENTS:
            continue
        try:
            mine = _for_trash(
                replace(needs, paths=_proved(storage, ledger)), _lines(storage, segments)
            )
            kept = in_order(filter(mine.keep, _lines(storage, segments)))
            merged = write_merged(storage, ledger, kept) if kept else None
            old = [segment.path for segment in segments if segment.path != merged]
            storage.delete_all(old, before=before)
        except CodecError as error:
            _log.warning("the ledger of %s is not compacted: %s", ledger, error)


def _lines(storage: Storage, segments: Iterable[Entry]) -> Iterator[Line]:
    for entry in segments:
        yield from read_segment(storage, entry.path)


def _for_trash(needs: _Needs, lines: Iterable[Line]) -> _Needs:
    """Returns the needs extended by those of the trash, as the lines of its runs record them.

    In a copied checkpoint the manifests have other times; these lines do not.
    """
    since, fence = needs.since, needs.fence
    for line in lines if needs.window.trashed else ():
        if line.run in needs.window.trashed and line.removes:
            since = since if line.time is None else min(since, line.time)
            fence = min(fence, line.fence)
    return replace(needs, since=since, fence=fence)


def _proved(storage: Storage, ledger: str) -> frozenset[str]:
    """Returns a partition's snapshots that are proved or ours, and the files that proofs name."""
    paths = set[str]()
    for entry in storage.list(f"{ATTESTATIONS}/{ledger}"):
        notes = parse_attestations(storage.read(entry.path))
        paths.update(notes.written)
        for proof in notes.proofs:
            paths.update((proof.path, *(file.path for file in (*proof.inputs, *proof.parts))))
    return frozenset(paths)
