"""The values of each page's template: from the facts of its queries, or from a checkpoint read now.

Nothing is written.
"""

import zlib
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlsplit

from airflow.configuration import conf
from sqlalchemy.orm import Session

from statemaint.airflow import figures as xcoms
from statemaint.airflow.links import dashboard_of, silence_of
from statemaint.airflow.names import VERIFY_DAG
from statemaint.airflow.pages import query
from statemaint.airflow.pages.activity import acknowledgements
from statemaint.airflow.pages.fleet import fleet, row_of, totals
from statemaint.airflow.pages.query import Acknowledgement, Details, QueryRecord
from statemaint.airflow.pages.sources import CheckpointSource
from statemaint.airflow.pages.trend import history
from statemaint.errors import StorageError
from statemaint.maintain.record import read_trend
from statemaint.model.ids import UnitId
from statemaint.model.policy import PRESETS, Policy
from statemaint.plan.actions import Plan, Request
from statemaint.plan.withheld import by_reason
from statemaint.planning import plan_checkpoint
from statemaint.report.facts import planned_units, restart_facts
from statemaint.report.task import PlanSummary
from statemaint.report.to_json import fields_json
from statemaint.scan.handover import Handover
from statemaint.storage import Storage

# The script loads the others afterwards: HTML of thousands of rows takes a second to make.
FIRST_ROWS = 1_000


def now() -> datetime:
    return datetime.now(UTC)


def root() -> str:
    return urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")


def of_fleet(
    records: Sequence[QueryRecord],
    session: Session,
    editable: AbstractSet[str],
    *,
    whole: bool = False,
) -> dict[str, Any]:
    """Returns the rows of queries, at first the worst; those of editable DAGs can be selected."""
    rows = fleet(records, now())
    held = acknowledgements(session, [row.record.dag for row in rows if row.attention], now())
    shown = [
        replace(row, acknowledged=held[row.record.dag]) if row.record.dag in held else row
        for row in (rows if whole else rows[:FIRST_ROWS])
    ]
    return {
        "rows": shown,
        "rest": len(rows) - len(shown),
        "totals": totals(rows),
        "editable": editable,
        "verify": VERIFY_DAG,
    }


def of_query(
    record: QueryRecord,
    known: Details,
    *,
    source: CheckpointSource | None,
    refused: Mapping[str, str],
    acknowledged: Acknowledgement | None = None,
) -> dict[str, Any]:
    policy, contact = (source.policy, source.contact) if source else (PRESETS["safe"], "")
    row, saved = row_of(record, now()), known.savepoint
    if record.invalid is not None:
        refused = {**refused, record.dag: "The entry in the queries file is not valid."}
    checkpoint = source.checkpoint if source else row.figures.checkpoint
    return {
        "row": row,
        "acknowledged": acknowledged,
        "contact": contact,
        "contact_link": query.contact_link(contact),
        "dashboard": dashboard_of(record.query),
        "silence": silence_of(record.query),
        "failed_task": known.failed_task,
        "checkpoint": checkpoint,
        "map": query.heat_map(known.units, policy.min_deltas_for_snapshot),
        "units": len(known.units),
        "worst": query.worst_units(known.units),
        "advice": query.advise(known.findings, checkpoint),
        "buttons": query.buttons(record.dag, record.query, own=not record.group, refused=refused),
        "trend": history(known.trend, row.verdict.label),
        "commands": query.commands(checkpoint),
        "runs": known.runs,
        "saved": saved,
        "saved_at": saved and datetime.fromtimestamp(saved.ended, UTC),
        "source": source,
        "suffix": f"?query={quote(record.query, safe='')}",
        "now": now(),
    }


def looked_at_now(
    storage: Storage, policy: Policy, record: QueryRecord, known: Details
) -> tuple[QueryRecord, Details]:
    """Returns the current state of a query's checkpoint, with the findings of its last run.

    Its trend is the stored one, with all its points.
    """
    _, plan = plan_checkpoint(storage, policy, dry=True)
    units, summary = planned_units(plan), PlanSummary.of(plan, plan.all_findings)
    damage, notices = summary.counts
    about = {
        "query": record.query,
        "verdict": plan.verdict.value,
        "checkpoint": storage.root,
        **fields_json(summary, "committed target committed_at silent_after loads"),
        "damage": damage,
        "notices": notices,
        "withheld": xcoms.withheld_texts(by_reason(plan.withheld)),
        "trash_bytes": record.figures.trash_bytes if record.figures else None,
        **xcoms.restart_figures(restart_facts(plan, [planned.store for planned in plan.stores])),
    }
    figures = xcoms.read_figures(xcoms.figures_json(units, summary.findings, about))
    seen = tuple(xcoms.FindingRow(**row) for row in summary.findings)
    # A listing does not show the contents that a run reads: its findings stay until a run has none.
    before = tuple(row for row in known.findings if row not in seen)
    looked = replace(record, figures=figures, looked=datetime.now(UTC), failed=None)
    known = replace(known, units=tuple(units), findings=(*seen, *before))
    with suppress(StorageError):  # the rest is known by now
        known = replace(known, trend=read_trend(storage).points)
    return looked, known


def plan_of_partition(storage: Storage, policy: Policy, unit: UnitId, shared: str | None) -> Plan:
    """Returns the plan of one partition; with an earlier plan's handover it lists nothing else."""
    request = Request(operators=frozenset({unit.operator}), partitions=frozenset({unit.partition}))
    try:
        handover = Handover.from_json(shared) if shared else None
    except (zlib.error, ValueError, TypeError, KeyError, AttributeError):
        handover = None  # of another build: everything is listed
    return plan_checkpoint(storage, policy, request=request, handover=handover)[1]
