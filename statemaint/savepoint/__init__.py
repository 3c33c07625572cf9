"""A savepoint: a checkpoint of its own from which a query continues after a committed batch.

It is written from any storage to any other, while the query runs. The source is only read, but for
a pin. The order of the writes makes it whole or not startable (S23): a `metadata` that every Spark
refuses, the logs, the stores, the true `metadata`.
"""

from statemaint.savepoint.compactible import add_to_sink_log
from statemaint.savepoint.report import SavepointReport
from statemaint.savepoint.run import savepoint

__all__ = ["SavepointReport", "add_to_sink_log", "savepoint"]
