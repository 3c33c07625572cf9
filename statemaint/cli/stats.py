"""`stats`: measures of state, over the whole log."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import click
from rich.filesize import decimal
from rich.markup import escape
from rich.table import Table

from statemaint.cli import tables
from statemaint.cli.options import NUMBER, as_json, uri
from statemaint.cli.output import Json, print_result
from statemaint.report.to_json import id_json
from statemaint.state.stats import (
    Figures,
    LargeKey,
    OperatorStats,
    StateStats,
    StoreStats,
    state_stats,
)

_MEASURES = ("rows", "bytes", "changes", "removes", "rewritten", "untouched")


@click.command("stats")
@uri
@click.option("--operator", type=NUMBER, help="Default: all.")
@click.option("--partition", type=NUMBER, help="Default: all.")
@click.option("--store", metavar="NAME", help="Default: all.")
@click.option(
    "--since", type=NUMBER, help="First version of the changes; default: the oldest in the log."
)
@click.option("--top", type=NUMBER, default=5, help="Number of largest keys to list.  [default: 5]")
@as_json
def stats_verb(uri: str, *, as_json: bool, **where: Any) -> None:
    """Measure state: rows, bytes, churn, tombstones, skew, large keys, keys that never change.

    Rows are counted at the newest committed version, changes in the deltas or changelogs that
    still exist.
    """
    stats = state_stats(uri, **where)
    print_result(stats_json(stats), as_json=as_json, table=lambda: _print_table(stats))


def stats_json(stats: StateStats) -> Json:
    """Returns the output of `stats --json`."""
    return {
        "version": stats.version,
        "since": stats.since,
        "operators": [_operator_json(one) for one in stats.operators],
        "stores": [_store_json(one) for one in stats.stores],
        "notices": [{**asdict(one), "code": one.code.value} for one in stats.notices],
    }


def _operator_json(operator: OperatorStats) -> Json:
    return {
        "operator": operator.operator,
        **_figures_json(operator.figures),
        "skew": {**asdict(operator.skew), "ratio": operator.skew.ratio},
        "largest": [_large_json(key) for key in operator.largest],
    }


def _store_json(store: StoreStats) -> Json:
    return {
        **id_json(store.store),
        "family": store.family,
        **_figures_json(store.figures),
        "largest": [_large_json(key) for key in store.largest],
    }


def _figures_json(figures: Figures) -> Json:
    return {
        "rows": figures.rows,
        "bytes": figures.bytes,
        "churn": _churn_json(figures),
        "untouched": figures.untouched,
        "untouched_share": figures.untouched_share,
    }


def _churn_json(figures: Figures) -> Json | None:
    churn = figures.churn
    if churn is None:
        return None
    return {
        "versions": figures.versions,
        "puts": churn.puts,
        "removes": churn.removes,
        "added": churn.added,
        "removed": churn.removed,
        "rewritten": churn.rewritten,
        "changes_per_version": figures.changes_per_version,
        "removes_share": churn.removes_share,
        "rewritten_share": churn.rewritten_share,
    }


def _large_json(key: LargeKey) -> Json:
    return {**id_json(key.store), "family": key.family, "key": key.key, "bytes": key.bytes}


def _print_table(stats: StateStats) -> None:
    console = tables.new_console()
    versions = max(one.figures.versions for one in stats.operators)
    console.print(f"version {stats.version}; untouched: since version {tables.known(stats.since)}")
    console.print(f"changes: records of a version, on average over the last {versions}")
    console.print(_operator_table(stats.operators))
    console.print(_store_table(stats.stores))
    if largest := [key for one in stats.operators for key in one.largest]:
        console.print(_largest_table(largest))
    for notice in stats.notices:
        console.print(f"{notice.code}: {escape(tables.printable(notice.detail))}", soft_wrap=True)


def _operator_table(operators: Iterable[OperatorStats]) -> Table:
    table = tables.new_table("operator", *_MEASURES, "largest partition")
    for one in operators:
        ratio = "" if one.skew.ratio is None else f" ({one.skew.ratio:.1f} x mean)"
        skew = f"{one.skew.partition}: {one.skew.rows}{ratio}"
        table.add_row(f"op {one.operator}", *_measures(one.figures), skew)
    return table


def _store_table(stores: Iterable[StoreStats]) -> Table:
    table = tables.new_table("store", *_MEASURES)
    for one in stores:
        table.add_row(tables.place(one.store, one.family), *_measures(one.figures))
    return table


def _largest_table(keys: Iterable[LargeKey]) -> Table:
    table = tables.new_table("largest keys", "bytes", "key")
    for one in keys:
        place, key = tables.place(one.store, one.family), escape(tables.cell(one.key))
        table.add_row(place, str(one.bytes), key)
    return table


def _measures(figures: Figures) -> tuple[str, ...]:
    each, churn = figures.changes_per_version, figures.churn
    return (
        str(figures.rows),
        decimal(figures.bytes),
        "?" if each is None else f"{each:.1f}",
        _share(churn.removes_share if churn else None),
        _share(churn.rewritten_share if churn else None),
        _share(figures.untouched_share),
    )


def _share(share: float | None) -> str:
    return "?" if share is None else f"{share:.1%}"
