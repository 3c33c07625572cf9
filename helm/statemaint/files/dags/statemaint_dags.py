"""The statemaint DAGs, for Airflow to find: one for each query of the queries file.

The environment variable STATEMAINT_QUERIES names that file, or else the Airflow Variable
statemaint_queries; by default it is statemaint_queries.yaml beside this file.
"""

from pathlib import Path

from statemaint.airflow.factory import build_dags
from statemaint.airflow.location import queries_path

_beside = Path(__file__).with_name("statemaint_queries.yaml")
globals().update(build_dags(queries_path(_beside)))
