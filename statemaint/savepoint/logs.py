"""Everything of a savepoint but its state and its `metadata`, in the order of its writing.

    state/<op>/...                operator metadata and schema files
    <folder>/_schema_log_<id>/    the schemas of a Delta table that a source follows
    sources/<i>/                  the logs of the sources
    offsets/<N-1>, offsets/<N>    Spark reads both when it starts
    commits/<N>

Mirrors `MicroBatchExecution.populateStartOffsets` and `OperatorStateMetadataV2Reader`.
"""

from collections import defaultdict
from collections.abc import Iterator

from statemaint.codec.metadata import logs
from statemaint.errors import CodecError, DamagedError
from statemaint.model.checkpoint import Checkpoint
from statemaint.model.findings import FindingCode
from statemaint.savepoint.compactible import pieces, source_log_of
from statemaint.savepoint.operators import operator_files
from statemaint.scan.source_logs import ADVICE
from statemaint.storage import Storage
from statemaint.storage.base import OURS, Chunks

_FOLDERS = frozenset({"commits", "offsets", "sources", "state", OURS})
_SCHEMA_LOG = "/_schema_log_"
_NEEDED = (
    "is missing, and a restart from the savepoint would ask for it; save a newer batch, or put the "
    "entry back from a copy"
)


def logs_of(
    storage: Storage, checkpoint: Checkpoint, batch: int, *, to: str, ids: logs.UniqueIds
) -> Iterator[tuple[str, Chunks]]:
    """Yields every file but `metadata` and state that a restart after a batch asks for.

    They are in the order in which they are to be written: the entry of the commit log is the last.
    A file is read when its content is iterated over.

    Args:
        storage: the storage of the source, which is only read.
        checkpoint: its scan.
        batch: a committed batch.
        to: the address of the savepoint, which its operator metadata name.
        ids: the unique ids of the savepoint's files; empty if the query has none.

    Raises:
        DamagedError: when a file is missing that a restart after the batch asks for.
        CodecError: when one cannot be read.
        NotFoundError: when one was deleted in the meantime.
    """
    for entry in (batch - 1, batch):
        if entry >= 0 and entry not in checkpoint.offsets:
            raise DamagedError(f"offsets/{entry}", _NEEDED, code=FindingCode.UNREADABLE_OFFSET)
    read = _offsets(storage, batch)
    before = _offsets(storage, batch - 1) if batch else None
    commit = _commit(storage, batch, ids)
    yield from operator_files(storage, checkpoint, batch, to)
    yield from _schema_logs(storage)
    yield from _sources(storage, checkpoint, before, read)
    if batch:
        yield f"offsets/{batch - 1}", pieces(storage, f"offsets/{batch - 1}")
    yield f"offsets/{batch}", pieces(storage, f"offsets/{batch}")
    yield f"commits/{batch}", [commit]


def _offsets(storage: Storage, batch: int) -> logs.Offsets:
    path = f"offsets/{batch}"
    content = storage.read(path)
    try:
        return logs.parse_offsets(content)
    except CodecError as error:
        raise error.at(path) from error


def _commit(storage: Storage, batch: int, ids: logs.UniqueIds) -> bytes:
    path = f"commits/{batch}"
    content = storage.read(path)
    try:
        logs.check_commit(content)
        return logs.with_unique_ids(content, ids) if ids else content
    except CodecError as error:
        raise error.at(path) from error


def _schema_logs(storage: Storage) -> Iterator[tuple[str, Chunks]]:
    """Yields the schemas of Delta's tables, in the folder that the query has chosen for them."""
    for folder in sorted(set(storage.folders("")) - _FOLDERS):
        for entry in sorted(storage.list(folder), key=lambda one: one.path):
            if _SCHEMA_LOG in f"/{entry.path}" and not entry.name.startswith("."):
                yield entry.path, pieces(storage, entry.path)


def _sources(
    storage: Storage, checkpoint: Checkpoint, before: logs.Offsets | None, read: logs.Offsets
) -> Iterator[tuple[str, Chunks]]:
    """Yields the logs of all sources: of a file source what it had read, of others every file."""
    files: dict[str, list[str]] = defaultdict(list)
    for entry in sorted(storage.list("sources"), key=lambda one: one.path):
        if not entry.name.startswith("."):
            files[entry.path.split("/")[1]].append(entry.path)
    if lost := sorted(read.file_sources.keys() - files.keys()):
        path, detail = f"sources/{lost[0]}", f"is missing: {ADVICE}"
        raise DamagedError(path, detail, code=FindingCode.MISSING_SOURCE_LOG)
    for source, paths in files.items():
        last = read.file_offset(source)
        if last is not None:
            earlier = before.file_offset(source) if before else None
            yield from source_log_of(storage, source, -1 if earlier is None else earlier, last)
        # A file source that had not read anything finds its files again.
        elif source not in checkpoint.file_sources:
            yield from ((path, pieces(storage, path)) for path in paths)
