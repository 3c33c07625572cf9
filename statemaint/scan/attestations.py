"""What the ledger says of a store: one small JSON file each, replaced as a whole.

It holds the attestations, the paths of the newest snapshots that we wrote (of any other one we know
that an executor wrote it), since when we have been writing, and what we have seen of executors'
snapshots, which does not depend on the format of the rest.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, cast

from statemaint.model.checkpoint import Attestation
from statemaint.model.files import snapshot_version
from statemaint.model.ids import StoreId
from statemaint.model.uploads import MOST_NOTED, NOTHING_SEEN, Upload, Uploads

FOLDER = "_statemaint/attestations"
_FORMAT = 3  # 1 had digests without a key, 2 did not say who wrote a snapshot
_MOST_WRITTEN = 64


@dataclass(frozen=True, slots=True)
class Known:
    """What the ledger says of one store.

    Attributes:
        proofs: the attestations.
        written: the paths of the newest snapshots that we wrote, or were about to write, and of
            those that were there when we wrote the first.
        since: the target version then.
        uploads: what was seen of executors' snapshots.
    """

    proofs: tuple[Attestation, ...] = ()
    written: tuple[str, ...] = ()
    since: int | None = None
    uploads: Uploads = NOTHING_SEEN


def attestation_path(store: StoreId) -> str:
    """Returns the path of a store's attestations, relative to the checkpoint."""
    return f"{FOLDER}/{store.operator}/{store.partition}/{store.store}.json"


def render_attestations(
    attestations: Iterable[Attestation],
    written: Iterable[str] = (),
    since: int | None = None,
    uploads: Uploads = NOTHING_SEEN,
) -> bytes:
    """Returns the file that holds a store's attestations, and who wrote which snapshots."""
    listed = [asdict(one) for one in sorted(attestations, key=lambda one: one.version)]
    ours = sorted(set(written), key=lambda path: (snapshot_version(path) or 0, path))
    fields = {
        "format": _FORMAT,
        "attestations": listed,
        "written": ours[-_MOST_WRITTEN:],
        "since": since,
        "uploads": asdict(uploads),
    }
    return json.dumps(fields).encode() + b"\n"


def parse_attestations(content: bytes) -> Known:
    """Returns what the ledger says of a store.

    That is nothing when the file is not one of ours, or is cut: an attestation that cannot be read
    is one that does not exist. The snapshot is read and compared again before anything depends on
    it.
    """
    try:
        stored = json.loads(content)
        uploads = _uploads(stored.get("uploads", {}))
        if stored["format"] != _FORMAT:
            return Known(uploads=uploads)
        found = tuple(_attestation(one) for one in stored["attestations"])
        written = tuple(_path(one) for one in stored["written"])
        return Known(found, written, _since(stored), uploads)
    except (AttributeError, ValueError, KeyError, TypeError, RecursionError):
        return Known()


def _uploads(stored: Mapping[str, Any]) -> Uploads:
    newest = [_upload(one) for one in stored.get("newest", ())]
    return Uploads(tuple(newest[-MOST_NOTED:]), _number(stored.get("widest_gap", 0)))


def _upload(stored: Mapping[str, Any]) -> Upload:
    modified = stored["modified"]
    if modified is not None and not _is(modified, float):
        raise TypeError(modified)
    path = _path(stored["path"])
    return Upload(_number(stored["version"]), path, modified)


def _number(found: object) -> int:
    if type(found) is not int or found < 0:
        raise TypeError(found)
    return found


def _since(stored: Mapping[str, Any]) -> int | None:
    found = stored.get("since")
    if found is not None and type(found) is not int:
        raise TypeError(found)
    return found


def _path(found: object) -> str:
    if not isinstance(found, str) or snapshot_version(found) is None:
        raise TypeError(found)
    return found


def _attestation(found: Mapping[str, Any]) -> Attestation:
    attestation = Attestation(**found)
    for field in fields(Attestation):
        if not _is(getattr(attestation, field.name), cast("type", field.type)):
            raise TypeError(field.name)
    return attestation


def _is(value: object, kind: type) -> bool:
    whole = type(value) is int and isinstance(0.0, kind)
    return whole or isinstance(value, kind)
