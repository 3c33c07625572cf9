"""Starts the demo's servers and leaves them running for exploration; ends them."""

from statemaint.airflow.names import dag_id, page_address
from statemaint.demo import airflow as airflow_server
from statemaint.demo.places import AIRFLOW_PORT, ALERTS, QUERY, Places
from statemaint.demo.processes import free_port
from statemaint.demo.prometheus import MissingPart, start_prometheus, start_pushgateway, stop_all
from statemaint.demo.run import HOURS, neglect
from statemaint.demo.steps import Steps

# The usual ports; a server gets another port if its usual one is taken.
GATEWAY_PORT, PROMETHEUS_PORT = 9091, 9090
STEPS = 3


def up(places: Places, steps: Steps) -> None:
    """Creates a neglected checkpoint and starts Airflow, Pushgateway and Prometheus for it.

    Raises:
        StatemaintError: when a server did not become ready; all started servers are ended.
    """
    down(places)
    neglect(places, steps)
    try:
        _start(places, steps)
    except BaseException:
        down(places)
        raise


def _start(places: Places, steps: Steps) -> None:
    with steps.step("start Pushgateway and Prometheus"):
        gateway, monitoring = _monitoring(places)
    places.write_queries(gateway)
    with steps.step("start Airflow") as advance:
        server = airflow_server.start(
            places.setup(gateway), port=free_port(AIRFLOW_PORT), progress=advance
        )
        client = server.client()
        client.wait_for_dag(dag_id(QUERY))
        client.unpause(dag_id(QUERY))
    users = ", ".join(f"{user} / {word}" for user, word in server.passwords.items())
    steps.show(
        "",
        f"Airflow     {server.url}/dags/{dag_id(QUERY)}   log in as {users}",
        f"            Trigger maintains {HOURS} neglected hours",
        f"            {page_address(server.url)}   all queries, and their partitions",
        *monitoring,
        f"Checkpoint  {places.checkpoint}",
        "make down   ends them all",
    )


def _monitoring(places: Places) -> tuple[str | None, list[str]]:
    try:
        gateway = start_pushgateway(places.servers, port=free_port(GATEWAY_PORT))
        server = start_prometheus(
            places.servers, scrape=[gateway.url], rules=[ALERTS], port=free_port(PROMETHEUS_PORT)
        )
    except MissingPart as missing:
        return None, [f"Metrics     {places.textfiles}: {missing}"]
    return gateway.url, [f"Pushgateway {gateway.url}", f"Prometheus  {server.url}/alerts"]


def down(places: Places) -> None:
    """Ends all servers that the demo left running; does nothing if none runs."""
    airflow_server.stop(places.airflow)
    stop_all(places.servers)
