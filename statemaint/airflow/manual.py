"""DAGs for manual work on any query: verify; repair, rollback, undo and reshape with an approval.

Each of these four is planned and shown first. An approved repair, rollback or undo is carried out
exactly as shown, or not at all: the plan's fingerprint must still be that of the checkpoint. A
reshape saves the batch that is the newest by then, in the shape and the place that were shown.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, Param, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException, DownstreamTasksSkipped

from statemaint.airflow.broken import START
from statemaint.airflow.connections import open_checkpoint
from statemaint.airflow.endings import fail
from statemaint.airflow.factory import settings_of
from statemaint.airflow.form import reshape_form
from statemaint.airflow.location import queries_reader
from statemaint.airflow.names import (
    POOL,
    REPAIR_DAG,
    RESHAPE_DAG,
    ROLLBACK_DAG,
    UNDO_DAG,
    VERIFY_DAG,
)
from statemaint.airflow.recoveries import (
    Applied,
    Shown,
    apply_shown,
    plan_shown,
    undo_shown,
    verified,
)
from statemaint.airflow.reporting import reporting
from statemaint.airflow.reshapes import reshaped, shape_shown
from statemaint.errors import StatemaintError
from statemaint.queries.reading import QueriesReading
from statemaint.recover import plan_repair, plan_rollback
from statemaint.report.task import Failure
from statemaint.storage import Storage
from statemaint.undo.run import plan_undo

if TYPE_CHECKING:
    from statemaint.metrics.tasks import Progress

_log = logging.getLogger(__name__)
_SHOWN = "shown"

_Form = Mapping[str, Any]
Planner = Callable[[Storage, _Form], Shown]
Applier = Callable[[Storage, _Form, dict[str, Any]], Applied]


def manual_dags(path: str | Path) -> dict[str, DAG]:
    """Returns the DAGs, by their ids; none if the file has no valid query. Never raises.

    Args:
        path: the queries file. The DAGs of `build_dags` show its mistakes.
    """
    reading = queries_reader(path).read()
    if not reading.queries:
        return {}
    makers = (_verify_dag, _repair_dag, _rollback_dag, _undo_dag, _reshape_dag)
    made = (dag(reading) for dag in makers)
    return {dag.dag_id: dag for dag in made}


def _verify_dag(reading: QueriesReading) -> DAG:
    params = {
        "query": _choice(reading),
        "deep": Param(
            False,
            type="boolean",
            title="Deep",
            description_md="Decode every file, compare every snapshot, check every row.",
        ),
        "sample": Param(
            None,
            type=["null", "string"],
            pattern=r"^[1-9]\d*/[1-9]\d*$",
            title="Sample",
            description_md="`N/T`: only the N-th of T shares of the partitions. Empty: all.",
        ),
    }
    with _dag(VERIFY_DAG, "Checks every file that a retained version needs", params) as dag:

        @task(task_id="verify", pool=POOL, show_return_value_in_logs=False)
        def verify() -> dict[str, Any]:
            with _working(reading, params, "verify") as (chosen, storage, _):
                share = [int(one) for one in (chosen["sample"] or "").split("/") if one]
                sample = (share[0], share[1]) if share else None
                result = verified(storage, deep=chosen["deep"], sample=sample)
                _log.info(result.line)
                if result.failure:
                    get_current_context()["ti"].xcom_push("found", result.json)
                    fail(result.failure)
            return result.json

        verify()
    return dag


def _repair_dag(reading: QueriesReading) -> DAG:
    params = {"query": _choice(reading)}
    with _dag(REPAIR_DAG, "Repairs what the log can prove, after an approval", params) as dag:
        _recovery(reading, params, "repair", lambda storage, _: plan_shown(plan_repair(storage)))
    return dag


def _rollback_dag(reading: QueriesReading) -> DAG:
    batch = Param(
        type="integer",
        exclusiveMinimum=-1,  # with `minimum`, Airflow's form turns a -1 into a 0 silently
        title="Batch",
        description_md="The newest batch that stays committed.",
    )
    params = {"query": _choice(reading), "batch": batch}
    about = "Rolls a query back to a batch, after an approval"
    with _dag(ROLLBACK_DAG, about, params) as dag:

        def planner(storage: Storage, form: _Form) -> Shown:
            return plan_shown(plan_rollback(storage, form["batch"]))

        _recovery(reading, params, "rollback", planner)
    return dag


def _undo_dag(reading: QueriesReading) -> DAG:
    run = Param(
        type="string",
        minLength=1,
        title="Run",
        description_md="The run whose files come back; `statemaint runs` lists it.",
    )
    params = {"query": _choice(reading), "run": run}
    about = "Brings back the files that a run moved to the trash, after an approval"
    with _dag(UNDO_DAG, about, params) as dag:

        def planner(storage: Storage, form: _Form) -> Shown:
            return undo_shown(plan_undo(storage, form["run"].strip()))

        _recovery(reading, params, "undo", planner)
    return dag


def _reshape_dag(reading: QueriesReading) -> DAG:
    params = {"query": _choice(reading), **reshape_form()}
    about = "Saves a query with other partitions or another provider, after an approval"
    with _dag(RESHAPE_DAG, about, params) as dag:

        def planner(_: Storage, form: _Form) -> Shown:
            return shape_shown(settings_of(reading, form["query"]), form)

        def applier(_: Storage, form: _Form, __: dict[str, Any]) -> Applied:
            return reshaped(settings_of(reading, form["query"]), form)

        _recovery(reading, params, "savepoint", planner, applier)
    return dag


def _recovery(
    reading: QueriesReading,
    params: Mapping[str, Param],
    verb: str,
    planner: Planner,
    applier: Applier = lambda storage, _, document: apply_shown(storage, document),
) -> None:
    """Adds the tasks of a repair, rollback, undo or reshape to the current DAG."""

    @task(
        task_id="plan",
        pool=POOL,
        show_return_value_in_logs=False,
        doc_md="Plans, and shows each step with its reason.",
    )
    def plan() -> dict[str, Any]:
        with _working(reading, params, verb, "plan") as (chosen, storage, _):
            shown = planner(storage, chosen)
            _log.info(shown.log)
            get_current_context()["ti"].xcom_push(_SHOWN, shown.text)
            if shown.document is None:
                if shown.failure:
                    fail(shown.failure)
                skipped = ["approve", "apply"]
                raise DownstreamTasksSkipped(tasks=skipped)  # type: ignore[no-untyped-call]
        return shown.document

    approve: Any = ApprovalOperator(
        task_id="approve",
        subject="{{ dag.dag_id }}: {{ params.query }}. Stop the query before you approve.",
        body=f"{{{{ ti.xcom_pull(task_ids='plan', key='{_SHOWN}') }}}}",
        doc_md="Waits for an answer; if rejected, nothing is done.",
    )

    @task(
        task_id="apply",
        pool=POOL,
        show_return_value_in_logs=False,
        doc_md="Carries out the shown plan, or nothing at all.",
    )
    def apply(document: dict[str, Any]) -> dict[str, Any]:
        with _working(reading, params, verb, "apply") as (chosen, storage, progress):
            done = applier(storage, chosen, document)
            progress.add(**done.figures)
            _log.info(done.log)
            if done.failure:
                fail(done.failure)
        return done.json

    planned: Any = plan()
    planned >> approve >> apply(planned)


def _dag(name: str, about: str, params: Mapping[str, Param]) -> DAG:
    return DAG(
        dag_id=name,
        description=about,
        doc_md=f"{about}. *Trigger* has a form.",
        schedule=None,
        start_date=START,
        catchup=False,
        params=dict(params),
        tags=["statemaint", "statemaint-manual"],
        default_args={"retries": 0},
    )


def _choice(reading: QueriesReading) -> Param:
    return Param(
        type="string",
        enum=sorted(reading.queries),
        title="Query",
        description_md="The name of the query in the queries file.",
    )


def _form(params: Mapping[str, Param]) -> dict[str, Any]:
    """Returns the values of the run's form; refuses other keys before anything is done."""
    context = get_current_context()
    unknown = sorted({*(context["dag_run"].conf or {})} - {*params})
    if unknown:
        raise AirflowFailException(
            f"CONFIG: the run's configuration has {', '.join(map(repr, unknown))}, which is "
            f"not an option; known are {', '.join(params)}. Nothing was done: trigger it again"
        )
    return {name: context["params"][name] for name in params}


@contextmanager
def _working(
    reading: QueriesReading, params: Mapping[str, Param], verb: str, part: str | None = None
) -> Iterator[tuple[dict[str, Any], Storage, "Progress"]]:
    """Begins a task on the query of the run's form, and reports its progress.

    Our errors become its failure, which is not tried again.
    """
    form = _form(params)
    settings = settings_of(reading, form["query"])
    with reporting(settings, part, verb=verb, first=part == "plan") as progress:
        try:
            yield form, open_checkpoint(settings.checkpoint, settings.connection), progress
        except StatemaintError as error:
            raise AirflowFailException(Failure.of(error).reason) from None
