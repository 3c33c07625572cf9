"""The query's own logs: the batches, their settings, and the commits.

The number of partitions varies once Spark has repartitioned the state. Mirrors
`OfflineStateRepartitionRunner` (Spark 4.3, RocksDB): it adds a batch whose offsets differ from
those before in `spark.sql.shuffle.partitions`, and writes a whole zip of its version for each new
partition. Files below that version, and files of partitions that are no longer used, are needed
only by the batches before.

Only file sources need their own log to restart. Mirrors `FileStreamSource.getBatch` and
`CompactibleFileStreamLog.allFiles`.

    sources/<i>/<n>[.compact]      the files that source i has seen; a compact entry replaces all
                                   before it as well
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from statemaint.codec.compression.base import Compression
from statemaint.codec.compression.registry import COMPRESSIONS, named
from statemaint.codec.metadata import logs
from statemaint.errors import CodecError, NotFoundError, UnsupportedError
from statemaint.listing import Entry
from statemaint.model.chain import Versions
from statemaint.model.checkpoint import MAINTAINED, Checkpoint, Provider
from statemaint.model.files import Delta, Snapshot, SstFile, StateFile
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import StoreId, version_of
from statemaint.scan.layout import Layout, sort_out
from statemaint.storage import Storage
from statemaint.workers import in_order

_BATCH = re.compile(r"0|[1-9][0-9]{0,18}")
_LAST_BATCH = 2**63 - 2  # a Java long, and so is the version after it
_NOTHING_PINNED = logs.Offsets({}, 0, {})

SETTING = "spark.sql.shuffle.partitions"
_STATE = "spark.sql.streaming.stateStore"
PROVIDER_CLASS = f"{_STATE}.providerClass"
COMPRESSION = f"{_STATE}.compression.codec"
ROW_CHECKSUMS = f"{_STATE}.rowChecksum.enabled"
"""In the offsets of Spark 4.2 and later."""
ENCODING = f"{_STATE}.encodingFormat"
"""In the offsets of Spark 4.0 and later."""
SINCE_3_5 = "spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan"
"""In the offsets of Spark 3.5.5 and later.

Sparks before 3.5 read no changelogs, and their RocksDB is too old for the files that ours writes.
The log does not distinguish them from 3.5.0 to 3.5.4.
"""

SOURCE_LOG_ADVICE = (
    "it records which files the file source has read: a restart fails, or rereads or skips files; "
    "put it back from a copy"
)
_SOURCE_ENTRY = re.compile(r"(0|[1-9][0-9]{0,17})(\.compact)?")

Notes = list[Finding]
"""The findings of the whole checkpoint, collected during a scan."""


def unreadable_metadata(error: CodecError, path: str) -> Finding:
    detail = str(error.at(path))
    return Finding(FindingCode.UNREADABLE_METADATA, detail, path=path, offset=error.offset)


def numbered(storage: Storage, folder: str) -> Iterator[tuple[int, Entry]]:
    """Yields a metadata log's entries; temp files and side files are not entries."""
    for entry in storage.list(folder):
        name = entry.path.removeprefix(f"{folder}/")
        if _BATCH.fullmatch(name) and int(name) <= _LAST_BATCH:
            yield int(name), entry


def caught_up(storage: Storage, checkpoint: Checkpoint) -> Checkpoint:
    """Returns a checkpoint without the batches that its query has purged since the scan began.

    The state is listed after the logs: it lacks what the query has cleaned up in the meantime, and
    has the snapshots of what it has committed.
    """
    commits, offsets = (dict(numbered(storage, folder)) for folder in ("commits", "offsets"))
    if checkpoint.committed not in commits:  # rewound, for one
        return checkpoint
    oldest, newest = min(commits), max(commits)
    batches = tuple(batch for batch in checkpoint.batches if batch >= oldest)
    reached = version_of(newest) if newest != checkpoint.committed else 0
    return replace(checkpoint, batches=batches, reached=reached, running=offsets.get(newest + 1))


def newest_offsets(storage: Storage, offsets: Mapping[int, Entry], notes: Notes) -> logs.Offsets:
    """Returns the newest entry of the offset log, or the newest one that can be read."""
    if not offsets:
        return _NOTHING_PINNED
    newest = offsets[max(offsets)].path
    try:
        return logs.parse_offsets(storage.read(newest))
    except CodecError as error:
        detail = f"{error.at(newest)}; codec and provider are uncertain, so nothing is touched"
        code = FindingCode.UNREADABLE_OFFSET
        notes.append(Finding(code, detail, path=newest, offset=error.offset))
    for batch in sorted(offsets, reverse=True)[1:]:  # the only evidence of provider and codec
        with suppress(CodecError, NotFoundError):
            return logs.parse_offsets(storage.read(offsets[batch].path))
    return _NOTHING_PINNED


def committed_partitions(
    storage: Storage,
    offsets: Mapping[int, Entry],
    commits: Mapping[int, Entry],
    conf: Mapping[str, str],
    notes: Notes,
) -> int | None:
    # Notes an uncommitted batch that was begun to change it, as only a repartition does (S20).
    pinned = _partitions(conf, notes)
    if not offsets or not commits or max(commits) >= max(offsets) or max(commits) not in offsets:
        return pinned
    committed = offsets[max(commits)].path
    try:
        before = logs.parse_conf(storage.read(committed)).get(SETTING)
    except NotFoundError:
        return pinned  # purged since it was listed: a newer batch is committed by now
    except CodecError as error:
        notes.append(Finding(FindingCode.UNREADABLE_OFFSET, str(error.at(committed))))
        return pinned
    if not conf or before == conf.get(SETTING):
        return pinned
    detail = (
        f"offsets/{max(offsets)} changes {SETTING} from {before} to {conf.get(SETTING)} and "
        "is not committed; let the repartition end (or run it again), nothing is touched before"
    )
    notes.append(Finding(FindingCode.UNFINISHED_REPARTITION, detail))
    return None if before is None else _partitions({SETTING: before}, notes)


def _partitions(conf: Mapping[str, str], notes: Notes) -> int | None:
    try:
        return count_in(conf)
    except CodecError:
        detail = f"offsets/: {conf[SETTING]!r} is not a valid number of shuffle partitions"
        notes.append(Finding(FindingCode.UNREADABLE_OFFSET, detail))
        return None


def count_in(conf: Mapping[str, str]) -> int | None:
    pinned = conf.get(SETTING)
    try:
        return None if pinned is None else logs.check_partitions(int(pinned))
    except ValueError as error:
        detail = f"{pinned!r} is not a valid number of shuffle partitions"
        raise CodecError(detail, offset=0) from error


def partition_counts(storage: Storage, batches: Iterable[int]) -> dict[int, int]:
    """Returns the number of partitions of each batch with readable offsets; reads all of them."""
    counts: dict[int, int] = {}
    for batch in batches:
        with suppress(CodecError, NotFoundError):
            count = count_in(logs.parse_conf(storage.read(f"offsets/{batch}")))
            counts |= {batch: count} if count else {}
    return counts


def may_have_changed(
    stores: Mapping[StoreId, Sequence[StateFile]],
    ids: Mapping[int, logs.UniqueIds],
    newest: int | None,
) -> bool:
    """Returns whether, by the listing, some batch may have another number of partitions."""
    # That leaves a mark on the highest partition: it is one too many, or has no files of the
    # batches that did not have it.
    if newest is None or not ids:
        return False
    if any(store.partition >= newest for store in stores):
        return True
    named = (pair for operators in ids.values() for pair in operators.items())
    if counts := {(operator, len(partitions)) for operator, partitions in named}:
        return len(counts) > len({operator for operator, _ in counts})
    high = max((store.partition for store in stores), default=0)
    first, last = version_of(min(ids)), version_of(max(ids))
    tops = (files for store, files in stores.items() if high and store.partition == high)
    # Spark's own clean-up may have deleted the oldest.
    return any(len(Versions.of(files).loadable(first + 1, last)) < last - first for files in tops)


def row_checksums_of(conf: Mapping[str, str], notes: Notes) -> bool:
    pinned = conf.get(ROW_CHECKSUMS, "false")
    value = pinned.strip().lower()
    if value not in ("true", "false"):
        detail = f"offsets/: {ROW_CHECKSUMS} cannot be {pinned!r}"
        notes.append(Finding(FindingCode.UNREADABLE_OFFSET, detail))
    return value == "true"


def committed_ids(
    storage: Storage, commits: Mapping[int, Entry], notes: Notes
) -> dict[int, logs.UniqueIds]:
    ids_by_batch = {}
    batches = sorted(commits)
    jobs = (partial(_ids_in, storage, commits[batch].path) for batch in batches)
    for batch, ids in zip(batches, in_order(jobs, threads=storage.parallel), strict=True):
        path = commits[batch].path
        if isinstance(ids, CodecError):
            detail = f"{ids.at(path)}; whether batch {batch} was committed is unknown"
            code, lost = FindingCode.UNREADABLE_COMMIT, (batch,)
            notes.append(Finding(code, detail, path=path, offset=ids.offset, batches=lost))
        elif ids is not None:
            ids_by_batch[batch] = ids
    return ids_by_batch


def _ids_in(storage: Storage, path: str) -> logs.UniqueIds | CodecError | None:
    try:
        return logs.parse_commit(storage.read(path))
    except NotFoundError:  # the query has purged it in the meantime
        return None
    except CodecError as error:
        return error


def query_id(storage: Storage, notes: Notes, *, begun: bool) -> str:
    try:
        return logs.parse_query_id(storage.read("metadata"))
    except NotFoundError:
        if begun:
            detail = (
                "metadata, which has the query's id, is missing: Spark 4.2 and later refuse to "
                "start a query that has batches without it, older ones give it a new id; put the "
                "file back from a copy"
            )
            notes.append(Finding(FindingCode.MISSING_METADATA, detail, path="metadata"))
        return ""
    except CodecError as error:
        notes.append(unreadable_metadata(error, "metadata"))
        return ""


# -- the logs of file sources


@dataclass(frozen=True, slots=True)
class SourceLog:
    """The log of one file source, or of a file sink."""

    folder: str
    entries: Mapping[int, str]  # the names by their numbers
    base: int  # the newest compact entry; 0 if there is none

    @classmethod
    def listed(cls, storage: Storage, folder: str) -> "SourceLog":
        names = (entry.path.removeprefix(f"{folder}/") for entry in storage.list(folder))
        listed = {int(it[1]): it for name in names if (it := _SOURCE_ENTRY.fullmatch(name))}
        base = max((number for number, match in listed.items() if match[2]), default=0)
        return cls(folder, {number: match[0] for number, match in listed.items()}, base)

    def missing(self, first: int, last: int) -> Finding | None:
        newest = max(self.entries, default=-1)
        numbers = range(max(newest, last), min(self.base, first + 1) - 1, -1)
        number = next((each for each in numbers if each not in self.entries), None)
        if number is None:
            return None
        path = f"{self.folder}/{number}" if self.entries else self.folder
        detail = f"{path} is missing: {SOURCE_LOG_ADVICE}"
        return Finding(FindingCode.MISSING_SOURCE_LOG, detail, path=path)


def missing_source_logs(storage: Storage, checkpoint: Checkpoint) -> Iterator[Finding]:
    """Yields the findings of the logs of file sources that their names alone show."""
    if not checkpoint.file_sources:
        return
    before: Mapping[str, int] = {}
    with suppress(NotFoundError, CodecError):  # `verify` reports them
        entry = storage.read(f"offsets/{checkpoint.offsets[-1] - 1}")
        before = logs.parse_offsets(entry).file_sources
    for source, last in checkpoint.file_sources.items():
        first = before.get(source, last if checkpoint.offsets[-1] else -1)
        if finding := SourceLog.listed(storage, f"sources/{source}").missing(first, last):
            yield finding


# -- provider and codec by the files of the state, if the offset log is lost


_TRIED = 3


def recognized(
    storage: Storage, conf: Mapping[str, str], entries: Iterable[Entry]
) -> tuple[Layout, str]:
    pinned, codec = conf.get(PROVIDER_CLASS), named(conf.get(COMPRESSION, "lz4"))
    name = (pinned or "").rpartition(".")[2]
    if pinned is not None and name not in MAINTAINED:
        what, possible = f"state store provider {name}", " and ".join(MAINTAINED)
        raise UnsupportedError(storage.root, what, possible)
    if codec is None:
        what, possible = f"{COMPRESSION}={conf[COMPRESSION]}", ", ".join(COMPRESSIONS)
        raise UnsupportedError(storage.root, what, possible)
    listed = [*entries]
    layout = sort_out(listed, provider_in(listed) if pinned is None else Provider(name))
    return layout, codec.name if conf else codec_in(storage, layout)


def provider_in(entries: Sequence[Entry]) -> Provider:
    """Returns the provider whose files a listing has; `UNKNOWN` if it has those of several."""
    present = []
    for provider in MAINTAINED:
        files = chain.from_iterable(sort_out(entries, provider).stores.values())
        if any(isinstance(file, Delta | Snapshot | SstFile) for file in files):
            present.append(provider)
    if len(present) > 1:
        return Provider.UNKNOWN
    # Without any state file it is Spark's default, which has nothing to read either.
    return present[0] if present else Provider.HDFS_BACKED


def codec_in(storage: Storage, layout: Layout) -> str:
    """Returns the only codec that decodes a change; Spark's default if no change shows it."""
    files = chain.from_iterable(layout.stores.values())
    changes = (file.entry for file in files if isinstance(file, Delta) and file.entry.size)
    for entry in sorted(changes, key=lambda entry: (entry.size, entry.path))[:_TRIED]:
        fitting = [each.name for each in COMPRESSIONS.values() if _begins(storage, entry, each)]
        if len(fitting) == 1:
            return fitting[0]
    return "lz4"


def _begins(storage: Storage, entry: Entry, compression: Compression) -> bool:
    try:
        with storage.open(entry.path) as stream:
            return next(compression.blocks(stream), None) is not None
    except (CodecError, NotFoundError):
        return False
