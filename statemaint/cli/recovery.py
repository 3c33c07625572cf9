"""`repair`, `rollback` and `apply`: plans and results of recoveries."""

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import IO, Any, NoReturn

import click
from rich.filesize import decimal

from statemaint.cli import options as flags
from statemaint.cli.maintain import end_with_report
from statemaint.cli.output import MOST_LINES, note, print_json, print_lines, settings
from statemaint.cli.progress import actions_done, work_done
from statemaint.cli.runs import end_with_undone
from statemaint.cli.tables import files_of
from statemaint.cli.targets import Address
from statemaint.maintain import undo
from statemaint.maintain.record import recorded, recorded_recovery
from statemaint.maintain.run import apply
from statemaint.plan.actions import WriteSnapshot
from statemaint.plan.recovery.recovery_plan import RecoveryPlan, Remove
from statemaint.recover import (
    RecoveryReport,
    apply_recovery,
    plan_repair,
    plan_rollback,
    repair,
    rollback,
)
from statemaint.report.plan_file import MaintenanceFile, RecoveryFile, UndoFile, parse_plan
from statemaint.report.run import exit_code_of
from statemaint.report.summary import decision, kind_of
from statemaint.report.to_json import recovered_json, recovery_json
from statemaint.storage import open_storage
from statemaint.wording import command, counted
from statemaint.workers import Workers


def _end_with_result(done: RecoveryReport) -> NoReturn:
    if settings().as_json:
        print_json(recovered_json(done.run, done.plan, done.removed, done.written))
    else:
        click.echo("\n".join(_result_lines(done) if done.run else _lines(done.plan)))
    _end_with(done.plan)


def _end_with(plan: RecoveryPlan) -> NoReturn:
    print_lines(plan.unrepaired)
    damage = [finding for finding in plan.findings if finding.damage]
    print_lines([f"{finding.code}: {finding.detail}" for finding in damage])
    sys.exit(exit_code_of(plan.findings))


def _result_lines(done: RecoveryReport) -> Iterator[str]:
    moved = files_of(len(done.removed), done.bytes_removed)
    yield f"moved     {moved} to the trash of run {done.run}"
    equal = ", each read back and equal" if done.written else ""
    yield f"written   {counted(len(done.written), 'snapshot')}{equal}"
    yield f"undo      {command('undo', done.plan.root, done.run)}"


def _lines(plan: RecoveryPlan) -> Iterator[str]:
    if not plan.actions:
        idle = "nothing to do"
        if damage := sum(1 for finding in plan.findings if finding.damage):
            how = f"`{command('doctor', plan.root)}` says what can be done"
            idle = f"of {counted(damage, 'finding')} of damage it can repair none; {how}"
        yield f"{plan.verb}: {idle}"
        return
    yield from (f"{label:<9} {text}" for label, text in decision(plan, decimal))
    if plan.verb == "rollback" and len(plan.actions) > MOST_LINES and not settings().everything:
        yield from _by_store(step.path for step in plan.actions)
    else:
        yield from _first([_step_line(step) for step in plan.actions], "step")
    yield from _first([*_proofs(plan)], "proof")
    versions = counted(plan.versions_checked, "version")
    yield f"checked   {versions} of stores, read without these files"


def _first(lines: Sequence[str], noun: str) -> Iterator[str]:
    shown = lines if settings().everything else lines[:MOST_LINES]
    yield from shown
    if more := len(lines) - len(shown):
        yield f"and {counted(more, f'more {noun}')}; --all shows them"


def _by_store(paths: Iterable[str]) -> Iterator[str]:
    """Yields how many stores lose the same files, of each kind."""
    stores: dict[str, Counter[str]] = defaultdict(Counter)
    for path in paths:
        if path.startswith("state/"):
            stores[path.rpartition("/")[0]][kind_of(path)] += 1
    alike = Counter(tuple(sorted(kinds.items())) for kinds in stores.values())
    for kinds, number in alike.most_common(MOST_LINES):
        files = ", ".join(counted(much, kind) for kind, much in kinds)
        yield f"stores    {counted(number, 'store')}: {files}{' each' if number > 1 else ''}"
    yield "          --all lists the files"


def _step_line(step: Remove | WriteSnapshot) -> str:
    if isinstance(step, Remove):
        return f"remove    {step.path}  ({step.reason.words}, {decimal(step.entry.size)})"
    files = counted(len(step.chain.paths), "file")
    return f"write     {step.path}  (version {step.version} from {files})"


def _proofs(plan: RecoveryPlan) -> Iterator[str]:
    for step in plan.repairs:
        if proof := step.proof:
            version = f"version {step.version} {'without them' if step.removes else 'by the log'}"
            rows = f"{counted(proof.rows, 'row')}, digest {proof.digest}"
            yield f"proof     {step.store}: {version} has {rows}"


def _recovery_flags(command: flags.Command) -> flags.Command:
    shown = "Carry it out; without this flag nothing is written."
    trash = "Keep removed files in the trash this long, for `statemaint undo`.  [default: 30d]"
    month = 30 * 24 * 3600.0  # longer than `maintain`'s: of a recovery `undo` matters most
    apply_flag = click.option("--apply", is_flag=True, help=shown)
    trash_flag = click.option("--trash-for", type=flags.DURATION, default=month, help=trash)
    return flags.with_options(
        command, [apply_flag, trash_flag, flags.publish_flag, flags.workers_flag, flags.as_json]
    )


@click.command("repair")
@flags.uri
@_recovery_flags
def repair_verb(uri: Address, **options: Any) -> None:
    """Show which damage can be repaired, with a proof for each step, or repair it (--apply).

    A bad snapshot is rebuilt from the log, or removed if no retained version is loaded from it. A
    checksum that does not match a sound file is removed, as is a snapshot above the commit
    log. Stop the query first. Removed files are moved to the trash.

    The exit code is 3 if damage remains that cannot be repaired: see `statemaint doctor`.
    """
    _end_with_recovery(uri, plan_repair, repair, "repairing", **options)


@click.command("rollback")
@flags.uri
@click.option(
    "--to-batch",
    "batch",
    type=flags.NUMBER,
    required=True,
    help="The batch to roll back to; `statemaint doctor` lists the batches that load.",
)
@_recovery_flags
def rollback_verb(uri: Address, *, batch: int, **options: Any) -> None:
    """Show which files a rollback to a batch would move to the trash, or move them (--apply).

    A rollback is refused if the state of that batch does not load in every store. Stop the query
    first. The offsets of the next batch are kept, so that the query reads the same input again.
    Sinks that record batch ids (files, Delta) skip batches they already have: see the runbook.

    The exit code is 3 if damage remains, such as older batches that do not load.
    """
    plan, carry_out = partial(plan_rollback, batch=batch), partial(rollback, batch=batch)
    _end_with_recovery(uri, plan, carry_out, "rolling back", **options)


def _end_with_recovery(  # noqa: PLR0913 -- as of the verbs
    uri: Address,
    plan: Callable[..., RecoveryPlan],
    carry_out: Callable[..., RecoveryReport],
    doing: str,
    *,
    apply: bool,
    trash_for: float,
    publish: bool,
    workers: Workers,
) -> NoReturn:
    storage = open_storage(uri)
    if apply:
        work = partial(carry_out, storage, trash_for=trash_for, workers=workers)
        with flags.publishing(uri, storage, wanted=publish), work_done(doing):
            done = recorded_recovery(storage, work)
        _end_with_result(done)
    with work_done("planning"):
        planned = plan(storage, workers=workers)
    if settings().as_json:
        print_json({**recovery_json(planned), "trash_for": trash_for})
    else:
        click.echo("\n".join(_lines(planned)))
        if planned.actions:
            note("nothing was written; add --apply to carry it out")
    _end_with(planned)


@click.command("apply")
@click.argument("plan_file", metavar="PLAN.json", type=click.File("rb"))
@click.option(
    "--at",
    metavar="URI",
    type=flags.ADDRESS,
    help="Address of the checkpoint; default: the one in the plan.",
)
@flags.workers_flag
@flags.as_json
def apply_verb(plan_file: IO[bytes], at: str | None, *, workers: Workers) -> None:
    """Carry out exactly what `plan`, `repair`, `rollback` or `undo --dry-run` printed, or refuse.

    The file is the output of one of them with --json.

    A plan whose files have changed since is refused with exit code 6.
    """
    plan = parse_plan(plan_file.name, plan_file.read())
    storage = open_storage(at or plan.checkpoint)
    match plan:
        case UndoFile(run=run, fingerprint=expected):
            with work_done("restoring"):
                undone = recorded_recovery(storage, partial(undo, storage, run, expected=expected))
            end_with_undone(undone, storage.root)
        case RecoveryFile():
            recover = partial(apply_recovery, storage, plan, workers=workers)
            _end_with_result(recorded_recovery(storage, recover))
        case MaintenanceFile():
            with actions_done() as advance:
                work = partial(apply, storage, plan, workers=workers, on_outcome=advance)
                report = recorded(storage, work, part=plan.request.is_partial)
            end_with_report(report)
