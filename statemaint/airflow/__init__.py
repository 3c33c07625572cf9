"""Airflow 3's face: a DAG for each query of the queries file, and a page in Airflow's UI.

Besides the demo the only code that may import Airflow. `tasks` has the work of each task, `factory`
makes DAGs of it.
"""
