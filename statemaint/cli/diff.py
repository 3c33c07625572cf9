"""`diff`: compares the rows of state at two versions."""

import json
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from itertools import chain
from typing import Any

import click

from statemaint.cli import tables
from statemaint.cli.messages import settings
from statemaint.cli.options import (
    NUMBER,
    as_json_or_lines,
    family_flags,
    key_flag,
    uri,
    workers_flag,
)
from statemaint.cli.output import Json, headed, print_rows
from statemaint.cli.progress import work_done
from statemaint.cli.show import RowTables, Spool, reads
from statemaint.report.to_json import id_json
from statemaint.state.diff import ChangedRow, Counts, StateDiff, StoreDiff, diff_state
from statemaint.wording import counted
from statemaint.workers import Workers


@click.command("diff")
@uri
@family_flags
@click.option("--from", "older", type=NUMBER, help="Older version; default: the one before --to.")
@click.option(
    "--to", "newer", type=click.IntRange(min=1), help="Newer version; default: the newest."
)
@key_flag
@click.option("--limit", type=NUMBER, help="Maximum number of rows; the counts always cover all.")
@workers_flag
@as_json_or_lines
def diff_verb(  # noqa: PLR0913 -- each is a separate choice
    uri: str,
    *,
    older: int | None,
    newer: int | None,
    key: str | None,
    limit: int | None,
    workers: Workers,
    as_json: bool,
    **where: Any,
) -> None:
    """Compare the rows of state at two versions: what was added, changed and removed.

    Prints the counts of all rows, then the rows, decoded and cut as by `show`. Version 0 is the
    empty state.
    """

    def selected(row: ChangedRow) -> bool:
        return key is None or reads(row.key, key)

    requested = diff_state(uri, (older, newer), **where)
    compare = partial(requested.compare, selected, limit, workers=workers)
    if as_json:
        _print_json(uri, compare)
    else:
        when = f"between versions {requested.older} and {requested.newer}"
        _print_table(compare, RowTables(when, limited=limit is not None))


_Compare = Callable[..., StateDiff]
"""Compares, and passes each row to a function (`DiffSelection.compare`)."""


def _print_json(uri: str, compare: _Compare) -> None:
    spool = Spool()
    with work_done("comparing"):
        diff = compare(into=lambda row: spool.append(json.dumps(_changed_json(row))))
    print_rows(headed(diff_json(diff), uri), map(json.loads, spool))


def diff_json(diff: StateDiff) -> Json:
    stores = [
        {**id_json(one.store), "family": one.family, **asdict(one.counts)} for one in diff.stores
    ]
    return {
        "from": diff.older,
        "to": diff.newer,
        "total": asdict(diff.total),
        "stores": stores,
    }


def _changed_json(row: ChangedRow) -> Json:
    return {
        **id_json(row.store),
        "family": row.family,
        "change": row.fate.value,
        "key": row.key,
        "before": row.before,
        "after": row.after,
    }


def _print_table(compare: _Compare, shown: RowTables) -> None:
    with work_done("comparing"):
        diff = compare(into=lambda row: shown.add(row, partial(_columns, row)))
    tables.print_line(f"from version {diff.older} to version {diff.newer}")
    _print_counts(diff)
    shown.print()


def _print_counts(diff: StateDiff) -> None:
    """Prints the counts of all stores; if they exceed a table, those with the most changes."""
    cut = len(diff.stores) > tables.MOST_ROWS and not settings().everything
    stores = sorted(diff.stores, key=_most_first)[: tables.MOST_ROWS] if cut else diff.stores
    counts = ((tables.place(one.store, one.family), *_counted(one.counts)) for one in stores)
    measures = ("added", "changed", "removed", "rewritten")
    columns = (tables.Column("store"), *[tables.number(one) for one in measures])
    tables.print_table(columns, chain(counts, (("total", *_counted(diff.total)),)))
    if more := len(diff.stores) - len(stores):
        tables.print_line(f"and {counted(more, 'more store')}, also in the total; --all shows them")


def _most_first(one: StoreDiff) -> tuple[object, ...]:
    counts = one.counts
    return -(counts.added + counts.changed + counts.removed), one.store, one.family or ""


def _counted(counts: Counts) -> tuple[str, ...]:
    measured = (counts.added, counts.changed, counts.removed, counts.rewritten)
    return tuple(tables.known(one) for one in measured)


def _columns(row: ChangedRow) -> dict[str, Any]:
    key = {f"key.{name}": value for name, value in row.key.items()}
    values = {"before": row.before, "after": row.after}
    shown = {name: "" if value is None else value for name, value in values.items()}
    return {"partition": row.store.partition, "change": row.fate.value, **key, **shown}
