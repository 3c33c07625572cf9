"""Prints plans and results of `repair` and `rollback`, also for `apply`."""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NoReturn

import click
from rich.filesize import decimal

from statemaint.cli.messages import note
from statemaint.cli.output import MOST_LINES, headed, print_lines
from statemaint.cli.settings import settings
from statemaint.cli.words import files_of
from statemaint.errors import CheckpointError
from statemaint.model.findings import damaged
from statemaint.model.ids import version_of
from statemaint.plan import Proof, RecoveryPlan, Remove, RepairStep, WriteSnapshot
from statemaint.recover import RecoveryReport
from statemaint.report.recovery_json import recovered_json, recovery_json
from statemaint.wording import command, counted


def end_with_plan(plan: RecoveryPlan, trash_for: float, *, as_json: bool) -> NoReturn:
    """Prints a plan that was not carried out, then exits."""
    if as_json:
        document = {**recovery_json(plan), "trash_for": trash_for}
        click.echo(json.dumps(headed(document, None), indent=2))
    else:
        click.echo("\n".join(_lines(plan)))
        if plan.actions:
            note("nothing was written; add --apply to carry it out")
    _end_with(plan)


def end_with_result(done: RecoveryReport, *, as_json: bool) -> NoReturn:
    """Prints the result of a recovery, then exits."""
    if as_json:
        document = recovered_json(done.run, done.plan, done.removed, done.written)
        click.echo(json.dumps(headed(document, None), indent=2))
    else:
        click.echo("\n".join(_result_lines(done) if done.run else _lines(done.plan)))
    _end_with(done.plan)


def _end_with(plan: RecoveryPlan) -> NoReturn:
    print_lines(plan.unrepaired)
    print_lines([f"{one.code}: {one.detail}" for one in plan.findings if one.damage])
    sys.exit(CheckpointError.exit_code if damaged(plan.findings) else 0)


def _result_lines(done: RecoveryReport) -> Iterator[str]:
    size = decimal(sum(one.entry.size for one in done.removed))
    yield f"moved     {counted(len(done.removed), 'file')} ({size}) to the trash of run {done.run}"
    equal = ", each read back and equal" if done.written else ""
    yield f"written   {counted(len(done.written), 'snapshot')}{equal}"
    yield f"undo      {command('undo', done.plan.root, done.run)}"


def _lines(plan: RecoveryPlan) -> Iterator[str]:
    if not plan.actions:
        yield f"{plan.verb}: {_idle(plan)}"
        return
    yield from _summary(plan)
    steps = [_step_line(step) for step in plan.actions]
    yield from _first(steps, "step")
    yield from _first(
        [_proof_line(step, step.proof) for step in plan.repairs if step.proof], "proof"
    )
    versions = counted(plan.versions_checked, "version")
    yield f"checked   {versions} of stores, read without these files"


def _idle(plan: RecoveryPlan) -> str:
    """Returns why a plan has no step: nothing is wrong, or no step of it would help."""
    damage = sum(1 for one in plan.findings if one.damage)
    if not damage:
        return "nothing to do"
    return (
        f"of {counted(damage, 'finding')} of damage it can repair none; "
        f"`{command('doctor', plan.root)}` says what can be done"
    )


def _summary(plan: RecoveryPlan) -> Iterator[str]:
    """Yields a summary of the removed and written files."""
    removes = [step for step in plan.actions if isinstance(step, Remove)]
    writes = len(plan.actions) - len(removes)
    if plan.verb == "rollback":
        yield f"rollback  the query continues after batch {plan.batch}{_batches(removes)}"
    if removes:
        size = sum(one.entry.size for one in removes)
        yield f"moves     {files_of(len(removes), size)} to the trash"
        kinds = Counter(_kind(one.path) for one in removes)
        yield "          " + ", ".join(counted(much, kind) for kind, much in kinds.most_common())
    if plan.verb == "rollback" and plan.batch is not None and (ends := _committed(removes)):
        older, newer = version_of(plan.batch), version_of(ends[-1])
        diff = command("diff", plan.root, "--from", str(older), "--to", str(newer))
        yield f"rows      {diff} counts them, if both load"
    if writes:
        yield f"written   {counted(writes, 'snapshot')}"


def _batches(removes: Sequence[Remove]) -> str:
    batches = _committed(removes)
    if not batches:
        return ""
    if len(batches) == 1:
        return f"; batch {batches[0]} runs again"
    return (
        f"; {counted(len(batches), 'batch', 'batches')} ({batches[0]} to {batches[-1]}) run again"
    )


def _committed(removes: Sequence[Remove]) -> list[int]:
    """Returns the batches whose commits are among some files, in their order."""
    return sorted(
        int(one.path.rpartition("/")[2])
        for one in removes
        if one.path.startswith("commits/") and one.path.rpartition("/")[2].isdecimal()
    )


_KINDS = {"crc": "checksum"}
_NAMED = {"delta", "snapshot", "changelog", "zip"}


def _kind(path: str) -> str:
    """Returns the kind of file at a path."""
    folder, _, name = path.rpartition("/")
    top = folder.partition("/")[0]
    if top in {"commits", "offsets"}:
        return top.removesuffix("s")
    ending = name.rpartition(".")[2]
    return ending if ending in _NAMED else _KINDS.get(ending, "other file")


def _first(lines: Sequence[str], noun: str) -> Iterator[str]:
    """Yields the first lines, all with `--all`, and the number of the others."""
    shown = lines if settings().everything else lines[:MOST_LINES]
    yield from shown
    if more := len(lines) - len(shown):
        yield f"and {counted(more, f'more {noun}')}; --all shows them"


def _step_line(step: Remove | WriteSnapshot) -> str:
    if isinstance(step, Remove):
        return f"remove    {step.path}  ({step.reason}, {decimal(step.entry.size)})"
    files = counted(len(step.chain.paths), "file")
    return f"write     {step.path}  (version {step.version} from {files})"


def _proof_line(step: RepairStep, proof: Proof) -> str:
    without = "without them" if step.removes else "by the log"
    rows = counted(proof.rows, "row")
    return (
        f"proof     {step.store}: version {step.version} {without} has {rows}, "
        f"digest {proof.digest}"
    )
