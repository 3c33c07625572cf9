"""A checkpoint as an object: what the command line does, as methods."""

from datetime import timedelta
from os import PathLike, fspath
from typing import TYPE_CHECKING

from statemaint.audit import Diagnosis, Verification, doctor, verify
from statemaint.maintain import list_runs, maintain, undo
from statemaint.maintain.runs import Run
from statemaint.model.checkpoint import Checkpoint
from statemaint.model.ids import version_of
from statemaint.model.policy import Policy, Value, in_seconds
from statemaint.plan.actions import Plan
from statemaint.plan.recovery.recovery_plan import RecoveryPlan
from statemaint.planning import plan_checkpoint, scan_checkpoint
from statemaint.records.savepoints import SAME, Shape
from statemaint.recover import RecoveryReport, plan_repair, plan_rollback, repair, rollback
from statemaint.report.run import Report
from statemaint.report.to_json import recovery_fingerprint
from statemaint.savepoint import SavepointReport, savepoint
from statemaint.state import StateDiff, StateStats, diff_state, state_stats
from statemaint.state.arrow import read_table
from statemaint.storage import S3Options, Storage, open_storage
from statemaint.undo.run import Undone

if TYPE_CHECKING:
    import pyarrow as pa

Address = str | PathLike[str]


class OpenCheckpoint:
    """The checkpoint of one query.

    Each call looks at the storage anew. Batches are Spark's `batchId`, operators its `operatorId`.
    Every method raises `StatemaintError`, whose class says why; what it writes is in docs/rules.md.
    """

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def __repr__(self) -> str:
        return f"OpenCheckpoint({self.address!r})"

    @property
    def address(self) -> str:
        return self.storage.root

    @property
    def batches(self) -> tuple[int, ...]:
        """Returns the committed batches of the commit log, ascending."""
        return self.scan().batches

    # -- what only reads

    def scan(self) -> Checkpoint:
        """Returns the operators, stores and files, with what is wrong with them by name."""
        return scan_checkpoint(self.storage)

    def plan(self, policy: Policy | None = None, **settings: Value) -> Plan:
        """Returns what `maintain` would do, with the reason of every action."""
        return plan_checkpoint(self.storage, _policy(policy, settings), dry=True)[1]

    def verify(self, *, deep: bool = False, workers: int | None = None) -> Verification:
        """Returns whether every file that a retained version needs can be read."""
        return verify(self.storage, deep=deep, workers=workers)

    def doctor(
        self,
        *,
        deep: bool = False,
        slots: int | None = None,
        event_logs: Address | None = None,
        workers: int | None = None,
    ) -> Diagnosis:
        """Returns whether, and from where, the query restarts, and what to do if it does not.

        `load` and `forecast` of the result say how long a restart takes, which past restarts in
        the event logs at an address correct; `slots` as for the function `doctor`.
        """
        logs = storage_at(event_logs) if event_logs else None
        return doctor(self.storage, deep=deep, slots=slots, event_logs=logs, workers=workers)

    def show(
        self,
        operator: int = 0,
        *,
        batch: int | None = None,
        partition: int | None = None,
        store: str | None = None,
        family: str | None = None,
    ) -> "pa.Table":
        """Returns the rows of one store or column family after a batch, by default the newest."""
        return read_table(
            self.storage,
            operator,
            partition=partition,
            store=store,
            family=family,
            version=_version(batch),
        )

    def diff(  # noqa: PLR0913 -- each is a choice of its own
        self,
        older: int | None = None,
        newer: int | None = None,
        operator: int = 0,
        *,
        partition: int | None = None,
        store: str | None = None,
        family: str | None = None,
        limit: int | None = None,
    ) -> StateDiff:
        """Returns what differs after two batches, by default the newest and the one before."""
        versions = _version(older), _version(newer)
        where = {"store": store, "family": family}
        diff = diff_state(self.storage, versions, operator, partition=partition, **where)
        return diff.compare(limit=limit)

    def stats(self, operator: int | None = None, *, top: int = 5) -> StateStats:
        """Returns the rows, bytes and largest keys of the newest state."""
        return state_stats(self.storage, operator, top=top)

    def runs(self) -> tuple[Run, ...]:
        """Returns the runs that have changed the checkpoint, the newest first."""
        return list_runs(self.storage)

    # -- what writes

    def maintain(
        self,
        policy: Policy | None = None,
        *,
        dry_run: bool = False,
        workers: int | None = None,
        **settings: Value,
    ) -> Report:
        """Writes snapshots for long chains, deletes what no retained version needs, and reports.

        Args:
            policy: when to snapshot and what to keep; the preset `safe` by default.
            dry_run: plan and report only.
            workers: the number of stores at a time; by default what suits storage and machine.
            settings: settings of the policy that differ from it, such as `trash_for="7d"`.
        """
        chosen = _policy(policy, settings)
        return maintain(self.storage, chosen, dry_run=dry_run, workers=workers)

    def undo(self, run: str) -> Undone:
        """Puts back the files that a run moved to the trash and that still fit."""
        return undo(self.storage, run)

    def savepoint(  # noqa: PLR0913 -- each is a choice of its own
        self,
        dest: "Address | OpenCheckpoint",
        *,
        batch: int | None = None,
        new_id: bool = False,
        shape: Shape = SAME,
        pin: bool = True,
        dry_run: bool = False,
        workers: int | None = None,
    ) -> SavepointReport:
        """Makes another folder a checkpoint from which the query continues after a batch."""
        to = dest.storage if isinstance(dest, OpenCheckpoint) else storage_at(dest)
        return savepoint(
            self.storage,
            to,
            batch=batch,
            new_id=new_id,
            shape=shape,
            pin=pin,
            dry_run=dry_run,
            workers=workers,
        )

    def plan_repair(self) -> RecoveryPlan:
        """Returns what `repair` would do, each step with its proof."""
        return plan_repair(self.storage)

    def repair(self, plan: RecoveryPlan, *, trash_for: float | str | timedelta) -> RecoveryReport:
        """Carries out a repair as it was planned, or refuses. The query must not run."""
        expected, seconds = recovery_fingerprint(plan), in_seconds(trash_for)
        return repair(self.storage, trash_for=seconds, expected=expected)

    def plan_rollback(self, batch: int) -> RecoveryPlan:
        """Returns what `rollback` would remove."""
        return plan_rollback(self.storage, batch)

    def rollback(
        self, batch: int, plan: RecoveryPlan, *, trash_for: float | str | timedelta
    ) -> RecoveryReport:
        """Takes the query back to a batch as it was planned, or refuses. It must not run."""
        expected, seconds = recovery_fingerprint(plan), in_seconds(trash_for)
        return rollback(self.storage, batch, trash_for=seconds, expected=expected)


def storage_at(address: Address, s3: S3Options | None = None) -> Storage:
    return open_storage(fspath(address), s3=s3)


def _policy(policy: Policy | None, settings: dict[str, Value]) -> Policy:
    return (policy or Policy()).override(**settings)


def _version(batch: int | None) -> int | None:
    return None if batch is None else version_of(batch)
