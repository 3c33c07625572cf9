"""What operators know of themselves, moved to another checkpoint.

    state/<op>/_metadata/metadata                   as it is
    state/<op>/_metadata/v2/<b>                     with the paths of its schema files changed
    state/<op>/_stateSchema/<store>/<b>_<uuid>      those schema files
    state/<op>/0[/<store>]/_metadata/schema         the schemas of stores without column families

Spark writes the paths of schema files as `Path.toString` of the checkpoint's qualified address.
"""

import os
import re
from collections.abc import Iterator, Mapping

from statemaint.codec.metadata import logs
from statemaint.errors import CodecError, DamagedError, in_file
from statemaint.model.checkpoint import Checkpoint
from statemaint.model.findings import FindingCode
from statemaint.savepoint.compactible import pieces
from statemaint.storage import Storage
from statemaint.storage.address import FORCED, local_path, place_of
from statemaint.storage.base import Chunks

_SCHEMA = re.compile(r"(.*)/state/[0-9]+/(_stateSchema/[^/]+/[^/]+)")


def operator_files(
    storage: Storage,
    checkpoint: Checkpoint,
    batch: int,
    to: str,
    partitions: Mapping[int, int],
) -> Iterator[tuple[str, Chunks]]:
    """Yields metadata and schemas of the operators; `partitions` has the numbers that change."""
    operators = sorted({store.id.operator for store in checkpoint.stores})
    for store, entry in sorted(checkpoint.schemas.items()):
        if store.operator in operators:
            yield entry.path, pieces(storage, entry.path)
    for operator in operators:
        folder = f"state/{operator}/_metadata"
        there = {entry.path for entry in storage.list(folder)}
        count = partitions.get(operator)
        if (path := f"{folder}/metadata") in there:
            content: Chunks = pieces(storage, path)
            if count is not None:
                with in_file(path):
                    content = [logs.with_stores(storage.read(path), partitions=count)]
            yield path, content
        names = (path.removeprefix(f"{folder}/v2/") for path in there)
        written = [int(name) for name in names if re.fullmatch(r"[0-9]{1,18}", name)]
        if older := [one for one in written if one <= batch]:
            yield from _described(storage, operator, f"{folder}/v2/{max(older)}", to, count)
        elif written:
            detail = (
                f"all entries are of batches above {batch}, and a restart after it would find "
                f"none; save batch {min(written)} or a newer one"
            )
            raise DamagedError(f"{folder}/v2", detail, code=FindingCode.UNREADABLE_METADATA)


def _described(
    storage: Storage, operator: int, path: str, to: str, partitions: int | None
) -> Iterator[tuple[str, Chunks]]:
    content = storage.read(path)
    with in_file(path):
        schemas = logs.parse_state_metadata(content).schemas
        moved = logs.with_stores(
            content, moved=lambda old: _moved(old, operator, to), partitions=partitions
        )
    for store, names in sorted(schemas.items()):
        folder = f"state/{operator}/_stateSchema/{store}"
        there = {entry.name for entry in storage.list(folder)}
        # Spark deletes the schemas before the oldest batch of its log, and reads the last.
        if names and names[-1] not in there:
            detail = f"is missing, although {path} names it: put it back from a copy"
            missing = f"{folder}/{names[-1]}"
            raise DamagedError(missing, detail, code=FindingCode.UNREADABLE_METADATA)
        for name in names:
            if name in there:
                yield f"{folder}/{name}", pieces(storage, f"{folder}/{name}")
    yield path, [moved]


def _moved(path: str, operator: int, to: str) -> str:
    match = _SCHEMA.fullmatch(path)
    if not match:
        raise CodecError(f"{path[:200]!r} is not the path of a schema file", offset=0)
    return f"{address_like(match[1], to)}/state/{operator}/{match[2]}"


def address_like(written: str, to: str) -> str:
    """Returns an address in the form in which Spark wrote another one.

    On the same host the scheme, and the port, are those that Spark used. On S3 the scheme is, and
    `s3a` for a checkpoint that comes from elsewhere: Hadoop has no other.
    """
    scheme, _, rest = to.removeprefix(FORCED).partition("://")
    authority, _, path = rest.partition("/")
    ours, theirs = place_of(to), place_of(written)
    if ours.system == "file":
        return f"file:{os.path.abspath(local_path(to))}"  # noqa: PTH100 -- links stay
    there, _, others = written.partition("://")
    if ours.system == "s3":
        scheme = there if theirs.system == "s3" else "s3a"
    elif ours.system == theirs.system and ours.host in ("", theirs.host):
        scheme, authority = there, others.partition("/")[0]
    return f"{scheme}://{authority}" + "".join(f"/{name}" for name in path.split("/") if name)
