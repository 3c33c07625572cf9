"""The findings that the names in the commit and offset logs alone show."""

from collections.abc import Iterable, Iterator
from itertools import pairwise

from statemaint.model.checkpoint import Checkpoint
from statemaint.model.findings import Finding, FindingCode

_NAMED = 100  # of a wider gap only the ends are named: an entry above it may have any number


def diagnose_logs(checkpoint: Checkpoint) -> tuple[Finding, ...]:
    """Returns the findings of the two logs compared with each other, and of missing schemas.

    Spark purges both logs from below, one after the other, so only entries between others, or at
    the end, can be missing. Mirrors `MicroBatchExecution.populateStartOffsets`, which reads the
    offsets of the newest batch and of the one before.
    """
    return (*_commits(checkpoint), *_offsets(checkpoint), *_schemas(checkpoint))


def _commits(checkpoint: Checkpoint) -> Iterator[Finding]:
    commits, offsets = checkpoint.batches, checkpoint.offsets
    if not commits:
        yield from _no_commits(offsets)
        return
    # The newest batch may be running; the one before it was committed before it began.
    last = max(commits[-1], offsets[-1] - 1 if offsets else 0)
    for batches in _gaps(commits, commits[0], last):
        first, end = batches[0], batches[-1]
        were = f"batch {first} was" if first == end else f"batches {first} to {end} were"
        detail = (
            f"{_missing('commits', batches)}: nothing shows whether {were} committed, "
            "and the state is not offered to readers; put the file back from a copy"
        )
        lost = tuple(batches[:_NAMED])
        yield Finding(FindingCode.MISSING_COMMIT, detail, path=f"commits/{first}", batches=lost)


def _no_commits(offsets: tuple[int, ...]) -> Iterator[Finding]:
    """Yields the finding of a missing commit log; only the first batch may run without one."""
    if offsets and offsets[-1] > 0:
        detail = (
            f"commits/ is missing or empty although batch {offsets[-1]} was planned: a restart runs"
            " it again on the state before it, and fails where versions have unique ids; put the "
            "folder back from a copy"
        )
        yield Finding(FindingCode.MISSING_COMMIT, detail, path="commits")


def _offsets(checkpoint: Checkpoint) -> Iterator[Finding]:
    commits, offsets = checkpoint.batches, checkpoint.offsets
    if not commits or not offsets:
        return
    newest = max(offsets[-1], commits[-1])
    for batches in _gaps(offsets, min(offsets[0], max(0, newest - 1)), newest):
        first, end = batches[0], batches[-1]
        to = f"batch {first}" if first == end else f"any of batches {first} to {end}"
        what = "a restart fails" if end >= newest - 1 else f"the query cannot go back to {to}"
        detail = f"{_missing('offsets', batches)}: {what}; put the file back from a copy"
        yield Finding(FindingCode.MISSING_OFFSET, detail, path=f"offsets/{end}")


def _schemas(checkpoint: Checkpoint) -> Iterator[Finding]:
    for path in checkpoint.lacks:
        detail = (
            f"{path} is missing: Spark's state reader cannot read the store, and a restart takes "
            "whatever schema the query has then; put the file back from a copy"
        )
        yield Finding(FindingCode.MISSING_SCHEMA, detail, path=path)


def _missing(folder: str, batches: range) -> str:
    first, last = f"{folder}/{batches[0]}", f"{folder}/{batches[-1]}"
    if len(batches) == 1:
        return f"{first} is missing"
    return f"all of {first} to {last} are missing, {len(batches):,} files"


def _gaps(present: Iterable[int], first: int, last: int) -> Iterator[range]:
    """Yields the gaps of a closed range, ascending: one by one, or whole if they are wide."""
    there = (batch for batch in present if first <= batch <= last)
    for below, above in pairwise((first - 1, *there, last + 1)):
        gap = range(below + 1, above)
        if above - below > _NAMED:
            yield gap
        else:
            yield from (range(batch, batch + 1) for batch in gap)
