"""The Airflow 3 interface: a DAG for each query of the queries file, and a page in Airflow's UI.

Only this package may import Airflow. `tasks` contains the work of each task; `factory`
builds the DAGs.
"""
