"""Everything of a savepoint but its state and its `metadata`, in the order of its writing.

    state/<op>/_metadata/metadata                   as it is
    state/<op>/_metadata/v2/<b>                     with the paths of its schema files changed
    state/<op>/_stateSchema/<store>/<b>_<uuid>      those schema files
    state/<op>/0[/<store>]/_metadata/schema         the schemas of stores without column families
    <folder>/_schema_log_<id>/                      those of a Delta table that a source follows
    sources/<i>/                                    the logs of the sources
    offsets/<N-1>, offsets/<N>                      Spark reads both when it starts
    commits/<N>

Spark writes the paths of schema files as `Path.toString` of the checkpoint's qualified address.
Mirrors `MicroBatchExecution.populateStartOffsets` and `OperatorStateMetadataV2Reader`.
"""

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from statemaint.codec.metadata import logs
from statemaint.errors import CodecError, DamagedError, in_file
from statemaint.model.checkpoint import Checkpoint
from statemaint.model.findings import FindingCode
from statemaint.savepoint.compactible import pieces, source_log_of
from statemaint.scan.query_logs import SOURCE_LOG_ADVICE
from statemaint.storage import Storage
from statemaint.storage.address import FORCED, local_path, place_of
from statemaint.storage.base import OURS, Chunks

_FOLDERS = frozenset({"commits", "offsets", "sources", "state", OURS})
_SCHEMA = re.compile(r"(.*)/state/[0-9]+/(_stateSchema/[^/]+/[^/]+)")
_SCHEMA_LOG = "/_schema_log_"
_NOTHING_READ = "-"  # `OffsetSeqLog.SERIALIZED_VOID_OFFSET`
_LOST = (
    ", and a restart would not know where to go on; save another batch, or put the entry back "
    "from a copy"
)
_NEEDED = (
    "is missing, and a restart from the savepoint would ask for it; save a newer batch, or put the "
    "entry back from a copy"
)


def logs_of(  # noqa: PLR0913 -- each is a fact of its own
    storage: Storage,
    checkpoint: Checkpoint,
    batch: int,
    *,
    to: str,
    ids: logs.UniqueIds,
    partitions: Mapping[int, int],
    conf: Mapping[str, str],
) -> Iterator[tuple[str, Chunks]]:
    """Yields every file but `metadata` and state that a restart after a batch asks for.

    They are in the order in which they are to be written: the entry of the commit log is the last.
    Logs of sources, schemas and metadata are read when they are iterated over. `ids` are those of
    the savepoint's files; `partitions` and `conf` have only what differs from the source.
    """
    entries = [number for number in (batch - 1, batch) if number >= 0]
    contents = {f"offsets/{entry}": offsets_of(storage, checkpoint, entry) for entry in entries}
    *earlier, read = (_offsets(path, content) for path, content in contents.items())
    path = f"commits/{batch}"
    commit = storage.read(path)
    with in_file(path):
        logs.check_commit(commit)
        same = logs.parse_commit(commit) == ids
        contents[path] = commit if same else logs.with_unique_ids(commit, ids)
    if conf:
        path = f"offsets/{batch}"
        contents[path] = logs.with_conf(contents[path], conf)
    yield from operator_files(storage, checkpoint, batch, to, partitions)
    yield from _schema_logs(storage)
    yield from _sources(storage, checkpoint, earlier, read)
    yield from ((path, [content]) for path, content in contents.items())


def offsets_of(storage: Storage, checkpoint: Checkpoint, batch: int) -> bytes:
    """Returns the entry of a batch in the offset log; raises `DamagedError` if there is none."""
    path = f"offsets/{batch}"
    if batch not in checkpoint.offsets:
        raise DamagedError(path, _NEEDED, code=FindingCode.UNREADABLE_OFFSET)
    return storage.read(path)


def unchecked_sources(path: str, entry: bytes) -> tuple[str, ...]:
    """Returns the sources that may be unable to go on after an entry of offsets, by their ids.

    Checked are file sources, whose log is saved with it, offsets by partition, as of Kafka, and
    sources that have not read anything.
    """
    offsets, unchecked = _offsets(path, entry), []
    for source, text in offsets.sources.items():
        if text == _NOTHING_READ or offsets.file_offset(source) is not None:
            continue
        offset = _parsed(text)
        if offset is None or _lacks_partitions(offset):
            shown = repr(text[:80]) if text else "nothing"
            detail = f"source {source} has {shown} in place of an offset{_LOST}"
            raise DamagedError(path, detail, code=FindingCode.UNREADABLE_OFFSET)
        if not _by_partition(offset):
            unchecked.append(source)
    return tuple(unchecked)


def _parsed(text: str) -> Any:
    """Returns an offset; the text itself if it is of a form of its own."""
    try:
        return json.loads(text or "null")
    except (ValueError, RecursionError):
        return text


def _by_partition(offset: Any) -> bool:
    """Returns whether an offset is of the form `{"topic":{"0":12}}`, if only in part.

    Mirrors `JsonUtils`.
    """
    topics = offset.values() if isinstance(offset, dict) else ()
    there = [topic for topic in topics if topic is not None]
    return bool(there) and all(
        isinstance(topic, dict)
        and all(map(str.isdecimal, topic))
        and not any(isinstance(number, dict | list) for number in topic.values())
        for topic in there
    )


def _lacks_partitions(offset: Any) -> bool:
    return _by_partition(offset) and not all(
        topic and isinstance(topic, dict) and all(type(number) is int for number in topic.values())
        for topic in offset.values()
    )


def _offsets(path: str, content: bytes) -> logs.Offsets:
    with in_file(path):
        return logs.parse_offsets(content)


def _schema_logs(storage: Storage) -> Iterator[tuple[str, Chunks]]:
    """Yields the schemas of Delta's tables, in the folder that the query has chosen for them."""
    for folder in sorted(set(storage.folders("")) - _FOLDERS):
        for entry in sorted(storage.list(folder), key=attrgetter("path")):
            if _SCHEMA_LOG in f"/{entry.path}" and not entry.name.startswith("."):
                yield entry.path, pieces(storage, entry.path)


def _sources(
    storage: Storage, checkpoint: Checkpoint, earlier: Sequence[logs.Offsets], read: logs.Offsets
) -> Iterator[tuple[str, Chunks]]:
    """Yields the logs of all sources: of a file source what it had read, of others every file."""
    files: dict[str, list[str]] = defaultdict(list)
    for entry in sorted(storage.list("sources"), key=attrgetter("path")):
        if not entry.name.startswith("."):
            files[entry.path.split("/")[1]].append(entry.path)
    if lost := sorted(read.file_sources.keys() - files.keys()):
        path, detail = f"sources/{lost[0]}", f"is missing: {SOURCE_LOG_ADVICE}"
        raise DamagedError(path, detail, code=FindingCode.MISSING_SOURCE_LOG)
    for source, paths in files.items():
        last = read.file_offset(source)
        if last is not None:
            before = [entry.file_offset(source) for entry in earlier]
            first = next((entry for entry in before if entry is not None), -1)
            yield from source_log_of(storage, source, first, last)
        # A file source that had not read anything finds its files again.
        elif source not in checkpoint.file_sources:
            yield from ((path, pieces(storage, path)) for path in paths)


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
        if older := [earlier for earlier in written if earlier <= batch]:
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
