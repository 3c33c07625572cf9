"""Where the ledger keeps its attestations: one small JSON file a store, replaced as a whole."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any, cast

from statemaint.model.checkpoint import Attestation
from statemaint.model.ids import StoreId

FOLDER = "_statemaint/attestations"
_FORMAT = 2  # 1 had digests without a key


def attestation_path(store: StoreId) -> str:
    """Returns the path of a store's attestations, relative to the checkpoint."""
    return f"{FOLDER}/{store.operator}/{store.partition}/{store.store}.json"


def render_attestations(attestations: Iterable[Attestation]) -> bytes:
    """Returns the file that holds a store's attestations."""
    listed = [asdict(one) for one in sorted(attestations, key=lambda one: one.version)]
    return json.dumps({"format": _FORMAT, "attestations": listed}).encode() + b"\n"


def parse_attestations(content: bytes) -> tuple[Attestation, ...]:
    """Returns a store's attestations; none when the file is not one of ours, or is cut.

    An attestation that cannot be read is one that does not exist: the snapshot is read and
    compared again before anything depends on it.
    """
    try:
        stored = json.loads(content)
        listed = stored["attestations"] if stored["format"] == _FORMAT else []
        return tuple(_attestation(one) for one in listed)
    except (ValueError, KeyError, TypeError, RecursionError):
        return ()


def _attestation(found: Mapping[str, Any]) -> Attestation:
    attestation = Attestation(**found)
    for field in fields(Attestation):
        if not _is(getattr(attestation, field.name), cast("type", field.type)):
            raise TypeError(field.name)
    return attestation


def _is(value: object, kind: type) -> bool:
    whole = type(value) is int and isinstance(0.0, kind)
    return whole or isinstance(value, kind)
