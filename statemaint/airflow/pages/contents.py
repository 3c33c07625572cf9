"""The values of each page's template, from the records of its queries."""

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
from statemaint.plan import Plan

Values = dict[str, Any]


def now() -> datetime:
    """Returns the time."""
    return datetime.now(UTC)


def root() -> str:
    """Returns the path of this Airflow on its host; empty at the host's root."""
    return urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")


def worst(records: Iterable[QueryRecord]) -> QueryRecord:
    """Returns the query that needs most attention."""
    return fleet(records, now())[0].record


def of_fleet(records: Sequence[QueryRecord]) -> Values:
    """Returns the values of the page with all queries."""
    rows = fleet(records, now())
    return {"rows": rows, "totals": totals(rows)}


def of_query(
    record: QueryRecord,
    known: Details,
    *,
    source: CheckpointSource | None,
    refused: Mapping[str, str],
) -> Values:
    """Returns the values of the page of one query."""
    policy = source.policy if source else PRESETS["safe"]
    row = row_of(record, now())
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
        "source": source,
        "asked": f"?query={quote(record.query, safe='')}",
        "now": now(),
    }


def of_partition(record: QueryRecord, plan: Plan, unit: tuple[int, int]) -> Values:
    """Returns the values of the page of one partition."""
    return {
        "record": record,
        "unit": UnitId(*unit),
        "plan": plan,
        "stores": timelines(plan),
        "asked": f"?query={quote(record.query, safe='')}",
    }
