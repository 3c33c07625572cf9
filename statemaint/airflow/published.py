"""The settings of the queries file for the metrics of a query."""

from hashlib import sha256

from airflow.configuration import conf

from statemaint.airflow.names import dag_id, together_id
from statemaint.metrics.options import GatewayAuth, MetricsSettings
from statemaint.queries import QueriesReading


def metrics_settings(reading: QueriesReading, name: str) -> MetricsSettings:
    """Returns the settings of the metrics of one query of a file.

    The first query of a valid file removes the metrics of missing queries; in an invalid file, a
    mistake may be the reason why they are missing.
    """
    file = reading.file
    enabled = {one: query for one, query in file.queries.items() if query.enabled}
    whole = reading.usable and not reading.all_problems
    prunes = whole and name == min(enabled, default=None)
    detailed = (one for one, query in enabled.items() if query.detail == "partition")
    auth, query = file.pushgateway_auth, file.queries[name]
    return MetricsSettings(
        dag=together_id(query.together) if query.together else dag_id(name),
        origin=_origin(reading.path),
        schedule=query.schedule,
        every_unit=query.detail == "partition",
        auth=GatewayAuth(**auth.model_dump()) if auth else GatewayAuth(),
        known=frozenset(enabled) if prunes else None,
        detailed=frozenset(detailed),
    )


def _origin(path: str) -> str:
    """Returns a name of this installation and its file, of which several may share a gateway."""
    address = conf.get("api", "base_url", fallback="")
    return sha256(f"{address} {path}".encode()).hexdigest()[:12]
