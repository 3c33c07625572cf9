"""What we make of the checkpoints in `tests/checkpoints`: batches, digests, rows."""

import re
from collections import Counter

from statemaint.audit import digest_stores
from statemaint.codec.integrity.digest import StateDigest
from statemaint.model.ids import StoreId
from statemaint.storage import MemoryStorage
from tests.checkpoints.archive import contents

Digests = dict[tuple[StoreId, int], StateDigest]


def archived(name: tuple[str, str]) -> MemoryStorage:
    archive, kind = name
    return MemoryStorage(contents(archive)[kind])


def shows_no_format(name: tuple[str, str]) -> bool:
    """Says whether no zip shows which format of a zip's metadata its Spark reads (Spark 4.0)."""
    archive, kind = name
    zipped = any(path.endswith(".zip") for path in contents(archive)[kind])
    return archive == "rocks-4.0.5" and kind.endswith("-ids") and not zipped


def loadable_batches(storage: MemoryStorage) -> list[int]:
    """Returns all of the commit log, but not the oldest where Spark has deleted its state."""
    found = sorted(int(path[8:]) for path in storage.files if re.fullmatch(r"commits/\d+", path))
    stores = {path.rpartition("/")[0] for path in storage.files if path.endswith(".zip")}
    oldest = max((_oldest_version(storage, store) for store in stores), default=1)
    return [batch for batch in found if batch + 1 >= oldest]


def _oldest_version(storage: MemoryStorage, store: str) -> int:
    names = [path.rpartition("/")[2] for path in storage.files if path.startswith(f"{store}/")]
    if any(re.match(r"1[._]", name) for name in names):
        return 1
    return min(int(re.split(r"[._]", name)[0]) for name in names if name.endswith(".zip"))


def digests(storage: MemoryStorage) -> Digests:
    """Returns the digest of each store at each of those batches."""
    return {
        (store, batch): found
        for batch in loadable_batches(storage)
        for store, found in digest_stores(storage, version=batch + 1)[1]
    }


def row_counts(storage: MemoryStorage, batch: int) -> dict[str, int]:
    """Returns the rows of a store in all its partitions, by `operator/name`."""
    rows: Counter[str] = Counter()
    for store, found in digest_stores(storage, version=batch + 1)[1]:
        rows[f"{store.operator}/{store.store}"] += found.rows
    return dict(rows)
