"""Where the queries file is, and where its last good version is kept."""

import os
import time
from pathlib import Path

from airflow.configuration import AIRFLOW_HOME
from airflow.sdk import Variable

from statemaint.airflow.names import AIRFLOW_VARIABLE, QUERIES_VARIABLE
from statemaint.queries.memory import state_folder
from statemaint.queries.reading import QueriesReader


def queries_path(default: str | Path) -> str:
    """Returns the path of the queries file, or of a folder of such files.

    The environment variable STATEMAINT_QUERIES names it, else the Airflow Variable
    `statemaint_queries`, which is read only then; else it is the default.
    """
    given = os.environ.get(QUERIES_VARIABLE) or Variable.get(AIRFLOW_VARIABLE, default="")
    return given or str(default)


def queries_reader(path: str | Path) -> QueriesReader:
    """Returns a reader of the queries file, which keeps its last good version in a folder.

    Each parsing of a DAG file is a process of its own. STATEMAINT_STATE names the folder; by
    default it is `statemaint_state` in Airflow's home.
    """
    folder = state_folder(os.environ) or Path(AIRFLOW_HOME, "statemaint_state")
    return QueriesReader(path, clock=time.time, folder=folder)
