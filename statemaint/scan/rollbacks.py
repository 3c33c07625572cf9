"""A rollback that was interrupted: some state is in the trash, and the logs still have its batches.

The manifest of a rollback records the log entries that it removes last. As long as these are as
they were, the rest of the state is of no batch: a chain without the snapshots that were above it.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial

from statemaint.errors import CodecError, NotFoundError, RefusedLinkError
from statemaint.listing import Entry
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import RecoveryVerb, batch_in, batch_of
from statemaint.records.manifest import FOLDER, LogWorld, folder_of, manifest_path, read_logs
from statemaint.records.segments import FOLDER as LEDGER
from statemaint.records.segments import UNDO, Line, read_segment, run_of_page
from statemaint.scan.proofs import fingerprint, is_same
from statemaint.storage import Storage
from statemaint.wording import counted

_ROLLBACK = RecoveryVerb.ROLLBACK.value
_LOGS = ("offsets", "commits")


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A rollback that was interrupted before it had removed its batches."""

    run: str
    batch: int | None  # that it goes back to; with an unreadable record it may also have ended
    moved: int  # files of the state, to the trash

    @property
    def finding(self) -> Finding:
        if self.batch is None:
            detail = (
                f"{manifest_path(self.run, _ROLLBACK)} cannot be read: whether that rollback has "
                "ended is unknown. If it has, or its files were put back, move its folder out of "
                "the checkpoint; nothing is touched before"
            )
        else:
            detail = (
                f"the rollback to batch {self.batch} (run {self.run}) was interrupted, or is still "
                f"at work: it has moved {counted(self.moved, 'file')} of the state to the trash, "
                "and the logs have the batches above. Run `statemaint rollback --to-batch "
                f"{self.batch}` again, or `statemaint undo` of that run; nothing is touched before"
            )
        return Finding(FindingCode.UNFINISHED_ROLLBACK, detail)


def unfinished_rollbacks(storage: Storage) -> tuple[Finding, ...]:
    """Returns the findings of `interrupted_rollbacks`; the scan reports a link among our files."""
    try:
        return tuple(rollback.finding for rollback in interrupted_rollbacks(storage))
    except RefusedLinkError:
        return ()


def interrupted_rollbacks(storage: Storage) -> tuple[Interrupted, ...]:
    """Returns the rollbacks that were interrupted before they had removed their batches.

    One that the query has gone on after, or that a later rollback has taken further, is over.
    """
    begun: dict[str, dict[str, Entry]] = {}
    for run in sorted(_noted_runs(storage)):
        folder = f"{folder_of(run)}/"
        moved = {entry.path.removeprefix(folder): entry for entry in storage.list(folder_of(run))}
        manifest = manifest_path(run, _ROLLBACK).removeprefix(folder)
        if manifest in moved and any(map(_is_state, moved)):
            begun[run] = moved
    if not begun:
        return ()
    there = {entry.path: entry for folder in _LOGS for entry in storage.list(folder)}
    interrupted = []
    for run, moved in begun.items():
        noted, count = read_logs(storage, run), sum(map(_is_state, moved))
        if noted is None:
            interrupted.append(Interrupted(run, None, count))
        elif _is_unfinished(storage, run, noted, there, moved):
            interrupted.append(Interrupted(run, batch_of(noted.version), count))
    return tuple(interrupted)


def _noted_runs(storage: Storage) -> frozenset[str]:
    """Returns the rollbacks in the ledger that have a folder in the trash; it may be large."""
    runs: set[str] = set()
    for entry in [*storage.list(f"{LEDGER}/{_ROLLBACK}")]:
        run = run_of_page(entry.path)
        runs |= {run} if run else {line.run for line in _lines(storage, entry.path)}
    return frozenset(runs.intersection(storage.folders(FOLDER)) if runs else ())


def _is_state(path: str) -> bool:
    return path.startswith("state/")


def _is_unfinished(
    storage: Storage,
    run: str,
    noted: LogWorld,
    there: Mapping[str, Entry],
    moved: Mapping[str, Entry],
) -> bool:
    # The logs are as the rollback found them, but for entries that it has moved, and one that it
    # was to remove is still there. The operators' metadata does not count.
    stays, restored = False, cache(partial(_restored, storage, run))
    for seen in noted.removed:
        path, entry, trashed = seen.path, there.get(seen.path), moved.get(seen.path)
        if path.partition("/")[0] not in _LOGS or (entry is None and trashed):
            continue
        if entry is None:
            return False
        if not is_same(entry, seen):
            # A bucket gives what an undo restores a new time. Otherwise the query wrote it again,
            # which is certain if the trash still has it and moves keep times here.
            kept_times = trashed and is_same(replace(trashed, path=path), seen)
            if kept_times or path not in restored():
                return False
            if fingerprint(storage, path) != (seen.size, seen.sum):
                return False
        stays = True
    now, then = _newest(there), _newest(seen.path for seen in (*noted.left, *noted.removed))
    return stays and not any(batch > then.get(folder, -1) for folder, batch in now.items())


def _restored(storage: Storage, run: str) -> frozenset[str]:
    # As the ledger noted before.
    segments = storage.list(f"{LEDGER}/{UNDO}")
    lines = (line for entry in segments for line in _lines(storage, entry.path))
    return frozenset(line.path for line in lines if line.restored_of == run)


def _lines(storage: Storage, path: str) -> Iterator[Line]:
    with suppress(NotFoundError, CodecError):  # none of a segment that is merged meanwhile
        yield from read_segment(storage, path)


def _newest(paths: Iterable[str]) -> dict[str, int]:
    newest: dict[str, int] = {}
    for path in paths:
        folder = path.partition("/")[0]
        newest[folder] = max(newest.get(folder, -1), batch_in(path, folder))
    return newest
