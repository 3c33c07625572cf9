"""The ledger's record of each store: one small JSON file, replaced as a whole.

It holds the attestations, the paths of the newest snapshots that we wrote (an executor wrote any
other), since when we have been writing, and the noted uploads of executors, which do not depend on
the format of the rest. Files that attestations name are listed once, by their place below the
store's directory:

    {"format": 4, "files": [[name, size, modified, tag, sum], ...],
     "attestations": [{"path": ..., "inputs": [0, 1, ...], "parts": [...], ...}], ...}

While a run writes snapshots in several stores, another file announces these for all of them:

    {"format": 1, "stores": [[operator, partition, store, [written, ...], since], ...]}
"""

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, get_args

from statemaint.errors import CodecError, NotFoundError, RefusedLinkError
from statemaint.listing import Entry
from statemaint.model.files import snapshot_version
from statemaint.model.ids import StoreId
from statemaint.model.proof import RECORDS, Attestation, FileRecord
from statemaint.model.rocks import MOST_NOTED, NOTHING_SEEN, Upload, Uploads
from statemaint.storage import Storage

ATTESTATIONS = "_statemaint/attestations"
ANNOUNCED = f"{ATTESTATIONS}/announced"
_OF_RUN = re.compile(rf"{ANNOUNCED}/[^/]+\.json")
_OF_STORE = re.compile(
    rf"{ATTESTATIONS}/(0|[1-9][0-9]{{0,8}})/(0|[1-9][0-9]{{0,8}})/([A-Za-z][A-Za-z0-9-]*)\.json"
)
# 1 had digests without a key, 2 did not record who wrote a snapshot, 3 named no inputs
_FORMAT = 4
_MOST_WRITTEN = 64


@dataclass(frozen=True, slots=True)
class StoreNotes:
    """The ledger's record of one store.

    Attributes:
        written: the paths of the newest snapshots that we wrote, or were about to write, and of
            those that existed when we wrote the first.
        since: the target version when we wrote the first.
        uploads: the noted uploads of executors.
    """

    proofs: tuple[Attestation, ...] = ()
    written: tuple[str, ...] = ()
    since: int | None = None
    uploads: Uploads = NOTHING_SEEN

    def announcing(self, announced: "StoreNotes") -> "StoreNotes":
        """Returns the record with the snapshots that a run has announced."""
        if set(announced.written) <= set(self.written):
            return self
        since = self.since if self.written and self.since is not None else announced.since
        written = tuple(dict.fromkeys((*self.written, *announced.written)))
        return replace(self, written=written, since=since)


def attestation_path(store: StoreId) -> str:
    return f"{ATTESTATIONS}/{store.operator}/{store.partition}/{store.store}.json"


def store_of(path: str) -> StoreId | None:
    """Returns the store whose attestations are at a path; `None` for any other path."""
    match = _OF_STORE.fullmatch(path)
    return StoreId(int(match[1]), int(match[2]), match[3]) if match else None


@dataclass(frozen=True, slots=True)
class LedgerFiles:
    """The files of the stores that have one, and the announcements."""

    stores: Mapping[StoreId, str] = field(default_factory=dict)
    announcements: tuple[str, ...] = ()


def attested_stores(listed: Iterable[Entry]) -> LedgerFiles:
    """Returns the ledger's files about stores.

    No file counts if a link leads to any of them; `link_findings` reports the link.
    """
    try:
        paths = [entry.path for entry in listed]
    except RefusedLinkError:
        return LedgerFiles()
    stores = {store: path for path in paths if (store := store_of(path))}
    return LedgerFiles(stores, tuple(path for path in paths if _OF_RUN.fullmatch(path)))


def announced_in(storage: Storage, paths: Iterable[str]) -> dict[StoreId, StoreNotes]:
    found: dict[StoreId, StoreNotes] = {}
    for path in sorted(paths):
        with suppress(NotFoundError):  # its run has ended since it was listed
            for store, notes in (parse_announcement(storage.read(path)) or {}).items():
                found[store] = found.get(store, StoreNotes()).announcing(notes)
    return found


def render_announcement(stores: Mapping[StoreId, StoreNotes]) -> bytes:
    rows = [
        [store.operator, store.partition, store.store, sorted(notes.written), notes.since]
        for store, notes in sorted(stores.items())
    ]
    return json.dumps({"format": 1, "stores": rows}, separators=(",", ":")).encode() + b"\n"


def parse_announcement(content: bytes) -> dict[StoreId, StoreNotes] | None:
    """Returns what a run has announced; `None` if the content is not one of ours, or is cut."""
    try:
        stored = json.loads(content)
        return dict(map(_announced, stored["stores"])) if stored["format"] == 1 else None
    except (ValueError, KeyError, TypeError, RecursionError, AttributeError):
        return None


def _announced(row: list[Any]) -> tuple[StoreId, StoreNotes]:
    operator, partition, name, written, since = row
    store = store_of(f"{ATTESTATIONS}/{_number(operator)}/{_number(partition)}/{name}.json")
    if store is None:
        raise TypeError(row)
    paths = tuple(map(_path, written))
    return store, StoreNotes(written=paths, since=_since({"since": since}))


def render_attestations(notes: StoreNotes) -> bytes:
    files = _Files()
    proofs = sorted(notes.proofs, key=lambda proof: proof.version)
    listed = [{**proof.shown(), **files.of(proof)} for proof in proofs]
    ours = sorted(set(notes.written), key=lambda path: (snapshot_version(path) or 0, path))
    content = {
        "format": _FORMAT,
        "files": files.rows,
        "attestations": listed,
        "written": ours[-_MOST_WRITTEN:],
        "since": notes.since,
        "uploads": asdict(notes.uploads),
    }
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"


class _Files:
    """The table of files that the attestations of one store share."""

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self._places: dict[FileRecord, int] = {}

    def of(self, proof: Attestation) -> dict[str, list[int]]:
        folder = f"{proof.path.rpartition('/')[0]}/"
        return {
            name: [self._place(record, folder) for record in getattr(proof, name)]
            for name in RECORDS
        }

    def _place(self, record: FileRecord, folder: str) -> int:
        place = self._places.setdefault(record, len(self.rows))
        if place == len(self.rows):
            self.rows.append((record.path.removeprefix(folder), *record[1:]))
        return place


def read_attestations(storage: Storage, path: str) -> StoreNotes:
    """Returns the ledger's record of a store; an empty one if there is no readable file."""
    try:
        return parse_attestations(storage.read(path))
    except (NotFoundError, CodecError):
        return StoreNotes()


def parse_attestations(content: bytes) -> StoreNotes:
    """Returns the ledger's record of a store; an empty one when it is cut, or not one of ours.

    The snapshot is then read and compared again before anything relies on it. Attestations of older
    formats named no inputs, and count as none for the same reason.
    """
    try:
        stored = json.loads(content)
        uploads = _uploads(stored.get("uploads", {}))
        if stored["format"] not in (_FORMAT, _FORMAT - 1):
            return StoreNotes(uploads=uploads)
        written = tuple(_path(path) for path in stored["written"])
        since = _since(stored)
        if stored["format"] != _FORMAT:  # its proofs name no inputs; `written` is still valid
            return StoreNotes((), written, since, uploads)
        rows = _Rows(stored["files"])
        proofs = tuple(_attestation(proof, rows) for proof in stored["attestations"])
        return StoreNotes(proofs, written, since, uploads)
    except (ValueError, KeyError, TypeError, IndexError, RecursionError, AttributeError):
        return StoreNotes()


def _uploads(stored: Mapping[str, Any]) -> Uploads:
    newest = []
    for upload in stored.get("newest", ()):
        modified = upload["modified"]
        if modified is not None and type(modified) not in (int, float):
            raise TypeError(modified)
        newest.append(Upload(_number(upload["version"]), _path(upload["path"]), modified))
    return Uploads(tuple(newest[-MOST_NOTED:]), _number(stored.get("widest_gap", 0)))


def _number(value: object) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(value)
    return value


def _since(stored: Mapping[str, Any]) -> int | None:
    since = stored.get("since")
    if since is not None and type(since) is not int:
        raise TypeError(since)
    return since


def _path(value: object) -> str:
    if not isinstance(value, str) or snapshot_version(value) is None:
        raise TypeError(value)
    return value


class _Rows:
    """The stored table of files; a row of it is checked once, however many proofs name it."""

    def __init__(self, stored: list[list[Any]]) -> None:
        self._stored = stored
        self._records: dict[tuple[str, int], FileRecord] = {}

    def record(self, place: int, folder: str) -> FileRecord:
        record = self._records.get((folder, place))
        if record is None:
            name, *rest = self._stored[place]
            record = FileRecord(folder + name, *rest)
            _check(record, _RECORD_TYPES)
            self._records[folder, place] = record
        return record


def _attestation(stored: Mapping[str, Any], rows: _Rows) -> Attestation:
    folder = f"{_path(stored['path']).rpartition('/')[0]}/"
    lists = {name: _records(stored[name], rows, folder) for name in RECORDS}
    attestation = Attestation(**{**stored, **lists})
    _check((getattr(attestation, name) for name in _PROOF_TYPES), _PROOF_TYPES)
    return attestation


def _records(places: list[int], rows: _Rows, folder: str) -> tuple[FileRecord, ...]:
    if any(type(place) is not int or place < 0 for place in places):
        raise TypeError(places)
    return tuple(rows.record(place, folder) for place in places)


def _check(values: Iterable[object], types: Mapping[str, frozenset[type]]) -> None:
    """Raises `TypeError` unless every field has a type that it may have."""
    for value, (name, kinds) in zip(values, types.items(), strict=True):
        if type(value) not in kinds:
            raise TypeError(name)


def _stored_types(declared: Any) -> frozenset[type]:
    types = frozenset(get_args(declared) or (declared,))
    return types | {int} if float in types else types


_PROOF_TYPES = {
    field.name: _stored_types(field.type)
    for field in fields(Attestation)
    if field.name not in RECORDS
}
_RECORD_TYPES = {name: _stored_types(kind) for name, kind in FileRecord.__annotations__.items()}
