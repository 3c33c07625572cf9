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

from statemaint.airflow.figures import (
    FindingRow,
    figures_json,
    read_figures,
    restart_figures,
    withheld_texts,
)
from statemaint.airflow.links import dashboard_of, silence_of
from statemaint.airflow.names import VERIFY_DAG
from statemaint.airflow.pages.acknowledgements import acknowledgements
from statemaint.airflow.pages.fleet import fleet, row_of, totals, with_acknowledgements
from statemaint.airflow.pages.query import (
    advise,
    buttons,
    commands,
    contact_link,
    heat_map,
    worst_units,
)
from statemaint.airflow.pages.query_facts import Acknowledgement, Details, QueryRecord
from statemaint.airflow.pages.sources import CheckpointSource
from statemaint.airflow.pages.timeline import timelines
from statemaint.airflow.pages.trend import history
from statemaint.errors import StorageError
from statemaint.maintain.record import read_trend
from statemaint.model.ids import UnitId
from statemaint.model.policy import PRESETS, Policy
from statemaint.plan.actions import Plan, Request
from statemaint.plan.withheld import by_reason
from statemaint.planning import plan_checkpoint
from statemaint.report.facts import planned_units, restart_facts
from statemaint.report.task import findings_json
from statemaint.scan.handover import Handover
from statemaint.storage import Storage

Values = dict[str, Any]
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
) -> Values:
    """Returns the rows of queries, at first the worst; those of editable DAGs can be selected."""
    rows = fleet(records, now())
    worst = [row.record.dag for row in rows if row.attention]
    rows = with_acknowledgements(rows, acknowledgements(session, worst, now()))
    shown = rows if whole else rows[:FIRST_ROWS]
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
) -> Values:
    policy = source.policy if source else PRESETS["safe"]
    row, saved = row_of(record, now()), known.savepoint
    contact = source.contact if source else ""
    if record.invalid is not None:
        refused = {**refused, record.dag: "The entry in the queries file is not valid."}
    checkpoint = source.checkpoint if source else row.figures.checkpoint
    return {
        "row": row,
        "acknowledged": acknowledged,
        "contact": contact,
        "contact_link": contact_link(contact),
        "dashboard": dashboard_of(record.query),
        "silence": silence_of(record.query),
        "failed_task": known.failed_task,
        "checkpoint": checkpoint,
        "map": heat_map(known.units, policy.min_deltas_for_snapshot),
        "units": len(known.units),
        "worst": worst_units(known.units),
        "advice": advise(known.findings, checkpoint),
        "buttons": buttons(record.dag, record.query, own=not record.group, refused=dict(refused)),
        "trend": history(known.trend, row.verdict.label),
        "commands": commands(checkpoint),
        "runs": known.runs,
        "saved": saved,
        "saved_at": saved and datetime.fromtimestamp(saved.ended, UTC),
        "source": source,
        "suffix": f"?query={quote(record.query, safe='')}",
        "now": now(),
    }


def of_partition(record: QueryRecord, plan: Plan, unit: UnitId) -> Values:
    suffix = f"?query={quote(record.query, safe='')}"
    stores = timelines(plan)
    return {"record": record, "unit": unit, "plan": plan, "stores": stores, "suffix": suffix}


def looked_at_now(
    storage: Storage, policy: Policy, record: QueryRecord, known: Details
) -> tuple[QueryRecord, Details]:
    """Returns the current state of a query's checkpoint, with the findings of its last run.

    Its trend is the stored one, with all its points.
    """
    _, plan = plan_checkpoint(storage, policy, dry=True)
    units, findings = planned_units(plan), findings_json(plan.all_findings)
    damage = sum(finding.damage for finding in plan.findings)
    about = {
        "query": record.query,
        "verdict": plan.verdict.value,
        "checkpoint": storage.root,
        "committed": plan.committed,
        "target": plan.target,
        "committed_at": plan.commit.modified if plan.commit else None,
        "silent_after": plan.silent_after,
        "loads": plan.newest_loadable,
        "damage": damage,
        "notices": len(plan.findings) - damage,
        "withheld": withheld_texts(by_reason(plan.withheld)),
        "trash_bytes": record.figures.trash_bytes if record.figures else None,
        **restart_figures(restart_facts(plan, [planned.store for planned in plan.stores])),
    }
    figures = read_figures(figures_json(units, findings, about))
    seen = tuple(FindingRow(**row) for row in findings)
    # A listing does not show the contents that a run reads: its findings stay until a run has none.
    before = tuple(row for row in known.findings if row not in seen)
    looked = replace(record, figures=figures, looked=datetime.now(UTC), failed=None)
    trend = known.trend
    with suppress(StorageError):  # the rest is known by now
        trend = read_trend(storage).points
    return looked, replace(known, units=tuple(units), findings=(*seen, *before), trend=trend)


def plan_of_partition(storage: Storage, policy: Policy, unit: UnitId, shared: str | None) -> Plan:
    """Returns the plan of one partition; with an earlier plan's handover it lists nothing else.

    Raises:
        ConfigError: when there is no such partition.
    """
    request = Request(operators=frozenset({unit.operator}), partitions=frozenset({unit.partition}))
    try:
        handover = Handover.from_json(shared) if shared else None
    except (zlib.error, ValueError, TypeError, KeyError, AttributeError):
        handover = None  # of another build: everything is listed
    return plan_checkpoint(storage, policy, request=request, handover=handover)[1]
