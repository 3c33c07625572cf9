"""The values of each page's template, from the facts of its queries."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlsplit

from airflow.configuration import conf

from statemaint.airflow.pages.fleet import fleet, row_of, totals
from statemaint.airflow.pages.model import Details, QueryRecord
from statemaint.airflow.pages.query import advise, buttons, heat_map, worst_units
from statemaint.airflow.pages.sources import CheckpointSource
from statemaint.airflow.pages.timeline import timelines
from statemaint.model.ids import UnitId
from statemaint.model.policy import PRESETS
from statemaint.plan.actions import Plan

Values = dict[str, Any]


def now() -> datetime:
    return datetime.now(UTC)


def root() -> str:
    """Returns the path of this Airflow on its host; empty at the host's root."""
    return urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")


def worst(records: Iterable[QueryRecord]) -> QueryRecord:
    return fleet(records, now())[0].record


def of_fleet(records: Sequence[QueryRecord]) -> Values:
    rows = fleet(records, now())
    return {"rows": rows, "totals": totals(rows)}


def of_query(
    record: QueryRecord,
    known: Details,
    *,
    source: CheckpointSource | None,
    refused: Mapping[str, str],
) -> Values:
    policy = source.policy if source else PRESETS["safe"]
    row, saved = row_of(record, now()), known.savepoint
    if record.invalid is not None:
        refused = {**refused, record.dag: "The entry in the queries file is not valid."}
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
        "saved": saved,
        "saved_at": saved and datetime.fromtimestamp(saved.ended, UTC),
        "source": source,
        "suffix": f"?query={quote(record.query, safe='')}",
        "now": now(),
    }


def of_partition(record: QueryRecord, plan: Plan, unit: tuple[int, int]) -> Values:
    return {
        "record": record,
        "unit": UnitId(*unit),
        "plan": plan,
        "stores": timelines(plan),
        "suffix": f"?query={quote(record.query, safe='')}",
    }
