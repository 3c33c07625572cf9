"""What Spark writes of the stateful operators of a query, beside their state.

schema     `state/<op>/0/_metadata/schema`, by every Spark
metadata   `state/<op>/_metadata/metadata`, by Spark 4.0 and later, of the operators that the query
           has when it is started: never of one that was removed before
"""

import json
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from tests.certify.files import spot
from tests.certify.world import World

if TYPE_CHECKING:
    from tests.certify.query import Query

METADATA_SINCE = 4
"""The first Spark that writes operator metadata, and refuses a query with other operators."""
_PLAIN = 2  # slashes in the directory of a store without a name
_KEY = {"type": "struct", "fields": [{"name": "key", "type": "binary", "nullable": True}]}
_VALUE = {"type": "struct", "fields": [{"name": "value", "type": "binary", "nullable": True}]}


def partitions(stores: Iterable[str]) -> dict[int, set[int]]:
    """Returns the partitions of each operator of some stores."""
    found: dict[int, set[int]] = defaultdict(set)
    for store in stores:
        operator, partition = map(int, store.split("/")[1:3])
        found[operator].add(partition)
    return found


def declare(world: World, stores: Sequence[str], spark: int | None) -> None:
    """Writes what Spark writes of its operators when a query is started, unless it is there.

    Left out for a join and a single store of an old Spark, although that has schemas of them too.
    """
    if spark is None and (len(stores) == 1 or stores[0].count("/") > _PLAIN):
        return
    for operator, numbers in partitions(stores).items():
        files = {f"state/{operator}/0/_metadata/schema": _schema()}
        if spark is not None and spark >= METADATA_SINCE:
            files[f"state/{operator}/_metadata/metadata"] = _metadata(operator, len(numbers))
        if missing := {path: one for path, one in files.items() if path not in world.files}:
            world.change(missing)


def is_whole(query: "Query", operator: int) -> bool:
    """Returns whether all stores load the newest version, and nothing shows that there was a newer.

    Args:
        query: the query.
        operator: one whose newer state, before a rewind, our notes may name as well.
    """
    stores = query.habits.stores
    live = (one for store in stores for one in query.world.index.live[store].values())
    reads = (query.loader.load(one, [query.target])[query.target] for one in stores)
    newest = max((one.version for one in live), default=0)
    noted = max(_noted(query.world, operator), default=0)
    return max(newest, noted) <= query.target and all(read.state is not None for read in reads)


def _noted(world: World, operator: int) -> Iterator[int]:
    """Yields the versions of the snapshots that our notes of an operator name."""
    for path in world.index.under(f"_statemaint/attestations/{operator}/"):
        if path.endswith(".json"):
            notes = json.loads(world.files[path].content)
            rows = (*notes["attestations"], *notes.get("uploads", {}).get("newest", ()))
            named = (*notes["written"], *(row["path"] for row in rows))
            yield from (one.version for path in named if (one := spot(path)))
    for path in world.index.under("_statemaint/attestations/announced/"):
        stores = json.loads(world.files[path].content)["stores"] if path.endswith(".json") else ()
        written = (each for row in stores if row[0] == operator for each in row[3])
        yield from (one.version for each in written if (one := spot(each)))


def _metadata(operator: int, count: int) -> bytes:
    info = {"operatorId": operator, "operatorName": "stateStoreSave"}
    store = {"storeName": "default", "numColsPrefixKey": 0, "numPartitions": count}
    return b"v1\n" + json.dumps({"operatorInfo": info, "stateStoreInfo": [store]}).encode()


def _schema() -> bytes:
    return _utf("v2") + b"".join(
        struct.pack(">i", 1) + _utf(json.dumps(one)) for one in (_KEY, _VALUE)
    )


def _utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()
