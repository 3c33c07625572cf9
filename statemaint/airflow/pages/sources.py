"""The place of a query's checkpoint: by the queries file, or by its DAG as Airflow stores it.

Only the authors of the file or the DAG decide what the pages read, never an XCom or an address.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from airflow.configuration import conf
from airflow.models.serialized_dag import SerializedDagModel
from sqlalchemy.orm import Session

from statemaint.airflow.connections import open_checkpoint
from statemaint.airflow.location import queries_path, queries_reader
from statemaint.airflow.names import QUERIES_FILE, dag_id, together_id
from statemaint.airflow.settings import is_template
from statemaint.errors import ConfigError
from statemaint.model.policy import Policy
from statemaint.queries.reading import QueriesReader, QueriesReading
from statemaint.storage import Storage

_reading_now = Lock()  # a reader is for one thread at a time


class UnknownQueryError(ConfigError):
    """A DAG that maintains no query, or no query of that name."""

    code = "UNKNOWN_QUERY"


class NoPlanError(UnknownQueryError):
    """A run that keeps no plan of a query, or no longer."""

    code = "NO_PLAN"


@dataclass(frozen=True, slots=True)
class CheckpointSource:
    """A query's checkpoint, and whether the queries file has it, as manual DAGs require."""

    checkpoint: str
    connection: str | None
    policy: Policy
    in_file: bool
    contact: str = ""

    def open(self) -> Storage:
        return open_checkpoint(self.checkpoint, self.connection)


def source_of(dag: str, query: str, session: Session) -> CheckpointSource:
    reading = _reading()
    entry = reading.queries.get(query)
    if entry and dag == (together_id(entry.together) if entry.together else dag_id(query)):
        policy = reading.policy_of(query)
        return CheckpointSource(
            entry.checkpoint, entry.connection, policy, in_file=True, contact=entry.contact or ""
        )
    stored = SerializedDagModel.get(dag, session=session)
    for about in _descriptions(stored.data if stored else None):
        if about.get("query") == query:
            return _of_dag(about)
    raise UnknownQueryError(
        f"neither the queries file nor the DAG {dag} names the checkpoint of {query}"
    )


def is_disabled(query: str) -> bool:
    entry = _reading().queries.get(query)
    return entry is not None and not entry.enabled


def _of_dag(about: Mapping[str, Any]) -> CheckpointSource:
    checkpoint = str(about["checkpoint"])
    if is_template(checkpoint):
        raise UnknownQueryError(
            f"the checkpoint of {about['query']} is a template, {checkpoint}: only a run knows it"
        )
    try:
        policy = Policy(**about["policy"])
    except TypeError:
        raise ConfigError(
            f"another build of statemaint has stored the policy of {about['query']} with its DAG; "
            "Airflow replaces it when it parses the DAG file again"
        ) from None
    return CheckpointSource(checkpoint, about.get("connection"), policy, in_file=False)


def _descriptions(dag: Any) -> list[dict[str, Any]]:
    """Returns the descriptions of their queries by the tasks `plan` of a stored DAG.

    Airflow stores every mapping as `{"__type": "dict", "__var": {...}}`.
    """
    descriptions = []
    for task in map(_plain, (dag or {}).get("dag", {}).get("tasks", ())):
        if isinstance(task, dict) and str(task.get("task_id", "")).rpartition(".")[2] == "plan":
            arguments = task.get("op_kwargs")
            descriptions.append(arguments.get("about") if isinstance(arguments, dict) else None)
    return [about for about in descriptions if isinstance(about, dict)]


def _plain(stored: Any) -> Any:
    if isinstance(stored, list):
        return [_plain(value) for value in stored]
    if not isinstance(stored, dict):
        return stored
    if "__type" in stored and "__var" in stored:
        return _plain(stored["__var"])
    return {key: _plain(value) for key, value in stored.items()}


def _reading() -> QueriesReading:
    path = queries_path(Path(conf.get_mandatory_value("core", "dags_folder")) / QUERIES_FILE)
    with _reading_now:
        return _reader(path).read()


@lru_cache(maxsize=1)
def _reader(path: str) -> QueriesReader:
    return queries_reader(path)
