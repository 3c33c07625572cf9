"""The event logs of a query's applications: one file each, or a folder of parts that follow."""

import re
from collections import defaultdict
from collections.abc import Iterator

from statemaint.codec.compression.base import decode
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.metadata.event_log import PastRestart, restarts
from statemaint.errors import CodecError, ConfigError
from statemaint.listing import Entry
from statemaint.storage import Storage

_PART = re.compile(r"events_([0-9]+)_")
_PIECE = 1024 * 1024
_NOT_EVENTS = ("appstatus_", ".", "_")


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
    found = [
        restart
        for parts in applications.values()
        for restart in restarts(_lines(logs, sorted(parts, key=_number)), query_id)
    ]
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
