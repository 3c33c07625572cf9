"""The manifest of a run's trash: the files that were moved there, and their surroundings then.

    _statemaint/trash/<run>/manifest/<name>.jsonl    a line for each file, before it is moved

    <op>-<partition>.page-<number>   maintenance: a page of deletions, written once
    repair, rollback                 all that the run moves

    path, bytes, modified   the file as it was listed, with its crc32c if it was read
    until                   how long it is kept at least
    beside                  on a checksum whose file stays: that file
    stale                   a snapshot that did not hold the state of the log: never restored
    world                   on the first line of each store: its log, as the run saw it; for all
                            lines of that store that follow, also on further pages
    logs                    on the first line of a rollback: the query's logs, as they were

Earlier builds appended all pages to `<op>-<partition>`, and the first of them noted only `path`,
`bytes` and `until`. An unreadable line moved no file, and a line with an unreadable world counts as
one without.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from statemaint.errors import CodecError, NotFoundError
from statemaint.listing import Entry
from statemaint.model.ids import RecoveryVerb, UnitId, batch_in, run_folder
from statemaint.model.proof import FileRecord
from statemaint.records.segments import read_lines
from statemaint.storage import Storage

FOLDER = "_statemaint/trash"
MANIFEST = "manifest"
# The first line of a rollback has the entries of both logs, about a hundred bytes each; Spark keeps
# a hundred batches. Each run reads it, so a longer one must not take a run's memory.
_LONGEST_FIRST = 1 << 23
_PAGE = re.compile(r"(?P<operator>[0-9]+)-(?P<partition>[0-9]+)\.page-(?P<number>[0-9]{6})\.jsonl")


@dataclass(frozen=True, slots=True)
class StoreWorld:
    """The log of one store, as a run saw it."""

    directory: str
    target: int | None  # the newest committed version, if there was one
    files: tuple[FileRecord, ...]  # its deltas or changelogs; its zips if it has nothing else


@dataclass(frozen=True, slots=True)
class LogWorld:
    """The query's logs, as a rollback saw them."""

    version: int  # the newest state version that it left
    # The entries that it left, of `commits/`, `offsets/` and the operators' metadata.
    left: tuple[FileRecord, ...]
    removed: tuple[FileRecord, ...]  # the entries that it was to remove, in that order
    newest: tuple[FileRecord, ...]  # the changes of `version` in each store, or its zips


_NO_LOGS = LogWorld(0, (), (), ())
_LISTS = ("left", "removed", "newest")


@dataclass(frozen=True, slots=True)
class Note:
    """One line of a manifest."""

    seen: FileRecord  # the file to be moved; its time is `None` in old manifests
    until: float  # the time until which it is kept at least, by the storage's clock
    since: float | None = None  # when its manifest was last written to
    beside: FileRecord | None = None  # the file that it is the checksum of, if that file stays
    world: StoreWorld | None = None  # the log of its store
    stale: bool = False  # it is a snapshot that no longer held the state of the log, or beside one


@dataclass(frozen=True, slots=True)
class Contents:
    """A run's trash and its manifests."""

    run: str
    manifests: tuple[Entry, ...]
    files: Mapping[str, Entry]  # those in the trash, by their old paths
    notes: Mapping[str, Note] = field(default_factory=dict)  # by path, in the order of the moves
    verb: RecoveryVerb | None = None  # `None` for maintenance
    logs: LogWorld | None = None  # the query's logs then, if they were noted

    @property
    def of_rollback(self) -> bool:
        return self.verb is RecoveryVerb.ROLLBACK

    @property
    def newest_batch(self) -> int | None:
        """Returns the newest committed batch that a rollback removed, if any."""
        removed = [file.path for file in self.logs.removed] if self.logs else [*self.files]
        batches = [batch_in(path, "commits") for path in removed]
        return max((batch for batch in batches if batch >= 0), default=None)

    def newest_first(self) -> tuple[Entry, ...]:
        """Returns the files in reverse order of their removal: a file before its checksum."""
        waiting = dict(self.files)
        noted = [waiting.pop(path) for path in reversed([*self.notes]) if path in waiting]
        return (*noted, *sorted(waiting.values(), key=lambda entry: entry.path.endswith(".crc")))

    def path_of(self, entry: Entry) -> str:
        return entry.path.removeprefix(f"{folder_of(self.run)}/")


def folder_of(run: str) -> str:
    return f"{FOLDER}/{run_folder(run)}"


def manifest_path(run: str, name: str) -> str:
    return f"{folder_of(run)}/{MANIFEST}/{name}.jsonl"


def page_name(unit: UnitId, number: int) -> str:
    return f"{unit.operator}-{unit.partition}.page-{number:06}"


def newest_pages(entries: Iterable[Entry]) -> Counter[UnitId]:
    newest: Counter[UnitId] = Counter()
    for entry in entries:
        if page := _PAGE.fullmatch(entry.name):
            unit = UnitId(int(page["operator"]), int(page["partition"]))
            newest[unit] = max(newest[unit], int(page["number"]))
    return newest


def render(notes: Sequence[Note], logs: LogWorld | None = None) -> bytes:
    """Returns the lines of a manifest; each world is on the first line of its store."""
    previous: StoreWorld | None = None
    lines = []
    for number, note in enumerate(notes):
        seen = note.seen
        fields: dict[str, Any] = {"path": seen.path, "bytes": seen.size, "modified": seen.modified}
        fields["until"] = note.until
        if seen.sum is not None:
            fields["crc32c"] = seen.sum
        if note.stale:
            fields["stale"] = True
        if note.beside:
            fields["beside"] = _pack(note.beside)
        if note.world and note.world is not previous:
            previous = world = note.world
            files = [_pack(file, below=world.directory) for file in world.files]
            named = {"directory": world.directory, "target": world.target}
            fields["world"] = {**named, "files": files}
        if logs and number == 0:
            lists = {name: [*map(_pack, getattr(logs, name))] for name in _LISTS}
            fields["logs"] = {"version": logs.version, **lists}
        lines.append(json.dumps(fields, separators=(",", ":")) + "\n")
    return "".join(lines).encode()


def _pack(file: FileRecord, *, below: str = "") -> list[Any]:
    name = file.path.removeprefix(f"{below}/") if below else file.path
    fields: list[Any] = [name, file.size, file.modified]
    return fields if file.sum is None else [*fields, file.sum]


def read_logs(storage: Storage, run: str) -> LogWorld | None:
    """Returns the logs as a rollback has noted them; `None` if that cannot be read.

    They are empty if its trash was emptied meanwhile, or an earlier build did not note them.
    """
    try:
        with storage.open(manifest_path(run, RecoveryVerb.ROLLBACK.value)) as stream:
            fields = json.loads(stream.readline(_LONGEST_FIRST))
    except NotFoundError:
        return _NO_LOGS
    except (ValueError, RecursionError, CodecError):
        return None
    if not isinstance(fields, dict):
        return None
    return _parsed_logs(fields) if "logs" in fields or "path" not in fields else _NO_LOGS


def contents(storage: Storage, run: str) -> Contents:
    folder = folder_of(run)
    files = {it.path.removeprefix(f"{folder}/"): it for it in storage.list(folder)}
    manifests = sorted(files.pop(path) for path in [*files] if path.startswith(f"{MANIFEST}/"))
    notes: dict[str, Note] = {}
    worlds: dict[str, StoreWorld] = {}
    logs = None
    for manifest in manifests:
        for line in read_lines(storage, manifest.path):
            logs = logs or _parsed_logs(line)
            if note := _parsed_note(line, manifest.modified, worlds):
                notes.pop(note.seen.path, None)  # the later line of a file counts
                notes[note.seen.path] = note
    names = {manifest.name for manifest in manifests}
    verb = next((verb for verb in RecoveryVerb if f"{verb.value}.jsonl" in names), None)
    return Contents(run, tuple(manifests), files, notes, verb, logs)


def _parsed_note(
    line: Mapping[str, Any], since: float | None, worlds: dict[str, StoreWorld]
) -> Note | None:
    path, until = line.get("path"), line.get("until")
    if not isinstance(path, str):
        return None
    if world := _parsed_world(line.get("world")):
        worlds[world.directory] = world
    summed = [line["crc32c"]] if "crc32c" in line else []
    seen = _seen([path, line.get("bytes"), line.get("modified"), *summed])
    return Note(
        seen or FileRecord(path, -1, None),
        until if isinstance(until, int | float) else 0.0,
        since,
        beside=_seen(line.get("beside")),
        world=worlds.get(path.rpartition("/")[0]),
        stale=line.get("stale") is True,
    )


def _parsed_world(fields: object) -> StoreWorld | None:
    if isinstance(fields, dict) and isinstance(directory := fields.get("directory"), str):
        target, files = fields.get("target"), _all_seen(fields.get("files"), below=directory)
        if files is not None and isinstance(target, int | None):
            return StoreWorld(directory, target, files)
    return None


def _parsed_logs(line: Mapping[str, Any]) -> LogWorld | None:
    fields = line.get("logs")
    if isinstance(fields, dict) and isinstance(version := fields.get("version"), int):
        left, removed, newest = (_all_seen(fields.get(name)) for name in _LISTS)
        if left is not None and removed is not None and newest is not None:
            return LogWorld(version, left, removed, newest)
    return None


def _all_seen(rows: object, *, below: str = "") -> tuple[FileRecord, ...] | None:
    if not isinstance(rows, list):
        return None
    parsed = [_seen(row, below=below) for row in rows]
    return tuple(seen for seen in parsed if seen) if all(parsed) else None


def _seen(row: object, *, below: str = "") -> FileRecord | None:
    match row:
        case [str(name), int(size), float() | int() | None as modified]:
            crc32c = None
        case [str(name), int(size), float() | int() | None as modified, int(crc32c)]:
            pass
        case _:
            return None
    return FileRecord(f"{below}/{name}" if below else name, size, modified, sum=crc32c)
