"""A standalone cluster whose executors lack a package: nothing begins, and one line says why."""

import sys
from pathlib import Path

from tests.support.spark_cluster import spark_cluster
from tests.systems.spark.fleets import listing, write_fleet, write_queries


def test_a_package_that_the_executors_lack_is_one_line_before_any_work(tmp_path: Path) -> None:
    fleet = write_fleet(tmp_path / "fleet")
    before = {one.query: listing(one) for one in fleet}
    queries = str(write_queries(fleet, tmp_path / "queries.yaml"))
    # Without its site, a Python has only what Spark brings and the folder of this package.
    bare = tmp_path / "python3"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    pythons = {"spark.pyspark.python": str(bare), "spark.pyspark.driver.python": sys.executable}
    (tmp_path / "cluster").mkdir()
    with spark_cluster(tmp_path / "cluster") as cluster:
        cluster.second_worker()
        driver = cluster.submit("bare", "maintain", "--queries", queries, "--json", conf=pythons)
        code, said = driver.code(), driver.log.read_text()
    assert code == 2, said
    (line,) = (one for one in said.splitlines() if "CONFIG: " in one)
    assert "the Python of an executor (" in line
    assert "`pip install 'statemaint[spark]'`" in line
    assert {one.query: listing(one) for one in fleet} == before
