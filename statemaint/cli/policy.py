"""`policy`: settings tried on the history of a checkpoint."""

import re
from dataclasses import asdict

import click
from rich.filesize import decimal

from statemaint.cli import tables
from statemaint.cli.options import DURATION, POSITIVE, Parsed, as_json, policy_flags, uri
from statemaint.cli.output import Json, print_result
from statemaint.cli.tables import Column, number
from statemaint.errors import ConfigError
from statemaint.maintain.record import read_trend
from statemaint.maintain.runs import list_runs
from statemaint.model.policy import Policy, duration
from statemaint.plan import backtest
from statemaint.plan.snapshots import forecast_of
from statemaint.planning import scan_checkpoint
from statemaint.scan.restart_evidence import with_record_size
from statemaint.storage import ReadOnly, open_storage
from statemaint.wording import counted

_HOUR = 3600.0


def _price(text: str) -> float:
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", text, re.ASCII):
        raise ConfigError(f"{text!r} is not a valid price; write it like 5 or 0.4")
    return float(text)


@click.command("policy")
@uri
@policy_flags
@click.option(
    "--days",
    type=POSITIVE,
    default=30,
    show_default=True,
    help="How long the batches of the history are repeated.",
)
@click.option(
    "--every",
    type=DURATION,
    help="The time between two runs of maintenance.  [default: as the last runs were, or 1h]",
)
@click.option(
    "--request-price",
    type=Parsed("price", _price),
    help="Price of a million requests to the storage: shows what they cost.",
)
@as_json
def policy_verb(
    uri: str, *, policy: Policy, days: int, every: float | None, request_price: float | None
) -> None:
    """Try settings on the changes that a checkpoint still has, and recommend one; writes nothing.

    For each: the snapshots and bytes that a month of runs would have written, their requests, and
    the longest restart. The state keeps its size. The recommendation writes least of those that
    keep --restart-within, or without it what the policy itself keeps. What the recorded runs have
    written is shown beside them.
    """
    storage = ReadOnly(open_storage(uri))
    ends = [point.time for point in read_trend(storage).points if not point.span]
    ledger = backtest.PastRuns.of(list_runs(storage), ends)
    every = every or ledger.every or _HOUR
    checkpoint = with_record_size(storage, scan_checkpoint(storage))
    history = backtest.history_of(checkpoint, forecast_of(checkpoint, policy))
    tried = backtest.candidates(history, policy) if history else ()
    trials = [
        backtest.back_test(history, each, every=every, days=days) for each in tried if history
    ]
    best = backtest.recommended(trials, policy.restart_within) if trials else None
    print_result(
        lambda: {
            "checkpoint": checkpoint.root,
            "days": days,
            "every": every,
            "batch_interval": history.interval if history else None,
            "batches_listed": len(history.changes) if history else 0,
            "ledger": asdict(ledger),
            "trials": [_trial_json(trial, request_price) for trial in trials],
            "recommended": _trial_json(best, request_price) if best else None,
        },
        lambda: _print(history, trials, best, days, every, ledger, request_price),
    )


def _trial_json(trial: backtest.Trial, price: float | None) -> Json:
    return {
        "policy": asdict(trial.policy),
        "snapshots_written": trial.snapshots,
        "bytes_written": trial.written,
        "requests": trial.requests,
        "cost": None if price is None else _cost(trial, price),
        "restart_seconds": round(trial.restart, 3),
    }


def _cost(trial: backtest.Trial, price: float) -> float:
    return round(price * trial.requests / 1e6, 2)


def _print(  # noqa: PLR0913, PLR0917 -- what it shows
    history: backtest.PastBatches | None,
    trials: list[backtest.Trial],
    best: backtest.Trial | None,
    days: int,
    every: float,
    ledger: backtest.PastRuns,
    price: float | None,
) -> None:
    if history is None:
        tables.print_line("nothing to try settings on: no change of a batch is listed")
        return
    interval, slots = duration(round(history.interval)), counted(history.forecast.slots, "slot")
    tables.print_line(
        f"{counted(days, 'day')} of batches like the last {len(history.changes):,}, one in "
        f"{interval}, and a run of maintenance every {duration(round(every))}; restarts in {slots}"
    )
    columns = _COLUMNS
    if price:
        columns += (number("cost", lambda row: f"{_cost(row, price):,.2f}"),)
    tables.print_table(columns, tables.rows_of(columns, trials))
    if ledger.runs:
        tables.print_line(
            f"recorded  {counted(ledger.runs, 'run')} in {duration(round(ledger.seconds))} wrote "
            f"{counted(ledger.snapshots, 'snapshot')}, {decimal(ledger.written)}"
        )
    if best is None:
        tables.print_line("recommended  none: no setting keeps the limit")
        return
    less = trials[0].written - best.written
    saved = f", {decimal(less)} less written" if less > 0 else ""
    tables.print_line(f"recommended  {best.setting}{saved}")


_COLUMNS: tuple[Column[backtest.Trial], ...] = (
    Column("setting", lambda row: row.setting),
    number("snapshots", lambda row: f"{row.snapshots:,}", 2),
    number("written", lambda row: decimal(row.written)),
    number("requests", lambda row: f"{row.requests:,}", 1),
    number("restart up to", lambda row: f"{row.restart:,.1f} s"),
)
