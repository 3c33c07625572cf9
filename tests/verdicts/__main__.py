"""The verdict matrix: `python -m tests.verdicts`, or `make test-verdicts`.

Real checkpoints of Spark 4.3, damaged in every way of `kinds`: is our verdict Spark's (rule S21)?
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from statemaint.demo.session import local_session
from tests.verdicts.judge import Court, Verdict
from tests.verdicts.kinds import KINDS
from tests.verdicts.query import Layout, Query, Shape

_ROOT = Path(__file__).parents[2]
_PLACE = _ROOT / ".run" / "verdicts"


@click.command()
@click.option("--layout", "layouts", multiple=True, type=click.Choice([one.name for one in Layout]))
@click.option("--only", default="", help="Kinds whose group or name has this in it.")
def main(layouts: tuple[str, ...], only: str) -> None:
    """Tries every kind with every layout; ends with 1 where a verdict is not Spark's."""
    found = []
    with local_session("verdicts", {}, master="local[1]") as spark:
        spark.sparkContext.setLogLevel("OFF")
        for layout in Layout:
            if layouts and layout.name not in layouts:
                continue
            courts = dict[Shape, Court]()
            for kind in KINDS:
                if layout not in kind.layouts or only not in kind.title:
                    continue
                if kind.shape not in courts:
                    courts[kind.shape] = Court(Query(spark, layout, kind.shape), _PLACE)
                court = courts[kind.shape]
                began = time.monotonic()
                verdict = court.try_kind(kind)
                found.append(verdict)
                click.echo("\n".join(_lines(verdict, time.monotonic() - began)))
    (_PLACE / "results.json").write_text(json.dumps([one.as_json() for one in found], indent=1))
    bad = [one for one in found if one.faults]
    click.echo(f"{len(found)} verdicts, {len(bad)} disagree")
    sys.exit(bool(bad))


def _lines(one: Verdict, seconds: float) -> Iterator[str]:
    mark = "!!" if one.faults else "ok"
    yield f"{mark} {one.layout} | {one.group}: {one.kind} ({one.history}) [{seconds:.1f}s]"
    yield f"     spark {one.spark} {one.error}"
    yield f"     doctor {one.doctor} | deep {one.deep} | verify {one.verify}"
    yield f"     repair {one.repair} | plan {one.plan}"
    yield f"     then {', '.join(one.steps) or 'nothing'}: {one.after} {one.after_error}"
    for fault in one.faults:
        yield f"  -> {fault}"


if __name__ == "__main__":
    main()
