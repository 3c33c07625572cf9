"""`stats`: what state is made of, over the whole log."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import click
from rich.filesize import decimal
from rich.markup import escape

from statemaint.cli import tables
from statemaint.cli.options import as_json, uri
from statemaint.report.to_json import id_json
from statemaint.state.stats import Figures, LargeKey, StateStats, state_stats

_NUMBER = click.IntRange(min=0)
Json = dict[str, Any]


@click.command("stats")
@uri
@click.option("--operator", type=_NUMBER, help="Default: all of them.")
@click.option("--partition", type=_NUMBER, help="Default: all of them.")
@click.option("--store", metavar="NAME", help="Default: all of them.")
@click.option("--since", type=_NUMBER, help="Version; default: the oldest in the log.")
@click.option("--top", type=_NUMBER, default=5, help="So many of the largest keys.  [default: 5]")
@as_json
def stats_verb(uri: str, *, as_json: bool, **where: Any) -> None:
    """Measure state: rows, bytes, churn, tombstones, skew, large keys, keys that nobody touches.

    Rows are those of the newest committed version. What is said of changes is of the deltas or
    changelogs that are still there.
    """
    found = state_stats(uri, **where)
    if as_json:
        click.echo(json.dumps(stats_json(found), indent=2))
    else:
        _print_table(found)


def stats_json(found: StateStats) -> Json:
    """Returns what `stats --json` prints."""
    operators = [
        {
            "operator": one.operator,
            **_figures_json(one.figures),
            "skew": {**asdict(one.skew), "ratio": one.skew.ratio},
            "largest": [_large_json(key) for key in one.largest],
        }
        for one in found.operators
    ]
    stores = [
        {
            **id_json(one.store),
            "family": one.family,
            **_figures_json(one.figures),
            "largest": [_large_json(key) for key in one.largest],
        }
        for one in found.stores
    ]
    return {
        "version": found.version,
        "since": found.since,
        "operators": operators,
        "stores": stores,
        "notices": [{**asdict(one), "code": one.code.value} for one in found.notices],
    }


def _figures_json(found: Figures) -> Json:
    return {
        "rows": found.rows,
        "bytes": found.bytes,
        "churn": _churn_json(found),
        "untouched": found.untouched,
        "untouched_share": found.untouched_share,
    }


def _churn_json(found: Figures) -> Json | None:
    churn = found.churn
    if churn is None:
        return None
    return {
        "versions": found.versions,
        "puts": churn.puts,
        "removes": churn.removes,
        "added": churn.added,
        "removed": churn.removed,
        "rewritten": churn.rewritten,
        "changes_per_version": found.changes_per_version,
        "removes_share": churn.removes_share,
        "rewritten_share": churn.rewritten_share,
    }


def _large_json(key: LargeKey) -> Json:
    return {**id_json(key.store), "family": key.family, "key": key.key, "bytes": key.bytes}


def _print_table(found: StateStats) -> None:
    """Prints what state is made of: operators, stores, the largest keys, what is worth a look."""
    console = tables.new_console()
    versions = max(one.figures.versions for one in found.operators)
    console.print(f"version {found.version}; untouched: since version {tables.known(found.since)}")
    console.print(f"changes: records of a version, in the mean of the last {versions}")
    measures = ("rows", "bytes", "changes", "removes", "rewritten", "untouched")
    table = tables.new_table("operator", *measures, "largest partition")
    for one in found.operators:
        ratio = "" if one.skew.ratio is None else f" ({one.skew.ratio:.1f} x mean)"
        skew = f"{one.skew.partition}: {one.skew.rows}{ratio}"
        table.add_row(f"op {one.operator}", *_measures(one.figures), skew)
    console.print(table)
    table = tables.new_table("store", *measures)
    for store in found.stores:
        table.add_row(tables.place(store.store, store.family), *_measures(store.figures))
    console.print(table)
    _largest(key for one in found.operators for key in one.largest)
    for notice in found.notices:
        console.print(f"{notice.code}: {escape(tables.printable(notice.detail))}", soft_wrap=True)


def _measures(found: Figures) -> tuple[str, ...]:
    each, churn = found.changes_per_version, found.churn
    return (
        str(found.rows),
        decimal(found.bytes),
        "?" if each is None else f"{each:.1f}",
        _share(churn.removes_share if churn else None),
        _share(churn.rewritten_share if churn else None),
        _share(found.untouched_share),
    )


def _largest(keys: Iterable[LargeKey]) -> None:
    table = tables.new_table("largest keys", "bytes", "key")
    for one in keys:
        table.add_row(
            tables.place(one.store, one.family), str(one.bytes), escape(tables.cell(one.key))
        )
    if table.row_count:
        tables.new_console().print(table)


def _share(share: float | None) -> str:
    return "?" if share is None else f"{share:.1%}"
