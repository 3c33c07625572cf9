"""A version with what no query of the archives does: a merged value that stays, deleted ranges."""

import struct

from statemaint.codec.compression.base import encode
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.rocksdb import changelog
from statemaint.codec.rocksdb.changelog import DELETE, DELETE_RANGE, MERGE, Change, Header
from statemaint.fold import Source
from statemaint.fold.state import opened_state
from statemaint.model.chain import Chain
from statemaint.planning import scan_checkpoint
from statemaint.storage import MemoryStorage
from tests.checkpoints.archive import contents
from tests.support.checkpoints import COMMIT


def with_one_more_version() -> MemoryStorage:
    """Returns a checkpoint of `transformWithState` with a version 14.

    In partition 0 that version deletes the first list and merges its value back, deletes an empty
    range that begins at the second list, and the range of all keys of the map `hours`.
    """
    storage = MemoryStorage(contents("rocks-4.3.0")["rocks-timed"])
    checkpoint = scan_checkpoint(storage)
    store = checkpoint.stores[0]
    chain = store.versions.chain(13)
    assert isinstance(chain, Chain)
    with opened_state(Source.of(storage, store, checkpoint), store, chain) as state:
        rows = dict(state.rows)
        numbers = {name: struct.pack("<h", number) for number, name in state.families.items()}
    first, second, *_ = (key for key in rows if key.startswith(numbers["amounts"]))
    hours = [key for key in rows if key.startswith(numbers["hours"])]
    changes: list[Change] = [
        (int(DELETE), first, None),
        (int(MERGE), first, rows[first]),
        (int(DELETE_RANGE), second, second),
        (int(DELETE_RANGE), min(hours), max(hours) + b"\xff"),
    ]
    for partition, found in enumerate((changes, [])):
        content = encode(COMPRESSIONS["lz4"], changelog.encode(Header(2), found))
        storage.write(f"state/0/{partition}/14.changelog", content)
    storage.write("offsets/13", [storage.read("offsets/12")])
    storage.write("commits/13", [COMMIT])
    return storage
