"""A query whose rows `bootstrap` has taken out and put back goes on as the undisturbed one does.

The twin has read the same rows as input. Spark's own reader sees the same state in both before they
go on, and after ten more batches.
"""

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from statemaint.audit import doctor, verify
from statemaint.storage import LocalStorage
from tests.support.restored import take_out_and_put_back
from tests.systems.spark.runner import KIND, Runner, copied, newest_batch

FIRST, MORE = 4, 10
# Each takes minutes; all of them are for `make test-shapes`.
_ALL = os.environ.get("STATEMAINT_SHAPES") == "all"
_MORE_NAMES = (
    "aggregation2", "join2", "pandas-state-timeout", "session-window", "rocks-aggregation",
    "rocks-chained-ids", "rocks-dedup", "rocks-dedup-within-watermark-ids", "rocks-expiring",
    "rocks-join2-ids", "rocks-join3-ids", "rocks-pandas-state-timeout-ids", "rocks-rowchecksum",
    "rocks-session-window-ids", "rocks-timed-ids", "rocks-zips",
)  # fmt: skip
NAMES = ("rocks-join4", *(_MORE_NAMES if _ALL else ()))


@pytest.mark.parametrize("name", NAMES)
def test_a_query_goes_on_with_rows_that_were_put_back(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    runner, root = Runner(spark, KIND[name]), tmp_path / "twin"
    runner.run(root, FIRST)
    ours, newest = copied(root, "ours"), newest_batch(root)
    storage = LocalStorage(ours / "checkpoint")
    added = take_out_and_put_back(storage)
    assert newest_batch(ours) == newest + added
    assert runner.state(ours) == runner.state(root)
    for place in (ours, root):
        runner.run(place, FIRST + MORE)
    assert newest_batch(ours) == newest_batch(root) + added >= newest + added + MORE
    expected = runner.output(root, above=newest)
    assert expected
    assert runner.output(ours, above=newest + added) == expected
    assert runner.state(ours) == runner.state(root)
    assert doctor(storage).restarts
    assert verify(storage, deep=True).healthy
