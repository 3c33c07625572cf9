"""Builds the Grafana dashboard that the chart delivers, `helm/statemaint/files/dashboard.json`.

    python helm/dashboard.py

Each expression first reduces a metric to its own labels (`max by`), because a new pod of the
Pushgateway, or the exporter beside it, would count twice. Panels that show the present query only
the present (`instant`), because the last value of a whole day would hide that metrics have stopped
arriving.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from grafana_foundation_sdk.builders import (
    common,
    dashboard,
    heatmap,
    prometheus,
    stat,
    table,
    timeseries,
)
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as looks
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

TARGET = Path(__file__).resolve().parent / "statemaint" / "files" / "dashboard.json"

# The default thresholds of the alerts, before any change in the chart's values.
_STALE_SECONDS = 21600
_LONG_CHAIN = 200
_SLOW_RESTART = 300

# The labels that some totals have.
_TOTAL = "query, result, verb"

_SOURCE = model.DataSourceRef(type_val="prometheus", uid="${datasource}")

_Panel = stat.Panel | table.Panel | timeseries.Panel | heatmap.Panel


@dataclass(frozen=True, slots=True)
class _Text:
    """The text of a panel: its title, how to read it, and the unit of its numbers."""

    title: str
    description: str
    unit: str = "short"


@dataclass(frozen=True, slots=True)
class _Column:
    """One column of a table; cells with values of `alarm` or more are red."""

    title: str
    expr: str
    unit: str = "short"
    alarm: int | None = None


def render() -> str:
    """Returns the text of the dashboard's file, the same text every time."""
    return json.dumps(_dashboard().build(), cls=JSONEncoder, indent=2, sort_keys=True) + "\n"


def main() -> None:
    """Writes the dashboard into the chart."""
    TARGET.write_text(render(), encoding="utf-8")


def _dashboard() -> dashboard.Dashboard:
    board = _frame()
    rows = {
        "Now": _now(),
        "Queries": _queries(),
        "Restarts": _restarts(),
        "Sizes": _sizes(),
        "Last runs": _runs(),
        "This week": _totals(),
    }
    number = 0
    for title, panels in rows.items():
        board.with_row(dashboard.Row(title).id(number := number + 1))
        for panel in panels:
            board.with_panel(panel.id(number := number + 1).datasource(_SOURCE))
    return board


def _frame() -> dashboard.Dashboard:
    source = dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")
    query = (
        dashboard.QueryVariable("query")
        .label("Query")
        .datasource(_SOURCE)
        .query("label_values(statemaint_last_run_timestamp_seconds, query)")
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(model.VariableOption(text=["All"], value=["$__all"]))
    )
    return (
        dashboard.Dashboard("State maintenance")
        .uid("statemaint")
        .description(
            "State stores of Spark Structured Streaming, as statemaint found and left them."
        )
        .tags(["spark", "statemaint"])
        .refresh("1m")
        .time("now-24h", "now")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .variables([source, query])
    )


def _now() -> list[_Panel]:
    return [
        _number(
            _Text("Halted stores", "Damage was found; nothing is written or deleted there."),
            f"sum({_query('stores', outcome='halted')})",
            alarm=1,
        ),
        _number(
            _Text("Stores", "Named state stores in all partitions."),
            f"sum({_per('query, outcome', 'stores')})",
        ),
        _number(
            _Text("Slowest restart", "Estimated, of the query that takes longest.", "s"),
            f"max({_query('restart_seconds')})",
            alarm=_SLOW_RESTART,
        ),
        _number(
            _Text("Longest chain", "Deltas on top of the newest snapshot, in the worst store."),
            f"max({_query('chain_length_max')})",
            alarm=_LONG_CHAIN,
        ),
        _number(
            _Text("State on storage", "Bytes of all files of all stores.", "bytes"),
            f"sum({_query('store_bytes')})",
        ),
        _number(
            _Text("Reclaimed this week", "Bytes that runs have deleted in seven days.", "bytes"),
            f"sum({_week('reclaimed_bytes_total')})",
        ),
    ]


def _queries() -> list[_Panel]:
    success, run = _since("last_success"), _since("last_run")
    lag = _query("snapshot_lag_versions")
    failed = _per("query, cause", "last_run_failed")
    return [
        _table(
            _Text("Queries", "One line for each query."),
            _Column("Maintained by", _per("query, version", "build_info")),
            _Column("DAG", _per("query, dag", "query_info")),
            _Column("Halted stores", _query("stores", outcome="halted"), alarm=1),
            _Column("Would not load", _query("stores_unloadable"), alarm=1),
            _Column("Restart", _query("restart_seconds"), "s", _SLOW_RESTART),
            _Column("Longest chain", _query("chain_length_max"), alarm=_LONG_CHAIN),
            _Column("Snapshot lag", lag),
            _Column("Last committed batch", _query("last_committed_batch"), "none"),
            _Column("Since last run", run, "s"),
            _Column("Since last success", success, "s", _STALE_SECONDS),
        ).height(6),
        _series(
            _Text("Why runs failed", "1 for each cause that the last run failed for."),
            {"{{query}} {{cause}}": f"{failed}"},
        ),
        _series(
            _Text("Time since last success", "Beside the interval that the schedule expects.", "s"),
            {
                "{{query}}": success,
                # Without a schedule nothing is expected.
                "{{query}} expected": f"{_query('expected_interval_seconds')} "
                f"or ({_query('partitions')} * 0)",
            },
        ),
        _series(
            _Text("Snapshot lag", "Versions between the last commit and the newest snapshot."),
            {"{{query}}": lag},
        ),
        _series(
            _Text("Waiting for a lease", "Since when a run waits for another run's lease.", "s"),
            {"{{query}}": f"(time() - {_since_raw('lease_held')}) or ({_query('partitions')} * 0)"},
        ),
        _series(
            _Text(
                "Findings by code", "What is wrong; docs/runbook.md has a heading for each code."
            ),
            {"{{query}} {{code}}": f"sum by (query, code) ({_per('query, code', 'findings')})"},
        ),
        _series(
            _Text("Damage found by verification", "1 where the last verification found damage."),
            {"{{query}}": f"{_query('last_verify_failed')} or ({_query('partitions')} * 0)"},
        ),
        _series(
            _Text("Time since verification", "0 for a query that never was verified.", "s"),
            {"{{query}}": f"({_since('last_verify')}) or ({_query('partitions')} * 0)"},
        ),
    ]


def _restarts() -> list[_Panel]:
    unit = "query, operator, partition"
    halted = _per(f"{unit}, store", "halted_store")
    return [
        _heatmap(
            _Text("Chain length", "How many stores have a chain of which length, over time."),
            f"sum by (le) ({_per('query, le', 'store_chain_length_bucket')})",
        ),
        _series(
            _Text("Restart time", "Estimated from the files and bytes to read.", "s"),
            {"{{query}}": _query("restart_seconds")},
        ),
        _series(
            _Text("Restart bytes", "What a restart reads, in all partitions.", "bytes"),
            {"{{query}}": _query("restart_bytes")},
        ),
        _series(
            _Text("Restart files", "Files that a restart reads."),
            {"{{query}}": _query("restart_files")},
        ),
        _table(
            _Text("Worst partitions", "The five of each query that are slowest at a restart."),
            _Column("Restart", _per(unit, "worst_partition_restart_seconds"), "s", _SLOW_RESTART),
            _Column("Chain", _per(unit, "worst_partition_chain_length"), alarm=_LONG_CHAIN),
            _Column("On storage", _per(unit, "worst_partition_bytes"), "bytes"),
        )
        .height(8)
        .sort_by([common.TableSortByFieldState().display_name("Restart").desc(True)]),
        _table(
            _Text("Halted", "The first five halted stores of each query."),
            _Column("Halted", f"{halted} or ({_query('partitions')} * 0)", alarm=1),
        ).height(8),
    ]


def _sizes() -> list[_Panel]:
    return [
        _series(
            _Text("Bytes on storage", "All files, those that go next, and the trash.", "bytes"),
            {
                "{{query}} all": _query("store_bytes"),
                "{{query}} reclaimable": _query("reclaimable_bytes"),
                "{{query}} trash": _query("trash_bytes"),
            },
        ),
        _series(
            _Text("Files on storage", "Deltas, snapshots and their side files; the trash."),
            {"{{query}}": _query("store_files"), "{{query}} trash": _query("trash_files")},
        ),
        _series(
            _Text("State rows", "As last attested; stores without a proof are missing in it."),
            {
                "{{query}}": _query("state_rows"),
                "{{query}} unproved stores": _query("stores_unproved"),
            },
        ),
        _series(
            _Text("State bytes", "Keys and values, as last attested.", "bytes"),
            {"{{query}}": _query("state_bytes")},
        ),
        _heatmap(
            _Text("Store sizes", "How many stores have which size, over time.", "bytes"),
            f"sum by (le) ({_per('query, le', 'store_size_bytes_bucket')})",
        ),
        _series(
            _Text("Newest snapshot", "Age in the most neglected store.", "s"),
            {"{{query}}": f"({_since('newest_snapshot')}) or ({_query('partitions')} * 0)"},
        ),
    ]


def _runs() -> list[_Panel]:
    deleted = _per("query, reason", "last_run_files_deleted")
    tasks = _per("query, state", "last_run_tasks")
    return [
        _series(
            _Text("Files deleted by reason", "In the last run."),
            {"{{reason}}": f"sum by (reason) ({deleted})"},
        ),
        _series(
            _Text("Bytes written and deleted", "In the last run.", "bytes"),
            {
                "{{query}} written": _query("last_run_bytes_written"),
                "{{query}} deleted": _query("last_run_bytes_deleted"),
            },
        ),
        _series(
            _Text("Duration", "Of the slowest task of the last run.", "s"),
            {"{{query}}": _query("last_run_duration_seconds")},
        ),
        _heatmap(
            _Text("Task times", "How long the tasks of the last run took.", "s"),
            f"sum by (le) ({_per('query, le', 'task_seconds_bucket')})",
        ),
        _series(
            _Text("Peak memory", "Of the largest task of the last run.", "bytes"),
            {"{{query}}": _query("last_run_peak_memory_bytes")},
        ),
        _series(
            _Text("Tasks", "Of the last run, and those of them that gave no report or no storage."),
            {
                "{{query}} {{state}}": tasks,
                "{{query}} storage failed": _query("last_run_storage_errors"),
            },
        ),
        _series(
            _Text("Snapshots written", "In the last run."),
            {"{{query}}": _query("last_run_snapshots_written")},
        ),
        _series(
            _Text("Storage requests", "In the last run, by verb."),
            {"{{query}} {{verb}}": _per("query, verb", "last_run_storage_requests")},
        ),
    ]


def _totals() -> list[_Panel]:
    return [
        _table(
            _Text("This week", "What seven days of maintenance did and cost."),
            _Column("Runs", f"sum by (query) ({_week('runs_total')})"),
            _Column("Snapshots", _week("snapshots_written_total")),
            _Column("Written", _week("written_bytes_total"), "bytes"),
            _Column("Reclaimed", _week("reclaimed_bytes_total"), "bytes"),
            _Column("Files deleted", _week("reclaimed_files_total")),
            _Column("Requests", f"sum by (query) ({_week('storage_requests_total')})"),
            _Column("Storage errors", _week("storage_errors_total"), alarm=1),
            _Column("Lost pushes", _week("push_losses_total"), alarm=1),
        ).height(8),
    ]


def _per(labels: str, metric: str, known: str = ">= 0", chosen: str = "") -> str:
    # NaN stands for "not known"; a comparison drops it, but it would make a whole sum NaN.
    return f'max by ({labels}) (statemaint_{metric}{{query=~"$query"{chosen}}} {known})'


def _query(metric: str, **labels: str) -> str:
    chosen = "".join(f', {name}="{value}"' for name, value in labels.items())
    return _per("query", metric, chosen=chosen)


def _week(metric: str) -> str:
    # Totals survive restarts, and a query that is younger than a week began at 0.
    now = _per(_TOTAL, metric)
    before = f'max by ({_TOTAL}) (statemaint_{metric}{{query=~"$query"}} offset 7d)'
    return f"({now} - ({before} or {now} * 0))"


def _since_raw(event: str) -> str:
    # The time 0 stands for "never", not for fifty years ago.
    return _per("query", f"{event}_timestamp_seconds", "> 0")


def _since(event: str) -> str:
    return f"time() - {_since_raw(event)}"


def _number(text: _Text, expr: str, *, alarm: int | None = None) -> stat.Panel:
    return (
        stat.Panel()
        .title(text.title)
        .description(text.description)
        .unit(text.unit)
        .height(4)
        .span(4)
        .no_value("no data")
        .graph_mode(looks.BigValueGraphMode.NONE)
        .thresholds(_thresholds(alarm))
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .with_target(prometheus.Dataquery().expr(expr).instant().ref_id("A"))
    )


def _series(text: _Text, expressions: dict[str, str]) -> timeseries.Panel:
    panel = (
        timeseries.Panel()
        .title(text.title)
        .description(text.description)
        .unit(text.unit)
        .height(8)
        .span(12)
        .min(0)
        .fill_opacity(10)
        # Between two pushes only the last value is known.
        .line_interpolation(looks.LineInterpolation.STEP_AFTER)
    )
    for ref, (legend, expr) in zip("ABCD", expressions.items(), strict=False):
        panel.with_target(
            prometheus.Dataquery().expr(expr).legend_format(legend).range().ref_id(ref)
        )
    return panel


def _heatmap(text: _Text, expr: str) -> heatmap.Panel:
    return (
        heatmap.Panel()
        .title(text.title)
        .description(text.description)
        .height(8)
        .span(12)
        .calculate(True)
        .color(heatmap.HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme("Oranges"))
        .y_axis(heatmap.YAxisConfig().unit(text.unit).min(0))
        .with_target(prometheus.Dataquery().expr(expr).range().ref_id("A"))
    )


def _table(text: _Text, *columns: _Column) -> table.Panel:
    panel = table.Panel().title(text.title).description(text.description).span(24)
    names = {}
    for ref, column in zip("ABCDEFGHIJ", columns, strict=False):
        names[f"Value #{ref}"] = column.title
        panel.with_target(
            prometheus.Dataquery()
            .expr(column.expr)
            .format(PromQueryFormat.TABLE)
            .instant()
            .ref_id(ref)
        ).override_by_name(column.title, _cells(column))
    organize = {"excludeByName": {"Time": True}, "renameByName": names}
    return panel.with_transformation(
        model.DataTransformerConfig(id_val="merge", options={})
    ).with_transformation(model.DataTransformerConfig(id_val="organize", options=organize))


def _cells(column: _Column) -> list[model.DynamicConfigValue]:
    unit = model.DynamicConfigValue("unit", column.unit)
    if column.alarm is None:
        return [unit]
    return [
        unit,
        model.DynamicConfigValue("custom.cellOptions", {"type": "color-text"}),
        model.DynamicConfigValue("thresholds", _thresholds(column.alarm).build()),
    ]


def _thresholds(alarm: int | None) -> dashboard.ThresholdsConfig:
    steps = [model.Threshold(value=None, color="green")]
    if alarm is not None:
        steps.append(model.Threshold(value=alarm, color="red"))
    return dashboard.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(steps)


if __name__ == "__main__":
    main()
