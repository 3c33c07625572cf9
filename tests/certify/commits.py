"""Entries of the commit log, with and without unique ids."""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache

from tests.certify.world import World

_WATERMARK = 0


def commit_entry(ids: Mapping[str, Sequence[Sequence[str]]] | None = None) -> bytes:
    """Returns an entry, with the unique ids of each operator's partitions."""
    fields: dict[str, object] = {"nextBatchWatermarkMs": _WATERMARK}
    if ids is not None:
        fields["stateUniqueIds"] = ids
    version = "v1" if ids is None else "v2"
    return f"{version}\n{json.dumps(fields, separators=(',', ':'))}".encode()


def committed_id(world: World, store: str, version: int) -> str | None:
    """Returns the id of the attempt that a commit names: empty if it names none.

    `None` where there is no such commit, or none of this partition.
    """
    file = world.files.get(f"commits/{version - 1}")
    if file is None:
        return None
    ids, partition = _ids(file.content), int(store.split("/")[2])
    if ids is None:
        return ""
    return ids[partition] if partition < len(ids) else None


@lru_cache(maxsize=1 << 12)
def _ids(commit: bytes) -> tuple[str, ...] | None:
    found = json.loads(commit.partition(b"\n")[2]).get("stateUniqueIds", {}).get("0")
    return None if found is None else tuple(str(one[0]) for one in found)
