"""Compares snapshots whose log was replaced with that log: a restart may load either of the two."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

from statemaint.audit.rebuild import finding_of, must_equal_fold, spoiled
from statemaint.errors import CheckpointError, SnapshotMismatchError, UnsupportedError
from statemaint.fold import Engine, Source
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.findings import Finding
from statemaint.model.ids import batch_of
from statemaint.plan.findings.health import doubted, edited_finding, replaced_finding, stale_finding
from statemaint.plan.staleness import Suspect, judge


def check_suspects(
    source: Source, engine: Callable[[], Engine], store: Store, checkpoint: Checkpoint
) -> Iterator[Finding]:
    """Yields the findings of the snapshots of a store whose log was replaced.

    A stale snapshot that still equals the fold of its log (the batches that ran again wrote the
    same rows) is not reported. If the query did not write the log, no version from the first
    replaced one on is known to be right.
    """
    judgement = judge(store, checkpoint)
    yield from _stale(source, engine, store, checkpoint, judgement.stale)
    wrong = set[str]()
    for suspect in judgement.disputed:
        error = differs(source, engine(), suspect)
        wrong |= {suspect.path} if error else set()
        if isinstance(error, SnapshotMismatchError):  # `rebuild` finds unreadable files
            yield replace(
                finding_of(store, error, checkpoint), batches=in_doubt(suspect, checkpoint)
            )
        elif error is None and suspect.doubts:
            finding = replaced_finding(
                store, suspect.path, suspect.snapshot.version, suspect.doubts
            )
            yield with_batches(finding, suspect.snapshot.version, checkpoint)
    for edited in judgement.edited:
        yield _unwitnessed(edited_finding(store, edited), store, checkpoint, wrong)
    for proof in store.attestations:
        for finding in doubted(replace(store, attestations=(proof,))):
            yield (
                with_batches(finding, proof.version, checkpoint)
                if proof.files
                else _unwitnessed(finding, store, checkpoint, wrong)
            )


def _stale(
    source: Source,
    engine: Callable[[], Engine],
    store: Store,
    checkpoint: Checkpoint,
    stale: Iterable[Suspect],
) -> Iterator[Finding]:
    for suspect in stale:
        batches = tuple(spoiled(store, suspect.path, checkpoint))
        if not batches or differs(source, engine(), suspect):
            yield replace(stale_finding(store, suspect), batches=batches)


def with_batches(found: Finding, version: int, checkpoint: Checkpoint) -> Finding:
    """Returns a finding of a replaced log with the batches below the snapshot's version."""
    first = batch_of(found.version or 0)
    doubts = (one for one in checkpoint.batches if first <= one < batch_of(version))
    return replace(found, batches=tuple(doubts))


def _unwitnessed(
    finding: Finding, store: Store, checkpoint: Checkpoint, wrong: Collection[str]
) -> Finding:
    """Returns a finding with the batches above a snapshot, up to the next independent snapshot.

    Our snapshots may have been folded from today's log; those of executors were not.
    """
    version = finding.version or 0
    above = (one.version for one in store.theirs if one.entry.path not in wrong)
    until = min((one for one in above if one > version), default=None)
    in_doubt = (batch for batch in checkpoint.batches if batch > batch_of(version))
    batches = (batch for batch in in_doubt if until is None or batch < batch_of(until))
    return replace(finding, batches=tuple(batches))


def differs(
    source: Source, engine: Engine, suspect: Suspect
) -> CheckpointError | UnsupportedError | None:
    """Returns the error of comparing a snapshot with the log; `None` if they are equal."""
    try:
        must_equal_fold(source, engine, suspect.snapshot, suspect.instead)
    except SnapshotMismatchError as error:
        return error.because(suspect.why)
    except (CheckpointError, UnsupportedError) as error:
        return error
    return None


def in_doubt(suspect: Suspect, checkpoint: Checkpoint) -> tuple[int, ...]:
    """Returns the batches whose rows cannot be shown to be right or wrong."""
    first = suspect.snapshot.version
    if not suspect.by_query:
        first = min((first, *suspect.replaced))
    return tuple(batch for batch in checkpoint.batches if batch >= batch_of(first))
