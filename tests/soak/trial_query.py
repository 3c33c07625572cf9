"""The query of the trial: `python -m tests.soak.trial_query ROOT [--finish]`.

A count and a sum for each user in a RocksDB store with V1 ids, changelogs and Spark's own
maintenance: its state is a function of all input, wherever the batches end.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.soak.query import _ROCKSDB, _read
from tools.demo.session import local_session

_STATE = "spark.sql.streaming.stateStore"
_BATCH = "400 milliseconds"
# What Spark's state stores say goes to the file of each process; the rest only where it matters.
_LOGGING = """
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = ${sys:trial.log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{UNIX_MILLIS} %p [%t] %c{1}: %m%n%ex
logger.state.name = org.apache.spark.sql.execution.streaming.state
# Only at this level does it name the files that it deletes.
logger.state.level = debug
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = warn
"""


def run(root: Path, *, finish: bool) -> None:
    """Runs the query until it is killed, or to the end of its input and shows its state."""
    settings = json.loads((root / "settings.json").read_text())
    conf = {**_ROCKSDB, **settings["conf"], **_logging(root, finish=finish)}
    with local_session("trial", conf, master=settings["master"]) as spark:
        rows = _read(spark, root / "input" / "left") if not finish else _many(spark, root)
        query = (
            rows.groupBy("user")
            .agg(f.count("*").alias("events"), f.sum("value").alias("total"))
            .writeStream.outputMode("update")
            .foreachBatch(_consume)
            .option("checkpointLocation", str(root / "checkpoint"))
            .trigger(**({"availableNow": True} if finish else {"processingTime": _BATCH}))
            .start()
        )
        query.awaitTermination()
        if finish:
            (root / "state.json").write_text(json.dumps(_state(spark, root)))


def _consume(rows: DataFrame, _: int) -> None:
    rows.count()


def _many(spark: SparkSession, root: Path) -> DataFrame:
    reader = spark.readStream.schema("user LONG, value LONG, at TIMESTAMP")
    return reader.option("maxFilesPerTrigger", 100).json(str(root / "input" / "left"))


def _state(spark: SparkSession, root: Path) -> list[list[int]]:
    stored = spark.read.format("statestore").load(str(root / "checkpoint"))
    rows = stored.select("key.user", "value.*").collect()
    return sorted([int(number) for number in row] for row in rows)


def _logging(root: Path, *, finish: bool) -> Mapping[str, Any]:
    config = root / "log4j2.properties"
    config.write_text(_LOGGING)
    number = len([*root.glob("spark-*.log")])
    log = root / ("spark-finish.log" if finish else f"spark-{number:03d}.log")
    java = (
        "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m "
        f'"-Dlog4j2.configurationFile={config}" "-Dtrial.log={log}"'
    )
    return {"spark.driver.extraJavaOptions": java, "spark.local.dir": str(root / "local")}


if __name__ == "__main__":
    run(Path(sys.argv[1]), finish="--finish" in sys.argv[2:])
