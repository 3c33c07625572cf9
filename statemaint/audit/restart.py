"""What a restart reads before any state, and the bad snapshots that it may pass over.

Before any state it reads the newest two offsets, and source logs:

    offsets/<b>, offsets/<b - 1>   of the newest batch b
    sources/<i>/<n>[.compact]      the files that source i has seen: v1, then a JSON line for each;
                                   a compact entry replaces all before it as well

Mirrors `MicroBatchExecution.populateStartOffsets`; `scan.query_logs` has the rules of the second.
Snapshots are passed over by Spark 4.2 and later, as in `AutoSnapshotLoader.loadSnapshot`.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import BinaryIO

from statemaint.codec.metadata import logs
from statemaint.errors import CodecError, NotFoundError
from statemaint.model.checkpoint import Checkpoint, Provider
from statemaint.model.files import ChecksumFile, Snapshot
from statemaint.model.findings import Finding, FindingCode
from statemaint.plan.findings.restart import (
    OF_SNAPSHOTS,
    is_replayable,
    names_snapshot,
    resumes,
)
from statemaint.scan.query_logs import SOURCE_LOG_ADVICE, SourceLog
from statemaint.storage import Storage, Without

Findings = tuple[Finding, ...]

_PIECE = 1024 * 1024
# Each line names one file; Hadoop's file systems allow names of a few thousand bytes.
_LONGEST = 4 * 1024 * 1024


def restart_logs(storage: Storage, checkpoint: Checkpoint, *, whole: bool) -> Iterator[Finding]:
    """Yields the findings of the logs that a restart reads; `whole` also reads sources' entries."""
    if not checkpoint.offsets:
        return
    newest = checkpoint.offsets[-1]
    end, start = _offsets(storage, newest), _offsets(storage, newest - 1) if newest else None
    if isinstance(start, CodecError):
        detail = f"{start}; a restart reads the newest two entries; put the file back from a copy"
        code, path = FindingCode.UNREADABLE_OFFSET, f"offsets/{newest - 1}"
        yield Finding(code, detail, path=path, offset=start.offset)
    if isinstance(end, logs.Offsets):  # else the scan reports it
        before = start if isinstance(start, logs.Offsets) else None
        yield from _sources(storage, newest, end, before, whole=whole)


def _offsets(storage: Storage, batch: int) -> logs.Offsets | CodecError | None:
    path = f"offsets/{batch}"
    try:
        return logs.parse_offsets(storage.read(path))
    except NotFoundError:
        return None
    except CodecError as error:
        return error.at(path)


def _sources(
    storage: Storage, batch: int, end: logs.Offsets, start: logs.Offsets | None, *, whole: bool
) -> Iterator[Finding]:
    counted = start is not None and (start.format, end.format) == (1, 1)
    if start and counted and len(start.sources) != len(end.sources):
        detail = (
            f"offsets/{batch} has {len(end.sources)} sources and offsets/{batch - 1} has "
            f"{len(start.sources)}: one of them is truncated, and a restart fails; put it back "
            "from a copy"
        )
        yield Finding(FindingCode.UNREADABLE_OFFSET, detail, path=f"offsets/{batch}")
        return
    for number in filter(logs.is_source, end.sources):
        last = end.file_offset(number)
        first = start.file_offset(number) if start else None
        if last is not None:
            log = SourceLog.listed(storage, f"sources/{number}")
            if missing := log.missing(-1 if first is None else first, last):
                yield missing
            elif whole:
                yield from _entries(storage, log)
        elif first is not None:
            detail = (
                f"offsets/{batch}: the offset of source {number} is truncated, so a restart fails; "
                "put it back from a copy"
            )
            yield Finding(FindingCode.UNREADABLE_OFFSET, detail, path=f"offsets/{batch}")


def _entries(storage: Storage, log: SourceLog) -> Iterator[Finding]:
    needed = (name for number, name in log.entries.items() if number >= log.base)
    for path in sorted(f"{log.folder}/{name}" for name in needed):
        try:
            with storage.open(path) as stream:
                _parse(stream)
        except NotFoundError:
            continue  # compacted since it was listed
        except (ValueError, RecursionError, CodecError) as error:
            detail = f"{path} cannot be read ({error}): {SOURCE_LOG_ADVICE}"
            yield Finding(FindingCode.MISSING_SOURCE_LOG, detail, path=path)


def _parse(stream: BinaryIO) -> None:
    lines = _lines(stream)
    if (header := next(lines)) != b"v1":
        raise CodecError(f"log format {header[:20]!r} is unknown", offset=0)
    for line in lines:
        json.loads(line)


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yields the lines of a stream without their ends, and what follows the last one."""
    rest = b""
    while piece := stream.read(_PIECE):
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
        if len(rest) > _LONGEST:
            raise CodecError(f"a line is longer than {_LONGEST:,} bytes", offset=0)
    yield rest


def passed_over(
    storage: Storage,
    checkpoint: Checkpoint,
    findings: Findings,
    again: Callable[[Storage], tuple[Checkpoint, Findings]],
) -> tuple[str, ...] | None:
    """Returns the bad snapshots without which a restart succeeds; `None` if it does not.

    If the newest snapshot does not load, the one below is tried, and finally the empty state, each
    with the changes above it; with unique ids, the empty state only if the lineage of the version
    goes back to it.
    In HDFS-backed stores a directory that is named like a snapshot also makes this fail. `again`
    verifies the checkpoint once more without these snapshots.
    """
    folders = {finding.path for finding in findings if finding.path and names_snapshot(finding)}
    if folders and checkpoint.provider is Provider.HDFS_BACKED:
        return None
    owners = {
        file.entry.path: file.owner
        for store in checkpoint.stores
        for file in store.files
        if isinstance(file, ChecksumFile)
    }
    bad = frozenset(folders | {*_bad_snapshots(checkpoint, findings, owners)})
    headless = any(finding.code is FindingCode.LINEAGE_BROKEN for finding in findings)
    if not (bad or headless):
        return None
    sides = {path for path, owner in owners.items() if owner in bad}
    below = {entry.path for folder in folders for entry in storage.list(folder)}
    below |= {f"{folder}/" for folder in folders}
    without, rest = again(Without(storage, bad | sides | below))
    loads = is_replayable(without, findings) and resumes(without, rest)
    return tuple(sorted(bad)) if loads else None


def _bad_snapshots(
    checkpoint: Checkpoint, findings: Findings, owners: Mapping[str, str]
) -> Iterator[str]:
    """Yields the snapshots that are a bad file, own it, or refer to it."""
    stores = {store.id: store for store in checkpoint.stores}
    for finding in findings:
        if finding.code in OF_SNAPSHOTS and finding.store in stores:
            store, bad = stores[finding.store], owners.get(finding.path or "", finding.path)
            parts = store.rocks.parts if store.rocks else {}
            for snapshot in (file for file in store.files if isinstance(file, Snapshot)):
                if snapshot.entry.path == bad or bad in parts.get(snapshot.entry.path, ()):
                    yield snapshot.entry.path
