"""Entries of the commit log, with and without unique ids."""

import json
from collections import defaultdict
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


def ids_of(attempts: Mapping[str, str | None]) -> dict[str, list[list[str]]]:
    """Returns the ids in an entry: of each operator, those of its partitions, by their stores."""
    found: dict[str, list[list[str]]] = defaultdict(list)
    for store, unique in sorted(attempts.items()):  # no query has ten partitions
        found[store.split("/")[1]].append([str(unique)])
    return found


def committed_id(world: World, store: str, version: int) -> str | None:
    """Returns the id of the attempt that a commit names: empty if it names none.

    `None` where there is no such commit, or none of this partition.
    """
    file = world.files.get(f"commits/{version - 1}")
    if file is None:
        return None
    operator, partition = store.split("/")[1:3]
    ids = _ids(file.content).get(operator)
    if ids is None:
        return ""
    return ids[int(partition)] if int(partition) < len(ids) else None


@lru_cache(maxsize=1 << 12)
def _ids(commit: bytes) -> dict[str, tuple[str, ...]]:
    found = json.loads(commit.partition(b"\n")[2]).get("stateUniqueIds", {})
    return {operator: tuple(str(one[0]) for one in ids) for operator, ids in found.items()}
