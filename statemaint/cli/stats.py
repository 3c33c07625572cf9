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
from statemaint.report.to_json import id_json
from statemaint.state.figures import Figures, LargeKey, OperatorStats, StateStats, StoreStats
from statemaint.state.stats import state_stats
from statemaint.wording import counted, printable

_MEASURES = tuple(
    number(name, spare)
    for name, spare in (
        ("rows", 0),
        ("bytes", 0),
        ("changes", 3),
        ("removes", 4),
        ("rewritten", 5),
        ("untouched", 2),
    )
)


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
def stats_verb(uri: str, *, as_json: bool, **where: Any) -> None:
    """Measure state: rows, bytes, churn, tombstones, skew, large keys, keys that never change.

    Rows are counted at the newest committed version, changes in the deltas or changelogs that
    still exist.
    """
    with work_done("reading"):
        stats = state_stats(uri, **where)
    print_result(
        lambda: stats_json(stats),
        as_json=as_json,
        table=lambda: _print_table(stats),
        checkpoint=uri,
    )


def stats_json(stats: StateStats) -> Json:
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
    versions = max(one.figures.versions for one in stats.operators)
    since = tables.known(stats.since)
    tables.print_line(f"version {stats.version}; untouched: since version {since}")
    tables.print_line(f"changes: records of a version, on average over the last {versions}")
    columns = (Column("operator"), *_MEASURES, Column("largest partition", spare=1))
    tables.print_table(columns, map(_operator_cells, stats.operators))
    stores = sorted(stats.stores, key=lambda one: (-one.figures.bytes, one.store, one.family or ""))
    cells = [(tables.place(one.store, one.family), *_measures(one.figures)) for one in stores]
    tables.print_first((Column("store"), *_MEASURES), cells, "store")
    if largest := [key for one in stats.operators for key in one.largest]:
        rows = (
            (tables.place(key.store, key.family), str(key.bytes), tables.cell(key.key))
            for key in largest
        )
        tables.print_table(
            (Column("largest keys"), number("bytes"), Column("key", cut=not settings().everything)),
            rows,
        )
    for notice in stats.notices:
        tables.print_line(f"{notice.code}: {printable(notice.detail)}", wrap=False)


def _operator_cells(one: OperatorStats) -> tuple[str, ...]:
    ratio = "" if one.skew.ratio is None else f" ({one.skew.ratio:.1f} x mean)"
    skew = f"{one.skew.partition}: {one.skew.rows}{ratio}"
    return (f"op {one.operator}", *_measures(one.figures), skew)


def _measures(figures: Figures) -> tuple[str, ...]:
    each, churn = figures.changes_per_version, figures.churn
    return (
        f"{figures.rows:,}",
        decimal(figures.bytes),
        "?" if each is None else f"{each:.1f}",
        _share(churn.removes_share if churn else None),
        _share(churn.rewritten_share if churn else None),
        _share(figures.untouched_share),
    )


def _share(share: float | None) -> str:
    return "?" if share is None else f"{share:.1%}"


def _row(uri: str, **where: Any) -> tuple[Json, tuple[Finding, ...]]:
    stats = state_stats(uri, **where)
    row = {
        "version": stats.version,
        "rows": sum(one.figures.rows for one in stats.operators),
        "bytes": sum(one.figures.bytes for one in stats.operators),
        "stores": len(stats.stores),
        "notices": sorted({one.code.value for one in stats.notices}),
    }
    return row, ()


def _fleet_cells(row: Json) -> tuple[str, ...]:
    return (
        str(row["version"]),
        f"{row['stores']:,}",
        f"{row['rows']:,}",
        decimal(row["bytes"]),
        " ".join(row["notices"]),
    )


FLEET: Fleet = Fleet(
    columns=(
        number("version", 3),
        number("stores", 2),
        number("rows"),
        number("bytes"),
        Column("notices", spare=1),
    ),
    read=_row,
    cells=_fleet_cells,
    order=lambda row: -row["bytes"],
    totals=lambda rows: (
        f"{counted(sum(one['rows'] for one in rows), 'row')}, "
        f"{decimal(sum(one['bytes'] for one in rows))}"
    ),
    looked=lambda _: None,
)
