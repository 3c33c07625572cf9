"""The DAGs for manual work: statemaint_verify, _repair, _rollback, _undo, _reshape.

They work on any query of the queries file, which is found as in statemaint_dags.py. A user who may
trigger one of them may do so for all queries: leave this file out, or restrict them in Airflow.
"""

from pathlib import Path

from statemaint.airflow.location import queries_path
from statemaint.airflow.manual import manual_dags

_beside = Path(__file__).with_name("statemaint_queries.yaml")
globals().update(manual_dags(queries_path(_beside)))
