"""Airflow's names for a query, and the settings by which its parts find the queries file."""

import re
import shlex
from hashlib import sha256

GATEWAY_VARIABLE = "STATEMAINT_PUSHGATEWAY"
QUERIES_VARIABLE = "STATEMAINT_QUERIES"
QUERIES_FILE = "statemaint_queries.yaml"
# The Airflow Variable with the path of the queries file.
AIRFLOW_VARIABLE = "statemaint_queries"
# The DAG that shows what is wrong with the queries file, where no other DAG does.
FILE_DAG = "statemaint_queries_file"
# For manual work on any query.
VERIFY_DAG, REPAIR_DAG, ROLLBACK_DAG, UNDO_DAG, RESHAPE_DAG = MANUAL_DAGS = (
    "statemaint_verify",
    "statemaint_repair",
    "statemaint_rollback",
    "statemaint_undo",
    "statemaint_reshape",
)
# The pool of all tasks whose query names no other: the default in the queries file.
POOL = "statemaint"
# The route of the page with all queries, in Airflow's UI.
PAGE_ROUTE = "statemaint-queries"
# The keys of XComs: a run's note, the newest savepoint, and how slow each partition was.
NOTE, SAVED, COSTS = "note", "saved", "costs"
# What the note on a run begins with that acknowledges the state of its queries.
ACKNOWLEDGED = "ack until "
_PREFIX, _TOGETHER = "statemaint__", "statemaint_together_"
_SAVEPOINT = "statemaint_savepoint__"
# A run's name in the ledger becomes a file's, which has at most 255 bytes.
_MOST_OF_A_RUN = 180


def page_address(airflow: str) -> str:
    return f"{airflow.rstrip('/')}/plugin/{PAGE_ROUTE}"


def dag_id(query: str) -> str:
    return _PREFIX + query


def savepoint_id(query: str) -> str:
    return _SAVEPOINT + query


def broken_dag_id(entry: str) -> str:
    """Returns the id of the query's own DAG if the entry's name can be part of one."""
    return dag_id(re.sub(r"[^A-Za-z0-9_.-]+", "_", entry) or "_")[:250]


def missing_pool(pool: str) -> str:
    create = shlex.join(("airflow", "pools", "set", pool, "32", "maintenance"))
    return f"Its tasks are set to run in the pool {pool!r}, which does not exist: `{create}`."


def query_of(dag: str) -> str | None:
    return dag.removeprefix(_PREFIX) if dag.startswith(_PREFIX) else None


def together_id(shared: str) -> str:
    return _TOGETHER + shared


def is_together(dag: str) -> bool:
    return dag.startswith(_TOGETHER)


def is_ours(dag: str) -> bool:
    return dag.startswith((_PREFIX, _TOGETHER, _SAVEPOINT)) or dag in MANUAL_DAGS


def of_query(key: str, query: str) -> str:
    """Returns the key of an XCom of one query, in a task of several."""
    return f"{key}.{query}"


def asset_uri(query: str) -> str:
    return f"statemaint://{query}"


def findings_uri(query: str) -> str:
    return f"statemaint://{query}/findings"


def run_name(*parts: str) -> str:
    """Returns the name in the ledger of a run that several names identify.

    A name that is too long for a file is cut, and stays unique.
    """
    name = ".".join(part for part in parts if part)
    if len(name) <= _MOST_OF_A_RUN:
        return name
    return f"{name[:_MOST_OF_A_RUN]}-{sha256(name.encode()).hexdigest()[:8]}"
