"""A query that goes on after somebody has worked on its checkpoint."""

from statemaint.codec.hdfs.records import Record
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import COMMIT, changes, delta_bytes, offsets_bytes


def rows(version: int, attempt: int, partition: int = 0) -> list[Record]:
    """Returns what a version changes: attempt 0 what it always did, and any other a row more."""
    other = f"try-{attempt % 10}-{version:04d}".encode()
    found = changes(version, partition)
    return [*found, (other, bytes(8))] if attempt else found


def begin(storage: MemoryStorage, batch: int) -> None:
    """Begins a batch as Spark does: its offsets, unless it has them."""
    if f"offsets/{batch}" not in storage.files:
        storage.write(f"offsets/{batch}", [offsets_bytes()])


def run(
    storage: MemoryStorage, first: int, last: int, *, attempt: int = 1, retain: int = 100
) -> None:
    """Runs batches of a closed range on all partitions, and purges the logs."""
    deltas = (one for one in storage.files if one.startswith("state/") and one.endswith(".delta"))
    folders = {path.rpartition("/")[0] for path in deltas}
    for batch in range(first, last + 1):
        begin(storage, batch)
        for folder in sorted(folders) or ["state/0/0"]:
            content = delta_bytes(rows(batch + 1, attempt, int(folder.split("/")[2])))
            storage.write(f"{folder}/{batch + 1}.delta", [content], overwrite=True)
        storage.write(f"commits/{batch}", [COMMIT], overwrite=True)
        for log in ("commits", "offsets"):
            storage.delete(f"{log}/{batch - retain}")


def rewind(storage: MemoryStorage, batch: int) -> None:
    """Removes the entries of the logs above a batch, and leaves the state, as operators do."""
    for path in storage.files:
        folder, _, name = path.rpartition("/")
        if folder in ("commits", "offsets") and name.isdecimal() and int(name) > batch:
            storage.delete(path)


def reset(storage: MemoryStorage) -> None:
    """Removes everything of the query but what maintenance keeps for itself."""
    for path in storage.files:
        if path.startswith(("commits/", "offsets/", "state/")):
            storage.delete(path)
