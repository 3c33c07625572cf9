"""Everything of a savepoint but its state and its `metadata`, in the order of its writing.

    state/<op>/...                operator metadata and schema files
    <folder>/_schema_log_<id>/    the schemas of a Delta table that a source follows
    sources/<i>/                  the logs of the sources
    offsets/<N-1>, offsets/<N>    Spark reads both when it starts
    commits/<N>

Mirrors `MicroBatchExecution.populateStartOffsets` and `OperatorStateMetadataV2Reader`.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from statemaint.codec.metadata import logs
from statemaint.errors import DamagedError, in_file
from statemaint.model.checkpoint import Checkpoint
from statemaint.model.findings import FindingCode
from statemaint.savepoint.compactible import pieces, source_log_of
from statemaint.savepoint.operators import operator_files
from statemaint.scan.source_logs import ADVICE
from statemaint.storage import Storage
from statemaint.storage.base import OURS, Chunks

_FOLDERS = frozenset({"commits", "offsets", "sources", "state", OURS})
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
    Logs of sources, schemas and metadata are read when they are iterated over.

    Args:
        storage: the storage of the source.
        checkpoint: its scan.
        batch: a committed batch.
        to: the address of the savepoint, which its operator metadata name.
        ids: the unique ids of the savepoint's files; empty if they have none.
        partitions: the number of partitions of those operators that get another one.
        conf: the settings that the offsets pin other than those of the source.
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
    """Returns whether an offset is of the form `{"topic":{"0":12}}`. Mirrors `JsonUtils`."""
    return isinstance(offset, dict) and any(
        isinstance(topic, dict) and all(map(str.isdecimal, topic)) for topic in offset.values()
    )


def _lacks_partitions(offset: Any) -> bool:
    return _by_partition(offset) and not all(
        topic and isinstance(topic, dict) and all(type(one) is int for one in topic.values())
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
        path, detail = f"sources/{lost[0]}", f"is missing: {ADVICE}"
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
