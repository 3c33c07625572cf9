"""The verdict matrix: `python -m tests.verdicts`, or `make test-verdicts`.

Real checkpoints of Spark 4.3, damaged in every way of `kinds`: is our verdict Spark's (rule S21)?
"""

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click

from tests.support.documents import commit, rewrite
from tests.support.in_memory import in_memory
from tests.support.paths import ROOT
from tests.verdicts.damages import Kind
from tests.verdicts.judge import Court, Verdict
from tests.verdicts.kinds import KINDS
from tests.verdicts.query import Layout, Query, Shape
from tests.verdicts.results import Results, table
from tools.demo.session import local_session

_DOCUMENT = ROOT / "docs" / "safety.md"
_RESULTS = ROOT / ".run" / "verdicts.json"


@click.command()
@click.option("--layout", "layouts", multiple=True, type=click.Choice([one.name for one in Layout]))
@click.option("--only", multiple=True, help="Kinds whose group or name has this in it.")
def main(layouts: tuple[str, ...], only: tuple[str, ...]) -> None:
    """Tries every kind with every layout; ends with 1 where a verdict is not Spark's.

    With options, the verdicts of the last run on everything else stand.
    """
    code = commit()
    results = Results.read(_RESULTS) if layouts or only else Results({})
    for verdict, seconds in _tried(
        [one for one in Layout if one.name in layouts or not layouts], only
    ):
        results.add(replace(verdict, commit=code))
        results.write(_RESULTS)
        click.echo("\n".join(_lines(verdict, seconds)))
    bad = results.disagreeing
    click.echo(f"{len(results.verdicts)} verdicts, {len(bad)} disagree")
    if results.every_kind and not bad:
        rewrite(_DOCUMENT, table(results), by="make test-verdicts")
    sys.exit(bool(bad))


def _tried(layouts: list[Layout], only: tuple[str, ...]) -> Iterator[tuple[Verdict, float]]:
    os.environ["PYSPARK_PYTHON"] = sys.executable  # transformWithState runs Python
    with in_memory() as place:
        settings = {"spark.local.dir": str(place / "spark")}
        with local_session("verdicts", settings, master="local[1]") as spark:
            spark.sparkContext.setLogLevel("OFF")
            for layout in layouts:
                kinds = [one for one in KINDS if layout in one.layouts and _fits(one, only)]
                for shape in Shape:
                    mine = [one for one in kinds if one.shape is shape]
                    yield from _of(Query(spark, layout, shape), mine, place)


def _fits(kind: Kind, only: tuple[str, ...]) -> bool:
    return not only or any(one in kind.title for one in only)


def _of(query: Query, kinds: list[Kind], place: Path) -> Iterator[tuple[Verdict, float]]:
    if not kinds:
        return
    court = Court(query, place)
    for kind in kinds:
        began = time.monotonic()
        yield court.try_kind(kind), time.monotonic() - began


def _lines(one: Verdict, seconds: float) -> Iterator[str]:
    mark = "!!" if one.faults else "ok"
    yield f"{mark} {one.layout} | {one.group}: {one.kind} ({one.history}) [{seconds:.1f}s]"
    yield f"     spark {one.spark} {one.error}"
    yield f"     doctor {one.doctor} | deep {one.deep} | verify {one.verify}"
    yield f"     repair {one.repair} | plan {one.plan}"
    yield f"     then {', '.join(one.steps) or 'nothing'}: {one.after} {one.after_error}"
    yield f"     advice {' / '.join(one.advice)}"
    for fault in one.faults:
        yield f"  -> {fault}"


if __name__ == "__main__":
    main()
