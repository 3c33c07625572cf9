"""What our tasks share: their operator and form, and their ends: failed, waiting, an Asset.

OpenLineage: which checkpoints a task has read and written, and what it has deleted there. Airflow's
OpenLineage provider package asks a task that has succeeded; without it none of this runs.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from airflow.configuration import conf
from airflow.providers.standard.decorators.python import _PythonDecoratedOperator
from airflow.sdk import get_current_context
from airflow.sdk.bases.decorator import task_decorator_factory
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowRescheduleException,
    DownstreamTasksSkipped,
    TaskDeferred,
)

from statemaint.airflow.names import asset_uri, findings_uri
from statemaint.airflow.settings import Notified, unknown_options
from statemaint.airflow.texts import is_damaged
from statemaint.airflow.triggers import LeaseTrigger, delay_after
from statemaint.errors import LeaseHeldError, StatemaintError
from statemaint.queries.checks import BUCKETS
from statemaint.report.task import Failure

_log = logging.getLogger(__name__)
# The name under which notifiers find the report: `{{ statemaint.note }}` in their templates.
REPORT_VARIABLE = "statemaint"

# How much longer than the deadline of its trigger a deferred task waits for a triggerer.
_MARGIN = timedelta(minutes=5)
# Of a run of maintenance, of a gate that repaired, of a repair or a rollback.
_WRITES = ("maintained", "repaired", "removed", "written")
# The fields of the run facet, and of a run's report.
_COUNTS = {
    "snapshotsWritten": "snapshots",
    "bytesWritten": "bytes_written",
    "filesDeleted": "files",
    "bytesDeleted": "bytes",
}


class TracedOperator:
    """The part of an operator that remembers its result, for its OpenLineage events."""

    result: Any = None

    def traced(self, result: Any) -> Any:
        self.result = result
        return result

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Returns the `OperatorLineage` of the task, for Airflow's OpenLineage listener."""
        from airflow.providers.common.compat.openlineage import facet  # noqa: PLC0415 -- an extra
        from airflow.providers.openlineage.extractors import OperatorLineage  # noqa: PLC0415

        del task_instance
        # One report, or one for each query by its name.
        results = self.result if isinstance(self.result, Mapping) else {}
        parts = [results] if "checkpoint" in results else results.values()
        reports = [each for each in parts if isinstance(each, Mapping) and "checkpoint" in each]
        totals, outputs = Counter[str](), []
        for report in reports:
            counts = counts_of(report)
            totals.update(counts)
            size, count = counts.get("bytesWritten"), counts.get("snapshotsWritten")
            statistics = facet.OutputStatisticsOutputDatasetFacet(size=size, fileCount=count)
            for address in outputs_of(report):
                facets = {"outputStatistics": statistics}
                outputs.append(facet.OutputDataset(*dataset_name(address), outputFacets=facets))
        run = facet.RunFacet().with_additional_properties(**totals)
        return OperatorLineage(
            inputs=[facet.InputDataset(*dataset_name(report["checkpoint"])) for report in reports],
            outputs=outputs,
            run_facets={"statemaint": run} if reports else {},
        )


def outputs_of(report: Mapping[str, Any]) -> list[str]:
    """Returns the addresses of what a report has written: its checkpoint, or a savepoint."""
    if "savepoint" in report:
        return [report["savepoint"]]
    writes = ("files",) if "undo" in report else _WRITES
    return [report["checkpoint"]] if any(map(report.get, writes)) else []


def dataset_name(address: str) -> tuple[str, str]:
    """Returns the namespace and the name of an address, as OpenLineage spells them."""
    scheme, remote, rest = address.partition("://")
    host, _, path = rest.partition("/")
    if not remote or scheme == "file":
        return "file", f"/{path}" if remote else address.removeprefix("file:")
    namespace = f"{'s3' if scheme in BUCKETS else scheme}://{host}"
    return namespace, f"/{path}" if scheme == "hdfs" else path or "/"


def counts_of(report: Mapping[str, Any]) -> dict[str, int]:
    """Returns the counts that a report has, under the names of the facets."""
    match report:
        case {"savepoint": _, "bytes": written}:
            return {"bytesWritten": written}
        case {"removed": removed, "written": snapshots}:
            return {"snapshotsWritten": len(snapshots), "filesDeleted": len(removed)}
        case {"undo": _, "files": files, "bytes": size}:
            return {"filesRestored": files, "bytesRestored": size}
        case _:
            return {name: report[key] for name, key in _COUNTS.items() if key in report}


class WaitingOperator(TracedOperator):
    """The part of an operator that waits for a lease in the triggerer, if it is deferrable.

    Attributes:
        deferrable: `None` for Airflow's setting `[operators] default_deferrable`.
        since: when the wait in the triggerer began.
        looks: how often the triggerer has looked at the lease.
    """

    deferrable: bool | None = None
    since: datetime | None = None
    looks = 0

    def look_again(self, context: Any, event: Mapping[str, int], *, since: str) -> Any:
        """Goes on after the triggerer's wait."""
        self.since, self.looks = datetime.fromisoformat(since), event["looks"]
        return self.execute(context)  # type: ignore[attr-defined]


class StatemaintTask(WaitingOperator, _PythonDecoratedOperator):
    """The operator of `@task`, for our tasks."""

    def execute(self, context: Any) -> Any:
        return self.traced(super().execute(context))


def our_task(name: str, text: str | None, **more: Any) -> Callable[[Callable[..., Any]], Any]:
    """Returns the decorator of a task whose result is not for the log."""
    more |= {"task_id": name, "doc_md": text, "show_return_value_in_logs": False}
    return task_decorator_factory(decorated_operator_class=StatemaintTask, **more)


def wait(held: str, most: timedelta, *, checkpoint: str, connection: str | None) -> NoReturn:
    """Ends this attempt, to go on later: each wait is twice as long as the one before.

    Waiting takes no worker and no slot of the pool, and is no retry. A deferrable task goes on when
    the triggerer has seen the lease free; it fails if no triggerer runs. Others begin to look.
    """
    context, now = get_current_context(), datetime.now(UTC)
    task: Any = context["task"]
    first = task.since or context["ti"].get_first_reschedule_date(context) or now
    if now - first > most:
        raise AirflowFailException(f"{held}; gave up after {most}")
    usual = conf.getboolean("operators", "default_deferrable", fallback=False)
    if usual if task.deferrable is None else task.deferrable:
        end, since = first + most, {"since": first.isoformat()}
        trigger = LeaseTrigger(checkpoint, connection, until=end.timestamp(), looks=task.looks)
        _log.info("%s; the triggerer looks at it until %s", held, f"{end:%F %T} UTC")
        left = end - now + _MARGIN
        raise TaskDeferred(trigger=trigger, method_name="look_again", kwargs=since, timeout=left)
    delay = delay_after(int(context.get("task_reschedule_count", 0) or 0))
    _log.info("%s; looking again in %d s", held, delay.total_seconds())
    raise AirflowRescheduleException(now + delay)  # type: ignore[no-untyped-call]


def form_values(names: Sequence[str]) -> dict[str, Any]:
    """Returns the values of the run's form; refuses other keys before anything is done."""
    context = get_current_context()
    fail(unknown_options(context["dag_run"].conf, names))
    return {name: context["params"][name] for name in names}


def fail(failure: Failure | None) -> None:
    """Fails the task if there is a failure, for good unless another attempt could succeed."""
    if failure:
        raise (AirflowException if failure.retry else AirflowFailException)(failure.reason)


def skip(*names: str) -> NoReturn:
    """Ends the task, and skips tasks after it by their ids."""
    raise DownstreamTasksSkipped(tasks=[*names])  # type: ignore[no-untyped-call]


@contextmanager
def errors_end(waits: timedelta, connection: str | None) -> Iterator[None]:
    """Ends the task with our errors: waits for a lease that another run holds, fails otherwise."""
    try:
        yield
    except LeaseHeldError as error:
        held = f"{error.code}: {error}"
        wait(held, waits, checkpoint=error.root, connection=connection)
    except StatemaintError as error:
        fail(Failure.of(error))
    except ValueError as error:
        fail(Failure(f"CONFIG: {error}"))


def update_assets(context: Mapping[str, Any], query: str, report: Mapping[str, Any]) -> None:
    """Decides which Assets of a query a task updates when it succeeds: without a report, none.

    Others stay as they are.
    """
    updates = {
        asset_uri(query): bool(report.get("maintained")),
        findings_uri(query): is_damaged(report.get("broken", ())),
    }
    outlets = context["task"].outlets
    outlets[:] = [outlet for outlet in outlets if updates.get(getattr(outlet, "name", ""), True)]
    for outlet in outlets:
        if getattr(outlet, "name", "") in updates:
            context["outlet_events"][outlet].extra = dict(report)


def notify_all(
    notifiers: Iterable[Notified], context: Mapping[str, Any], report: Mapping[str, Any]
) -> None:
    """Calls notifiers with Airflow's context, in which `statemaint` is the run's report.

    Errors are only logged: the run's outcome is that of its maintenance.
    """
    for notifier in notifiers:
        try:
            notifier({**context, REPORT_VARIABLE: dict(report)})
        except Exception:  # noqa: BLE001 -- the notifier is not ours
            _log.exception("a notifier of this task failed")
