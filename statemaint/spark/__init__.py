"""Maintenance of a fleet on Spark, through PySpark.

    from statemaint.spark import inventory, maintain_fleet

    inventory(spark, "queries.yaml").where("chain_length > 100").show()
    maintain_fleet(spark, "queries.yaml").where("exit_code > 0").show()

Executors run the same functions as one machine does, on a few partitions each; no state ever
travels between them. `docs/spark.md` describes every column.
"""

from statemaint.spark.api import (
    inventory,
    maintain_fleet,
    plan_fleet,
    savepoint_fleet,
    verify_fleet,
)
from statemaint.spark.fleet import Target
from statemaint.spark.history import History, history_views, read_history

__all__ = [
    "History",
    "Target",
    "history_views",
    "inventory",
    "maintain_fleet",
    "plan_fleet",
    "read_history",
    "savepoint_fleet",
    "verify_fleet",
]
