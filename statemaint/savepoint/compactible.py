"""The logs of file sources and file sinks, as a restart after a batch reads them.

    <log>/<n>           what one batch has added, a line each
    <log>/<k>.compact   the same, and everything before it

Spark derives the interval of compactions from the names: it is the difference of the two newest
compact entries, or, of a single one, the first divisor of its number plus one that is not below the
session's setting. A compact entry without lines, one interval below the newest, therefore keeps the
interval whatever the setting is. Nothing reads it: the newest replaces all before it. Mirrors
`CompactibleFileStreamLog`.
"""

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from typing import BinaryIO

from statemaint.errors import CheckpointError, CodecError, ConfigError, DamagedError
from statemaint.model.findings import FindingCode
from statemaint.scan.query_logs import SOURCE_LOG_ADVICE, SourceLog
from statemaint.storage import Storage
from statemaint.storage.base import Chunks

_NO_LINES = b"v1"
_SINK_LOG = "_spark_metadata"
# spark.sql.streaming.fileSource.log.compactInterval, and fileSink.log.compactInterval
_DEFAULT_INTERVAL = 10
_PIECE = 1024 * 1024
_LONGEST_LINE = 1024 * 1024


def pieces(storage: Storage, path: str) -> Iterator[bytes]:
    """Yields the content of a file, which is opened with the first piece."""
    with storage.open(path) as stream:
        yield from iter(lambda: stream.read(_PIECE), b"")


def source_log_of(
    storage: Storage, source: str, first: int, last: int
) -> Iterator[tuple[str, Chunks]]:
    """Yields the entries of a file source's log that a restart reads, and none above them.

    `first` is the entry that the batch before ended with, -1 if it had not read the source; `last`
    the one that the batch ended with. `source` is the name of the source's folder.
    """
    log = SourceLog.listed(storage, f"sources/{source}")
    compacts = _compacts(log)
    interval = _interval(compacts, last)
    base = max((number for number in compacts if number <= last), default=-1)
    above = next((number for number in compacts if number > last), None)
    below = {number: name for number, name in log.entries.items() if number <= last}
    finding = SourceLog(log.folder, below, max(base, 0)).missing(first, last)
    if finding is None:
        start = max(min(base, first + 1), 0)
        if not interval or base - interval < start:
            yield from _pinned(log.folder, base, last, interval)
        for number in range(start, last + 1):
            path = f"{log.folder}/{below[number]}"
            yield path, pieces(storage, path)
    elif above is None:
        raise DamagedError(finding.path or log.folder, finding.detail, code=finding.code)
    else:
        path = f"{log.folder}/{log.entries[above]}"
        yield from _filtered(storage, path, last, interval)


def sink_log_of(batch: int) -> Iterator[tuple[str, Chunks]]:
    """Yields the log of an empty file sink that continues after a batch, by paths in its folder.

    The sink skips the batches of its log, and its next compaction reads the entries of the last.
    """
    base = _compact_below(batch, _DEFAULT_INTERVAL)
    yield from _pinned(_SINK_LOG, base, batch, _DEFAULT_INTERVAL)
    if base >= 0:
        yield f"{_SINK_LOG}/{base}.compact", [_NO_LINES]
    yield from ((f"{_SINK_LOG}/{number}", [_NO_LINES]) for number in range(base + 1, batch + 1))


def check_sink_empty(sink: Storage, batches: Iterable[int]) -> None:
    """Refuses a sink's folder that has more than what a killed run of one of the batches left."""
    ours = {path for batch in batches for path, _ in sink_log_of(batch)}
    for entry in sink.list(""):
        if entry.path not in ours or entry.size != len(_NO_LINES):
            detail = f"the folder of the sink is not empty, it has {entry.path}; give a new one"
            raise ConfigError(f"{sink.root}: {detail}")


def write_sink_log(sink: Storage, batch: int) -> None:
    sink.create_root()
    for path, chunks in sink_log_of(batch):
        sink.write(path, chunks, overwrite=True)


def add_to_sink_log(sink: Storage, batch: int) -> None:
    """Adds a committed batch without output, such as `bootstrap` makes, to a file sink's log.

    A file sink and the readers of its folder fail at a batch that is missing from the log
    (BATCH_METADATA_NOT_FOUND). Call this after the batch is committed, for one batch at a time, and
    before the query runs: it would skip a batch in this log. A second call changes nothing.

    If nothing in the log shows the interval of compactions, it is Spark's default, 10.

    Args:
        sink: the folder that the query writes its files to.
        batch: the batch after the newest one in the log.

    Raises:
        ConfigError: when the newest batch in the log is not the one before, or has output.
        CheckpointError: when an entry is missing that a compaction reads.
        StorageError: when the storage fails.
    """
    if not lacks_batch(sink, batch):
        return
    log = SourceLog.listed(sink, _SINK_LOG)
    name, content = str(batch), iter([_NO_LINES])
    if (batch + 1) % (interval := _interval_of_sink(_compacts(log))) == 0:
        before = range(max(batch - interval, 0), batch)
        name, content = f"{batch}.compact", _joined(sink, log, before)
    # A batch that was rewound may have left this file: Hadoop would compare it with ours.
    sink.delete(f"{_SINK_LOG}/.{name}.crc")
    sink.write(f"{_SINK_LOG}/{name}", content)


def lacks_batch(sink: Storage, batch: int) -> bool:
    """Returns whether `add_to_sink_log` adds a batch; raises its `ConfigError`."""
    entries = SourceLog.listed(sink, _SINK_LOG).entries
    newest = max(entries, default=None)
    if newest not in (batch, batch - 1):
        found = "no entries" if newest is None else f"{newest} as its newest entry"
        text = f"{_SINK_LOG} has {found}, where batch {batch} follows batch {batch - 1}"
        raise ConfigError(f"{sink.root}: {text}; give the folder that this query writes to")
    path = f"{_SINK_LOG}/{batch}"
    if entries.get(batch) == str(batch) and sink.stat(path).size != len(_NO_LINES):
        raise ConfigError(
            f"{sink.root}: {path} has output of a batch {batch} that was rolled back: the query "
            "would write it again as another batch; delete this entry, and Spark ignores its files"
        )
    return newest != batch


def _interval_of_sink(compacts: Sequence[int]) -> int:
    """Returns the interval of compactions that Spark derives with its default setting."""
    if not compacts:
        return _DEFAULT_INTERVAL
    whole = compacts[-1] + 1
    half = whole // 2 if whole // 2 > _DEFAULT_INTERVAL else 0
    divisors = (each for each in range(_DEFAULT_INTERVAL, half + 1) if whole % each == 0)
    return _interval(compacts, compacts[-1]) or next(divisors, whole)


def _joined(sink: Storage, log: SourceLog, numbers: Iterable[int]) -> Iterator[bytes]:
    """Yields a compact entry with the lines of others."""
    yield _NO_LINES
    for number in numbers:
        path = f"{log.folder}/{log.entries.get(number, number)}"
        if number not in log.entries:
            raise CheckpointError(path, "it is missing, and a compaction reads it")
        with _opened(sink, path) as stream:
            lines = iter(partial(stream.read, _PIECE), b"")
            yield from chain((b"\n" + first for first in islice(lines, 1)), lines)


def _compacts(log: SourceLog) -> list[int]:
    return sorted(number for number, name in log.entries.items() if "." in name)


def _interval(compacts: Sequence[int], last: int) -> int | None:
    """Returns the interval of compactions around an entry; `None` if no two names show it."""
    if len(compacts) < 2:  # noqa: PLR2004 -- an interval has two ends
        return None
    start = min(max(bisect_right(compacts, last) - 1, 0), len(compacts) - 2)
    return compacts[start + 1] - compacts[start]


def _compact_below(last: int, interval: int) -> int:
    """Returns the number of the newest compact entry up to one; -1 if there is none yet."""
    return (last + 1) // interval * interval - 1


def _pinned(
    folder: str, base: int, last: int, interval: int | None
) -> Iterator[tuple[str, Chunks]]:
    """Yields the compact entry without lines that keeps an interval, if it is needed."""
    if interval and interval <= base and base == _compact_below(last, interval):
        yield f"{folder}/{base - interval}.compact", [_NO_LINES]


def _filtered(
    storage: Storage, path: str, last: int, interval: int | None
) -> Iterator[tuple[str, Chunks]]:
    """Yields the entries up to one, made of the lines of a compact entry above it.

    Each entry is a reading of the whole file, which may not fit in memory. Without a known interval
    there is one compact entry, as whatever interval Spark derives from its name leads to it.
    """
    folder = path.rpartition("/")[0]
    base = _compact_below(last, interval) if interval else last
    first = min(base + 1, last)
    batches = {batch for batch, _ in _lines(storage, path) if first <= batch <= last}
    if len(batches) < last + 1 - first:
        detail = f"it has no line of an entry between {first} and {last}: {SOURCE_LOG_ADVICE}"
        raise DamagedError(path, detail, code=FindingCode.MISSING_SOURCE_LOG)
    yield from _pinned(folder, base, last, interval)
    if base >= 0:
        yield f"{folder}/{base}.compact", _selected(storage, path, lambda batch: batch <= base)
    for number in range(base + 1, last + 1):
        yield f"{folder}/{number}", _selected(storage, path, number.__eq__)


def _selected(storage: Storage, path: str, wanted: Callable[[int], bool]) -> Iterator[bytes]:
    """Yields an entry with those lines of another whose batch is wanted."""
    yield _NO_LINES
    yield from (b"\n" + line for batch, line in _lines(storage, path) if wanted(batch))


@contextmanager
def _opened(storage: Storage, path: str) -> Iterator[BinaryIO]:
    """Opens an entry at its first line after the version."""
    with storage.open(path) as stream:
        if stream.readline(_LONGEST_LINE).rstrip(b"\n") != _NO_LINES:
            raise CodecError("the version line is not v1", offset=0, path=path)
        yield stream


def _lines(storage: Storage, path: str) -> Iterator[tuple[int, bytes]]:
    """Yields the lines of an entry, each with the batch that has added it."""
    with _opened(storage, path) as stream:
        for line in iter(lambda: stream.readline(_LONGEST_LINE), b""):
            try:
                yield int(json.loads(line)["batchId"]), line.rstrip(b"\n")
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                offset = stream.tell() - len(line)
                raise CodecError(
                    f"not a line of a source's log: {error!r}", offset=offset, path=path
                ) from error
