"""The hook: the verbs on a checkpoint, by its address and an Airflow connection.

Whether a query would restart from it, as operators and sensors ask it.
"""

import re
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from airflow.sdk import BaseHook

from statemaint.airflow import texts
from statemaint.airflow.connections import OWN_TYPE, open_checkpoint, tried
from statemaint.airflow.settings import is_template
from statemaint.audit import Diagnosis, Verification, doctor, verify
from statemaint.errors import ConfigError, StatemaintError
from statemaint.execute.lease import check_free
from statemaint.maintain.record import recorded_recovery
from statemaint.model.findings import Finding, Subject
from statemaint.planning import scan_checkpoint
from statemaint.queries.checks import absolute_address
from statemaint.records.claims import Holder
from statemaint.recover import repair
from statemaint.report.task import findings_json, reasons
from statemaint.report.to_json import chain_length
from statemaint.storage import Storage

KEPT_FOR = 30 * 24 * 3600.0
"""The seconds that the files which a repair or rollback removes are kept in the trash."""


@dataclass(frozen=True, slots=True)
class Health:
    """Whether a query would restart, with the right state.

    Attributes:
        reason: why it would not; `None` if it would.
        chain: the most deltas that a restart replays in one store; `None` if none loads.
        back_to: the newest batch that a rollback could go back to.
        findings: all findings, including those that do not stop a restart.
        repaired: the run of an earlier repair, for `statemaint undo`.
    """

    checkpoint: str
    reason: str | None
    committed: int | None
    chain: int | None
    back_to: int | None
    findings: tuple[Finding, ...]
    repaired: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "checkpoint": self.checkpoint,
            "healthy": self.reason is None,
            "reason": self.reason,
            "last_committed_batch": self.committed,
            "chain": self.chain,
            "goes_back_to": self.back_to,
            "repaired": self.repaired,
            **texts.advice(findings_json(self.findings), self.checkpoint),
        }


def health_of(storage: Storage, *, deep: bool = False, spark: str | None = None) -> Health:
    """Returns whether a query would restart as it is; writes nothing.

    `deep` also checks the rows of the newest version, as `statemaint doctor --deep` does. The
    query's Spark is by default any that is supported; from 4.2 on it passes over a bad snapshot.
    """
    diagnosis = doctor(storage, deep=deep)
    return Health(
        checkpoint=storage.root,
        reason=_reason(diagnosis, spark),
        committed=diagnosis.checkpoint.committed,
        chain=len(diagnosis.chain.deltas) if diagnosis.chain else None,
        back_to=diagnosis.goes_back_to,
        findings=diagnosis.findings,
    )


def repaired_health(storage: Storage, *, deep: bool = False, spark: str | None = None) -> Health:
    """Repairs what the log can prove, and returns whether the query would then restart.

    The removed files are kept in the trash for thirty days. The query must not run. The record has
    the repair; a lease that another run holds is waited for, and is no failed run.
    """
    check_free(storage, Holder("waits to repair"))
    done = recorded_recovery(storage, partial(repair, storage, trash_for=KEPT_FOR))
    return replace(health_of(storage, deep=deep, spark=spark), repaired=done.run or None)


def longest_chain(storage: Storage) -> int | None:
    """Returns the most deltas that a restart replays in one store, from listings only.

    `None` if the newest committed version of a store does not load, or nothing is committed.
    """
    checkpoint = scan_checkpoint(storage)
    if checkpoint.target is None:
        return None
    lengths = [chain_length(it, checkpoint.target_of(it.id)) for it in checkpoint.stores]
    loadable = [length for length in lengths if length is not None]
    return max(loadable, default=0) if len(loadable) == len(lengths) else None


def check_address(checkpoint: object) -> None:
    """Refuses a wrong address when a DAG is parsed; that of a template is known to a run only."""
    if not is_template(address := str(checkpoint)):
        absolute_address(address)


def valid_spark(version: str | None) -> str | None:
    if version is None or re.fullmatch(r"\d+\.\d+(\.\d+)?", version):
        return version
    raise ValueError(f"spark_version: must be a version such as 4.2, not {version!r}")


def _reason(diagnosis: Diagnosis, spark: str | None) -> str | None:
    if not diagnosis.restarts:
        blockers = [f"{blocker.code.value}: {blocker.detail}" for blocker in diagnosis.blockers]
        why = blockers[0] if blockers else reasons(diagnosis.findings)
        return f"the query would not restart: {why}"
    since = diagnosis.restarts_since
    if since and (spark is None or _number(spark) < _number(since)):
        condition = f"with Spark {spark}" if spark else f"unless its Spark is {since} or later"
        return f"the query would not restart {condition}: {reasons(diagnosis.findings)}"
    if diagnosis.misplaced or diagnosis.doubtful:
        found = diagnosis.findings
        of_rows = [each for each in found if each.code.about.subject is Subject.ROWS]
        why = reasons(of_rows or found)
        return f"the query would restart with rows that may be wrong: {why}"
    return None


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))


class StatemaintHook(BaseHook):
    """Reads a query's checkpoint, through the settings of an Airflow connection.

    Args:
        checkpoint: the query's checkpointLocation; Airflow makes the hook of a connection without
            one, `connection.get_hook(hook_params={"checkpoint": ...})` with it.
        connection: the connection for S3, of type `aws` or `statemaint`; without one all settings
            come from the environment, as on the command line.
        kwargs: arguments of Airflow's hook.
    """

    conn_name_attr = "connection"
    default_conn_name = "statemaint_default"
    conn_type = OWN_TYPE
    hook_name = "Streaming state in S3 (statemaint)"

    def __init__(
        self, checkpoint: str | None = None, connection: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.checkpoint, self.connection = checkpoint, connection

    def get_conn(self) -> Storage:
        """Returns the checkpoint's storage.

        Raises:
            ValueError: when the address contains a secret, or is relative.
            ConfigError: when the connection does not exist or contains an unsupported setting, or
                the hook has no checkpoint.
            UnsupportedError: for a scheme that this version cannot reach.
        """
        if self.checkpoint is None:
            given = 'get_hook(hook_params={"checkpoint": ...})'
            raise ConfigError(f"the hook has no checkpoint: {given}")
        return open_checkpoint(absolute_address(self.checkpoint), self.connection)

    def health(self, *, deep: bool = False, spark_version: str | None = None) -> Health:
        """Returns whether the query would restart; see `health_of`."""
        return health_of(self.get_conn(), deep=deep, spark=spark_version)

    def verify(self, *, deep: bool = False, sample: tuple[int, int] | None = None) -> Verification:
        """Checks every file that a retained version needs; see `statemaint.verify`."""
        return verify(self.get_conn(), deep=deep, sample=sample)

    def test_connection(self) -> tuple[bool, str]:
        """Returns whether S3 accepts the connection, and its answer, for Airflow's form."""
        try:
            return True, tried(self.connection)
        except StatemaintError as error:
            return False, f"{error.code}: {error}"
