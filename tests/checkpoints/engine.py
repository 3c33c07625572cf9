"""Proves that Spark's engine does on each Spark what the command line does.

    python -m tests.checkpoints.engine [ARCHIVE ...]

An ARCHIVE is named as for `restart`; its version is what counts. Driver and executors have the
packages of this environment, and the PySpark of that version: what a cluster has whose Spark is an
older one. Of two equal fleets one is maintained by the command line, the other in `local[2]` by
`statemaint.spark` (`engine_job`). Says whether inventory, plan, findings, verdicts, files, digests
and ledgers are equal, and fails if any are not, or if another Spark was at work.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from statemaint.spark import Target
from tests.checkpoints.environments import SparkError, packages
from tests.checkpoints.families import of_archive, provable
from tests.checkpoints.queries import release
from tests.support.paths import ROOT
from tests.systems.spark.fleets import (
    actions,
    by_command_line,
    digests,
    findings,
    healthy,
    inventoried,
    leftovers,
    listing,
    planned,
    planned_by_spark,
    scanned,
    write_fleet,
    write_queries,
)

_OLDEST = (3, 5)
_PLACE = ROOT / ".run" / "engine"
Rows = list[dict[str, Any]]


def prove(version: str) -> tuple[str, tuple[str, ...]]:
    """Returns what was compared on a Spark, and what was not equal."""
    place = _PLACE / version
    shutil.rmtree(place, ignore_errors=True)
    spark, twin = (write_fleet(place / name) for name in ("spark", "command-line"))
    rows = _rows(version, place, write_queries(spark, place / "queries.yaml"))
    faults = [*_before(twin, rows), *_after(spark, twin, rows)]
    stores = sum(1 for row in rows["maintain_fleet"] if row["store"])
    deleted = sum(row["files_deleted"] or 0 for row in rows["maintain_fleet"])
    facts = f"{len(spark)} queries, {stores} stores, {deleted} files deleted"
    return facts, tuple(faults)


def _before(twin: Sequence[Target], rows: dict[str, Rows]) -> Iterator[str]:
    for one in twin:
        if inventoried(rows["inventory"], one.query) != scanned(one):
            yield f"{one.query}: another inventory"
        if planned_by_spark(rows["plan_fleet"], one.query) != planned(one):
            yield f"{one.query}: another plan"


def _after(spark: Sequence[Target], twin: Sequence[Target], rows: dict[str, Rows]) -> Iterator[str]:
    found = by_command_line(twin)
    verified = {row["query"]: row["healthy"] for row in rows["verify_fleet"]}
    for ours, theirs in zip(spark, twin, strict=True):
        if findings(rows["maintain_fleet"], ours.query) != found[ours.query]:
            yield f"{ours.query}: other findings"
        for what in (listing, digests, actions):
            if what(ours) != what(theirs):
                yield f"{ours.query}: other {what.__name__}"
        if verified[ours.query] != healthy(theirs):
            yield f"{ours.query}: another verdict"
        if leftovers(ours):
            yield f"{ours.query}: files of units are left"


def _rows(version: str, place: Path, queries: Path) -> dict[str, Rows]:
    """Returns the rows of each function on a Spark."""
    results, log = place / "results.json", place / "spark.log"
    command = [sys.executable, "-m", "tests.checkpoints.engine_job", str(queries), str(results)]
    with log.open("w") as said:
        done = subprocess.run(
            command, cwd=place, env=_variables(version), stdout=said, stderr=said, check=False
        )
    if done.returncode:
        raise SparkError(f"Spark {version}, {log}:\n{log.read_text()[-3000:]}")
    rows: dict[str, Any] = json.loads(results.read_text())
    if (used := rows.pop("spark")) != version:
        raise SparkError(f"Spark {used} was at work, not {version}")
    return rows


def _variables(version: str) -> dict[str, str]:
    """Returns an environment in which a Spark of another one comes before this one's."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    path = os.pathsep.join((str(_pyspark(version)), str(ROOT)))
    return {**others, "PYTHONPATH": path, "SPARK_LOCAL_IP": "127.0.0.1"}


def _pyspark(version: str) -> Path:
    """Returns a folder with the PySpark of a version and nothing else of its environment."""
    folder, source = _PLACE / f"pyspark-{version}", packages(version)
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("pyspark", "py4j"):
        link = folder / name
        link.unlink(missing_ok=True)
        link.symlink_to(source / name)
    return folder


def main(names: list[str]) -> int:
    """Proves the engine on the version of each archive, and returns the exit code."""
    versions = sorted({of_archive(name)[1] for name in names}, key=release)
    wanted = [one for one in versions if release(one) >= _OLDEST]
    failed = 0
    for version in wanted:
        try:
            facts, faults = prove(version)
        except SparkError as error:
            facts, faults = "none", (str(error),)
        failed += bool(faults)
        verdict = f"NOT PROVED: {'; '.join(faults)}" if faults else "equal"
        click.echo(f"{version:<32} {facts}: {verdict}")
    click.echo(f"the engine is proved on {len(wanted) - failed} Sparks, not on {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or provable()))
