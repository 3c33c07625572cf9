"""Airflow's names for a query, and the settings by which its parts find the queries file."""

GATEWAY_VARIABLE = "STATEMAINT_PUSHGATEWAY"
QUERIES_VARIABLE = "STATEMAINT_QUERIES"
QUERIES_FILE = "statemaint_queries.yaml"
_PREFIX = "statemaint__"


def dag_id(query: str) -> str:
    """Returns the id of a query's DAG."""
    return _PREFIX + query


def query_of(dag: str) -> str | None:
    """Returns the query that a DAG maintains; `None` when the DAG is not one of ours."""
    return dag.removeprefix(_PREFIX) if dag.startswith(_PREFIX) else None


def asset_uri(query: str) -> str:
    """Returns the asset that a query's maintenance updates."""
    return f"statemaint://{query}"
