"""Maintainers that break a rule of RocksDB's: what zips share, and whose snapshots count."""

from dataclasses import replace
from importlib import import_module
from typing import Any

from statemaint.errors import AlreadyExistsError
from statemaint.execute.publish import Published
from statemaint.execute.steps import StoreRun
from statemaint.model.checkpoint import Rocks
from statemaint.plan import Delete, DeleteReason, KeepReason
from statemaint.plan.store import _Decision
from statemaint.scan.rocks import _Reading
from tests.certify.mutant import IDS, RARE, ROCKS, Mutant

# Their packages have functions of the same names.
deciding = import_module("statemaint.plan.store")
sharing = import_module("statemaint.plan.shared")
working = import_module("statemaint.execute.steps")
publishing = import_module("statemaint.execute.publish_zip")

_write = _Decision._write
_shared = _Decision._shared


def _always_reuses(self: Any, version: int, reason: Any) -> Any:
    return replace(_write(self, version, reason), reuse=self.store.rocks is not None)


def _zip_first(storage: Any, action: Any, made: Any, **_: Any) -> Published:
    """Makes the snapshot visible before what it refers to."""
    directory = action.store.directory
    refers = publishing.shared_paths(directory, made.metadata)
    content = publishing.rocks_zip.render(made.members, made.metadata, mark=True)
    try:
        entry = storage.write(action.path, [content])
    except AlreadyExistsError:
        return Published(storage.stat(action.path), 0, made.digest, None)
    parts = tuple(
        storage.write(f"{directory}/SSTs/{one.stored}", publishing._pieces(one.local))
        for one in made.new
    )
    return Published(entry, entry.size, made.digest, None, parts, refers)


def _no_parts(self: Any, _: Any, __: Any) -> Any:
    """Takes every table for one that nobody refers to."""
    del self
    return DeleteReason.ORPHAN_SST


def _used_by_the_newest(rocks: Any, path: str, snapshots: Any, writes: Any) -> KeepReason | None:
    """Keeps the tables of the newest zip only."""
    kept = [one for one, fate in snapshots.items() if isinstance(fate, KeepReason)]
    newest = max(kept, key=lambda one: (len(one), one), default="")
    del writes
    return KeepReason.USED if path in rocks.parts.get(newest, ()) else None


def _no_look(_: Any, __: Any) -> None:
    return None


def _any_counts(_: Rocks, __: Any) -> bool:
    return True


def _newest_attempt(self: Any) -> Any:
    """Takes the attempt with the highest name for the one that counts."""
    found: dict[int, str] = {}
    for file in self.store.files:
        unique = getattr(file, "id", None)
        if unique:
            found[file.version] = max(unique, found.get(file.version, ""))
    return found, 0


def _tables_first(self: Delete) -> int:
    return 2 * (self.version != 0)


ROCKS_MUTANTS = (
    Mutant("no executors", "S9", "forgets that executors hold what they have not uploaded",
           ((deciding, "executors_upload", lambda *_: False),), ROCKS),
    Mutant("all settled", "S9", "deletes zips that an executor may have begun with",
           ((deciding, "executors_upload", lambda *_: False),
            (deciding, "settled", lambda *_: 1 << 60)), ROCKS),
    Mutant("no quiet window", "S9", "takes any pause of the executors for their end",
           ((sharing, "_quiet", lambda _: 0),), ROCKS),
    Mutant("gaps ignored", "S9", "waits no longer where executors upload rarely",
           ((sharing, "_quiet", lambda _: 20), (deciding, "may_share", lambda *_: False)), RARE),
    Mutant("reuse beside executors", "S9", "refers to tables that executors may be deleting",
           ((_Decision, "_write", _always_reuses),), ROCKS),
    Mutant("tables nobody uses", "S7", "deletes the tables of zips that stay",
           ((_Decision, "_shared", _no_parts),), ROCKS),
    Mutant("tables of the newest", "S7", "keeps the tables of the newest zip only",
           ((deciding, "shared_fate", _used_by_the_newest),), ROCKS),
    Mutant("no second look at zips", "S7", "deletes tables that a new zip refers to",
           ((StoreRun, "_no_other_snapshot", _no_look),
            (deciding, "executors_upload", lambda *_: False)), ROCKS),
    Mutant("zip first", "S7", "uploads the zip before its tables",
           ((working, "publish_zip", _zip_first),), ROCKS),
    Mutant("tables first", "S7", "deletes tables before the zips that need them",
           ((Delete, "rank", property(_tables_first)),), ROCKS),
    Mutant("every attempt counts", "S2", "folds attempts that were never committed",
           ((Rocks, "counts", _any_counts),), IDS),
    Mutant("highest id counts", "S2", "chooses the attempt by its name",
           ((_Reading, "_ids", _newest_attempt),), IDS),
)  # fmt: skip
