"""Airflow finds its statemaint DAGs here: one for each query of the queries file.

The file is named by STATEMAINT_QUERIES, or lies beside this one as statemaint_queries.yaml.
"""

import os
from pathlib import Path

from statemaint.airflow.factory import build_dags

_beside = Path(__file__).with_name("statemaint_queries.yaml")
globals().update(build_dags(os.environ.get("STATEMAINT_QUERIES") or _beside))
