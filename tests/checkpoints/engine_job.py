"""Does what Spark's engine can, with the PySpark that this process finds first.

    python -m tests.checkpoints.engine_job QUERIES RESULTS

QUERIES is a queries file. RESULTS will be a JSON document: the version of Spark, and the rows of
each function, in the order in which they were called. One start of a JVM serves all.
"""

import json
import sys
from pathlib import Path

from statemaint.spark import inventory, maintain_fleet, plan_fleet, verify_fleet
from statemaint.spark.session import session


def main(queries: str, results: Path) -> None:
    """Calls each function on the fleet once."""
    spark = session("local[2]", None)
    done = {"spark": spark.version}
    functions = (inventory, plan_fleet, maintain_fleet, verify_fleet)
    for function in functions:
        rows = function(spark, queries).collect()
        done[function.__name__] = [row.asDict(recursive=True) for row in rows]
    results.write_text(json.dumps(done))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
