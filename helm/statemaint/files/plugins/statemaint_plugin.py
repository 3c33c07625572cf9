"""Airflow finds the page `State` here, on the DAGs that statemaint_dags.py makes."""

from statemaint.airflow.plugin import StatemaintPlugin

__all__ = ["StatemaintPlugin"]
