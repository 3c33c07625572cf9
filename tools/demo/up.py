"""Starts the demo's servers and leaves them running for exploration; ends them.

Three queries: one that was never maintained, a copy that a run maintains, and a copy that lacks a
file, whose alert fires.
"""

import shutil

from statemaint.airflow.names import dag_id, page_address
from tools.demo import airflow as airflow_server
from tools.demo.airflow import Airflow
from tools.demo.places import AIRFLOW_PORT, ALERTS, BROKEN, HEALTHY, INHIBITION, QUERY, Places
from tools.demo.processes import free_port, wait_until
from tools.demo.prometheus import (
    MissingPart,
    alertmanager,
    alerts_of,
    exporter,
    prometheus,
    pushgateway,
    stop_all,
)
from tools.demo.run import HOURS, DemoFailedError, neglect
from tools.demo.show import Steps

# The usual ports; a server gets another port if its usual one is taken.
GATEWAY_PORT, PROMETHEUS_PORT, ALERTMANAGER_PORT, EXPORTER_PORT = 9091, 9090, 9093, 9808
STEPS = 5
_ALERT_SECONDS = 180.0
# Every retained version needs this one.
_LOST = "6.delta"


def up(places: Places, steps: Steps) -> None:
    """Creates the queries, starts all servers for them, and maintains two of them.

    If a server does not become ready, or an alert does not fire, all started servers are ended.
    """
    down(places)
    neglect(places, steps)
    try:
        _start(places, steps)
    except BaseException:
        down(places)
        raise


def _start(places: Places, steps: Steps) -> None:
    _copy(places)
    with steps.step("start Pushgateway, exporter, Alertmanager and Prometheus"):
        gateway, manager, lines = _monitoring(places)
    with steps.step("start Airflow") as advance:
        setup = places.setup(gateway)
        server = airflow_server.start(setup, port=free_port(AIRFLOW_PORT), progress=advance)
    with steps.step("maintain the healthy query and the broken one"):
        _maintain(server)
    with steps.step("wait for the alert of the broken query"):
        fires = _fires(manager)
    _show(places, steps, server, [*lines, *fires])


def _copy(places: Places) -> None:
    for query in (HEALTHY, BROKEN):
        shutil.copytree(places.checkpoint, places.copy_of(query))
    lost = min(places.copy_of(BROKEN).glob(f"state/0/0/**/{_LOST}"))
    lost.unlink()
    lost.with_name(f".{_LOST}.crc").unlink(missing_ok=True)


def _monitoring(places: Places) -> tuple[str | None, str | None, list[str]]:
    """Starts Prometheus's servers; returns a Pushgateway, an Alertmanager, and lines to show."""
    folder, gateway, manager = places.servers, None, None
    try:
        gateway = pushgateway(folder, port=free_port(GATEWAY_PORT)).url
        lines = [f"Pushgateway {gateway}"]
    except MissingPart as missing:
        lines = [f"Metrics     {places.textfiles}: {missing}"]
    places.write_queries(gateway, HEALTHY, BROKEN)
    exporting = exporter(folder, places.queries, port=free_port(EXPORTER_PORT)).url
    lines.append(f"Exporter    {exporting}/metrics")
    try:
        port = free_port(ALERTMANAGER_PORT)
        manager = alertmanager(folder, port=port, inhibition=INHIBITION).url
        lines.append(f"Alertmanager {manager}")
    except MissingPart as missing:
        lines.append(f"No alerts   {missing}")
    try:
        server = prometheus(
            folder,
            scrape=[gateway] if gateway else [],
            rules=[ALERTS],
            exporters=[exporting],
            alertmanagers=[manager] if manager else [],
            port=free_port(PROMETHEUS_PORT),
        )
    except MissingPart as missing:
        # The Alertmanager receives no alerts.
        return gateway, None, [*lines, f"No Prometheus: {missing}"]
    return gateway, manager, [*lines, f"Prometheus  {server.url}/alerts"]


def _maintain(server: Airflow) -> None:
    client = server.client()
    for query in (QUERY, HEALTHY, BROKEN):
        client.wait_for_dag(dag_id(query))
        client.unpause(dag_id(query))
    for query, expected in ((HEALTHY, "success"), (BROKEN, "failed")):
        state = client.wait_for_run(dag_id(query), client.trigger(dag_id(query)))
        if state != expected:
            raise DemoFailedError(f"the run of {query} has the state {state}, not {expected}")


def _fires(alertmanager: str | None) -> list[str]:
    if alertmanager is None:
        return []
    wait_until(lambda: bool(alerts_of(alertmanager)), seconds=_ALERT_SECONDS)
    alerts = alerts_of(alertmanager)
    fires = [f"{alert['alertname']} of {alert.get('query', 'all')}" for alert in alerts]
    if fires != [f"StatemaintBroken of {BROKEN}"]:
        raise DemoFailedError(f"these alerts fire: {', '.join(fires) or 'none'}")
    return [f"Fires now   {fires[0]}"]


def _show(places: Places, steps: Steps, server: Airflow, monitoring: list[str]) -> None:
    users = ", ".join(f"{user} / {word}" for user, word in server.passwords.items())
    steps.show(
        "",
        f"Airflow     {server.url}/dags/{dag_id(QUERY)}   log in as {users}",
        f"            Trigger maintains {HOURS} neglected hours",
        f"            {page_address(server.url)}   all queries, and their partitions",
        *monitoring,
        f"Checkpoints {places.checkpoint}, {HEALTHY} and {BROKEN} beside it",
        "make down   ends them all",
    )


def down(places: Places) -> None:
    airflow_server.stop(places.airflow)
    stop_all(places.servers)
