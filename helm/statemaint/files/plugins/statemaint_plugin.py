"""Airflow finds the page `State` here, for the DAGs that statemaint_dags.py creates."""

from statemaint.airflow.plugin import StatemaintPlugin

__all__ = ["StatemaintPlugin"]
