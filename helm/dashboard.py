"""Builds the Grafana dashboard that the chart delivers, `helm/statemaint/files/dashboard.json`.

    python helm/dashboard.py

Every metric is a gauge in a Pushgateway. So each expression first reduces a metric to its own
labels (`max by`), because a new pod of the Pushgateway would count twice for a while. Panels that
show the present query only the present (`instant`), because the last value of a whole day would
hide that metrics have stopped arriving.
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

_PARTITION = "query, operator, partition"
_STORE = f"{_PARTITION}, store"

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
        "Chains": _chains(),
        "Sizes": _sizes(),
        "Last runs": _runs(),
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
            f"sum({_store('halted')})",
            alarm=1,
        ),
        _number(_Text("Stores", "Named state stores in all partitions."), f"count({_chain()})"),
        _number(
            _Text("Longest chain", "Deltas on top of the newest snapshot, in the worst store."),
            f"max({_chain()})",
            alarm=_LONG_CHAIN,
        ),
        _number(
            _Text("Longest without success", "Since the last good run, worst partition.", "s"),
            f"max({_since(_PARTITION, 'last_success')})",
            alarm=_STALE_SECONDS,
        ),
        _number(
            _Text("State on storage", "Bytes of all files of all stores.", "bytes"),
            f"sum({_store('store_bytes')})",
        ),
        _number(
            _Text(
                "Reclaimable", "Bytes that the policy no longer keeps, not deleted yet.", "bytes"
            ),
            f"sum({_store('reclaimable_bytes')})",
        ),
    ]


def _queries() -> list[_Panel]:
    success = _since(_PARTITION, "last_success")
    run = _since(_PARTITION, "last_run")
    lag = _per("query", "snapshot_lag_versions")
    return [
        _table(
            _Text("Queries", "One line for each query; times are those of its worst partition."),
            _Column("Maintained by", _per("query, version", "build_info")),
            _Column("Last committed batch", _per("query", "last_committed_batch"), "none"),
            _Column("Snapshot lag", lag),
            _Column("Halted stores", f"sum by (query) ({_store('halted')})", alarm=1),
            _Column("Longest chain", f"max by (query) ({_chain()})", alarm=_LONG_CHAIN),
            _Column("Since last run", f"max by (query) ({run})", "s"),
            _Column("Since last success", f"max by (query) ({success})", "s", _STALE_SECONDS),
        ).height(6),
        _series(
            _Text("Time since last success", "The worst partition of each query.", "s"),
            {"{{query}}": f"max by (query) ({success})"},
        ),
        _series(
            _Text("Snapshot lag", "Versions between the last commit and the newest snapshot."),
            {"{{query}}": lag},
        ),
    ]


def _chains() -> list[_Panel]:
    findings = _per(f"{_STORE}, code", "findings")
    return [
        _heatmap(
            _Text("Chain length", "How many stores have a chain of which length, over time."),
            _chain(),
        ),
        _series(
            _Text("Longest chain", "The worst store of each query."),
            {"{{query}}": f"max by (query) ({_chain()})"},
        ),
        _table(
            _Text("Stores", "One line for each store, the longest chain first."),
            _Column("Chain", _chain(), alarm=_LONG_CHAIN),
            _Column("Newest snapshot", _since(_STORE, "newest_snapshot"), "s"),
            _Column("Rows", _store("state_rows")),
            _Column("State", _store("state_bytes"), "bytes"),
            _Column("Files", _store("store_files")),
            _Column("On storage", _store("store_bytes"), "bytes"),
            _Column("Reclaimable", _store("reclaimable_bytes"), "bytes"),
            _Column("Halted", _store("halted"), alarm=1),
        )
        .height(12)
        .sort_by([common.TableSortByFieldState().display_name("Chain").desc(True)]),
        _series(
            _Text(
                "Findings by code", "What is wrong; docs/runbook.md has a heading for each code."
            ),
            {"{{query}} {{code}}": f"sum by (query, code) ({findings})"},
        ).span(24),
    ]


def _sizes() -> list[_Panel]:
    def total(metric: str) -> str:
        return f"sum by (query) ({_store(metric)})"

    return [
        _series(
            _Text("Bytes on storage", "All files, and those the policy no longer keeps.", "bytes"),
            {
                "{{query}} all": total("store_bytes"),
                "{{query}} reclaimable": total("reclaimable_bytes"),
            },
        ),
        _series(
            _Text("Files on storage", "Deltas, snapshots and their side files."),
            {"{{query}}": total("store_files")},
        ),
        _series(
            _Text("State rows", "Rows in the newest committed version."),
            {"{{query}}": total("state_rows")},
        ),
        _series(
            _Text("State bytes", "Keys and values of the newest committed version.", "bytes"),
            {"{{query}}": total("state_bytes")},
        ),
    ]


def _runs() -> list[_Panel]:
    def total(metric: str) -> str:
        return f"sum by (query) ({_partition(metric)})"

    deleted = _per(f"{_PARTITION}, reason", "last_run_files_deleted")
    return [
        _series(
            _Text("Files deleted by reason", "In the last run of each partition."),
            {"{{reason}}": f"sum by (reason) ({deleted})"},
        ),
        _series(
            _Text("Bytes written and deleted", "In the last run of each partition.", "bytes"),
            {
                "{{query}} written": total("last_run_bytes_written"),
                "{{query}} deleted": total("last_run_bytes_deleted"),
            },
        ),
        _series(
            _Text("Duration", "Of the last run, in the slowest partition.", "s"),
            {"{{query}}": f"max by (query) ({_partition('last_run_duration_seconds')})"},
        ),
        _series(
            _Text("Peak memory", "Of the process that ran it, in the largest partition.", "bytes"),
            {"{{query}}": f"max by (query) ({_partition('last_run_peak_memory_bytes')})"},
        ),
        _series(
            _Text("Storage requests", "In the last run of each partition, by verb."),
            {"{{query}} {{verb}}": f"sum by (query, verb) ({_requests()})"},
        ),
        _series(
            _Text("Snapshots written", "In the last run of each partition."),
            {"{{query}}": total("last_run_snapshots_written")},
        ),
    ]


def _per(labels: str, metric: str, known: str = ">= 0") -> str:
    # NaN stands for "not known"; a comparison drops it, but it would make a whole sum NaN.
    return f'max by ({labels}) (statemaint_{metric}{{query=~"$query"}} {known})'


def _requests() -> str:
    return _per(f"{_PARTITION}, verb", "last_run_storage_requests")


def _partition(metric: str) -> str:
    return _per(_PARTITION, metric)


def _store(metric: str) -> str:
    return _per(_STORE, metric)


def _chain() -> str:
    return _store("chain_length")


def _since(labels: str, event: str) -> str:
    # The time 0 stands for "never", not for fifty years ago.
    return f"time() - {_per(labels, f'{event}_timestamp_seconds', '> 0')}"


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
