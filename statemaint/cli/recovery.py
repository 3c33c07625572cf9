"""The verbs that mend a checkpoint. Without `--apply` they show a plan and write nothing."""

import json
import sys
from collections.abc import Iterator

import click
from rich.filesize import decimal

from statemaint.cli.options import Duration, as_json, uri
from statemaint.cli.output import DAMAGE, MOST_LINES
from statemaint.model.findings import damaged
from statemaint.plan import Mend, Remove
from statemaint.recover import Mended, plan_repair, plan_rollback, repair, rollback
from statemaint.report.mend_json import mend_json, mended_json
from statemaint.storage import open_storage

_MONTH = 30 * 24 * 3600.0

_apply = click.option("--apply", is_flag=True, help="Do it; without this nothing is written.")
_trash_for = click.option(
    "--trash-for",
    type=Duration(),
    default=_MONTH,
    help="Keep what is moved away this long, for `statemaint undo`.  [default: 30d]",
)


@click.command("repair")
@uri
@_apply
@_trash_for
@as_json
def repair_verb(uri: str, *, apply: bool, trash_for: float, as_json: bool) -> None:
    """Show how damage can be mended, each with its proof, or mend it (--apply).

    A bad snapshot is made anew from the log, or dropped where no retained version is loaded from
    it; so goes a checksum that does not fit a sound file, and a snapshot above the commit log.
    Stop the query first. The bad files go to the trash.

    Exit code 3 where damage stays that cannot be mended here: see `statemaint doctor`.
    """
    storage = open_storage(uri)
    if apply:
        end(repair(storage, trash_for=trash_for), as_json=as_json)
    show(plan_repair(storage), trash_for, as_json=as_json)


@click.command("rollback")
@uri
@click.option(
    "--to-batch",
    "batch",
    type=click.IntRange(min=0),
    required=True,
    help="The newest batch that stays committed; `statemaint doctor` names those that load.",
)
@_apply
@_trash_for
@as_json
def rollback_verb(uri: str, *, batch: int, apply: bool, trash_for: float, as_json: bool) -> None:
    """Show what must go so that the query restarts behind a batch, or move it away (--apply).

    Refused where the batch's state does not load in every store. Stop the query first. The offsets
    of the next batch stay, so that it reads the same input again. Sinks that remember batches
    (files, Delta) skip those that they have: see the runbook.

    Exit code 3 where damage stays all the same, such as older batches that do not load.
    """
    storage = open_storage(uri)
    if apply:
        end(rollback(storage, batch, trash_for=trash_for), as_json=as_json)
    show(plan_rollback(storage, batch), trash_for, as_json=as_json)


def show(plan: Mend, trash_for: float, *, as_json: bool) -> None:
    """Prints a plan, and ends the program."""
    if as_json:
        click.echo(json.dumps({**mend_json(plan), "trash_for": trash_for}, indent=2))
    else:
        click.echo("\n".join(_lines(plan)))
        if plan.steps:
            click.echo("nothing was written; give --apply to do it", err=True)
    _end(plan)


def end(done: Mended, *, as_json: bool) -> None:
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
    _end(done.plan)


def _end(plan: Mend) -> None:
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
