"""Airflow 3's face of statemaint: a DAG for each query, and a page in Airflow's UI."""
