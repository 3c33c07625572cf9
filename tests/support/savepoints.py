"""Savepoints for tests: small ones, as `savepoint` leaves them."""

import json
from pathlib import Path
from typing import Any

from statemaint.model.checkpoint import Provider
from statemaint.records.savepoints import (
    SavedStore,
    SavepointNote,
    Shape,
    note_stores,
    write_savepoint,
)
from statemaint.storage import LocalStorage, Storage
from tests.support.checkpoints import NOW

ID = "11111111-2222-3333-4444-555555555555"
REFUSED = b"unfinished\n"
"""A `metadata` that no Spark reads."""


SHAPE = Shape(provider=Provider.HDFS_BACKED, ids="v1", codec="lz4", row_checksums=False)


def savepoint_note(**given: Any) -> SavepointNote:
    """Returns the record of a savepoint that has begun, with what is given replaced."""
    fields = {
        "source": "s3://lake/clicks", "query_id": ID, "id": ID, "batch": 24, "witness": "0f",
        "before": SHAPE, "build": "0.3.0", "begun": NOW,
    }  # fmt: skip
    return SavepointNote(**{**fields, **given})


def write_small_savepoint(
    storage: Storage, *, ended: float | None = NOW, whole: bool = True, **given: Any
) -> SavepointNote:
    """Writes two stores, the logs of a batch, the record, and the true `metadata` if it is whole.

    Without `ended` the logs, which come after the stores, are missing, and the stores have a record
    of their own.
    """
    batch = given.get("batch", 24)
    state = {f"state/0/{part}/{batch + 1}.snapshot": b"rows" * (part + 1) for part in range(2)}
    logs = {f"offsets/{batch - 1}": b"v1", f"offsets/{batch}": b"v1", f"commits/{batch}": b"v1\n{}"}
    logs |= {"state/0/0/_metadata/schema": b"schema", "sources/0/0": b"v1\n"}
    files = {**state, **(logs if ended is not None else {})}
    for path, content in files.items():
        storage.write(path, [content])
    stores = tuple(
        SavedStore(
            directory=path.rpartition("/")[0], rows=1, digest="d", files={path: len(content)}
        )
        for path, content in state.items()
    )
    if ended is None:
        note_stores(storage, stores)
    note = savepoint_note(**{"batch": batch, "begun": ended or NOW, "ended": ended, **given})
    metadata = json.dumps({"id": note.id}, separators=(",", ":")).encode()
    if ended is not None:
        sizes = {path: len(content) for path, content in logs.items()}
        note = savepoint_note(
            **{**given, "batch": batch, "begun": ended, "ended": ended, "stores": stores,
               "logs": {**sizes, "metadata": len(metadata)}}
        )  # fmt: skip
    write_savepoint(storage, note)
    storage.replace("metadata", [metadata if whole and ended is not None else REFUSED])
    return note


def savepoint_on_disk(root: Path, **given: Any) -> SavepointNote:
    """Writes a small savepoint to a new folder."""
    root.mkdir(parents=True)
    return write_small_savepoint(LocalStorage(root), **given)
