"""The sensor that waits until a checkpoint is healthy, or its chains are short."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.sdk.exceptions import AirflowSensorTimeout, AirflowSkipException

from statemaint.airflow.endings import TracedOperator, errors_end
from statemaint.airflow.hooks import (
    StatemaintHook,
    check_address,
    health_of,
    longest_chain,
    valid_spark,
)
from statemaint.airflow.links import links
from statemaint.errors import NotACheckpointError


class CheckpointSensor(TracedOperator, BaseSensorOperator):
    """Waits until a query would restart from its checkpoint, and replays no more than a bound.

    Deferred between two looks, it takes no worker and no slot. Each look is a task of its own, as
    it may read a lot: the triggerer only waits, and reaches no storage.

    Args:
        checkpoint: the query's checkpointLocation.
        connection: the Airflow connection for S3, of type `aws` or `statemaint`.
        healthy: wait until the query would restart; if off, only listings are read.
        max_chain: wait until a restart replays at most this many deltas in each store.
        spark_version: of the query, such as `4.2`; from 4.2 on Spark passes over bad snapshots.
        deferrable: whether to wait in the triggerer; otherwise as set by `mode`.
        kwargs: `poke_interval`, `timeout`, `soft_fail`, and arguments of Airflow's operators; other
            arguments of its sensors, such as `silent_fail`, need `deferrable=False`.
    """

    template_fields = ("checkpoint", "connection")
    operator_extra_links = links()

    def __init__(
        self,
        *,
        checkpoint: str,
        connection: str | None = None,
        healthy: bool = True,
        max_chain: int | None = None,
        spark_version: str | None = None,
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_address(checkpoint)
        self.checkpoint, self.connection = checkpoint, connection
        self.healthy, self.max_chain, self.deferrable = healthy, max_chain, deferrable
        self.spark_version = valid_spark(spark_version)
        if not healthy and max_chain is None:
            raise ValueError("there is nothing to wait for: give max_chain, or leave healthy on")

    def execute(self, context: Mapping[str, Any]) -> Any:
        if not self.deferrable:
            return self.traced(super().execute(context))  # type: ignore[arg-type, unused-ignore]
        return self.look_again(context, since=datetime.now(UTC).isoformat())

    def look_again(self, context: Mapping[str, Any], event: Any = None, *, since: str) -> Any:
        """Looks once, and waits in the triggerer for the next time."""
        del event
        look = self.poke(context)
        seen: dict[str, Any] = look.xcom_value or {}
        if look.is_done:
            return self.traced(seen)
        if datetime.now(UTC) - datetime.fromisoformat(since) > timedelta(seconds=self.timeout):
            ended = AirflowSkipException if self.soft_fail else AirflowSensorTimeout
            raise ended(f"{seen['reason']}; gave up after {self.timeout:.0f} s")
        trigger = TimeDeltaTrigger(timedelta(seconds=self.poke_interval))
        return self.defer(trigger=trigger, method_name="look_again", kwargs={"since": since})

    def poke(self, context: Mapping[str, Any]) -> PokeReturnValue:
        del context
        facts: dict[str, Any] = {"checkpoint": self.checkpoint}
        with errors_end(timedelta(), self.connection):
            try:
                reason = self._reason(facts)
            except NotACheckpointError as error:
                reason = f"{error.code}: {error}"  # the query may not have begun
        if reason:
            self.log.info("not yet: %s", reason)
        return PokeReturnValue(reason is None, {**facts, "reason": reason})

    def _reason(self, facts: dict[str, Any]) -> str | None:
        storage = StatemaintHook(self.checkpoint, self.connection).get_conn()
        if self.max_chain is not None:
            facts["chain"] = chain = longest_chain(storage)
            if chain is None:
                return "no committed version loads in every store"
            if chain > self.max_chain:
                return f"a restart replays {chain} deltas"
        return health_of(storage, spark=self.spark_version).reason if self.healthy else None
