"""The file that names the queries to maintain, from which the Airflow DAGs are made.

    defaults: {min_deltas_for_snapshot: 10, grace: 1h}     the policy of every query
    pushgateway: http://pushgateway:9091                   or textfile: /var/lib/node_exporter
    queries:
      hourly_revenue:
        checkpoint: /data/checkpoints/hourly_revenue
        schedule: "@hourly"
        policy: {min_batches_to_retain: 50}                on top of the defaults

Loading it reads no storage. `schema.json` is its JSON schema, in docs/ as well.
"""

from statemaint.queries.checks import must_be_open
from statemaint.queries.memory import state_folder
from statemaint.queries.models import (
    DEFAULT_POOL,
    Notifier,
    PolicySettings,
    QueriesFile,
    Query,
)
from statemaint.queries.problems import InvalidQueriesError, Problem
from statemaint.queries.reader import QueriesReader, read_queries
from statemaint.queries.reading import BrokenEntry, QueriesReading, in_order

__all__ = [
    "DEFAULT_POOL",
    "BrokenEntry",
    "InvalidQueriesError",
    "Notifier",
    "PolicySettings",
    "Problem",
    "QueriesFile",
    "QueriesReader",
    "QueriesReading",
    "Query",
    "in_order",
    "must_be_open",
    "read_queries",
    "state_folder",
]
