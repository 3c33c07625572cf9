"""Compares snapshots whose log was replaced with that log: a restart may load either of the two."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from math import inf

from statemaint.audit.rebuild import finding_of, must_equal_fold, spoiled
from statemaint.errors import CheckpointError, SnapshotMismatchError, UnsupportedError
from statemaint.fold import Engine, Source
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.findings import Finding
from statemaint.model.ids import batch_of, version_of
from statemaint.plan.findings.health import doubted, edited_finding, replaced_finding, stale_finding
from statemaint.plan.staleness import Judgement, Suspect, judge


def check_suspects(
    source: Source, engine: Callable[[], Engine], store: Store, checkpoint: Checkpoint
) -> Iterator[Finding]:
    """Yields the findings of the snapshots of a store whose log was replaced.

    A stale snapshot that still equals the fold of its log (the batches that ran again wrote the
    same rows) is not reported. If the query did not write the log, no version from the first
    replaced one on is known to be right.
    """
    judgement = judge(store, checkpoint)
    for suspect in judgement.stale:
        batches = spoiled(store, suspect.path, checkpoint)
        if not batches or _difference(source, engine(), suspect):
            yield replace(stale_finding(store, suspect), batches=batches)
    wrong = set[str]()
    for suspect in judgement.disputed:
        error, version = _difference(source, engine(), suspect), suspect.snapshot.version
        wrong |= {suspect.path} if error else set()
        if isinstance(error, SnapshotMismatchError):  # `rebuild` finds unreadable files
            first = version if suspect.by_query else min((version, *suspect.replaced))
            batches = tuple(batch for batch in checkpoint.batches if batch >= batch_of(first))
            yield replace(finding_of(store, error, checkpoint), batches=batches)
        elif error is None and suspect.doubts:
            finding = replaced_finding(store, suspect.path, version, suspect.doubts)
            yield _below(finding, version, checkpoint)
    yield from _edited(store, checkpoint, judgement, wrong)


def _edited(
    store: Store, checkpoint: Checkpoint, judgement: Judgement, wrong: Collection[str]
) -> Iterator[Finding]:
    """Yields the findings of changed logs without a suspect; `wrong` snapshots witness nothing."""
    for edited in judgement.edited:
        yield _unwitnessed(edited_finding(store, edited), store, checkpoint, wrong)
    for proof in store.attestations:
        for finding in doubted(replace(store, attestations=(proof,))):
            if proof.files:
                yield _below(finding, proof.version, checkpoint)
            else:
                yield _unwitnessed(finding, store, checkpoint, wrong)


def _below(finding: Finding, version: int, checkpoint: Checkpoint) -> Finding:
    """Returns a finding of a replaced log with the batches below the snapshot's version."""
    versions = range(finding.version or 0, version)
    batches = (batch for batch in checkpoint.batches if version_of(batch) in versions)
    return replace(finding, batches=tuple(batches))


def _unwitnessed(
    finding: Finding, store: Store, checkpoint: Checkpoint, wrong: Collection[str]
) -> Finding:
    """Returns a finding with the batches above a snapshot, up to the next independent snapshot.

    Our snapshots may have been folded from today's log; those of executors were not.
    """
    version = finding.version or 0
    above = (snapshot.version for snapshot in store.theirs if snapshot.entry.path not in wrong)
    until = min((newer for newer in above if newer > version), default=inf)
    batches = (batch for batch in checkpoint.batches if version < version_of(batch) < until)
    return replace(finding, batches=tuple(batches))


def _difference(
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
