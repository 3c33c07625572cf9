"""The XComs that a run leaves for the pages, from the results of its tasks."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from statemaint.airflow import texts
from statemaint.airflow.connections import open_checkpoint
from statemaint.airflow.decided import Decided
from statemaint.airflow.figures import (
    FAILED,
    FLEET,
    PARTITIONS,
    REFUSED,
    figures_json,
    merged,
    partitions_json,
    withheld_figures,
)
from statemaint.airflow.settings import QuerySettings
from statemaint.errors import StatemaintError
from statemaint.maintain import bytes_in_trash
from statemaint.maintain.bundles import Bundle
from statemaint.report.part import MOST_FINDINGS
from statemaint.report.units import Unit

_log = logging.getLogger(__name__)

# The reason of a plan that failed without one: it was killed, or timed out.
UNPLANNED = "the plan gave no result"

Summary = Mapping[str, Any]


def figures_of_run(  # noqa: PLR0913 -- what each task has handed on
    settings: QuerySettings,
    planned: Sequence[Bundle],
    summaries: Sequence[Summary],
    *,
    decided: Decided | None,
    failure: str | None = None,
    success: bool | None = None,
    dry_run: bool = False,
    refused: bool = False,
) -> dict[str, Any]:
    """Returns the XComs for the pages, by their keys: of the query, and of its partitions.

    A run that looked at nothing leaves only the reason.

    Lists the trash, which is the only request; if that fails, the trash is left out.

    Args:
        settings: the query's settings.
        planned: the bundles of the plan.
        summaries: the summaries of the tasks that made one.
        decided: the facts of the plan; `None` if the plan has failed.
        failure: why the plan has failed.
        success: whether all of the query's work has succeeded.
        dry_run: whether nothing was carried out.
        refused: whether the run was refused for its own arguments.
    """
    plan = decided or Decided()
    reason = failure or (None if decided else UNPLANNED)
    if reason and not (plan.units or plan.findings or summaries):
        return {REFUSED if refused else FAILED: reason}
    reported = [Unit(*row) for one in summaries for row in one.get("units", ())]
    units = merged(plan.units, reported)
    findings = [*plan.findings, *(found for one in summaries for found in one["findings"])]
    silent = {unit for one in planned for unit in one.units} - {one.id for one in reported}
    waits = [*plan.withheld, *(one for part in summaries for one in part.get("withheld", ()))]
    about = {
        "query": settings.query,
        "checkpoint": settings.checkpoint,
        "dry_run": dry_run,
        "failure": failure,
        "success": success,
        "committed": plan.committed,
        "target": plan.target,
        "unreported": len(silent),
        "damage": plan.counts[0],
        "notices": plan.counts[1],
        "trash_bytes": _trash(settings),
        "withheld": withheld_figures(waits),
        **_done(summaries),
    }
    shown = sorted(findings, key=lambda one: not one["damage"])[:MOST_FINDINGS]
    return {
        FLEET: figures_json(units, findings, about),
        PARTITIONS: partitions_json(units, shown),
    }


def _done(summaries: Sequence[Summary]) -> dict[str, int]:
    sums = texts.totals(summaries)
    return {"written": sums["snapshots"], "deleted": sums["files"], "freed": sums["bytes"]}


def _trash(settings: QuerySettings) -> int | None:
    try:
        return bytes_in_trash(open_checkpoint(settings.checkpoint, settings.connection))
    except StatemaintError as error:
        _log.warning("the trash is not counted: %s", error)
        return None
