"""A rollback that was interrupted: some state is in the trash, and the logs still have its batches.

The manifest of a rollback (`records.manifest`) records the log entries that it removes last. As
long as these are as they were, the rest of the state is of no batch: a chain without the snapshots
that were above it.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from statemaint.errors import CodecError, NotFoundError, RefusedLinkError
from statemaint.listing import Entry
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import batch_of, run_folder
from statemaint.scan.contents import fingerprint
from statemaint.storage import Storage
from statemaint.wording import counted

_TRASH = "_statemaint/trash"
_LEDGER, _UNDOS = "_statemaint/ledger/rollback", "_statemaint/ledger/undo"
_MANIFEST = "manifest/rollback.jsonl"
_PAGE = re.compile(rf"{_LEDGER}/(?P<run>.+)-[0-9]{{6}}-[0-9a-f]{{24}}\.jsonl")
_LOGS = ("offsets", "commits")
# The first line has the entries of both logs, about a hundred bytes each; Spark keeps a hundred
# batches. Each run reads it, so a longer one must not take a run's memory.
_LONGEST_LINE = 1 << 23
_NO_LOGS: dict[str, Any] = {"version": 0, "left": [], "removed": []}


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A rollback that was interrupted before it had removed its batches.

    Attributes:
        run: its run.
        batch: the batch that it goes back to; `None` if its record cannot be read, so that it may
            also have ended.
        moved: the number of files of the state that it has moved to the trash.
    """

    run: str
    batch: int | None
    moved: int

    @property
    def finding(self) -> Finding:
        """Returns it as a finding."""
        if self.batch is None:
            detail = (
                f"{_TRASH}/{self.run}/{_MANIFEST} cannot be read: whether that rollback has ended "
                "is unknown. If it has, or its files were put back, move its folder out of the "
                "checkpoint; nothing is touched before"
            )
            return Finding(FindingCode.UNFINISHED_ROLLBACK, detail)
        detail = (
            f"the rollback to batch {self.batch} (run {self.run}) was interrupted, or is still at "
            f"work: it has moved {counted(self.moved, 'file')} of the state to the trash, and the "
            f"logs have the batches above. Run `statemaint rollback --to-batch {self.batch}` "
            "again, or `statemaint undo` of that run; nothing is touched before"
        )
        return Finding(FindingCode.UNFINISHED_ROLLBACK, detail)


def unfinished_rollbacks(storage: Storage) -> tuple[Finding, ...]:
    """Returns the findings of `interrupted_rollbacks`; the scan reports a link among our files."""
    try:
        return tuple(one.finding for one in interrupted_rollbacks(storage))
    except RefusedLinkError:
        return ()


def interrupted_rollbacks(storage: Storage) -> tuple[Interrupted, ...]:
    """Returns the rollbacks that were interrupted before they had removed their batches.

    One that the query has gone on after, or that a later rollback has taken further, is over.
    """
    moved = {run: _in_trash(storage, run) for run in _noted_runs(storage)}
    begun = [run for run in sorted(moved) if _MANIFEST in moved[run] and _state_of(moved[run])]
    if not begun:
        return ()
    there = {one.path: one for folder in _LOGS for one in storage.list(folder)}
    found = []
    for run in begun:
        noted, count = _noted(storage, run), len(_state_of(moved[run]))
        if noted is None:
            found.append(Interrupted(run, None, count))
        elif _is_unfinished(storage, run, noted, there, moved[run]):
            found.append(Interrupted(run, batch_of(noted.version), count))
    return tuple(found)


def _noted_runs(storage: Storage) -> frozenset[str]:
    """Returns the rollbacks in the ledger that have a folder in the trash; it may be large."""
    segments = [entry.path for entry in storage.list(_LEDGER)]
    if not segments:
        return frozenset()
    runs = set()
    for path in segments:
        if page := _PAGE.fullmatch(path):
            runs.add(page["run"])
        else:
            runs |= {run_folder(str(one.get("run"))) for one in _lines(storage, path)}
    return frozenset(runs.intersection(storage.folders(_TRASH)))


def _in_trash(storage: Storage, run: str) -> dict[str, Entry]:
    folder = f"{_TRASH}/{run}"
    return {entry.path.removeprefix(f"{folder}/"): entry for entry in storage.list(folder)}


def _state_of(paths: Iterable[str]) -> set[str]:
    return {path for path in paths if path.startswith("state/")}


_Seen = tuple[Entry, int | None]


@dataclass(frozen=True, slots=True)
class _Noted:
    """What a rollback noted of the logs.

    Attributes:
        version: the state version that it goes back to.
        left: the paths of the entries that stay.
        removed: the entries that it removes, by path, each with its CRC-32C if that was noted.
    """

    version: int
    left: frozenset[str]
    removed: Mapping[str, _Seen]


def _noted(storage: Storage, run: str) -> _Noted | None:
    """Returns what a rollback noted; `None` if that cannot be read.

    Earlier builds did not note the logs: theirs count as ended.
    """
    try:
        with storage.open(f"{_TRASH}/{run}/{_MANIFEST}") as stream:
            fields = json.loads(stream.readline(_LONGEST_LINE))
        logs = fields["logs"] if "logs" in fields or "path" not in fields else _NO_LOGS
        removed = [_seen(*row) for row in logs["removed"]]
        return _Noted(
            int(logs["version"]),
            frozenset(str(path) for path, *_ in logs["left"]),
            {entry.path: (entry, crc32c) for entry, crc32c in removed if _is_of_logs(entry.path)},
        )
    except NotFoundError:  # the trash was emptied meanwhile
        return _Noted(0, frozenset(), {})
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError, CodecError):
        return None


def _seen(path: str, size: int, modified: float | None, crc32c: int | None = None) -> _Seen:
    if not isinstance(path, str):
        raise TypeError(path)
    return Entry(path, size, modified), crc32c


def _is_of_logs(path: str) -> bool:
    """Returns whether an entry is of a log, and not one of the operators' metadata."""
    return path.partition("/")[0] in _LOGS


def _is_unfinished(
    storage: Storage,
    run: str,
    noted: _Noted,
    there: Mapping[str, Entry],
    moved: Mapping[str, Entry],
) -> bool:
    """Returns whether the logs are as the rollback found them, but for entries that it has moved.

    At least one that it was to remove is still there.
    """
    stays, restored = False, cache(partial(_restored, storage, run))
    for path, (seen, crc32c) in noted.removed.items():
        entry, trashed = there.get(path), moved.get(path)
        if entry is None and trashed:
            continue
        if entry is None:
            return False
        if not _same(entry, seen):
            # A bucket gives what an undo restores a new time. Otherwise the query wrote it again,
            # which is certain if the trash still has it and moves keep times here.
            if (trashed and _same(trashed, seen)) or path not in restored():
                return False
            if fingerprint(storage, path) != (seen.size, crc32c):
                return False
        stays = True
    return stays and not _newer(there, noted)


def _same(entry: Entry, seen: Entry) -> bool:
    return (entry.size, entry.modified) == (seen.size, seen.modified)


def _restored(storage: Storage, run: str) -> frozenset[str]:
    """Returns the files that undos of a run have restored, as the ledger noted before."""
    lines = (one for entry in storage.list(_UNDOS) for one in _lines(storage, entry.path))
    return frozenset(str(one.get("path")) for one in lines if run_folder(str(one.get("of"))) == run)


def _lines(storage: Storage, path: str) -> Iterator[Mapping[str, object]]:
    """Yields the lines of a segment of the ledger, without one that a crash cut short."""
    with suppress(NotFoundError, CodecError), storage.open(path) as stream:  # merged meanwhile
        for line in iter(partial(stream.readline, _LONGEST_LINE), b""):
            with suppress(ValueError, RecursionError):
                fields = json.loads(line)
                if isinstance(fields, dict):
                    yield fields


def _newer(there: Iterable[str], noted: _Noted) -> bool:
    """Returns whether the query has written a log entry since."""
    now, then = _newest(there), _newest((*noted.left, *noted.removed))
    return any(number > then.get(folder, -1) for folder, number in now.items())


def _newest(paths: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for path in paths:
        folder = path.partition("/")[0]
        found[folder] = max(found.get(folder, -1), _number(path))
    return found


def _number(path: str) -> int:
    """Returns the batch of a log entry; -1 for other files."""
    name = path.rpartition("/")[2]
    return int(name) if name.isascii() and name.isdecimal() else -1
