"""`stats`: measures of state, over the whole log."""

from dataclasses import asdict
from typing import Any

import click
from rich.filesize import decimal

from statemaint.cli import tables
from statemaint.cli.fleet import Fleet, of_many
from statemaint.cli.messages import settings
from statemaint.cli.options import NUMBER, as_json, uri, workers_flag
from statemaint.cli.output import Json, print_result
from statemaint.cli.progress import work_done
from statemaint.cli.tables import Column, number
from statemaint.model.findings import Finding
from statemaint.report.to_json import fields_json, id_json
from statemaint.state import StateStats, state_stats
from statemaint.state.stats import Figures, LargeKey, OperatorStats, StoreStats
from statemaint.wording import counted, printable


@click.command("stats")
@uri
@click.option("--operator", type=NUMBER, help="Default: all.")
@click.option("--partition", type=NUMBER, help="Default: all.")
@click.option("--store", metavar="NAME", help="Default: all.")
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
    print_result(lambda: stats_json(stats), lambda: _print_table(stats), checkpoint=uri)


def stats_json(stats: StateStats) -> Json:
    return {
        "version": stats.version,
        "since": stats.since,
        "operators": [_operator_json(operator) for operator in stats.operators],
        "stores": [_store_json(store) for store in stats.stores],
        "notices": [{**asdict(notice), "code": notice.code.value} for notice in stats.notices],
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
        **fields_json(figures, "rows bytes"),
        "churn": _churn_json(figures),
        **fields_json(figures, "untouched untouched_share"),
    }


def _churn_json(figures: Figures) -> Json | None:
    if figures.churn is None:
        return None
    return {
        "versions": figures.versions,
        **fields_json(figures.churn, "puts removes added removed rewritten"),
        "changes_per_version": figures.changes_per_version,
        **fields_json(figures.churn, "removes_share rewritten_share"),
    }


def _large_json(key: LargeKey) -> Json:
    return {**id_json(key.store), **fields_json(key, "family key bytes")}


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


def _changes(figures: Figures) -> str:
    changes = figures.changes_per_version
    return "?" if changes is None else f"{changes:.1f}"


def _share(share: float | None) -> str:
    return "?" if share is None else f"{share:.1%}"


_MEASURES: tuple[Column[OperatorStats | StoreStats], ...] = (
    number("rows", lambda row: f"{row.figures.rows:,}"),
    number("bytes", lambda row: decimal(row.figures.bytes)),
    number("changes", lambda row: _changes(row.figures), 3),
    number("removes", lambda row: _share(getattr(row.figures.churn, "removes_share", None)), 4),
    number("rewritten", lambda row: _share(getattr(row.figures.churn, "rewritten_share", None)), 5),
    number("untouched", lambda row: _share(row.figures.untouched_share), 2),
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


def _row(uri: str, **where: Any) -> tuple[Json, tuple[Finding, ...]]:
    stats = state_stats(uri, **where)
    row = {
        "version": stats.version,
        "rows": sum(operator.figures.rows for operator in stats.operators),
        "bytes": sum(operator.figures.bytes for operator in stats.operators),
        "stores": len(stats.stores),
        "notices": sorted({notice.code.value for notice in stats.notices}),
    }
    return row, ()


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
