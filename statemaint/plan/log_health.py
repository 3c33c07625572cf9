"""What the names in the commit and offset logs alone say is wrong."""

from collections.abc import Iterator

from statemaint.model.checkpoint import Checkpoint
from statemaint.model.findings import Finding, FindingCode


def diagnose_logs(checkpoint: Checkpoint) -> tuple[Finding, ...]:
    """Returns the findings of the logs against each other, and of schemas that are not there.

    Both logs are purged from below, one after the other, so only what lies between entries, or at
    the end, can be missing. Mirrors `MicroBatchExecution.populateStartOffsets`, which asks for the
    offsets of the newest batch and of the one before.
    """
    return (*_commits(checkpoint), *_offsets(checkpoint), *_schemas(checkpoint))


def _commits(checkpoint: Checkpoint) -> Iterator[Finding]:
    commits, offsets = checkpoint.batches, checkpoint.offsets
    if not commits:
        return
    # The newest batch may be running; the one before it was committed before that began.
    last = max(commits[-1], offsets[-1] - 1 if offsets else 0)
    for batch in _lacking(commits, commits[0], last):
        detail = (
            f"commits/{batch} is missing: nobody can tell whether batch {batch} was committed, and"
            " its state is not offered to readers; put the file back from a copy"
        )
        yield Finding(FindingCode.MISSING_COMMIT, detail, path=f"commits/{batch}", batches=(batch,))


def _offsets(checkpoint: Checkpoint) -> Iterator[Finding]:
    commits, offsets = checkpoint.batches, checkpoint.offsets
    if not commits or not offsets:
        return
    newest = max(offsets[-1], commits[-1])
    first = min(offsets[0], max(0, newest - 1))
    for batch in _lacking(offsets, first, newest):
        needed = batch >= newest - 1
        what = "a restart fails" if needed else f"the query cannot go back to batch {batch}"
        detail = f"offsets/{batch} is missing: {what}; put the file back from a copy"
        yield Finding(FindingCode.MISSING_OFFSET, detail, path=f"offsets/{batch}")


def _schemas(checkpoint: Checkpoint) -> Iterator[Finding]:
    for path in checkpoint.lacks:
        detail = (
            f"{path} is missing: Spark's state reader cannot read the store, and a restart takes "
            "whatever schema the query has then; put the file back from a copy"
        )
        yield Finding(FindingCode.MISSING_SCHEMA, detail, path=path)


def _lacking(present: tuple[int, ...], first: int, last: int) -> Iterator[int]:
    there = set(present)
    return (batch for batch in range(first, last + 1) if batch not in there)
