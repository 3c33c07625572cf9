"""One run, of a plan made now or before (S14); then the files of ours that nothing relies on."""

import logging
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from resource import RUSAGE_SELF, getrusage

from statemaint.errors import (
    CodecError,
    LeaseLostError,
    StatemaintError,
    StorageError,
    Superseded,
)
from statemaint.execute import ledger
from statemaint.execute.attempts import forget_units
from statemaint.execute.fence import Fence, and_then
from statemaint.execute.lease import Lease, leased
from statemaint.execute.store_record import adopt_announcements
from statemaint.execute.stores import execute
from statemaint.listing import Entry
from statemaint.maintain.runs import note_end, note_run
from statemaint.model.findings import Finding, FindingCode, damaged
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from statemaint.plan.actions import Attest, Plan, Request
from statemaint.plan.planner import MOST_SKEW
from statemaint.planning import plan_checkpoint
from statemaint.records import trashed
from statemaint.records.claims import Claim, Holder, newest
from statemaint.records.pins import forget_ended
from statemaint.records.remembered import REMEMBERED, Remembering, recalling
from statemaint.records.runs import forget, new_run_id, remembered
from statemaint.records.trashed import ExpiredTrash
from statemaint.report.outcome import Outcome, summarize
from statemaint.report.plan_file import MaintenanceFile
from statemaint.report.run import Emptied, Report, exit_code_of
from statemaint.report.to_json import fingerprint
from statemaint.scan.handover import Handover
from statemaint.scan.identity import check_links, must_be_checkpoint, must_be_of_query
from statemaint.storage import Storage
from statemaint.workers import Workers, nothing

_log = logging.getLogger(__name__)
OnOutcome = Callable[[Outcome, Plan], None]


def maintain(  # noqa: PLR0913 -- each is a separate choice
    storage: Storage,
    policy: Policy,
    *,
    request: Request | None = None,
    dry_run: bool = False,
    run: str | None = None,
    holder: Holder | None = None,
    workers: Workers | int | None = None,
    handover: Handover | None = None,
    on_outcome: OnOutcome = nothing,
) -> Report:
    """Maintains a checkpoint once, and returns the report of the run.

    Safe to kill and to repeat (S15). A store that is damaged, or whose storage fails, is reported
    and left as it is; the others are still maintained. A run that has anything to do holds the
    checkpoint's lease (S8). A run that has nothing to do writes nothing. If expired trash cannot be
    deleted after the work, the report has a finding.

    Args:
        storage: where the checkpoint lives.
        policy: when to snapshot and what to keep.
        request: the restrictions of the run.
        dry_run: plan and report, but write and delete nothing, and take no lease.
        run: the run's id in the ledger; a new one by default.
        holder: the holder of the lease that it works under. Tasks with the same holder share the
            lease, and leave it to `end_run`; by default a run has its own, whatever its id.
        workers: the number of stores that are maintained at a time, and their memory; by default
            chosen for the storage, the bytes to read and the machine.
        handover: what the run's plan found beside the partitions that the request names.
        on_outcome: called with each outcome as it happens, for progress.

    Raises:
        ConfigError: when the request names something that does not exist; also as `scan_checkpoint`
            raises it.
        RefusedLinkError: when there is a link among our files (S24); a dry run has a finding.
        LeaseHeldError: when another run maintains the checkpoint.
        LeaseLostError: when another run has taken over, or this one was ended; nothing more was
            done.
    """
    sent = storage.requests
    if not dry_run:
        check_links(storage)
    before = newest(storage)  # and with the answer the time of a server
    work = Work(storage, run, sent, dry_run=dry_run, workers=workers)
    reading = storage if handover else work.reading  # a task reads little that is remembered
    decided = plan_checkpoint(reading, policy, request=request, handover=handover, dry=dry_run)[1]
    if dry_run:
        return work.report(decided)
    trash = trashed.expired(storage, storage.now()) if _may_empty(decided) else ExpiredTrash()
    if decided.idle and not trash:
        return work.carry_out(decided, Fence(), on_outcome)
    with leased(storage, holder or Holder(work.run), keep=holder is not None) as lease:
        if not alone_since(before, lease) or abs(lease.skew) > MOST_SKEW:
            # Another run has worked meanwhile, or ages are unreliable.
            decided = plan_checkpoint(
                reading, policy, request=request, skew=lease.skew, handover=handover
            )[1]
        report = work.carry_out(decided, lease, on_outcome, together=holder is None)
        emptied = Emptied()
        if trash and _may_empty(decided) and not damaged(report.findings):
            emptied, _ = _emptied(storage, lambda: trash, lease)
        if emptied.finding:
            note_end(storage, work.run, lease, work.report(decided, emptied).exit_code)
        if holder is None:  # else `end_run` does it
            moved = report.files_deleted.total() if policy.trash_for else 0
            tidy(storage, lease, reading=work.reading, unknown=trash.unknown, moved=moved)
    return work.report(decided, emptied)


def apply(
    storage: Storage,
    plan_file: MaintenanceFile,
    *,
    run: str | None = None,
    workers: Workers | int | None = None,
    on_outcome: OnOutcome = nothing,
) -> Report:
    """Carries out exactly the plan that was made, or nothing; then it is `Superseded`.

    The plan is made again as of its original time: if the same files are still there, it is the
    same, down to each file's size and time.
    """
    sent = storage.requests
    must_be_checkpoint(storage)
    must_be_of_query(storage, plan_file.query_id, plan_file.checkpoint)
    work = Work(storage, run, sent, workers=workers)
    with leased(storage, Holder(work.run)) as lease:
        decided = _planned_again(work.reading, plan_file, skew=lease.skew)
        report = work.carry_out(decided, lease, on_outcome, together=True)
        tidy(storage, lease, reading=work.reading)
    return replace(report, requests=work.spent)


def _planned_again(storage: Storage, plan_file: MaintenanceFile, *, skew: float) -> Plan:
    if plan_file.now > storage.now() + MOST_SKEW:
        raise Superseded(storage.root, "the plan's time is in the future, by the storage's clock")
    plan = plan_checkpoint(
        storage, plan_file.policy, request=plan_file.request, as_of=plan_file.now, skew=skew
    )[1]
    if fingerprint(plan) != plan_file.fingerprint:
        skewed = (
            finding.detail for finding in plan.findings if finding.code is FindingCode.CLOCK_SKEW
        )
        why = next(skewed, "the plan's files, or the plan itself, have changed")
        raise Superseded(storage.root, why)
    return plan


def alone_since(before: Claim | None, lease: Lease) -> bool:
    """Returns whether no other run can have worked since a claim was the newest one."""
    if before is None:
        return lease.number == 1
    released = not before.deadline and lease.number == before.number + 1
    return released or lease.number == before.number


def _emptied(
    storage: Storage, find: Callable[[], ExpiredTrash], lease: Lease
) -> tuple[Emptied, int]:
    """Deletes expired trash; a failure is a finding. Also returns the runs that its index lacks."""
    done: list[Entry] = []
    finding, unknown = None, 0
    try:
        trash = find()
        unknown = trash.unknown
        trashed.empty(storage, trash, before=lease.check, after=done.extend)
    except StatemaintError as error:
        detail = f"expired files stay in the trash, the next run tries again: {error}"
        finding = Finding(FindingCode.TRASH_NOT_EMPTIED, detail)
    return Emptied(len(done), sum(entry.size for entry in done), finding), unknown


def _may_empty(decided: Plan) -> bool:
    """Returns whether expired trash may be deleted: not in damage or doubt, which it may repair.

    Tasks that see only a part of a checkpoint leave the trash alone.
    """
    whole = decided.request == Request(decided.request.target, decided.request.force_snapshot)
    compares = any(isinstance(action, Attest) and action.doubts for action in decided.actions)
    doubted = any(finding.code is FindingCode.LOG_REPLACED for finding in decided.all_findings)
    return whole and not damaged(decided.all_findings) and not compares and not doubted


def reserve(storage: Storage, holder: Holder) -> None:
    """Takes the lease for the tasks of a run, which share it until `end_run`."""
    with leased(storage, holder, keep=True) as lease:
        adopt_announcements(storage, lease)  # its tasks would not see what a run has announced


def end_run(
    storage: Storage,
    holder: Holder,
    *,
    sound: bool,
    units: bool = False,
    run: str = "",
    exit_code: int = 0,
) -> Emptied:
    """Ends a run of several tasks: notes its failure, empties the trash, and ends their lease.

    Returns what was deleted from the trash. If that fails, the run has failed, and is noted so. A
    task that is still running stops before its next page of deletions. No run gets the lease for a
    few seconds, until that task must have noticed.

    The run is `sound` if every task completed and none found damage, which files in the trash might
    repair. Spark's tasks are `units`, which have their own files. The end is noted under `run`, if
    it is given, with the exit code of the whole run: a task that found only damage has no note of
    its own.
    """
    with leased(storage, holder, keep=True) as lease:
        try:
            if run:  # before the rest, which may take minutes
                note_end(storage, run, lease, exit_code)
            emptied, unknown = Emptied(), 0
            if sound:
                emptied, unknown = _emptied(storage, lambda: _expendable(storage), lease)
            if run and emptied.finding:
                note_end(storage, run, lease, exit_code or exit_code_of(emptied.findings))
            if units:
                with _tried("the files of Spark's units stay"):
                    forget_units(storage, before=lease.check)
            tidy(storage, lease, unknown=unknown)
            return emptied
        finally:
            lease.end()


def _expendable(storage: Storage) -> ExpiredTrash:
    """Returns the expired trash; none if files that it may have were lost meanwhile."""
    trash = trashed.expired(storage, storage.now())
    if trash and not _may_empty(plan_checkpoint(storage, Policy(), dry=True)[1]):
        return ExpiredTrash(unknown=trash.unknown)
    return trash


class Work:
    """One run, with its cost and its outcomes so far, and the storage as it reads it."""

    def __init__(
        self,
        storage: Storage,
        run: str | None,
        sent: Mapping[str, int],
        *,
        dry_run: bool = False,
        workers: Workers | int | None = None,
    ) -> None:
        self._storage, self._dry_run, self._workers = storage, dry_run, workers
        self._before, self._started = Counter(sent), storage.now()
        self.run, self.reading = run or new_run_id(self._started), recalling(storage)
        self._new = run is None
        self._happened: dict[StoreId, list[Outcome]] = defaultdict(list)

    def _elapsed(self) -> float:
        return self._storage.now() - self._started

    def carry_out(
        self, decided: Plan, fence: Fence, on_outcome: OnOutcome, *, together: bool = False
    ) -> Report:
        """Carries a plan out under a lease, which it may have for itself, and notes the run."""
        if together:
            adopt_announcements(self._storage, fence)
        outcomes = execute(
            decided,
            self._storage,
            run=self.run,
            fence=fence,
            elapsed=self._elapsed,
            workers=self._workers,
            noted=self.reading.note,
            together=together,
        )
        for outcome in outcomes:
            self._happened[outcome.store].append(outcome)
            on_outcome(outcome, decided)
        report = self.report(decided)
        note_run(self._storage, report, fence, first=self._new)
        return report

    def report(self, decided: Plan, emptied: Emptied | None = None) -> Report:
        peak = getrusage(RUSAGE_SELF).ru_maxrss
        stores = (
            summarize(plan, self._happened[plan.store.id], decided.target_of(plan.store.id))
            for plan in decided.stores
        )
        return Report(
            run=self.run,
            plan=decided,
            stores=tuple(stores),
            started=self._started,
            seconds=self._elapsed(),
            dry_run=self._dry_run,
            peak_memory=peak if sys.platform == "darwin" else peak * 1024,
            requests=self.spent,
            emptied=emptied or Emptied(),
        )

    @property
    def spent(self) -> dict[str, int]:
        return dict(Counter(self._storage.requests) - self._before)


def tidy(
    storage: Storage,
    lease: Lease,
    *,
    reading: Remembering | None = None,
    unknown: int = 0,
    moved: int = 0,
) -> None:
    """Tidies up after a run, now and then; never raises."""
    with _tried("the trash is not indexed"):
        trashed.index_trash(storage, unknown, moved)
    with _tried("the ledger is not compacted"):
        if ledger.is_due(storage):
            window = remembered(storage)
            ledger.compact(storage, window, before=lease.check)
            forget(storage, window, before=lease.check)
            forget_ended(storage, before=lease.check)
    with _tried("what was read is not remembered"):
        if reading is None:
            reading = recalling(storage)
            reading.catch_up()
        if cache := reading.cache():
            storage.replace(REMEMBERED, and_then([cache], lease.check))


@contextmanager
def _tried(failure: str) -> Iterator[None]:
    try:
        yield
    except (CodecError, LeaseLostError, StorageError) as error:
        _log.warning("%s, the next run tries again: %s", failure, error)
