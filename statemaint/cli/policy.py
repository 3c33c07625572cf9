"""`policy`: settings tried on the history of a checkpoint."""

from dataclasses import asdict

import click
from rich.filesize import decimal

from statemaint.cli import tables
from statemaint.cli.options import DURATION, as_json, policy_flags, uri
from statemaint.cli.output import Json, print_result
from statemaint.cli.tables import Column, number
from statemaint.model.forecast import Forecast
from statemaint.model.policy import Policy, duration
from statemaint.plan.backtest import (
    History,
    Trial,
    back_test,
    candidates,
    history_of,
    recommended,
)
from statemaint.planning import scan_checkpoint
from statemaint.scan.record_size import with_record_size
from statemaint.storage import ReadOnly, open_storage
from statemaint.wording import counted


@click.command("policy")
@uri
@policy_flags
@click.option(
    "--days",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    help="How long the batches of the history are repeated.",
)
@click.option(
    "--every",
    type=DURATION,
    default="1h",
    show_default=True,
    help="The time between two runs of maintenance.",
)
@as_json
def policy_verb(uri: str, *, policy: Policy, days: int, every: float) -> None:
    """Try settings on the changes that a checkpoint still has, and recommend one; writes nothing.

    For each: the snapshots and bytes that a month of runs would have written, their requests, and
    the longest restart. The state keeps its size. The recommendation writes least of those that
    keep --restart-within, or without it what the policy itself keeps.
    """
    storage = ReadOnly(open_storage(uri))
    checkpoint = with_record_size(storage, scan_checkpoint(storage))
    history = history_of(checkpoint, Forecast.of(checkpoint, policy.restart_slots))
    tried = candidates(history, policy) if history else ()
    trials = [back_test(history, each, every=every, days=days) for each in tried if history]
    best = recommended(trials, policy.restart_within) if trials else None
    print_result(
        lambda: {
            "days": days,
            "every": every,
            "batch_interval": history.interval if history else None,
            "batches_listed": len(history.changes) if history else 0,
            "trials": [_trial_json(trial) for trial in trials],
            "recommended": _trial_json(best) if best else None,
        },
        lambda: _print(history, trials, best, days),
        checkpoint=checkpoint.root,
    )


def _trial_json(trial: Trial) -> Json:
    return {
        "policy": asdict(trial.policy),
        "snapshots_written": trial.snapshots,
        "bytes_written": trial.written,
        "requests": trial.requests,
        "restart_seconds": round(trial.restart, 3),
    }


def _print(history: History | None, trials: list[Trial], best: Trial | None, days: int) -> None:
    if history is None:
        tables.print_line("nothing to try settings on: no change of a batch is listed")
        return
    tables.print_line(
        f"{counted(days, 'day')} of batches like the last {len(history.changes):,}, one in "
        f"{duration(round(history.interval))}; "
        f"restarts in {counted(history.forecast.slots, 'slot')}"
    )
    tables.print_table(_COLUMNS, tables.rows_of(_COLUMNS, trials))
    if best is None:
        tables.print_line("recommended  none: no setting keeps the limit")
        return
    less = trials[0].written - best.written
    saved = f", {decimal(less)} less written" if less > 0 else ""
    tables.print_line(f"recommended  {best.setting}{saved}")


_COLUMNS: tuple[Column[Trial], ...] = (
    Column("setting", lambda row: row.setting),
    number("snapshots", lambda row: f"{row.snapshots:,}", 2),
    number("written", lambda row: decimal(row.written)),
    number("requests", lambda row: f"{row.requests:,}", 1),
    number("restart up to", lambda row: f"{row.restart:,.1f} s"),
)
