"""The demo: a neglected query, maintained by Airflow, proved by Spark.

Each step prints its measurements. In any case, no started process is left running.
"""

import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from statemaint.airflow.names import VERIFY_DAG, dag_id, page_address
from statemaint.errors import StatemaintError
from tools.demo import show
from tools.demo.airflow import Airflow, airflow
from tools.demo.airflow_client import TaskInstance
from tools.demo.pipeline import output_rows, run_hours
from tools.demo.places import AIRFLOW_PORT, ALERTS, DASHBOARDS, POLICY, QUERY, Places
from tools.demo.prometheus import MissingPart, prometheus, pushgateway, silent_queries
from tools.demo.session import Digests, oracle_session, read_all, retained_batches
from tools.demo.show import Advance, Steps

HOURS = 13
STEPS = 8
SEED = 7


class DisprovedError(StatemaintError):
    """Spark found a difference, which must never happen."""

    code = "DISPROVED"


class DemoFailedError(StatemaintError):
    """A step of the demo did not have its required result."""

    code = "DEMO_FAILED"


def demo(places: Places, steps: Steps) -> None:
    neglect(places, steps)
    shutil.copytree(places.job, places.twin)
    states, size = _read(places, steps, "before"), show.measure(places.checkpoint)
    with ExitStack() as running:
        gateway = _gateway(places, steps, running)
        places.write_queries(gateway)
        with steps.step("start Airflow: api-server, scheduler, dag-processor") as advance:
            server = running.enter_context(airflow(places.setup(gateway), progress=advance))
        _maintain(server, steps)
        after = _read(places, steps, "after")
        steps.show("", show.sizes(size, show.measure(places.checkpoint)), "")
        must_be_equal(states, after)
        steps.show("The retained batches, by Spark's own state reader:", *show.states(after))
        _metrics(places, steps, gateway)
    _restart(places, steps)
    steps.show("", "Proved: Spark reads the same rows, and the query continues as before.")
    _next(steps)


def neglect(places: Places, steps: Steps) -> None:
    """Creates the neglected checkpoint: an hourly job whose runs end before Spark's maintenance."""
    places.clear()
    title = f"run the hourly query {HOURS} times, as a scheduler would"
    with steps.step(title, HOURS) as advance:
        run_hours(
            places.job,
            hours=range(HOURS),
            seed=SEED,
            progress=lambda hour: advance(f"hour {hour}"),
        )


def _read(places: Places, steps: Steps, when: str) -> Digests:
    with steps.step(f"let Spark read every retained batch, {when}") as advance:
        return read_states(places.checkpoint, advance)


def _gateway(places: Places, steps: Steps, running: ExitStack) -> str | None:
    try:
        return running.enter_context(pushgateway(places.servers)).url
    except MissingPart as missing:
        steps.show("", f"No Pushgateway: {missing}", "Metrics go to textfiles instead.")
        return None


def _maintain(server: Airflow, steps: Steps) -> None:
    with steps.step("trigger the query's DAG through Airflow's API, and wait for it"):
        run, instances = _succeed(server, dag_id(QUERY))
    steps.show("", f"DAG {dag_id(QUERY)}, run {run}: success", show.tasks(instances))
    if all(instance.map_index < 0 for instance in instances):
        raise DemoFailedError("the DAG's run found nothing to maintain")
    with steps.step("verify every file, by the DAG for manual work"):
        run, _ = _succeed(server, VERIFY_DAG, {"query": QUERY, "deep": True})
    steps.show("", f"DAG {VERIFY_DAG}, run {run}: success")


def _succeed(
    server: Airflow, dag: str, form: Mapping[str, object] | None = None
) -> tuple[str, list[TaskInstance]]:
    client = server.client()
    client.wait_for_dag(dag)
    client.unpause(dag)
    run = client.trigger(dag, form)
    state = client.wait_for_run(dag, run)
    instances = client.task_instances(dag, run)
    if state != "success":
        failed = [instance for instance in instances if instance.state == "failed"]
        logs = [client.log(dag, run, instance) for instance in failed]
        raise DemoFailedError("\n".join([f"the run of {dag} failed", *logs]))
    return run, instances


def _metrics(places: Places, steps: Steps, gateway: str | None) -> None:
    title = "ask Prometheus every query of the dashboards"
    with steps.step(title if gateway else "read the metrics that were written"):
        lines = show.metrics(gateway, places.textfiles)
        board = _ask_board(places, gateway) if gateway else "no Prometheus, no dashboards"
    steps.show("", f"Some of the metrics, from {gateway or places.textfiles}:")
    steps.show(*(f"  {line}" for line in lines), board)
    if not lines:
        raise DemoFailedError("no metric arrived")


def _ask_board(places: Places, gateway: str) -> str:
    try:
        with prometheus(places.servers, scrape=[gateway], rules=[ALERTS]) as server:
            silent = [query.panel for query in silent_queries(DASHBOARDS, server.url)]
    except MissingPart as missing:
        return f"No Prometheus to ask: {missing}"
    # The demo makes no savepoints.
    if silent := [panel for panel in silent if "savepoint" not in panel.lower()]:
        raise DemoFailedError(f"no data for the dashboards' {silent}")
    return "Dashboards: every query that a healthy job answers returns data."


def _restart(places: Places, steps: Steps) -> None:
    before, jobs = retained_batches(places.checkpoint)[-1], (places.job, places.twin)
    with steps.step("restart the query, and its twin that was never maintained") as advance:
        for job in jobs:
            run_hours(job, hours=[HOURS], seed=SEED, progress=advance)
        rows, twin_rows = output_rows(places.job), output_rows(places.twin)
        if rows != twin_rows:
            differ = f"{len(rows)} rows, {len(twin_rows)} in the twin"
            raise DisprovedError(f"the output differs: {differ}")
        states, undisturbed = (read_states(job / "checkpoint", advance) for job in jobs)
        must_be_equal(states, undisturbed)
    batches = retained_batches(places.checkpoint)[-1] - before
    if batches < 2:  # noqa: PLR2004 -- the proof wants two
        raise DisprovedError(f"only {batches} more batches were processed")
    steps.show(
        "",
        f"The query processed {batches} more batches from the maintained checkpoint: "
        f"{len(rows)} rows of output and {len(states)} states equal its twin's.",
    )


def _next(steps: Steps) -> None:
    policy = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in POLICY.items())
    steps.show(
        "",
        "Next steps:",
        "  make up                                   Airflow, Prometheus and alerts, to click",
        "  .venv/bin/statemaint scan .run/demo/twin/checkpoint     the one without maintenance",
        f"  .venv/bin/statemaint plan .run/demo/twin/checkpoint {policy}",
        "  docs/safety.md                            why its deletions are safe",
        "The page with all queries, in Airflow's navigation, while `make up` runs:",
        f"  {page_address(f'http://127.0.0.1:{AIRFLOW_PORT}')}",
    )


def read_states(checkpoint: Path, advance: Advance) -> Digests:
    batches = retained_batches(checkpoint)
    with oracle_session() as spark:
        return read_all(
            spark,
            checkpoint,
            batches=batches,
            progress=lambda batch: advance(f"batch {batch}"),
        )


def must_be_equal(before: Digests, after: Digests) -> None:
    """Compares the states that Spark read; the error names the first store and batch."""
    for key in sorted({*before, *after}):
        if before.get(key) != after.get(key):
            operator, store, batch = key
            raise DisprovedError(
                f"operator {operator}, store {store}, batch {batch}: Spark read "
                f"{before.get(key)} before and {after.get(key)} after"
            )
