"""The results that the tasks of a run have passed on for a query, and the report on them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from statemaint.airflow import tasks
from statemaint.airflow.decided import Decided
from statemaint.airflow.for_pages import figures_of_run
from statemaint.airflow.names import COSTS, NOTE
from statemaint.airflow.settings import QuerySettings
from statemaint.maintain.bundles import Bundle


@dataclass(frozen=True, slots=True)
class PassedOn:
    """The results that the tasks of a run have passed on for a query; a killed task has none.

    Attributes:
        planned: the bundles of the plan.
        decided: the facts of the plan; `None` if the plan has failed.
        failure: why the plan has failed.
        summaries: the summaries of the tasks that made one.
        errors: the code of each task's error that left no summary.
        refused: whether the run was refused for its own arguments.
    """

    planned: tuple[Bundle, ...] = ()
    decided: Decided | None = None
    failure: str | None = None
    summaries: tuple[Mapping[str, Any], ...] = ()
    errors: tuple[str, ...] = ()
    refused: bool = False


def reported(
    settings: QuerySettings, passed: PassedOn, *, run: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Ends the run of a query, as `finish` does; returns its report, and its XComs by key.

    Args:
        settings: the query's settings.
        passed: the results that the tasks have passed on.
        run: the run's name in the ledger.
    """
    planned, summaries, decided = passed.planned, passed.summaries, passed.decided
    report = tasks.finish(
        settings,
        planned,
        summaries,
        decided=decided,
        failure=passed.failure,
        run=run,
        errors=passed.errors,
        refused=passed.refused,
    )
    figures = figures_of_run(
        settings,
        planned,
        summaries,
        decided=decided,
        failure=passed.failure,
        success=report["success"],
        refused=passed.refused,
    )
    costs = {COSTS: tasks.run_costs(planned, summaries)} if planned and not report["scope"] else {}
    return report, {NOTE: report["note"], **figures, **costs}
