"""Airflow finds the page `State` here, and the listener that makes the pool and notes on runs.

An installed package of statemaint brings both by itself, and then this file brings nothing: it is
for an Airflow that has statemaint on its path only.
"""

from statemaint.airflow.plugin import plugins_of_a_file

globals().update(plugins_of_a_file())
