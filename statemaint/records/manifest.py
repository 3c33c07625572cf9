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
from statemaint.records.segments import read_lines
from statemaint.storage import Storage

FOLDER = "_statemaint/trash"
MANIFEST = "manifest"
# The first line of a rollback has the entries of both logs, about a hundred bytes each; Spark keeps
# a hundred batches. Each run reads it, so a longer one must not take a run's memory.
_LONGEST_FIRST = 1 << 23
_PAGE = re.compile(r"(?P<operator>[0-9]+)-(?P<partition>[0-9]+)\.page-(?P<number>[0-9]{6})\.jsonl")


@dataclass(frozen=True, slots=True)
class Seen:
    """A file as a run saw it.

    Attributes:
        entry: as it was listed.
        crc32c: of its stored bytes; `None` if they were not read.
    """

    entry: Entry
    crc32c: int | None = None

    @property
    def path(self) -> str:
        return self.entry.path


@dataclass(frozen=True, slots=True)
class StoreWorld:
    """The log of one store, as a run saw it.

    Attributes:
        target: the newest committed version; `None` if there was none.
        files: its deltas or changelogs; its zips if it has nothing else.
    """

    directory: str
    target: int | None
    files: tuple[Seen, ...]


@dataclass(frozen=True, slots=True)
class LogWorld:
    """The query's logs, as a rollback saw them.

    Attributes:
        version: the newest state version that it left.
        left: the entries that it left, of `commits/`, `offsets/` and the operators' metadata.
        removed: the entries that it was to remove, in that order.
        newest: the changes of `version` in each store, or its zips.
    """

    version: int
    left: tuple[Seen, ...]
    removed: tuple[Seen, ...]
    newest: tuple[Seen, ...]


_NO_LOGS = LogWorld(0, (), (), ())
_LISTS = ("left", "removed", "newest")


@dataclass(frozen=True, slots=True)
class Note:
    """One line of a manifest.

    Attributes:
        seen: the file to be moved; its time is `None` in old manifests.
        until: the time until which it is kept at least, by the storage's clock.
        since: when its manifest was last written to.
        beside: the file that it is the checksum of, if that file stays.
        world: the log of its store.
        stale: whether it is a snapshot that no longer held the state of the log, or beside one.
    """

    seen: Seen
    until: float
    since: float | None = None
    beside: Seen | None = None
    world: StoreWorld | None = None
    stale: bool = False


@dataclass(frozen=True, slots=True)
class Contents:
    """A run's trash and its manifests.

    Attributes:
        files: the files in the trash, by their old paths.
        notes: the note of each path, in the order in which the files were moved.
        verb: repair or rollback; `None` for maintenance.
        logs: the query's logs then; `None` if they were not noted.
    """

    run: str
    manifests: tuple[Entry, ...]
    files: Mapping[str, Entry]
    notes: Mapping[str, Note] = field(default_factory=dict)
    verb: RecoveryVerb | None = None
    logs: LogWorld | None = None

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
    """Returns the name of one page of a partition's manifest; names sort like the pages."""
    return f"{unit.operator}-{unit.partition}.page-{number:06}"


def newest_pages(entries: Iterable[Entry]) -> Counter[UnitId]:
    newest: Counter[UnitId] = Counter()
    for entry in entries:
        if page := _PAGE.fullmatch(entry.name):
            unit = UnitId(int(page["operator"]), int(page["partition"]))
            newest[unit] = max(newest[unit], int(page["number"]))
    return newest


# -- writing


def render(notes: Sequence[Note], logs: LogWorld | None = None) -> bytes:
    """Returns the lines of a manifest; each world is on the first line of its store."""
    previous: StoreWorld | None = None
    lines = []
    for number, note in enumerate(notes):
        fields: dict[str, Any] = {
            "path": note.seen.path,
            "bytes": note.seen.entry.size,
            "modified": note.seen.entry.modified,
            "until": note.until,
        }
        if note.seen.crc32c is not None:
            fields["crc32c"] = note.seen.crc32c
        if note.stale:
            fields["stale"] = True
        if note.beside:
            fields["beside"] = _pack(note.beside)
        if note.world and note.world is not previous:
            previous = world = note.world
            files = [_pack(seen, below=world.directory) for seen in world.files]
            fields["world"] = {
                "directory": world.directory,
                "target": world.target,
                "files": files,
            }
        if logs and number == 0:
            lists = {name: [*map(_pack, getattr(logs, name))] for name in _LISTS}
            fields["logs"] = {"version": logs.version, **lists}
        lines.append(json.dumps(fields, separators=(",", ":")) + "\n")
    return "".join(lines).encode()


def _pack(seen: Seen, *, below: str = "") -> list[Any]:
    name = seen.path.removeprefix(f"{below}/") if below else seen.path
    fields: list[Any] = [name, seen.entry.size, seen.entry.modified]
    return fields if seen.crc32c is None else [*fields, seen.crc32c]


# -- reading


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
    manifests, files = [], {}
    folder = folder_of(run)
    for entry in storage.list(folder):
        path = entry.path.removeprefix(f"{folder}/")
        if path.startswith(f"{MANIFEST}/"):
            manifests.append(entry)
        else:
            files[path] = entry
    manifests.sort()
    notes: dict[str, Note] = {}
    worlds: dict[str, StoreWorld] = {}
    logs = None
    for manifest in manifests:
        lines = read_lines(storage, manifest.path)
        _read_notes(lines, manifest.modified, notes, worlds)
        logs = logs or next(filter(None, map(_parsed_logs, lines)), None)
    names = {manifest.name for manifest in manifests}
    verb = next((verb for verb in RecoveryVerb if f"{verb.value}.jsonl" in names), None)
    return Contents(run, tuple(manifests), files, notes, verb, logs)


def _read_notes(
    lines: Iterable[Mapping[str, Any]],
    since: float | None,
    notes: dict[str, Note],
    worlds: dict[str, StoreWorld],
) -> None:
    """Adds the notes of the lines; for a file that was noted twice the later line counts."""
    for line in lines:
        path = line.get("path")
        if not isinstance(path, str):
            continue
        if world := _parsed_world(line):
            worlds[world.directory] = world
        summed = [line["crc32c"]] if "crc32c" in line else []
        seen = _seen([path, line.get("bytes"), line.get("modified"), *summed])
        until = line.get("until")
        notes.pop(path, None)
        notes[path] = Note(
            seen or Seen(Entry(path, -1, None)),
            until if isinstance(until, int | float) else 0.0,
            since,
            beside=_seen(line.get("beside")),
            world=worlds.get(path.rpartition("/")[0]),
            stale=line.get("stale") is True,
        )


def _parsed_world(line: Mapping[str, Any]) -> StoreWorld | None:
    fields = line.get("world")
    if not isinstance(fields, dict) or not isinstance(directory := fields.get("directory"), str):
        return None
    target, files = fields.get("target"), _all_seen(fields.get("files"), below=directory)
    if files is None or not isinstance(target, int | None):
        return None
    return StoreWorld(directory, target, files)


def _parsed_logs(line: Mapping[str, Any]) -> LogWorld | None:
    fields = line.get("logs")
    if not isinstance(fields, dict) or not isinstance(version := fields.get("version"), int):
        return None
    left, removed, newest = (_all_seen(fields.get(name)) for name in _LISTS)
    if left is None or removed is None or newest is None:
        return None
    return LogWorld(version, left, removed, newest)


def _all_seen(rows: object, *, below: str = "") -> tuple[Seen, ...] | None:
    if not isinstance(rows, list):
        return None
    parsed = [_seen(row, below=below) for row in rows]
    return tuple(seen for seen in parsed if seen) if all(parsed) else None


def _seen(row: object, *, below: str = "") -> Seen | None:
    match row:
        case [str(name), int(size), float() | int() | None as modified]:
            crc32c = None
        case [str(name), int(size), float() | int() | None as modified, int(crc32c)]:
            pass
        case _:
            return None
    return Seen(Entry(f"{below}/{name}" if below else name, size, modified), crc32c)
