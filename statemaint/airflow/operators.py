"""Operators for a user's DAG: maintain a checkpoint, verify it, and the gate before a query.

Their `checkpoint`, `connection` and `query` are Airflow templates. An Asset is updated only by a
task that succeeds, so the findings of an operator that fails are in its log and its XComs.
"""

from abc import abstractmethod
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow.sdk import Asset, BaseOperator

from statemaint.airflow.endings import WaitingOperator, errors_end, fail, update_assets, wait
from statemaint.airflow.hooks import (
    Health,
    StatemaintHook,
    check_address,
    health_of,
    repaired_health,
    valid_spark,
)
from statemaint.airflow.links import links
from statemaint.airflow.names import NOTE, POOL, asset_uri, findings_uri, run_name
from statemaint.airflow.passed_on import pass_on
from statemaint.airflow.publish import reporting
from statemaint.airflow.recoveries import verified
from statemaint.airflow.run_tasks import holder_of
from statemaint.airflow.settings import (
    Options,
    QuerySettings,
    given_name,
    given_query,
    given_settings,
    is_template,
)
from statemaint.airflow.tasks import maintain_query
from statemaint.errors import NotACheckpointError
from statemaint.report.task import Failure
from statemaint.storage import Storage
from statemaint.wording import command

# The key of the XCom with the findings of a failed task, which returns nothing.
FOUND = "found"
_HOUR = timedelta(hours=1)


class CheckpointOperator(WaitingOperator, BaseOperator):
    """The common part of all operators on one checkpoint.

    Args:
        checkpoint: the query's checkpointLocation.
        connection: the Airflow connection for S3, of type `aws` or `statemaint`.
        query: the query's name, for Assets and links; by default the address's last part.
        wait_for_lease: the maximum wait for another run that maintains the checkpoint.
        deferrable: whether to wait for it in the triggerer; by default as Airflow's setting
            `[operators] default_deferrable`.
        kwargs: arguments of Airflow's operators.
    """

    template_fields = ("checkpoint", "connection", "query")
    operator_extra_links = links()

    def __init__(
        self,
        *,
        checkpoint: str,
        connection: str | None = None,
        query: str | None = None,
        wait_for_lease: timedelta = _HOUR,
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_address(checkpoint)
        self.checkpoint, self.connection, self.query = checkpoint, connection, query
        self.wait_for_lease, self.deferrable = wait_for_lease, deferrable
        if not is_template(query or str(checkpoint)):
            name = given_name(query, str(checkpoint))
            self.outlets = [*self.outlets, *map(Asset, self.updates(name))]

    def execute(self, context: Mapping[str, Any]) -> Any:
        with errors_end(self.wait_for_lease, self.connection):
            self.query = given_name(self.query, self.checkpoint)
            return self.traced(self.work(context))

    @abstractmethod
    def work(self, context: Mapping[str, Any]) -> Any:
        """Does the operator's work, and returns the task's XCom."""

    def updates(self, query: str) -> list[str]:
        """Returns the Assets that the operator may update."""
        return [findings_uri(query)]

    def storage(self) -> Storage:
        return StatemaintHook(self.checkpoint, self.connection).get_conn()

    def settings(
        self, policy: Mapping[str, Any] | None = None, **outputs: str | None
    ) -> QuerySettings:
        keys = {"policy": policy or {}, "connection": self.connection or None}
        return given_settings(self.query, self.checkpoint, keys, **outputs)[1]

    def tell(
        self, context: Mapping[str, Any], result: dict[str, Any], failure: Failure | None
    ) -> dict[str, Any]:
        """Ends the task with its result: returns it, or passes it on and fails."""
        if failure:
            context["ti"].xcom_push(FOUND, result)
            fail(failure)
        # Airflow does not know the Assets of a mapped task, as its checkpoint is not known either.
        update_assets(context, str(self.query), result if context["ti"].map_index < 0 else {})
        return result


class MaintainCheckpointOperator(CheckpointOperator):
    """Maintains a checkpoint in one task: for few partitions, or to be mapped over checkpoints.

    It does what the tasks of `StateMaintenanceTaskGroup` do, one partition after another, under one
    lease. It fails if a partition is damaged, after it has maintained the others.

    Args:
        policy: as in the queries file.
        force_snapshot: snapshot every partition, however short its chain is.
        dry_run: only show what would be done, in the log and as a file.
        pushgateway: where to push metrics; STATEMAINT_PUSHGATEWAY in the environment wins.
        textfile: a folder for metrics files.
        kwargs: as for `CheckpointOperator`.
    """

    def __init__(
        self,
        *,
        policy: Mapping[str, Any] | None = None,
        force_snapshot: bool = False,
        dry_run: bool = False,
        pushgateway: str | None = None,
        textfile: str | None = None,
        pool: str = POOL,
        **kwargs: Any,
    ) -> None:
        super().__init__(pool=pool, **kwargs)
        self.policy, self.force_snapshot = policy, force_snapshot
        self.shows_only = dry_run  # Airflow has a method `dry_run`
        self.pushgateway, self.textfile = pushgateway, textfile
        # Wrong arguments show when the DAG is parsed.
        given_query("query", "/checkpoint", {"policy": policy or {}})

    def updates(self, query: str) -> list[str]:
        return [asset_uri(query), findings_uri(query)]

    def work(self, context: Mapping[str, Any]) -> dict[str, Any]:
        outputs = {"pushgateway": self.pushgateway, "textfile": self.textfile}
        settings = self.settings(self.policy, **outputs)
        options = Options(dry_run=self.shows_only, force_snapshot=self.force_snapshot)
        dag_run, ti = context["dag_run"], context["ti"]
        task = f"{ti.task_id}.{ti.map_index}" if ti.map_index >= 0 else str(ti.task_id)
        run = run_name(dag_run.dag_id, task, dag_run.run_id)
        holder = holder_of(dag_run.dag_id, task)
        with reporting(settings, 0) as progress:
            done = maintain_query(settings, options, holder, run=run, on_outcome=progress.changes())
            progress.failed = done.failure is not None
            if done.report is None:
                where, key = settings.checkpoint, settings.connection
                wait(str(done.held), self.wait_for_lease, checkpoint=where, connection=key)
        pass_on({NOTE: done.report["note"], **done.shown})
        return self.tell(context, done.report, done.failure)


class VerifyCheckpointOperator(CheckpointOperator):
    """Checks every file that a retained version needs; fails if anything is damaged.

    Args:
        deep: decode every file, compare every snapshot with its log, and check every row.
        sample: the `n`-th of `t` shares of the partitions, `(n, t)`; all by default.
        fail_on_damage: without it the task succeeds and updates the Asset of findings.
        kwargs: as for `CheckpointOperator`.
    """

    def __init__(
        self,
        *,
        deep: bool = False,
        sample: tuple[int, int] | None = None,
        fail_on_damage: bool = True,
        pool: str = POOL,
        **kwargs: Any,
    ) -> None:
        super().__init__(pool=pool, **kwargs)
        self.deep, self.sample, self.fail_on_damage = deep, sample, fail_on_damage

    def work(self, context: Mapping[str, Any]) -> dict[str, Any]:
        with reporting(self.settings(), 0, verb="verify") as progress:
            result = verified(self.storage(), deep=self.deep, sample=self.sample)
            progress.failed = result.failure is not None
        self.log.info(result.log)
        return self.tell(context, result.json, result.failure if self.fail_on_damage else None)


class CheckpointHealthyOperator(CheckpointOperator):
    """The gate before a query: fails, or repairs first, if it would not restart.

    It decodes every file of each retained version, as `statemaint doctor` does. Findings that do
    not stop a restart are logged, update the Asset of findings, and let the query start.

    Args:
        repair: repair what the log can prove, if the query would not restart; the bad files are
            kept in the trash for thirty days. **The query must not run.**
        deep: also check the rows of the newest version.
        spark_version: of the query, such as `4.2`; from 4.2 on Spark passes over bad snapshots.
        allow_missing: succeed if there is nothing at the address, for a query's first start.
        kwargs: as for `CheckpointOperator`.
    """

    def __init__(
        self,
        *,
        repair: bool = False,
        deep: bool = False,
        spark_version: str | None = None,
        allow_missing: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.repair, self.deep, self.allow_missing = repair, deep, allow_missing
        self.spark_version = valid_spark(spark_version)

    def work(self, context: Mapping[str, Any]) -> dict[str, Any]:
        storage = self.storage()
        try:
            health = health_of(storage, deep=self.deep, spark=self.spark_version)
            if health.reason and self.repair:
                self.log.warning("%s; repairing it first", health.reason)
                health = repaired_health(storage, deep=self.deep, spark=self.spark_version)
        except NotACheckpointError:
            if self.allow_missing and not any(storage.list("")):
                nothing = "%s: there is nothing yet; the query starts from scratch"
                self.log.info(nothing, self.checkpoint)
                empty = {"checkpoint": self.checkpoint, "healthy": True, "broken": []}
                return self.tell(context, empty, None)
            raise
        self._log(health)
        failure = Failure(health.reason) if health.reason else None
        return self.tell(context, health.to_json(), failure)

    def _log(self, health: Health) -> None:
        for finding in health.findings:
            self.log.warning("%s: %s", finding.code.value, finding.detail)
        if health.repaired:
            undo = command("undo", self.checkpoint, health.repaired)
            self.log.info("repaired; `%s` brings the removed files back", undo)
        if health.reason is None:
            self.log.info("the query would restart after batch %s", health.committed)
        else:
            for step in health.to_json()["todo"]:
                self.log.info("next: `%s`, %s", step["command"], step["runbook"])
