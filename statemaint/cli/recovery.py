"""Prints plans and results of `repair` and `rollback`, also for `apply`."""

import json
import sys
from collections.abc import Iterator
from typing import NoReturn

import click
from rich.filesize import decimal

from statemaint.cli.output import print_lines
from statemaint.errors import CheckpointError
from statemaint.model.findings import damaged
from statemaint.plan import Proof, RecoveryPlan, Remove, RepairStep, WriteSnapshot
from statemaint.recover import RecoveryReport
from statemaint.report.recovery_json import recovered_json, recovery_json


def end_with_plan(plan: RecoveryPlan, trash_for: float, *, as_json: bool) -> NoReturn:
    """Prints a plan that was not carried out, then exits."""
    if as_json:
        click.echo(json.dumps({**recovery_json(plan), "trash_for": trash_for}, indent=2))
    else:
        click.echo("\n".join(_lines(plan)))
        if plan.actions:
            click.echo("nothing was written; give --apply to do it", err=True)
    _end_with(plan)


def end_with_result(done: RecoveryReport, *, as_json: bool) -> NoReturn:
    """Prints the result of a recovery, then exits."""
    if as_json:
        document = recovered_json(done.run, done.plan, done.removed, done.written)
        click.echo(json.dumps(document, indent=2))
    else:
        click.echo("\n".join(_result_lines(done) if done.run else _lines(done.plan)))
    _end_with(done.plan)


def _end_with(plan: RecoveryPlan) -> NoReturn:
    print_lines(plan.unrepaired)
    print_lines([f"{one.code}: {one.detail}" for one in plan.findings if one.damage])
    sys.exit(CheckpointError.exit_code if damaged(plan.findings) else 0)


def _result_lines(done: RecoveryReport) -> Iterator[str]:
    size = decimal(sum(one.entry.size for one in done.removed))
    yield f"moved     {len(done.removed)} files ({size}) to the trash of run {done.run}"
    yield f"written   {len(done.written)} snapshots, each read back and equal"
    yield f"undo      statemaint undo {done.plan.root} {done.run}"


def _lines(plan: RecoveryPlan) -> Iterator[str]:
    if not plan.actions:
        yield f"{plan.verb}: nothing to do"
        return
    yield from (_step_line(step) for step in plan.actions)
    yield from (_proof_line(step, step.proof) for step in plan.repairs if step.proof)
    yield f"checked   {plan.versions_checked} versions of stores, read without what goes"


def _step_line(step: Remove | WriteSnapshot) -> str:
    if isinstance(step, Remove):
        return f"remove    {step.path}  ({step.reason}, {decimal(step.entry.size)})"
    files = len(step.chain.paths)
    return f"write     {step.path}  (version {step.version} from {files} files)"


def _proof_line(step: RepairStep, proof: Proof) -> str:
    without = "without them" if step.removes else "by the log"
    return (
        f"proof     {step.store}: version {step.version} {without} has {proof.rows} rows, "
        f"digest {proof.digest}"
    )
