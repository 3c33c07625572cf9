"""A run of several tasks, of Airflow or Spark: its plan, and the maintenance of a part."""

import os
from dataclasses import dataclass, replace
from typing import Any

from statemaint.maintain.bundles import Bundle
from statemaint.maintain.repeated import with_earlier
from statemaint.maintain.run import OnOutcome, ignored, maintain
from statemaint.memory import memory_from
from statemaint.model.policy import Policy
from statemaint.plan import Plan, Request
from statemaint.planning import plan_checkpoint
from statemaint.report import Halted, Report, summarize
from statemaint.report.facts import facts_of
from statemaint.report.query_state import lag
from statemaint.scan import Handover, Recorder
from statemaint.storage import Storage
from statemaint.workers import Workers

# For one task: the other tasks of a run make requests as well.
_STORES_AT_A_TIME = 4


@dataclass(frozen=True, slots=True)
class Prepared:
    """The input from which the tasks of a run are made.

    Attributes:
        plan: the plan of the whole checkpoint; its target version counts for all tasks.
        idle: the report of the partitions without a task: all, if the logs are damaged.
        handover: the data that the tasks need not read again.
    """

    plan: Plan
    idle: Report
    handover: Handover

    @property
    def has_work(self) -> bool:
        return not self.plan.halted and self.plan.target is not None and bool(self.plan.units)

    def decided(self, *, every_unit: bool) -> dict[str, Any]:
        """Returns what the end of the run needs: `committed`, and `lag` and `facts` of `idle`."""
        plan, idle = self.plan, self.idle
        facts = facts_of(idle, every_unit=every_unit, task=False)
        return {
            "committed": plan.committed,
            "lag": lag((one.after for one in idle.stores), plan.target),
            "facts": facts.to_json() if plan.target is not None else None,
        }


def prepare(storage: Storage, policy: Policy, request: Request | None = None) -> Prepared:
    """Plans a checkpoint for tasks that maintain it; takes no lease and writes nothing."""
    recorder = Recorder(storage)
    checkpoint, plan = plan_checkpoint(recorder, policy, request=request or Request())
    return Prepared(plan, _idle(storage, plan), recorder.handover(checkpoint))


def _idle(storage: Storage, plan: Plan) -> Report:
    mapped = set() if plan.halted else set(plan.units)
    idle = tuple(one for one in plan.stores if one.store.id.unit not in mapped)
    outcomes = [(Halted(one.store.id),) if plan.halted else () for one in idle]
    stores = tuple(
        summarize(one, happened, plan.target) for one, happened in zip(idle, outcomes, strict=True)
    )
    started = storage.now()
    return Report(
        run="", plan=replace(plan, stores=idle), stores=stores, started=started, seconds=0.0
    )


def maintain_part(  # noqa: PLR0913 -- each is a separate choice
    storage: Storage,
    policy: Policy,
    bundle: Bundle,
    *,
    run: str,
    force_snapshot: bool = False,
    handover: Handover | None = None,
    workers: Workers | None = None,
    on_outcome: OnOutcome = ignored,
    repeated: bool = False,
) -> Report:
    """Maintains some partitions at the target that the run's plan fixed; safe to repeat.

    If it is repeated, what lost attempts did counts as well.
    Few stores are worked on at a time by default, in the memory that the environment sets. The rest
    is that of the run's plan.
    """
    request = Request(
        target=bundle.target,
        force_snapshot=force_snapshot,
        operators=frozenset({bundle.operator}),
        partitions=frozenset(bundle.partitions),
    )
    few = min(storage.parallel, _STORES_AT_A_TIME)
    report = maintain(
        storage,
        policy,
        request=request,
        run=run,
        holder=bundle.holder,
        workers=workers or Workers(few, memory_from(os.environ)),
        handover=handover,
        on_outcome=on_outcome,
    )
    return with_earlier(storage, report) if repeated else report
