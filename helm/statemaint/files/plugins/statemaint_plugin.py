"""The page `State`, and the listener that creates the pool and puts notes on runs, for Airflow.

If the package statemaint is installed, it registers both itself, and this file does nothing: it is
for an Airflow that only has statemaint on its path.
"""

from statemaint.airflow.plugin import plugins_of_a_file

globals().update(plugins_of_a_file())
