"""The query's own logs: the batches, their settings, and the commits."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

from statemaint.codec.compression.base import Compression
from statemaint.codec.compression.registry import COMPRESSIONS, named
from statemaint.codec.metadata import logs
from statemaint.errors import CodecError, NotFoundError, UnsupportedError
from statemaint.listing import Entry
from statemaint.model.checkpoint import MAINTAINED, Provider
from statemaint.model.files import Delta, Snapshot, SstFile
from statemaint.model.findings import Finding, FindingCode
from statemaint.scan.layout import Layout, sort_out
from statemaint.scan.partitions import SETTING, count_in
from statemaint.storage import Storage
from statemaint.workers import in_order

_BATCH = re.compile(r"0|[1-9][0-9]{0,18}")
_LAST_BATCH = 2**63 - 2  # a Java long, and so is the version after it
_NOTHING_PINNED = logs.Offsets({}, 0, {})

_STATE = "spark.sql.streaming.stateStore"
PROVIDER_CLASS = f"{_STATE}.providerClass"
COMPRESSION = f"{_STATE}.compression.codec"
ROW_CHECKSUMS = f"{_STATE}.rowChecksum.enabled"
"""In the offsets of Spark 4.2 and later."""
ENCODING = f"{_STATE}.encodingFormat"
"""In the offsets of Spark 4.0 and later."""

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


def newest_offsets(storage: Storage, offsets: Mapping[int, Entry], notes: Notes) -> logs.Offsets:
    """Returns the newest entry of the offset log, or the newest one that can be read."""
    if not offsets:
        return _NOTHING_PINNED
    newest = offsets[max(offsets)].path
    try:
        return logs.parse_offsets(storage.read(newest))
    except CodecError as error:
        detail = f"{error.at(newest)}; codec and provider are uncertain, so nothing is touched"
        notes.append(
            Finding(FindingCode.UNREADABLE_OFFSET, detail, path=newest, offset=error.offset)
        )
    return _older_offsets(storage, [offsets[one].path for one in sorted(offsets, reverse=True)[1:]])


def _older_offsets(storage: Storage, paths: Iterable[str]) -> logs.Offsets:
    """Returns the newest readable entry, the only evidence left of provider and codec."""
    for path in paths:
        with suppress(CodecError, NotFoundError):
            return logs.parse_offsets(storage.read(path))
    return _NOTHING_PINNED


def committed_partitions(
    storage: Storage,
    offsets: Mapping[int, Entry],
    commits: Mapping[int, Entry],
    conf: Mapping[str, str],
    notes: Notes,
) -> int | None:
    """Returns the number of partitions of the newest committed batch.

    Notes an uncommitted batch that was begun to change it (S20). Mirrors
    `OfflineStateRepartitionRunner`: such a batch differs from the one before in its
    `spark.sql.shuffle.partitions`, which no other batch ever does.
    """
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


def provider_of(root: str, conf: Mapping[str, str]) -> Provider:
    """Returns the pinned provider, `UNKNOWN` if none is.

    Raises:
        UnsupportedError: when it cannot be maintained.
    """
    pinned = conf.get(PROVIDER_CLASS)
    if pinned is None:
        return Provider.UNKNOWN
    name = pinned.rpartition(".")[2]
    found = next((one for one in MAINTAINED if one == name), None)
    if found is None:
        raise UnsupportedError(root, f"state store provider {name}", " and ".join(MAINTAINED))
    return found


def codec_of(root: str, conf: Mapping[str, str]) -> str:
    """Returns the short name of the codec; raises `UnsupportedError` if it cannot be read."""
    codec = named(conf.get(COMPRESSION, "lz4"))
    if codec is None:
        raise UnsupportedError(root, f"{COMPRESSION}={conf[COMPRESSION]}", ", ".join(COMPRESSIONS))
    return codec.name


def row_checksums_of(conf: Mapping[str, str], notes: Notes) -> bool:
    pinned = conf.get(ROW_CHECKSUMS, "false")
    value = pinned.strip().lower()
    if value not in ("true", "false"):
        notes.append(
            Finding(
                FindingCode.UNREADABLE_OFFSET, f"offsets/: {ROW_CHECKSUMS} cannot be {pinned!r}"
            )
        )
    return value == "true"


def committed_ids(
    storage: Storage, commits: Mapping[int, Entry], notes: Notes
) -> dict[int, logs.UniqueIds]:
    """Returns the unique ids in each commit; notes each commit that cannot be read."""
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
    """Returns the unique ids in a commit; `None` if the query has purged it in the meantime."""
    try:
        return logs.parse_commit(storage.read(path))
    except NotFoundError:
        return None
    except CodecError as error:
        return error


def query_id(storage: Storage, notes: Notes, *, begun: bool) -> str:
    """Returns the query's id; notes that it is missing once the query has begun a batch."""
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


# -- provider and codec by the files of the state, if the offset log is lost


_TRIED = 3


def recognized(
    storage: Storage, conf: Mapping[str, str], entries: Iterable[Entry]
) -> tuple[Layout, str]:
    """Returns the layout of the state and its codec, by the settings of the log or by the files."""
    pinned, codec, listed = (
        provider_of(storage.root, conf),
        codec_of(storage.root, conf),
        [*entries],
    )
    layout = sort_out(listed, provider_in(listed) if pinned is Provider.UNKNOWN else pinned)
    return layout, codec if conf else codec_in(storage, layout)


def provider_in(entries: Sequence[Entry]) -> Provider:
    """Returns the provider whose files a listing has; `UNKNOWN` if it has those of several.

    Without any state file it is Spark's default, which has nothing to read either.
    """
    there = [one for one in MAINTAINED if _has_files_of(one, entries)]
    if len(there) > 1:
        return Provider.UNKNOWN
    return there[0] if there else Provider.HDFS_BACKED


def _has_files_of(provider: Provider, entries: Sequence[Entry]) -> bool:
    stores = sort_out(entries, provider).stores.values()
    return any(isinstance(file, Delta | Snapshot | SstFile) for files in stores for file in files)


def codec_in(storage: Storage, layout: Layout) -> str:
    """Returns the only codec that decodes a change; Spark's default if no change shows it."""
    files = (file for files in layout.stores.values() for file in files)
    changes = (file.entry for file in files if isinstance(file, Delta) and file.entry.size)
    for entry in sorted(changes, key=lambda one: (one.size, one.path))[:_TRIED]:
        fitting = [one.name for one in COMPRESSIONS.values() if _begins(storage, entry, one)]
        if len(fitting) == 1:
            return fitting[0]
    return "lz4"


def _begins(storage: Storage, entry: Entry, compression: Compression) -> bool:
    """Returns whether a file begins with a block of a compression."""
    try:
        with storage.open(entry.path) as stream:
            return next(compression.blocks(stream), None) is not None
    except (CodecError, NotFoundError):
        return False
