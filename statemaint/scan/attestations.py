"""What the ledger says of a store: one small JSON file each, replaced as a whole.

It holds the attestations, the paths of the newest snapshots that we wrote (of any other one we know
that an executor wrote it), and since when we have been writing.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, cast

from statemaint.model.checkpoint import Attestation
from statemaint.model.files import snapshot_version
from statemaint.model.ids import StoreId

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
    """

    proofs: tuple[Attestation, ...] = ()
    written: tuple[str, ...] = ()
    since: int | None = None


def attestation_path(store: StoreId) -> str:
    """Returns the path of a store's attestations, relative to the checkpoint."""
    return f"{FOLDER}/{store.operator}/{store.partition}/{store.store}.json"


def render_attestations(
    attestations: Iterable[Attestation], written: Iterable[str] = (), since: int | None = None
) -> bytes:
    """Returns the file that holds a store's attestations, and the snapshots that we wrote."""
    listed = [asdict(one) for one in sorted(attestations, key=lambda one: one.version)]
    ours = sorted(set(written), key=lambda path: (snapshot_version(path) or 0, path))
    fields = {
        "format": _FORMAT,
        "attestations": listed,
        "written": ours[-_MOST_WRITTEN:],
        "since": since,
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
        if stored["format"] != _FORMAT:
            return Known()
        found = tuple(_attestation(one) for one in stored["attestations"])
        return Known(found, tuple(_path(one) for one in stored["written"]), _since(stored))
    except (ValueError, KeyError, TypeError, RecursionError):
        return Known()


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
