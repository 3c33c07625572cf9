"""What the tasks of a run pass on to each other: XComs, of one query each by their keys."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowFailException

from statemaint.airflow.names import COSTS, of_query
from statemaint.airflow.plans import PLAN, plan_address
from statemaint.airflow.tasks import PLANNED, REPORT
from statemaint.errors import ConfigError
from statemaint.maintain.bundles import Bundle
from statemaint.maintain.work import TaskResults, key_of
from statemaint.report.task import BundleReport, Failure, loaded, of_one_build

_log = logging.getLogger(__name__)
_OTHER_BUILD = (
    "an earlier task of this run ran on another build of statemaint; clear the whole run, to begin "
    "again with its plan"
)


def pass_on(xcoms: Mapping[str, Any], query: str = "") -> None:
    """Passes on the XComs of a task; those of one query of several have keys of their own.

    The log names the page of a plan among them.
    """
    context = get_current_context()
    for key, value in xcoms.items():
        context["ti"].xcom_push(_key(key, query), value)
    if plan := xcoms.get(PLAN):
        run = context["dag_run"]
        _log.info("the whole plan: %s", plan_address(run.dag_id, run.run_id, plan["query"]))


def _key(key: str, query: str) -> str:
    return of_query(key, query) if query else key


def pulled(key: str, query: str = "") -> Any:
    """Returns what `plan` has passed on."""
    ti = get_current_context()["ti"]
    return ti.xcom_pull(task_ids=sibling("plan"), key=_key(key, query))


def results_from(worker: str, query: str = "") -> TaskResults:
    """Returns what `plan` and the tasks that work have passed on."""
    ti, passed = get_current_context()["ti"], pulled(PLANNED, query)
    results = results_of(passed, ())
    if not results.planned:
        return results
    key = _key(report_key(results.planned), query)
    lists = ti.xcom_pull(task_ids=[sibling(worker)], key=key) or ()
    return results_of(passed, (report for reports in lists for report in reports or ()))


def report_key(planned: Sequence[Bundle]) -> str:
    """Returns the key of the reports on the bundles of one attempt at the plan.

    After a run is cleared, Airflow keeps the XComs of tasks that the new plan does not have.
    """
    return f"{REPORT}.{key_of(planned[0])}"


@contextmanager
def by_one_build() -> Iterator[None]:
    """Fails a task that cannot read what the earlier tasks of its run have passed on."""
    try:
        with of_one_build(_OTHER_BUILD):
            yield
    except ConfigError as error:
        raise AirflowFailException(Failure.of(error).reason) from None


def results_of(planned: Any, reports: Iterable[Any]) -> TaskResults:
    with by_one_build():
        results = loaded(TaskResults, planned) if planned else TaskResults()
        return replace(results, reports=tuple(loaded(BundleReport, report) for report in reports))


def last_costs(query: str = "") -> dict[str, float]:
    """Returns the cost of each partition in the last run that had work."""
    costs = get_current_context()["ti"].xcom_pull(
        task_ids=sibling("report"),
        key=_key(COSTS, query),
        include_prior_dates=True,
        map_indexes=-1,  # without it, Airflow returns those of all runs
    )
    return costs if isinstance(costs, dict) else {}


def own_group() -> str:
    return str(get_current_context()["ti"].task_id).rpartition(".")[0]


def sibling(name: str) -> str:
    return f"{own_group()}.{name}".lstrip(".")
