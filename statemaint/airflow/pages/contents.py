"""The values of each page's template, from what is known of its queries."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlsplit

from airflow.configuration import conf

from statemaint.airflow.figures import Told, figures_json, planned_units, read_figures
from statemaint.airflow.pages.fleet import fleet, row_of, totals
from statemaint.airflow.pages.model import Details, Record
from statemaint.airflow.pages.query import advise, buttons, heat_map, worst_units
from statemaint.airflow.pages.sources import Source
from statemaint.airflow.pages.timeline import timelines
from statemaint.airflow.texts import findings_json
from statemaint.model.ids import UnitId
from statemaint.model.policy import PRESETS, Policy
from statemaint.plan import Plan, Request
from statemaint.planning import plan_checkpoint
from statemaint.scan import Handover
from statemaint.storage import Storage

Values = dict[str, Any]


def now() -> datetime:
    """Returns the time."""
    return datetime.now(UTC)


def root() -> str:
    """Returns the path of this Airflow on its host; empty at the host's root."""
    return urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")


def worst(records: Iterable[Record]) -> Record:
    """Returns the query that needs most attention."""
    return fleet(records, now())[0].record


def of_fleet(records: Sequence[Record]) -> Values:
    """Returns the values of the page with all queries."""
    rows = fleet(records, now())
    return {"rows": rows, "totals": totals(rows)}


def of_query(
    record: Record, known: Details, *, source: Source | None, refused: Mapping[str, str]
) -> Values:
    """Returns the values of the page of one query."""
    policy = source.policy if source else PRESETS["safe"]
    row = row_of(record, now())
    checkpoint = source.checkpoint if source else row.figures.checkpoint
    return {
        "row": row,
        "checkpoint": checkpoint,
        "map": heat_map(known.units, policy.min_deltas_for_snapshot),
        "units": len(known.units),
        "worst": worst_units(known.units),
        "advice": advise(known.findings, checkpoint),
        "buttons": buttons(record.dag, record.query, own=not record.group, refused=dict(refused)),
        "runs": known.runs,
        "source": source,
        "asked": f"?query={quote(record.query, safe='')}",
        "now": now(),
    }


def looked_at_now(
    storage: Storage, policy: Policy, record: Record, known: Details
) -> tuple[Record, Details]:
    """Returns a query as its checkpoint is now, with the findings of its last run."""
    _, plan = plan_checkpoint(storage, policy)
    units, told = planned_units(plan), findings_json(plan.all_findings)
    damage = sum(one.damage for one in plan.findings)
    about = {
        "query": record.query,
        "checkpoint": storage.root,
        "committed": plan.committed,
        "target": plan.target,
        "damage": damage,
        "notices": len(plan.findings) - damage,
        "trash_bytes": record.figures.trash_bytes if record.figures else None,
    }
    figures = read_figures(figures_json(units, told, about))
    seen = tuple(Told(**one) for one in told)
    # A listing does not show what a run has read: its findings stay until a run does not find them.
    before = tuple(one for one in known.findings if one not in seen)
    looked = replace(record, figures=figures, looked=now())
    return looked, replace(known, units=tuple(units), findings=(*seen, *before))


def plan_of_partition(
    storage: Storage, policy: Policy, unit: tuple[int, int], shared: str | None
) -> Plan:
    """Returns the plan of one partition.

    Args:
        storage: where the checkpoint lives.
        policy: when to snapshot and what to keep.
        unit: the operator and the partition.
        shared: what an earlier plan has handed over; with it only this partition is listed.

    Raises:
        ConfigError: when there is no such partition.
    """
    operator, partition = unit
    request = Request(operators=frozenset({operator}), partitions=frozenset({partition}))
    known = _handover(shared)
    return plan_checkpoint(storage, policy, request=request, handover=known)[1]


def _handover(text: str | None) -> Handover | None:
    try:
        return Handover.from_json(text) if text else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None  # of another build: everything is listed


def of_partition(record: Record, plan: Plan, unit: tuple[int, int]) -> Values:
    """Returns the values of the page of one partition."""
    return {
        "record": record,
        "unit": UnitId(*unit),
        "plan": plan,
        "stores": timelines(plan),
        "asked": f"?query={quote(record.query, safe='')}",
    }
