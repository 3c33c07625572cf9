"""Reads a checkpoint while the user waits: all of it, or one partition. Nothing is written."""

import zlib
from dataclasses import replace
from datetime import UTC, datetime

from statemaint.airflow.figures import Told, figures_json, read_figures, withheld_texts
from statemaint.airflow.pages.model import Details, QueryRecord
from statemaint.model.policy import Policy
from statemaint.plan.actions import Plan, Request
from statemaint.plan.withheld import by_reason
from statemaint.planning import plan_checkpoint
from statemaint.report.facts import planned_units
from statemaint.report.task import findings_json
from statemaint.scan.handover import Handover
from statemaint.storage import Storage


def looked_at_now(
    storage: Storage, policy: Policy, record: QueryRecord, known: Details
) -> tuple[QueryRecord, Details]:
    """Returns the current state of a query's checkpoint, with the findings of its last run."""
    _, plan = plan_checkpoint(storage, policy, dry=True)
    units, findings = planned_units(plan), findings_json(plan.all_findings)
    damage = sum(one.damage for one in plan.findings)
    about = {
        "query": record.query,
        "verdict": plan.verdict.value,
        "checkpoint": storage.root,
        "committed": plan.committed,
        "target": plan.target,
        "damage": damage,
        "notices": len(plan.findings) - damage,
        "withheld": withheld_texts(by_reason(plan.withheld)),
        "trash_bytes": record.figures.trash_bytes if record.figures else None,
    }
    figures = read_figures(figures_json(units, findings, about))
    seen = tuple(Told(**one) for one in findings)
    # A listing does not show the contents that a run reads: its findings stay until a run has none.
    before = tuple(one for one in known.findings if one not in seen)
    looked = replace(record, figures=figures, looked=datetime.now(UTC), failed=None)
    return looked, replace(known, units=tuple(units), findings=(*seen, *before))


def plan_of_partition(
    storage: Storage, policy: Policy, unit: tuple[int, int], shared: str | None
) -> Plan:
    """Returns the plan of one partition.

    Args:
        storage: where the checkpoint lives.
        policy: when to snapshot and what to keep.
        unit: the operator and the partition.
        shared: the handover of an earlier plan; with it only this partition is listed.

    Raises:
        ConfigError: when there is no such partition.
    """
    operator, partition = unit
    request = Request(operators=frozenset({operator}), partitions=frozenset({partition}))
    handover = _handover(shared)
    return plan_checkpoint(storage, policy, request=request, handover=handover)[1]


def _handover(text: str | None) -> Handover | None:
    try:
        return Handover.from_json(text) if text else None
    except (zlib.error, ValueError, TypeError, KeyError, AttributeError):
        return None  # of another build: everything is listed
