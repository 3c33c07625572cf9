"""A stateful query in a Spark of its own: `python -m tests.systems.browser.spark_query ROOT FILES`.

It counts the lines of a growing number of files, one file a batch, and continues from its
checkpoint. Prints the counts in its state, as Spark's own reader finds them, as JSON.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from pyspark.sql import functions as f

from tests.support.paths import ROOT
from tools.demo.session import end_jvm, local_session

_CONF = {
    "spark.sql.shuffle.partitions": "2",
    # To compile code for a few rows would be most of the work.
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
}


def counted_by_spark(root: Path, files: int) -> dict[str, int]:
    """Runs the query in a process of its own until it has read all files; returns its state."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.systems.browser.spark_query", str(root), str(files)],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def counts(files: int) -> dict[str, int]:
    """Returns what is right: how often each line is in the files."""
    return dict(Counter(line for number in range(files) for line in lines(number)))


def lines(number: int) -> list[str]:
    """Returns the lines of a file."""
    return [f"key {key}" for key in range(40) if (key + number) % 3]


def main(root: Path, files: int) -> None:
    """Runs the query, and prints its state."""
    folder = root / "input"
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        path = folder / f"{number:03d}.txt"
        path.write_text("\n".join(lines(number)), encoding="utf-8")
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    checkpoint = str(root / "checkpoint")
    with local_session("revenue", _CONF) as spark:
        read = spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder))
        writer = read.groupBy("value").count().writeStream.outputMode("update").format("noop")
        writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        writer.start().awaitTermination()
        state = spark.read.format("statestore").load(checkpoint)
        rows = state.select(f.to_json("key"), f.to_json("value")).collect()
    found = {json.loads(key)["value"]: json.loads(value)["count"] for key, value in rows}
    print(json.dumps(found))  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
    end_jvm()
