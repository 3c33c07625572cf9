"""Rolls a query back to a batch whose state loads, so that it continues from there."""

import re
from collections.abc import Iterable, Iterator
from functools import partial

from statemaint.audit.doctor import Diagnosis, doctor
from statemaint.audit.suspects import check_suspects
from statemaint.codec.metadata import logs
from statemaint.errors import CodecError, ConfigError, DamagedError, NotFoundError
from statemaint.fold import Source, engine_for
from statemaint.fold.needs import check_need, loading
from statemaint.listing import Entry
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import RecoveryVerb, batch_in, version_of
from statemaint.plan.findings.restart import is_doubt
from statemaint.plan.recovery.recovery_plan import RecoveryPlan, Remove
from statemaint.plan.recovery.rollback import rolled_back
from statemaint.plan.staleness import judge
from statemaint.planning import not_committed, scan_checkpoint
from statemaint.records.pins import read_pins
from statemaint.records.segments import BOOTSTRAP, read_lines
from statemaint.recover.carry_out import Proved, RecoveryReport, carry_out, log_entries, rewind_of
from statemaint.scan.identity import check_inside, check_links
from statemaint.scan.query_logs import partition_counts
from statemaint.scan.rollbacks import interrupted_rollbacks
from statemaint.storage import ReadOnly, Storage, Without, stoppable
from statemaint.workers import Job, Workers, in_turn

_OPERATOR_METADATA = re.compile(r"state/[0-9]+/_metadata/v2/[^/]+")


def plan_rollback(
    storage: Storage, batch: int, *, workers: Workers | int | None = None
) -> RecoveryPlan:
    """Returns the plan of the removals that let the query continue from a batch; writes nothing.

    The remaining files are scanned and read as if there were no others: the batch must be the
    newest committed one, its state must load in every store, and nothing may stop a restart.

    The offsets of the next batch stay if they can be read, so that it reads the same input again.
    Sources and sinks are not examined.

    Args:
        storage: where the checkpoint lives.
        batch: the newest batch that is to stay committed.
        workers: the number of stores that are read at a time; by default what suits the storage.

    Raises:
        ConfigError: when the commit log does not have the batch, or a later one is pinned.
        DamagedError: when its state does not load in every store, a restart would still fail, or a
            rollback to an earlier batch is unfinished.
        UnsupportedError: when the checkpoint is of a kind that cannot be read.
        StorageError: when anything could not be listed or read.
    """
    return _proved(storage, batch, workers).plan


def rollback(
    storage: Storage,
    batch: int,
    *,
    trash_for: float,
    expected: str | None = None,
    workers: Workers | int | None = None,
) -> RecoveryReport:
    """Moves the files above a batch to the trash, so that the query continues after that batch.

    The query must not run. A query that begins a batch in the meantime is detected; one that only
    waits for input is not. Safe to kill and to repeat; `undo` reverses it until the query runs.
    Refused while a batch above is pinned.

    Args:
        storage: where the checkpoint lives.
        batch: the newest batch that is to stay committed.
        trash_for: the minimum number of seconds that the files are kept.
        expected: the fingerprint of the plan that was reviewed; none by default.
        workers: the number of stores that are read, and whose files are then moved, at a time; by
            default what suits the storage. The plan and the report are the same with any number.

    Raises:
        Superseded: when the plan has changed since, or the logs change in the meantime.
        LeaseHeldError: when another run maintains the checkpoint.
        ConfigError, DamagedError, UnsupportedError, StorageError: as `plan_rollback` does.
    """
    prove = partial(_proved, storage, batch, workers)
    first = partial(check_pins, storage, batch)
    return carry_out(
        storage, prove, trash_for=trash_for, expected=expected, workers=workers, first=first
    )


def _proved(storage: Storage, batch: int, workers: Workers | int | None) -> Proved:
    reading = ReadOnly(storage)
    check_links(reading)
    entries = log_entries(reading)
    _check_committed(reading, entries, batch)
    check_pins(reading, batch)
    # Some of the state above an unfinished rollback's batch is in the trash.
    for unfinished in interrupted_rollbacks(reading):
        if unfinished.batch is None or batch > unfinished.batch:
            detail = f"cannot roll back to batch {batch}: {unfinished.finding.detail}"
            raise DamagedError(reading.root, detail, code=unfinished.finding.code.value)
    before = scan_checkpoint(reading)
    _check_log(reading, before, batch, workers)
    removes = _removes(reading, entries, batch)
    check_inside(remove.entry for remove in removes)
    view = Without(reading, [remove.path for remove in removes])
    diagnosis = doctor(view, deep=True, workers=workers)
    _check_restart(diagnosis, batch)
    _check_stores(before, diagnosis.checkpoint, batch)
    plan = RecoveryPlan(
        RecoveryVerb.ROLLBACK,
        diagnosis.checkpoint.root,
        diagnosis.checkpoint.query_id,
        batch,
        removes=removes,
        findings=diagnosis.findings,
        versions_checked=diagnosis.versions_checked,
        rewind=rewind_of(reading, before, entries, batch, removes),
    )
    return Proved(plan, diagnosis.checkpoint, entries)


def _check_log(
    storage: Storage, checkpoint: Checkpoint, batch: int, workers: Workers | int | None
) -> None:
    """Refuses a batch whose log was replaced below a snapshot that would be moved away."""
    reading, crew = stoppable(storage), Workers.of(workers)

    def suspects(store: Store) -> Iterator[list[Finding]]:
        engine = partial(engine_for, store.size, checkpoint.provider)
        source = Source.of(reading, store, checkpoint)
        yield [*check_suspects(source, engine, store, checkpoint)]

    def need(store: Store) -> int:
        return check_need(store, Source.of(reading, store, checkpoint))

    stores = checkpoint.stores
    jobs = [Job(partial(suspects, store), partial(need, store), store.size) for store in stores]
    size = sum(store.size for store in stores if judge(store, checkpoint).suspects)
    threads = crew.threads(storage.parallel, size)
    budget = crew.budget(loading(size, checkpoint.provider))
    for findings in in_turn(jobs, threads=threads, budget=budget, stop=reading.stop):
        for finding in findings:
            if finding.code is not FindingCode.STALE_SNAPSHOT and batch in finding.batches:
                why = f"cannot roll back to batch {batch}, its rows may be wrong: {finding.detail}"
                raise DamagedError(checkpoint.root, why, code=finding.code.value)


def _check_stores(before: Checkpoint, after: Checkpoint, batch: int) -> None:
    """Refuses a batch that leaves a store without files: a scan would no longer see that store."""
    version = version_of(batch)
    required = {it.id for it in before.stores if it.files and before.asks(it.id, version)}
    if lost := sorted(required - {store.id for store in after.stores if store.files}):
        detail = (
            f"cannot roll back to batch {batch}: {lost[0].directory} has no file of version "
            f"{version} or below"
        )
        raise DamagedError(before.root, detail, code=FindingCode.BROKEN_CHAIN.value)


def _check_committed(storage: Storage, entries: Iterable[Entry], batch: int) -> None:
    named = (batch_in(entry.path, "commits") for entry in entries)
    batches = sorted(number for number in named if number >= 0)
    if batch not in batches:
        raise not_committed(storage.root, batch, batches)


def check_pins(storage: Storage, batch: int) -> None:
    """Refuses a batch below a committed one that is pinned, whose state would go away (S3)."""
    batches = (batch_in(entry.path, "commits") for entry in storage.list("commits"))
    newest, now = max(batches, default=-1), storage.now()
    for pin in read_pins(storage):
        above = newest if pin.batch is None else pin.batch
        if batch < above <= newest and pin.holds(now):
            pinned = f"batch {above}" if pin.batch is not None else "every batch"
            raise ConfigError(
                f"{storage.root}: cannot roll back to batch {batch}: {pin.path} pins {pinned}; "
                f"save that batch elsewhere, or end the pin (`statemaint pins` with --end {pin.id})"
            )


def _removes(storage: Storage, entries: Iterable[Entry], batch: int) -> tuple[Remove, ...]:
    """Returns the files to remove; of the state, those above the batch once the logs are cut."""
    metadata = (file for file in storage.list("state") if _OPERATOR_METADATA.fullmatch(file.path))
    files = [*entries, *metadata]
    # A batch that only changes the number of partitions reads no input.
    repartitions = len({*partition_counts(storage, (batch, batch + 1)).values()}) > 1
    keep = _reads(storage, batch + 1) is None and not repartitions
    readable = _reads(storage, batch) is None
    keep = keep and not (readable and _repeats(storage, batch))
    # With the offsets of the next batch, a restart reads those of this one; without them, also
    # those before.
    for needed in (batch,) if keep or batch == 0 else (batch, batch - 1):
        if (error := _reads(storage, needed)) is not None:
            detail = f"cannot roll back to batch {batch}, a restart would read {error}"
            raise DamagedError(storage.root, detail, code=FindingCode.UNREADABLE_OFFSET.value)
    cut_back = partial(
        rolled_back, logs=files, batch=batch, keep_next=keep, keep_metadata=not repartitions
    )
    checkpoint = scan_checkpoint(Without(storage, [remove.path for remove in cut_back(())]))
    return cut_back(checkpoint.stores)


def _repeats(storage: Storage, batch: int) -> bool:
    # Whether the next batch is a `bootstrap`, which reads no input. Its offsets are kept if a
    # restart without them would lack those of the batch before.
    if not any(line.get("batch") == batch + 1 for line in read_lines(storage, BOOTSTRAP)):
        return False
    same = storage.read(f"offsets/{batch}") == storage.read(f"offsets/{batch + 1}")
    return same and (batch == 0 or _reads(storage, batch - 1) is None)


def _reads(storage: Storage, batch: int) -> str | None:
    path = f"offsets/{batch}"
    try:
        logs.parse_conf(storage.read(path))
    except CodecError as error:
        return str(error.at(path))
    except NotFoundError:
        return f"{path}, which is missing"
    return None


def _check_restart(diagnosis: Diagnosis, batch: int) -> None:
    doubt = any(is_doubt(finding) and batch in finding.batches for finding in diagnosis.findings)
    there = diagnosis.checkpoint.committed == batch
    if there and diagnosis.restarts and diagnosis.resumable and not doubt:
        return
    version = version_of(batch)
    damage = [finding for finding in diagnosis.findings if finding.damage]
    mine = [it for it in damage if batch in it.batches] or [*diagnosis.blockers] or damage
    if not mine:  # pragma: no cover -- a finding says why a version does not load
        raise ConfigError(f"{diagnosis.checkpoint.root}: version {version} does not load")
    detail = f"cannot roll back to batch {batch}: {mine[0].detail}"
    raise DamagedError(diagnosis.checkpoint.root, detail, code=mine[0].code.value)
