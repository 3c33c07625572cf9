"""Airflow finds its statemaint DAGs here: one for each query of the queries file.

STATEMAINT_QUERIES names that file; by default it is statemaint_queries.yaml beside this one.
"""

import os
from pathlib import Path

from statemaint.airflow.factory import build_dags

_beside = Path(__file__).with_name("statemaint_queries.yaml")
globals().update(build_dags(os.environ.get("STATEMAINT_QUERIES") or _beside))
