"""The path of the queries file."""

import os
from collections.abc import Mapping
from pathlib import Path

from airflow.sdk import Variable

from statemaint.airflow.names import AIRFLOW_VARIABLE, QUERIES_VARIABLE


def queries_path(default: str | Path, *, environ: Mapping[str, str] = os.environ) -> str:
    """Returns the path of the queries file.

    The environment variable STATEMAINT_QUERIES names it, else the Airflow Variable
    `statemaint_queries`, which is read only then; else it is the default.
    """
    return (
        environ.get(QUERIES_VARIABLE) or Variable.get(AIRFLOW_VARIABLE, default="") or str(default)
    )
