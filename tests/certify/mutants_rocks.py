"""Maintainers that break a rule of RocksDB's: what zips share, and whose snapshots count."""

from dataclasses import replace
from importlib import import_module
from typing import Any

from statemaint.errors import AlreadyExistsError
from statemaint.execute.deleter import Deleter
from statemaint.execute.publish import Published
from statemaint.fold.rocksdb.changes import Pending
from statemaint.fold.source import Source
from statemaint.model.chain import Versions
from statemaint.model.checkpoint import Store
from statemaint.model.rocks import Rocks
from statemaint.plan.actions import Delete
from statemaint.plan.facts import Facts
from statemaint.plan.fates import Fate, References
from statemaint.plan.reasons import DeleteReason, KeepReason
from statemaint.scan.rocks import _Reading
from tests.certify.mutant import FAMILIES, IDS, RARE, ROCKS, Mutant

# Their packages have functions of the same names.
learning = import_module("statemaint.plan.facts")
writing = import_module("statemaint.plan.snapshots")
fates = import_module("statemaint.plan.fates")
sharing = import_module("statemaint.plan.sst_files")
working = import_module("statemaint.execute.snapshot_writer")
publishing = import_module("statemaint.execute.publish")
building = import_module("statemaint.fold.rocksdb.write")

_write = writing._write
_references = fates.references
_built = building._built


def _always_reuses(facts: Facts, version: int, reason: Any) -> Any:
    return replace(_write(facts, version, reason), reuse=facts.store.rocks is not None)


def _zip_first(storage: Any, action: Any, made: Any, **_: Any) -> Published:
    """Makes the snapshot visible before what it refers to."""
    directory = action.store.directory
    refers = publishing.shared_paths(directory, made.metadata)
    content = publishing.snapshot_zip.render(made.members, made.metadata, mark=True)
    try:
        entry = storage.write(action.path, [content])
    except AlreadyExistsError:
        return Published(storage.stat(action.path), 0, made.digest, None)
    parts = tuple(
        storage.write(f"{directory}/SSTs/{one.stored}", publishing._pieces(one.local))
        for one in made.new
    )
    return Published(entry, entry.size, made.digest, None, parts, refers)


def _no_parts(*_: Any) -> Fate:
    """Takes every table for one that nobody refers to."""
    return DeleteReason.ORPHAN_SST


def _used_by_the_newest(rocks: Rocks, snapshots: Any, writes: Any) -> References:
    """Keeps the tables of the newest zip only."""
    kept = [one for one, fate in snapshots.items() if isinstance(fate, KeepReason)]
    newest = max(kept, key=lambda one: (len(one), one), default="")
    found: References = _references(rocks, snapshots, writes)
    return replace(found, kept=frozenset(rocks.parts.get(newest, ())), unreadable=False)


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


def _families_of_the_oldest(facts: Facts, version: int, reason: Any) -> Any:
    snapshots = facts.versions.snapshots
    oldest = snapshots[min(snapshots)] if snapshots else None
    return replace(_write(facts, version, reason), families=oldest)


def _without(**fields: Any) -> Any:
    def built(*args: Any, **named: Any) -> Any:
        made = _built(*args, **named)
        return replace(made, metadata=replace(made.metadata, **fields))

    return built


def _nothing_unnamed(*_: Any) -> tuple[int, ...]:
    return ()


def _puts(self: Pending, key: bytes, operand: bytes) -> None:
    self._values[key] = operand


def _keeps(*_: Any) -> None:
    """Deletes no range."""


ROCKS_MUTANTS = (
    Mutant("no executors", "S9", "forgets that executors hold what they have not uploaded",
           ((learning, "executors_upload", lambda *_: False),), ROCKS),
    Mutant("all settled", "S9", "deletes zips that an executor may have begun with",
           ((learning, "executors_upload", lambda *_: False),
            (learning, "settled", lambda *_: 1 << 60)), ROCKS),
    Mutant("no quiet window", "S9", "takes any pause of the executors for their end",
           ((sharing, "_quiet", lambda _: 0),), ROCKS),
    Mutant("gaps ignored", "S9", "waits no longer where executors upload rarely",
           ((sharing, "_quiet", lambda _: 20), (writing, "may_share", lambda *_: False)), RARE),
    Mutant("reuse beside executors", "S9", "refers to tables that executors may be deleting",
           ((writing, "_write", _always_reuses),), ROCKS),
    Mutant("tables nobody uses", "S7", "deletes the tables of zips that stay",
           ((fates, "_of_shared", _no_parts),), ROCKS),
    Mutant("tables of the newest", "S7", "keeps the tables of the newest zip only",
           ((fates, "references", _used_by_the_newest),), ROCKS),
    Mutant("no second look at zips", "S7", "deletes tables that a new zip refers to",
           ((Deleter, "_no_other_snapshot", _no_look),
            (learning, "executors_upload", lambda *_: False)), ROCKS),
    Mutant("zip first", "S7", "uploads the zip before its tables",
           ((working, "publish_zip", _zip_first),), ROCKS),
    Mutant("tables first", "S7", "deletes tables before the zips that need them",
           ((Delete, "rank", property(_tables_first)),), ROCKS),
    Mutant("every attempt counts", "S2", "folds attempts that were never committed",
           ((Rocks, "counts", _any_counts),), IDS),
    Mutant("highest id counts", "S2", "chooses the attempt by its name",
           ((_Reading, "_ids", _newest_attempt),), IDS),
    Mutant("families unchecked", "S21", "trusts a chain whose zip does not name its families",
           ((Versions, "_lacking", _nothing_unnamed),), FAMILIES),
    Mutant("proofs by the base's families", "S21", "folds with families of the base, not the zip's",
           ((Source, "like", lambda self, _: self),), FAMILIES),
    Mutant("families of the oldest zip", "S1", "gives new zips the families of the oldest",
           ((writing, "_write", _families_of_the_oldest),), FAMILIES),
    Mutant("no families", "S1", "writes zips without the families of their store",
           ((building, "_built", _without(families={}, internal={})),), FAMILIES),
    Mutant("last family forgotten", "S1", "forgets which numbers of families were used",
           ((building, "_built", _without(last_family=0)),), FAMILIES),
    Mutant("forced zips are foreign", "S9", "takes zips that families force for maintenance",
           ((Store, "is_forced", lambda *_: False),), FAMILIES),
    Mutant("merges replace", "S1", "takes a merge for a put",
           ((Pending, "_merge", _puts),), FAMILIES),
    Mutant("ranges stay", "S1", "does not delete ranges of keys",
           ((Pending, "_drop", _keeps),), FAMILIES),
)  # fmt: skip
