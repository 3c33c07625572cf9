"""The facts of the queries file that the metrics of a query need."""

import os

from airflow.configuration import conf

from statemaint.airflow.names import dag_id, together_id
from statemaint.metrics.options import GatewayAuth, MetricsSettings, origins_of
from statemaint.queries import QueriesReading


def metrics_settings(reading: QueriesReading, name: str) -> MetricsSettings:
    """Returns the settings of the metrics of one query of a file."""
    known, detailed = reading.names_for_pruning(name)
    auth, query = reading.settings_of(name).pushgateway_auth, reading.queries[name]
    address = conf.get("api", "base_url", fallback="")
    origin, digest = origins_of(os.environ, address, reading.path)
    return MetricsSettings(
        dag=together_id(query.together) if query.together else dag_id(name),
        origin=origin,
        former=digest,
        schedule=query.schedule,
        every_unit=query.detail == "partition",
        routing=reading.routing_of(name),
        auth=GatewayAuth(**auth.model_dump()) if auth else GatewayAuth(),
        known=known,
        detailed=detailed,
    )
