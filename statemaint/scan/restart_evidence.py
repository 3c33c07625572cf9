"""What the forecast of restarts reads: the size of a record, and what past restarts took."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from statemaint.codec.compression.base import decode
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.hdfs import records
from statemaint.codec.metadata.event_log import PastRestart, restarts
from statemaint.codec.rocksdb import changelog
from statemaint.errors import CodecError, ConfigError, StorageError
from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Provider
from statemaint.model.restart_time import record_size
from statemaint.storage import Storage

_PART = re.compile(r"events_([0-9]+)_")
_PIECE = 1024 * 1024
_NOT_EVENTS = ("appstatus_", ".", "_")
# Large enough that the file's frame does not count, small enough to be read beside a scan.
_LIKED, _MOST = 256 * 1024, 16 * 1024 * 1024


def with_record_size(storage: Storage, checkpoint: Checkpoint) -> Checkpoint:
    """Returns the checkpoint with the size of its records, as far as one readable change shows.

    It is read only where no proof of a snapshot has it.
    """
    version, entries = checkpoint.target, list[Entry]()
    for store in checkpoint.stores:
        chain = store.versions.chain(version) if version else None
        if isinstance(chain, Chain):
            entries += (it.entry for it in chain.deltas if it.entry.size <= _MOST)
    entry = max(entries, key=lambda entry: (-max(0, entry.size - _LIKED), entry.size), default=None)
    if entry is None or record_size(checkpoint.stores):
        return checkpoint
    try:
        with storage.open(entry.path) as stream:
            payload = decode(COMPRESSIONS[checkpoint.codec], stream)
            found: Iterable[object] = (
                changelog.decode(payload, row_checksums=checkpoint.row_checksums)[1]
                if checkpoint.provider is Provider.ROCKSDB
                else records.decode(payload, row_checksums=checkpoint.row_checksums)
            )
            count = sum(1 for _ in found)
    except (CodecError, StorageError):
        return checkpoint  # whoever needs the file reports it
    return replace(checkpoint, record_size=entry.size / count if count else None)


# -- the event logs of applications: one file each, or a folder of parts that follow


def past_restarts(logs: Storage, query_id: str) -> tuple[PastRestart, ...]:
    """Returns the restarts of a query in the event logs below a folder, the oldest first.

    Mirrors `EventLogFileReader`. An application that still runs counts as far as it has written.
    """
    applications: dict[str, list[Entry]] = defaultdict(list)
    for entry in logs.list(""):
        folder, _, name = entry.path.rpartition("/")
        if not name.startswith(_NOT_EVENTS):
            applications[folder if _PART.match(name) else entry.path].append(entry)
    if not applications:
        raise ConfigError(f"{logs.root}: no event log of Spark is there (spark.eventLog.dir)")
    lines = (_lines(logs, sorted(parts, key=_number)) for parts in applications.values())
    found = (restart for of_one in lines for restart in restarts(of_one, query_id))
    return tuple(sorted(found, key=lambda restart: restart.began))


def _number(entry: Entry) -> int:
    found = _PART.match(entry.name)
    return int(found[1]) if found else 0


def _lines(logs: Storage, parts: list[Entry]) -> Iterator[bytes]:
    for part in parts:
        rest = b""
        for piece in _pieces(logs, part.path):
            *lines, rest = (rest + piece).split(b"\n")
            yield from lines
        yield rest


def _pieces(logs: Storage, path: str) -> Iterator[bytes]:
    compression = COMPRESSIONS.get(path.removesuffix(".inprogress").rpartition(".")[2])
    with logs.open(path) as stream:
        if compression is None:
            yield from iter(lambda: stream.read(_PIECE), b"")
            return
        try:
            yield from decode(compression, stream)
        except CodecError:
            return  # it ends in the middle of a block while its application runs
