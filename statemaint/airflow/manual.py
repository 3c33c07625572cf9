"""DAGs for manual work on any query: verify, and repair, rollback and undo with an approval.

Each of these three is planned and shown first. An approved plan is carried out exactly as shown, or
not at all: the plan's fingerprint must still be that of the checkpoint.
"""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, Param, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException, DownstreamTasksSkipped

from statemaint.airflow.broken import START
from statemaint.airflow.connections import open_checkpoint
from statemaint.airflow.endings import fail
from statemaint.airflow.location import queries_reader
from statemaint.airflow.names import POOL, REPAIR_DAG, ROLLBACK_DAG, UNDO_DAG, VERIFY_DAG
from statemaint.airflow.recoveries import Shown, apply_shown, plan_shown, undo_shown, verified
from statemaint.airflow.settings import Failure
from statemaint.errors import StatemaintError
from statemaint.maintain import plan_undo
from statemaint.queries import Query
from statemaint.recover import plan_repair, plan_rollback
from statemaint.storage import Storage

_log = logging.getLogger(__name__)
_SHOWN = "shown"

Queries = Mapping[str, Query]
Planner = Callable[[Storage, Mapping[str, Any]], Shown]


def manual_dags(path: str | Path) -> dict[str, DAG]:
    """Returns the DAGs, by their ids; none if the file has no valid query. Never raises.

    Args:
        path: the queries file. The DAGs of `build_dags` show its mistakes.
    """
    queries = queries_reader(path).read().queries
    if not queries:
        return {}
    made = (dag(queries) for dag in (_verify_dag, _repair_dag, _rollback_dag, _undo_dag))
    return {dag.dag_id: dag for dag in made}


def _verify_dag(queries: Queries) -> DAG:
    params = {
        "query": _choice(queries),
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
            chosen = _form(params)
            share = [int(one) for one in (chosen["sample"] or "").split("/") if one]
            with _Failing():
                storage = _storage(queries, chosen)
                sample = (share[0], share[1]) if share else None
                result = verified(storage, deep=chosen["deep"], sample=sample)
            _log.info(result.line)
            if result.failure:
                get_current_context()["ti"].xcom_push("found", result.json)
                fail(result.failure)
            return result.json

        verify()
    return dag


def _repair_dag(queries: Queries) -> DAG:
    params = {"query": _choice(queries)}
    with _dag(REPAIR_DAG, "Repairs what the log can prove, after an approval", params) as dag:
        _recovery(queries, params, lambda storage, _: plan_shown(plan_repair(storage)))
    return dag


def _rollback_dag(queries: Queries) -> DAG:
    batch = Param(
        type="integer",
        exclusiveMinimum=-1,  # with `minimum`, Airflow's form turns a -1 into a 0 silently
        title="Batch",
        description_md="The newest batch that stays committed.",
    )
    params = {"query": _choice(queries), "batch": batch}
    about = "Rolls a query back to a batch, after an approval"
    with _dag(ROLLBACK_DAG, about, params) as dag:

        def planner(storage: Storage, form: Mapping[str, Any]) -> Shown:
            return plan_shown(plan_rollback(storage, form["batch"]))

        _recovery(queries, params, planner)
    return dag


def _undo_dag(queries: Queries) -> DAG:
    run = Param(
        type="string",
        minLength=1,
        title="Run",
        description_md="The run whose files come back; `statemaint runs` lists it.",
    )
    params = {"query": _choice(queries), "run": run}
    about = "Brings back the files that a run moved to the trash, after an approval"
    with _dag(UNDO_DAG, about, params) as dag:

        def planner(storage: Storage, form: Mapping[str, Any]) -> Shown:
            return undo_shown(plan_undo(storage, form["run"].strip()))

        _recovery(queries, params, planner)
    return dag


def _recovery(queries: Queries, params: Mapping[str, Param], planner: Planner) -> None:
    """Adds the tasks of a repair, rollback or undo to the current DAG."""

    @task(
        task_id="plan",
        pool=POOL,
        show_return_value_in_logs=False,
        doc_md="Plans, and shows each step with its reason.",
    )
    def plan() -> dict[str, Any]:
        chosen = _form(params)
        with _Failing():
            shown = planner(_storage(queries, chosen), chosen)
        _log.info(shown.log)
        get_current_context()["ti"].xcom_push(_SHOWN, shown.text)
        if shown.document is None:
            if shown.failure:
                fail(shown.failure)
            raise DownstreamTasksSkipped(tasks=["approve", "apply"])  # type: ignore[no-untyped-call]
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
        with _Failing():
            done = apply_shown(_storage(queries, _form(params)), document)
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


def _choice(queries: Queries) -> Param:
    return Param(
        type="string",
        enum=sorted(queries),
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


def _storage(queries: Queries, form: Mapping[str, Any]) -> Storage:
    query = queries[form["query"]]
    return open_checkpoint(query.checkpoint, query.connection)


class _Failing:
    """Turns our errors into the failure of a task, which is not tried again."""

    def __enter__(self) -> None:
        """Does nothing."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Raises the failure of an error."""
        if isinstance(error, StatemaintError):
            raise AirflowFailException(Failure.of(error).reason) from None
