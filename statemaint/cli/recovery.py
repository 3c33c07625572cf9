"""The verbs that mend a checkpoint. Without `--apply` they show a plan and write nothing."""

import json
import sys
from collections.abc import Iterator

import click
from rich.filesize import decimal

from statemaint.cli.output import DAMAGE, MOST_LINES
from statemaint.model.findings import damaged
from statemaint.plan import Mend, Remove
from statemaint.recover import Mended
from statemaint.report.mend_json import mend_json, mended_json


def end_with_plan(plan: Mend, trash_for: float, *, as_json: bool) -> None:
    """Prints a plan, and ends the program."""
    if as_json:
        click.echo(json.dumps({**mend_json(plan), "trash_for": trash_for}, indent=2))
    else:
        click.echo("\n".join(_lines(plan)))
        if plan.steps:
            click.echo("nothing was written; give --apply to do it", err=True)
    _end_with(plan)


def end_with_result(done: Mended, *, as_json: bool) -> None:
    """Prints what was done, and ends the program."""
    if as_json:
        click.echo(
            json.dumps(mended_json(done.run, done.plan, done.removed, done.written), indent=2)
        )
    elif done.run:
        size = decimal(sum(one.entry.size for one in done.removed))
        click.echo(f"moved     {len(done.removed)} files ({size}) to the trash of run {done.run}")
        click.echo(f"written   {len(done.written)} snapshots, each read back and equal")
        click.echo(f"undo      statemaint undo {done.plan.root} {done.run}")
    else:
        click.echo("\n".join(_lines(done.plan)))
    _end_with(done.plan)


def _end_with(plan: Mend) -> None:
    for one in plan.unmended[:MOST_LINES]:
        click.echo(one, err=True)
    for finding in [one for one in plan.findings if one.damage][:MOST_LINES]:
        click.echo(f"{finding.code}: {finding.detail}", err=True)
    sys.exit(DAMAGE if damaged(plan.findings) else 0)


def _lines(plan: Mend) -> Iterator[str]:
    if not plan.steps:
        yield f"{plan.verb}: nothing to do"
        return
    for step in plan.steps:
        if isinstance(step, Remove):
            yield f"remove    {step.path}  ({step.reason}, {decimal(step.entry.size)})"
        else:
            chain = step.chain
            yield f"write     {step.path}  (version {step.version} from {len(chain.paths)} files)"
    for cure in plan.cures:
        if proof := cure.proof:
            without = "without them" if cure.removes else "by the log"
            yield (
                f"proof     {cure.store}: version {cure.version} {without} has {proof.rows} rows, "
                f"digest {proof.digest}"
            )
    yield f"checked   {plan.versions_checked} versions of stores, read without what goes"
