"""Where a Spark runs already, Hadoop is reached through it."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from statemaint.errors import NotFoundError
from statemaint.storage import HadoopStorage
from statemaint.storage.hadoop.jvm import _of_running_spark


def test_a_running_spark_is_shared_with_its_settings(spark: SparkSession, tmp_path: Path) -> None:
    spark.sparkContext._jsc.hadoopConfiguration().set("statemaint.test", "seen")
    jvm = _of_running_spark()
    assert jvm is not None
    assert jvm.configuration().get("statemaint.test") == "seen"
    storage = HadoopStorage(f"hadoop+file:{tmp_path}", jvm=jvm)
    storage.write("a/1", [b"x"])
    assert [entry.path for entry in storage.list("")] == ["a/1"]
    with pytest.raises(NotFoundError):
        storage.read("a/2")
