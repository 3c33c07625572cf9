"""DAGs for manual work on any query: verify; repair, rollback, undo and reshape with an approval.

Each of these four is planned and shown first. An approved repair, rollback or undo is carried out
exactly as shown, or not at all: the plan's fingerprint must still be that of the checkpoint. A
reshape saves the batch that is the newest by then, in the shape and the place that were shown.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, Param, get_current_context
from airflow.sdk.exceptions import AirflowFailException

from statemaint.airflow import names
from statemaint.airflow.endings import fail, form_values, our_task, skip
from statemaint.airflow.factory import START, settings_of
from statemaint.airflow.form import optional, required, reshape_form, toggle
from statemaint.airflow.links import add_links
from statemaint.airflow.location import queries_reader
from statemaint.airflow.plans import PLAN, plan_address
from statemaint.airflow.publish import reporting
from statemaint.airflow.recoveries import (
    Result,
    Shown,
    apply_shown,
    plan_shown,
    reshaped,
    shape_shown,
    undo_shown,
    verified,
)
from statemaint.airflow.settings import QuerySettings
from statemaint.errors import StatemaintError
from statemaint.queries.reading import QueriesReading
from statemaint.recover import plan_repair, plan_rollback
from statemaint.report.task import Failure
from statemaint.undo.run import plan_undo

if TYPE_CHECKING:
    from statemaint.metrics.tasks import Progress

_log = logging.getLogger(__name__)
_SHOWN, _SUBJECT = "shown", "subject"


def manual_dags(path: str | Path) -> dict[str, DAG]:
    """Returns the DAGs, by their ids; none if the file has no valid query. Never raises."""
    reading = queries_reader(path).read()
    if not reading.queries:
        return {}
    recoveries = (_recovery_dag(reading, recovery) for recovery in _recoveries())
    return {dag.dag_id: dag for dag in (_verify_dag(reading), *recoveries)}


def _verify_dag(reading: QueriesReading) -> DAG:
    sample = "`N/T`: only the N-th of T shares of the partitions. Empty: all."
    fields = {
        "deep": toggle("Deep", "Decode every file, compare every snapshot, check every row."),
        "sample": optional("string", "Sample", sample, pattern=r"^[1-9]\d*/[1-9]\d*$"),
    }
    about = "Checks every file that a retained version needs"
    with _dag(reading, names.VERIFY_DAG, about, fields) as dag:

        @our_task("verify", None, pool=names.POOL)
        def verify() -> dict[str, Any]:
            with _working(reading, fields, "verify") as (settings, form, _):
                share = [int(number) for number in (form["sample"] or "").split("/") if number]
                shared = (share[0], share[1]) if share else None
                result = verified(settings.open(), deep=form["deep"], sample=shared)
                _log.info(result.log)
                if result.failure:
                    get_current_context()["ti"].xcom_push("found", result.json)
                    fail(result.failure)
            return result.json

        add_links(verify())
    return dag


@dataclass(frozen=True, slots=True)
class _Recovery:
    """A DAG that plans, waits for an approval, and carries out the plan.

    `planner` takes the query and the form; `applier` the shown document as well.
    """

    dag: str
    about: str
    verb: str
    planner: Callable[[QuerySettings, Mapping[str, Any]], Shown]
    fields: Mapping[str, Param] = field(default_factory=dict)
    applier: Callable[[QuerySettings, Mapping[str, Any], dict[str, Any]], Result] = (
        lambda where, _, document: apply_shown(where.open(), document)
    )


def _recoveries() -> Iterator[_Recovery]:
    yield _Recovery(
        names.REPAIR_DAG,
        "Repairs what the log can prove, after an approval",
        "repair",
        lambda where, _: plan_shown(plan_repair(where.open()), where.query),
    )
    newest = "The newest batch that stays committed."
    yield _Recovery(
        names.ROLLBACK_DAG,
        "Rolls a query back to a batch, after an approval",
        "rollback",
        lambda where, form: plan_shown(plan_rollback(where.open(), form["batch"]), where.query),
        {"batch": required("integer", "Batch", newest, exclusiveMinimum=-1)},
    )
    run = "The run whose files come back; `statemaint runs` lists it."
    yield _Recovery(
        names.UNDO_DAG,
        "Brings back the files that a run moved to the trash, after an approval",
        "undo",
        lambda where, form: undo_shown(plan_undo(where.open(), form["run"].strip()), where.query),
        {"run": required("string", "Run", run, minLength=1)},
    )
    yield _Recovery(
        names.RESHAPE_DAG,
        "Saves a query with other partitions or another provider, after an approval",
        "savepoint",
        shape_shown,
        reshape_form(),
        reshaped,
    )


def _recovery_dag(reading: QueriesReading, recovery: _Recovery) -> DAG:
    with _dag(reading, recovery.dag, recovery.about, recovery.fields) as dag:
        working = partial(_working, reading, recovery.fields, recovery.verb)

        @our_task("plan", "Plans, and shows each step with its reason.", pool=names.POOL)
        def plan() -> dict[str, Any]:
            with working("plan") as (settings, form, _):
                shown = recovery.planner(settings, form)
                _log.info(shown.log)
                _pass_on(shown)
                if shown.document is None:
                    fail(shown.failure)
                    skip("approve", "apply")
            return shown.document

        approve: Any = ApprovalOperator(
            task_id="approve",
            subject=(
                f"{{{{ params.query }}}}: {{{{ ti.xcom_pull(task_ids='plan', key='{_SUBJECT}') "
                "or dag.dag_id }}. Stop the query before you approve."
            ),
            body=f"{{{{ ti.xcom_pull(task_ids='plan', key='{_SHOWN}') }}}}",
            doc_md="Waits for an answer; if rejected, nothing is done.",
        )

        @our_task("apply", "Carries out the shown plan, or nothing at all.", pool=names.POOL)
        def apply(document: dict[str, Any]) -> dict[str, Any]:
            with working("apply") as (settings, form, progress):
                done = recovery.applier(settings, form, document)
                progress.add(**done.figures)
                _log.info(done.log)
                fail(done.failure)
            return done.json

        planned: Any = plan()
        applied: Any = apply(planned)
        planned >> approve >> applied
        add_links(planned, approve, applied)
    return dag


def _pass_on(shown: Shown) -> None:
    """Passes on a plan for its page, and the texts of the approval, which has a link to it."""
    context, text = get_current_context(), shown.text
    if shown.plan:
        whole = plan_address(context["dag_run"].dag_id, context["dag_run"].run_id)
        _log.info("the whole plan: %s", whole)
        text = f"{text}\n\n[The whole plan]({whole})"
        context["ti"].xcom_push(PLAN, shown.plan)
    context["ti"].xcom_push(_SHOWN, text)
    context["ti"].xcom_push(_SUBJECT, shown.subject)


def _dag(reading: QueriesReading, name: str, about: str, fields: Mapping[str, Param]) -> DAG:
    text, queries = "The name of the query in the queries file.", sorted(reading.queries)
    return DAG(
        dag_id=name,
        description=about,
        doc_md=f"{about}. *Trigger* has a form.",
        schedule=None,
        start_date=START,
        catchup=False,
        params={"query": required("string", "Query", text, enum=queries), **fields},
        # A new one would keep every run queued; without a schedule it runs only when asked to.
        is_paused_upon_creation=False,
        tags=["statemaint", "statemaint-manual"],
        default_args={"retries": 0},
    )


@contextmanager
def _working(
    reading: QueriesReading, fields: Iterable[str], verb: str, part: str | None = None
) -> Iterator[tuple[QuerySettings, dict[str, Any], "Progress"]]:
    """Begins a task on the query of the run's form, and reports its progress.

    Our errors become its failure, which is not tried again.
    """
    form = form_values(("query", *fields))
    settings = settings_of(reading, form["query"])
    with reporting(settings, part, verb=verb, first=part == "plan") as progress:
        try:
            yield settings, form, progress
        except StatemaintError as error:
            raise AirflowFailException(Failure.of(error).reason) from None
