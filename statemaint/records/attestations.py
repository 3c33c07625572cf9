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
from functools import lru_cache
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
    """The ledger's record of one store."""

    proofs: tuple[Attestation, ...] = ()
    # The paths of the newest snapshots that we wrote, or were about to write, and of those that
    # existed when we wrote the first; `since` is the target version at that time.
    written: tuple[str, ...] = ()
    since: int | None = None
    uploads: Uploads = NOTHING_SEEN

    def announcing(self, announced: "StoreNotes") -> "StoreNotes":
        if set(announced.written) <= set(self.written):
            return self
        since = self.since if self.written and self.since is not None else announced.since
        written = tuple(dict.fromkeys((*self.written, *announced.written)))
        return replace(self, written=written, since=since)


def attestation_path(store: StoreId) -> str:
    return f"{ATTESTATIONS}/{store.operator}/{store.partition}/{store.store}.json"


def store_of(path: str) -> StoreId | None:
    match = _OF_STORE.fullmatch(path)
    return StoreId(int(match[1]), int(match[2]), match[3]) if match else None


@dataclass(frozen=True, slots=True)
class LedgerFiles:
    """The files of the stores that have one, and the announcements."""

    stores: Mapping[StoreId, str] = field(default_factory=dict)
    announcements: tuple[str, ...] = ()


def attested_stores(listed: Iterable[Entry]) -> LedgerFiles:
    # No file counts if a link leads to any of them; `link_findings` reports the link.
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
    return store, StoreNotes(written=tuple(map(_path, written)), since=_since(since))


def render_attestations(notes: StoreNotes) -> bytes:
    rows: list[tuple[Any, ...]] = []
    places: dict[FileRecord, int] = {}

    def place_of(record: FileRecord, folder: str) -> int:
        place = places.setdefault(record, len(rows))
        if place == len(rows):
            rows.append((record.path.removeprefix(folder), *record[1:]))
        return place

    def shown(proof: Attestation) -> dict[str, Any]:
        folder = _folder(proof.path)
        lists = {name: [place_of(it, folder) for it in getattr(proof, name)] for name in RECORDS}
        return {**proof.shown(), **lists}

    proofs = sorted(notes.proofs, key=lambda proof: proof.version)
    ours = sorted(set(notes.written), key=lambda path: (snapshot_version(path) or 0, path))
    content = {
        "format": _FORMAT,
        "files": rows,
        "attestations": [shown(proof) for proof in proofs],
        "written": ours[-_MOST_WRITTEN:],
        "since": notes.since,
        "uploads": asdict(notes.uploads),
    }
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"


def _folder(path: str) -> str:
    return f"{path.rpartition('/')[0]}/"


def read_attestations(storage: Storage, path: str) -> StoreNotes:
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
        written, since = tuple(map(_path, stored["written"])), _since(stored.get("since"))
        if stored["format"] != _FORMAT:  # its proofs name no inputs; `written` is still valid
            return StoreNotes((), written, since, uploads)
        proofs = _attestations(stored["attestations"], stored["files"])
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


def _since(value: Any) -> int | None:
    if value is not None and type(value) is not int:
        raise TypeError(value)
    return value


def _path(value: object) -> str:
    if not isinstance(value, str) or snapshot_version(value) is None:
        raise TypeError(value)
    return value


def _attestations(
    proofs: Iterable[Mapping[str, Any]], rows: list[list[Any]]
) -> tuple[Attestation, ...]:
    # A row is checked once, however many proofs name it; `true` is not the place 1.
    @lru_cache(maxsize=None, typed=True)
    def record(place: int, folder: str) -> FileRecord:
        name, *rest = rows[_number(place)]
        file = FileRecord(folder + name, *rest)
        _check(file, _RECORD_TYPES)
        return file

    def attestation(stored: Mapping[str, Any]) -> Attestation:
        folder = _folder(_path(stored["path"]))
        lists = {name: tuple(record(it, folder) for it in stored[name]) for name in RECORDS}
        proof = Attestation(**{**stored, **lists})
        _check((getattr(proof, name) for name in _PROOF_TYPES), _PROOF_TYPES)
        return proof

    return tuple(map(attestation, proofs))


def _check(values: Iterable[object], types: Mapping[str, frozenset[type]]) -> None:
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
