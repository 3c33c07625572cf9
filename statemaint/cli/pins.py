"""`pin` keeps what a batch needs for a while; `pins` lists what is pinned, or ends a pin."""

from functools import partial

import click

from statemaint.cli import tables
from statemaint.cli.options import DURATION, NUMBER, as_json, as_json_or_lines, uri
from statemaint.cli.output import print_result
from statemaint.cli.tables import Column, number
from statemaint.maintain.pins import end_pin_of, list_pins, pin_batch
from statemaint.model.pins import Pin
from statemaint.records.claims import me
from statemaint.report.to_json import pin_json
from statemaint.storage import open_storage
from statemaint.wording import command, moment


@click.command("pin")
@uri
@click.option("--batch", type=NUMBER, required=True, help="A batch of the commit log.")
@click.option(
    "--for", "for_seconds", type=DURATION, required=True, help="How long, such as 7d; at most 90d."
)
@click.option("--note", metavar="TEXT", help="Why, for the readers of `statemaint pins`.")
@as_json
def pin_verb(uri: str, *, batch: int, for_seconds: float, note: str | None) -> None:
    """Keep maintenance from deleting what a batch needs, for a while.

    The batch stays loadable with all above it, whatever policy `maintain` runs with, until the
    time has passed or `statemaint pins` ends the pin. It is pinned only if its state loads in
    every store. While a run of maintenance is at work, this takes five seconds longer.

    Spark's own clean-up heeds no pin: it deletes what the query's minBatchesToRetain does not
    keep, and so does a statemaint of version 0.2 or older.
    """
    storage = open_storage(uri)
    by = f"{note} ({me()})" if note else me()
    pin = pin_batch(storage, batch, by=by, for_seconds=for_seconds)
    print_result(
        partial(pin_json, pin), lambda: _print_pin(pin, storage.root), checkpoint=storage.root
    )


def _print_pin(pin: Pin, root: str) -> None:
    tables.print_line(
        f"pinned    batch {pin.batch} (version {pin.version}) until {moment(pin.until)} UTC"
    )
    tables.print_line(f"ends by   {command('pins', root, '--end', pin.id)}", wrap=False)


@click.command("pins")
@uri
@click.option("--end", "ended", metavar="ID", help="End this pin instead.")
@as_json_or_lines
def pins_verb(uri: str, *, ended: str | None) -> None:
    """List the pins of a checkpoint: the batches that maintenance keeps, and until when.

    A file that is not a pin of this version counts as a pin of every batch.
    """
    storage = open_storage(uri)
    if ended is not None:
        end_pin_of(storage, ended)
    pins = list_pins(storage)
    print_result(
        lambda: {"pins": [pin_json(pin) for pin in pins]},
        lambda: _print_pins(pins),
        checkpoint=storage.root,
        lines="pins",
    )


def _print_pins(pins: tuple[Pin, ...]) -> None:
    if not pins:
        tables.print_line("no batch is pinned")
        return
    columns: tuple[Column[Pin], ...] = (
        Column("pin", lambda pin: tables.cell(pin.id)),
        number("batch", lambda pin: "every" if pin.batch is None else str(pin.batch)),
        Column("until (UTC)", lambda pin: moment(pin.until)),
        Column("by", lambda pin: pin.by, spare=1),
    )
    tables.print_first(columns, pins, "pin")
