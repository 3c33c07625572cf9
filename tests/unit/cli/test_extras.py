"""What is missing without an extra is named, with the command that installs it."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from statemaint.storage import LocalStorage
from tests.support.checkpoints import write_checkpoint
from tests.support.paths import ROOT
from tests.transcripts.__main__ import rocksdb
from tests.unit.cli.test_show import AGGREGATION, unpacked

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
_WITHOUT = """
import sys
sys.modules.update(dict.fromkeys(sys.argv.pop(1).split(",")))
sys.argv[0] = "statemaint"
from statemaint.cli import main
main()
"""


def without(packages: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Runs the program where some packages cannot be imported."""
    return subprocess.run(
        [sys.executable, "-c", _WITHOUT, packages, *args],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "extra", ["s3", "hadoop", "rocksdb", "airflow", "spark", "arrow", "metrics"]
)
def test_every_extra_is_one_that_installing_explains(extra: str) -> None:
    assert EXTRAS[extra]
    assert f"'statemaint[{extra}]'" in (ROOT / "docs/install.md").read_text()


@pytest.mark.parametrize(
    ("package", "args", "extra"),
    [
        ("botocore", ["scan", "s3://bucket/checkpoint"], "s3"),
        ("pyspark", ["scan", "hdfs://host/checkpoint"], "hadoop"),
        ("rocksdict", ["digest", "ROCKSDB"], "rocksdb"),
        ("rocksdict", ["verify", "ROCKSDB", "--deep"], "rocksdb"),
        ("rocksdict", ["maintain", "ROCKSDB", "--min-deltas-for-snapshot", "5"], "rocksdb"),
        ("rocksdict", ["show", "ROCKSDB"], "rocksdb"),
        ("prometheus_client", ["exporter", "--queries", "QUERIES"], "metrics"),
    ],
)
def test_a_missing_extra_is_one_line_with_the_command(
    tmp_path: Path, package: str, args: list[str], extra: str
) -> None:
    rocksdb(tmp_path / "rocks")
    file = tmp_path / "queries.yaml"
    file.write_text("queries: {one: {checkpoint: /one}}")
    places = {"ROCKSDB": str(tmp_path / "rocks"), "QUERIES": str(file)}
    done = without(package, *(places.get(one, one) for one in args))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("statemaint: CONFIG: ")
    assert line.endswith(f"is not installed; `pip install 'statemaint[{extra}]'`")


@pytest.mark.parametrize("package", ["pyspark.sql", "pandas", "pyarrow"])
def test_a_fleet_without_what_spark_needs_is_one_line_with_the_command(
    tmp_path: Path, package: str
) -> None:
    done = fleet(tmp_path, package)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.endswith(" is not installed; `pip install 'statemaint[spark]'`")


def test_a_fleet_without_a_java_is_one_line_after_the_words_of_spark(tmp_path: Path) -> None:
    nowhere = {**os.environ, "JAVA_HOME": str(tmp_path / "nowhere")}
    done = fleet(tmp_path, "boto3", env=nowhere)
    assert done.returncode == 2
    line = done.stderr.splitlines()[-1]
    assert line.startswith("statemaint: CONFIG: Spark's Java process did not start")
    assert "JAVA_HOME must name a Java" in line


def test_one_query_is_valid_without_airflow(tmp_path: Path) -> None:
    file = tmp_path / "queries.yaml"
    file.write_text("queries: {one: {checkpoint: /one, schedule: '@hourly'}}")
    done = without("airflow,airflow.sdk", "queries", str(file), "validate")
    assert (done.returncode, done.stdout) == (0, f"{file}: valid, 1 query\n")


_WITHOUT_ON_SPARK = """
import sys
sys.modules.update(dict.fromkeys(sys.argv.pop(1).split(",")))
sys.argv[0] = "statemaint"
from statemaint.cli.main import run
from statemaint.spark.program import program
run(program, "python -m statemaint.spark")
"""


def fleet(
    folder: Path, packages: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Takes an inventory on Spark where some packages cannot be imported."""
    file = folder / "queries.yaml"
    file.write_text("queries: {one: {checkpoint: /one}}")
    return subprocess.run(
        [sys.executable, "-c", _WITHOUT_ON_SPARK, packages, "inventory", "--queries", str(file)],
        capture_output=True,
        text=True,
        check=False,
        env=env,
    )


def test_a_local_checkpoint_needs_no_extra(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    write_checkpoint(LocalStorage(tmp_path / "plain"))
    (tmp_path / "real").mkdir()
    root = unpacked(AGGREGATION, tmp_path / "real")
    packages = "boto3,botocore,rocksdict,prometheus_client,pyspark,pyarrow,airflow"
    for verb in ("scan", "plan", "verify", "doctor", "digest", "show", "stats", "maintain"):
        done = without(packages, verb, str(root))
        assert (done.returncode, done.stderr) == (0, ""), verb


def test_a_checkpoint_of_rocksdb_is_scanned_without_its_extra(tmp_path: Path) -> None:
    rocksdb(tmp_path / "rocks")
    for verb in ("scan", "plan", "verify"):
        done = without("rocksdict", verb, str(tmp_path / "rocks"))
        assert (done.returncode, done.stderr) == (0, ""), verb
