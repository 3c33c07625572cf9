"""Airflow finds the page `State` here, for the DAGs that statemaint_dags.py creates.

The listener makes the pool of those DAGs and puts a note on each of their runs.
"""

from statemaint.airflow.listener import StatemaintListenerPlugin
from statemaint.airflow.plugin import StatemaintPlugin

__all__ = ["StatemaintListenerPlugin", "StatemaintPlugin"]
