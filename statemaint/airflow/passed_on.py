"""What the tasks of a run have passed on of a query, and the report that is made of it."""

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
    """What the tasks of a run have passed on of a query; a task that was killed passes on nothing.

    Attributes:
        planned: the bundles of the plan.
        decided: what the plan found; `None` where the plan has failed.
        failure: why the plan has failed.
        summaries: the summaries of those tasks that made one.
        errors: the code of each task's error that left no summary.
    """

    planned: tuple[Bundle, ...] = ()
    decided: Decided | None = None
    failure: str | None = None
    summaries: tuple[Mapping[str, Any], ...] = ()
    errors: tuple[str, ...] = ()


def reported(
    settings: QuerySettings, passed: PassedOn, *, run: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Ends the run of a query, as `finish` does; returns its report, and its XComs by their keys.

    Args:
        settings: the query's settings.
        passed: what the tasks have passed on.
        run: the run's name in the ledger.
    """
    planned, summaries, decided = passed.planned, passed.summaries, passed.decided
    found = tasks.finish(
        settings,
        planned,
        summaries,
        decided=decided,
        failure=passed.failure,
        run=run,
        errors=passed.errors,
    )
    figures = figures_of_run(
        settings,
        planned,
        summaries,
        decided=decided,
        failure=passed.failure,
        success=found["success"],
    )
    costs = {COSTS: tasks.run_costs(planned, summaries)} if planned and not found["scope"] else {}
    return found, {NOTE: found["note"], **figures, **costs}
