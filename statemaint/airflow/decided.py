"""The results of `plan` that `report` needs. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from statemaint.model.findings import Finding
from statemaint.plan import Plan, Withheld
from statemaint.report.part import findings_json, waiting_json
from statemaint.report.units import planned_units


@dataclass(frozen=True, slots=True)
class Decided:
    """The facts of the plan that `report` needs.

    Attributes:
        committed: the newest committed batch.
        target: the version at which all partitions are snapshotted; `None` when there is none.
        lag: as in `QueryState`, of the partitions without a task.
        findings: the findings of the checkpoint and of the partitions without a task.
        counts: the number of the checkpoint's own findings that are damage, and of the others.
        units: every partition as the plan found it, with the fields of `figures.Unit`.
        scope: the restriction of the run, in words; empty without one.
        facts: the facts of the partitions without a task, for the metrics.
        withheld: their due snapshots that are not written, as `waiting_json` makes them.
    """

    committed: int | None = None
    target: int | None = None
    lag: int | None = None
    findings: tuple[Mapping[str, Any], ...] = ()
    counts: tuple[int, int] = (0, 0)
    units: tuple[tuple[Any, ...], ...] = ()
    scope: str = ""
    facts: Mapping[str, Any] | None = None
    withheld: tuple[Mapping[str, Any], ...] = ()


def decided_of(
    plan: Plan,
    findings: Sequence[Finding],
    lag: int | None = None,
    *,
    scope: str = "",
    facts: Mapping[str, Any] | None = None,
    withheld: Iterable[Withheld] = (),
) -> Decided:
    """Returns the facts of a plan that `report` needs.

    Args:
        plan: the plan.
        findings: the findings that no task reports.
        lag: as in `QueryState`, of the partitions without a task.
        scope: the restriction of the run, in words.
        facts: the facts of the partitions without a task, for the metrics.
        withheld: their due snapshots that are not written.
    """
    damage = sum(one.damage for one in plan.findings)
    return Decided(
        committed=plan.committed,
        target=plan.target,
        lag=lag,
        findings=tuple(findings_json(findings)),
        counts=(damage, len(plan.findings) - damage),
        units=tuple(planned_units(plan)),
        scope=scope,
        facts=facts,
        withheld=tuple(waiting_json(withheld)),
    )
