"""`stats`: measures of state, over the whole log."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import click
from rich.filesize import decimal

from statemaint.cli import tables
from statemaint.cli.fleet import Fleet, Row, of_many
from statemaint.cli.options import NUMBER, as_json, partition_flag, store_flag, uri, workers_flag
from statemaint.cli.output import Json, print_result, settings
from statemaint.cli.progress import work_done
from statemaint.cli.tables import Column, number
from statemaint.report.to_json import fields_json, id_json
from statemaint.state import StateStats, state_stats
from statemaint.state.stats import Figures, LargeKey, OperatorStats, StoreStats
from statemaint.wording import counted, printable


@click.command("stats")
@uri
@click.option("--operator", type=NUMBER, help="Default: all.")
@partition_flag
@store_flag
@click.option(
    "--since", type=NUMBER, help="First version of the changes; default: the oldest in the log."
)
@click.option("--top", type=NUMBER, default=5, help="Number of largest keys to list.  [default: 5]")
@workers_flag
@as_json
@of_many(lambda: FLEET)
def stats_verb(uri: str, **where: Any) -> None:
    """Measure state: rows, bytes, churn, tombstones, skew, large keys, keys that never change.

    Rows are counted at the newest committed version, changes in the deltas or changelogs that
    still exist.
    """
    with work_done("reading"):
        stats = state_stats(uri, **where)
    print_result(lambda: stats_json(stats, uri), lambda: _print_table(stats))


def stats_json(stats: StateStats, checkpoint: str) -> Json:
    return {
        "checkpoint": checkpoint,
        **fields_json(stats, "version since"),
        "operators": [
            {
                "operator": operator.operator,
                **_figures_json(operator.figures),
                "skew": {**asdict(operator.skew), "ratio": operator.skew.ratio},
                "largest": _largest_json(operator.largest),
            }
            for operator in stats.operators
        ],
        "stores": [
            {
                **id_json(store.store),
                "family": store.family,
                **_figures_json(store.figures),
                "largest": _largest_json(store.largest),
            }
            for store in stats.stores
        ],
        "notices": [{**asdict(notice), "code": notice.code.value} for notice in stats.notices],
    }


def _figures_json(figures: Figures) -> Json:
    churn = figures.churn and {
        "versions": figures.versions,
        **fields_json(figures.churn, "puts removes added removed rewritten"),
        "changes_per_version": figures.changes_per_version,
        **fields_json(figures.churn, "removes_share rewritten_share"),
    }
    return {
        **fields_json(figures, "rows bytes"),
        "churn": churn,
        **fields_json(figures, "untouched untouched_share"),
    }


def _largest_json(keys: Iterable[LargeKey]) -> list[Json]:
    return [{**id_json(key.store), **fields_json(key, "family key bytes")} for key in keys]


def _print_table(stats: StateStats) -> None:
    versions = max(operator.figures.versions for operator in stats.operators)
    since = tables.known(stats.since)
    tables.print_line(f"version {stats.version}; untouched: since version {since}")
    tables.print_line(f"changes: records of a version, on average over the last {versions}")
    tables.print_table(_OPERATORS, tables.rows_of(_OPERATORS, stats.operators))
    stores = sorted(stats.stores, key=lambda row: (-row.figures.bytes, row.store, row.family or ""))
    tables.print_first(_STORES, stores, "store")
    if largest := [key for operator in stats.operators for key in operator.largest]:
        columns: tuple[Column[LargeKey], ...] = (
            Column("largest keys", lambda key: tables.place(key.store, key.family)),
            number("bytes", lambda key: str(key.bytes)),
            Column("key", lambda key: tables.cell(key.key), cut=not settings().everything),
        )
        tables.print_table(columns, tables.rows_of(columns, largest))
    for notice in stats.notices:
        tables.print_line(f"{notice.code}: {printable(notice.detail)}", wrap=False)


def _skew(one: OperatorStats) -> str:
    ratio = "" if one.skew.ratio is None else f" ({one.skew.ratio:.1f} x mean)"
    return f"{one.skew.partition}: {one.skew.rows}{ratio}"


def _known(value: float | None, form: str = ".1%") -> str:
    return "?" if value is None else format(value, form)


_MEASURES: tuple[Column[OperatorStats | StoreStats], ...] = (
    number("rows", lambda row: f"{row.figures.rows:,}"),
    number("bytes", lambda row: decimal(row.figures.bytes)),
    number("changes", lambda row: _known(row.figures.changes_per_version, ".1f"), 3),
    number("removes", lambda row: _known(getattr(row.figures.churn, "removes_share", None)), 4),
    number("rewritten", lambda row: _known(getattr(row.figures.churn, "rewritten_share", None)), 5),
    number("untouched", lambda row: _known(row.figures.untouched_share), 2),
)
_OPERATORS: tuple[Column[OperatorStats], ...] = (
    Column("operator", lambda row: f"op {row.operator}"),
    *_MEASURES,
    Column("largest partition", _skew, spare=1),
)
_STORES: tuple[Column[StoreStats], ...] = (
    Column("store", lambda row: tables.place(row.store, row.family)),
    *_MEASURES,
)


def _row(uri: str, **where: Any) -> Row:
    stats = state_stats(uri, **where)
    return {
        "version": stats.version,
        "rows": sum(operator.figures.rows for operator in stats.operators),
        "bytes": sum(operator.figures.bytes for operator in stats.operators),
        "stores": len(stats.stores),
        "notices": sorted({notice.code.value for notice in stats.notices}),
    }, ()


FLEET: Fleet = Fleet(
    columns=(
        number("version", lambda row: str(row["version"]), 3),
        number("stores", lambda row: f"{row['stores']:,}", 2),
        number("rows", lambda row: f"{row['rows']:,}"),
        number("bytes", lambda row: decimal(row["bytes"])),
        Column("notices", lambda row: " ".join(row["notices"]), spare=1),
    ),
    read=_row,
    order=lambda row: -row["bytes"],
    totals=lambda rows: (
        f"{counted(sum(row['rows'] for row in rows), 'row')}, "
        f"{decimal(sum(row['bytes'] for row in rows))}"
    ),
    looked=lambda _: None,
)
