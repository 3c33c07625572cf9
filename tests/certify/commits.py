"""Entries of the commit log, with and without unique ids."""

import json
from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache

from tests.certify.world import World

_WATERMARK = 0


def commit_entry(ids: Mapping[str, str] | None = None) -> bytes:
    """Returns an entry, with the unique id of each store."""
    fields: dict[str, object] = {"nextBatchWatermarkMs": _WATERMARK}
    if ids is not None:
        named: dict[str, list[list[str]]] = defaultdict(list)
        for _, store in sorted((tuple(map(int, one.split("/")[1:3])), one) for one in ids):
            named[store.split("/")[1]].append([ids[store]])
        fields["stateUniqueIds"] = named
    version = "v1" if ids is None else "v2"
    return f"{version}\n{json.dumps(fields, separators=(',', ':'))}".encode()


def committed_id(world: World, store: str, version: int) -> str | None:
    """Returns the id of the attempt that a commit names: empty if it names none.

    `None` where there is no such commit, or none of this partition.
    """
    file = world.files.get(f"commits/{version - 1}")
    if file is None:
        return None
    found, (operator, partition) = _ids(file.content), store.split("/")[1:3]
    if not found:
        return ""
    ids = found.get(operator, ())
    return ids[int(partition)] if int(partition) < len(ids) else None


@lru_cache(maxsize=1 << 12)
def _ids(commit: bytes) -> Mapping[str, tuple[str, ...]]:
    fields = json.loads(commit.partition(b"\n")[2]).get("stateUniqueIds", {})
    return {operator: tuple(str(one[0]) for one in ids) for operator, ids in fields.items()}
