"""The kinds of panels, each with its text, its unit and its threshold.

Panels that show the present query only the present (`instant`), because the last value of a whole
day would hide that metrics have stopped arriving.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from grafana_foundation_sdk.builders import (
    common,
    dashboard,
    heatmap,
    prometheus,
    stat,
    table,
    text,
    timeseries,
)
from grafana_foundation_sdk.models import common as looks
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat
from grafana_foundation_sdk.models.text import TextMode

from helm.dashboards.promql import gained, of_query

# The default thresholds of the alerts, before any change in the chart's values.
STALE_SECONDS = 21600
LONG_CHAIN = 200
SLOW_RESTART = 300

Panel = stat.Panel | table.Panel | timeseries.Panel | heatmap.Panel | text.Panel | dashboard.Panel


@dataclass(frozen=True, slots=True)
class Text:
    """The text of a panel: its title, how to read it, and the unit of its numbers."""

    title: str
    description: str
    unit: str = "short"


@dataclass(frozen=True, slots=True)
class Link:
    """Where a click on a value leads; with an address of the dashboard's variables."""

    title: str
    url: str


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table; cells with values of `alarm` or more are red."""

    title: str
    expr: str
    unit: str = "short"
    alarm: int | None = None


def number(about: Text, expr: str, *, alarm: int | None = None) -> stat.Panel:
    """Returns one large number, red from a threshold on."""
    return (
        stat.Panel()
        .title(about.title)
        .description(about.description)
        .unit(about.unit)
        .height(4)
        .span(4)
        .no_value("no data")
        .graph_mode(looks.BigValueGraphMode.NONE)
        .thresholds(thresholds(alarm))
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .with_target(prometheus.Dataquery().expr(expr).instant().ref_id("A"))
    )


def broken() -> stat.Panel:
    """Returns the number of queries that would not restart."""
    about = Text("Would not restart", "Queries whose verdict is broken. Run statemaint doctor.")
    known = f"{of_query('verdict', verdict='broken')} or {of_query('partitions')} * 0"
    return number(about, f"sum({known})", alarm=1)


def reclaimed() -> stat.Panel:
    """Returns the bytes that runs have deleted in a week."""
    about = Text("Reclaimed this week", "Bytes that runs have deleted in seven days.", "bytes")
    return number(about, f"sum({gained('reclaimed_bytes_total')})")


def series(
    about: Text, expressions: Mapping[str, str], *, alarm: int | None = None
) -> timeseries.Panel:
    """Returns lines over time, with a line at a threshold."""
    panel = (
        timeseries.Panel()
        .title(about.title)
        .description(about.description)
        .unit(about.unit)
        .height(8)
        .span(12)
        .min(0)
        .fill_opacity(10)
        # Between two pushes only the last value is known.
        .line_interpolation(looks.LineInterpolation.STEP_AFTER)
        .thresholds(thresholds(alarm))
    )
    if alarm is not None:
        dashed = common.GraphThresholdsStyleConfig().mode(looks.GraphTresholdsStyleMode.DASHED)
        panel.thresholds_style(dashed)
    for ref, (legend, expr) in zip("ABCD", expressions.items(), strict=False):
        named = legend.replace("{{query}}", "{{query}} {{namespace}}")
        panel.with_target(
            prometheus.Dataquery().expr(expr).legend_format(named).range().ref_id(ref)
        )
    return panel


def spread(about: Text, expr: str) -> heatmap.Panel:
    """Returns a heat map of a histogram over time."""
    buckets = prometheus.Dataquery().expr(expr).legend_format("{{le}}").range().ref_id("A")
    return (
        heatmap.Panel()
        .title(about.title)
        .description(about.description)
        .height(8)
        .span(12)
        .calculate(False)
        .color(heatmap.HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme("Oranges"))
        .y_axis(heatmap.YAxisConfig().unit(about.unit).min(0))
        .with_target(buckets.format(PromQueryFormat.HEATMAP))
    )


def lines(about: Text, *columns: Column, links: Mapping[str, tuple[Link, ...]]) -> table.Panel:
    """Returns a table with a line for each set of labels; `links` are those of columns."""
    panel = table.Panel().title(about.title).description(about.description).span(24).height(8)
    names = {}
    for ref, column in zip("ABCDEFGHIJ", columns, strict=False):
        names[f"Value #{ref}"] = column.title
        asked = prometheus.Dataquery().expr(column.expr).format(PromQueryFormat.TABLE)
        panel.with_target(asked.instant().ref_id(ref))
        panel.override_by_name(column.title, _cells(column))
    for column_name, its in links.items():
        panel.override_by_name(column_name, [_linked(its)])
    organize = {"excludeByName": {"Time": True}, "indexByName": {}, "renameByName": names}
    return panel.with_transformation(
        model.DataTransformerConfig(id_val="merge", options={})
    ).with_transformation(model.DataTransformerConfig(id_val="organize", options=organize))


def note(title: str, *paragraphs: str) -> text.Panel:
    """Returns a panel of Markdown."""
    content = "\n\n".join(paragraphs)
    return text.Panel().title(title).mode(TextMode.MARKDOWN).content(content)


def firing(about: Text) -> dashboard.Panel:
    """Returns Grafana's list of the alerts that are true or about to be."""
    options = {
        "alertInstanceLabelFilter": '{alertname=~"Statemaint.*", query=~"$query|"}',
        "alertName": "",
        "dashboardAlerts": False,
        "groupBy": [],
        "groupMode": "default",
        "maxItems": 50,
        "sortOrder": 3,
        "stateFilter": {
            "error": True,
            "firing": True,
            "noData": False,
            "normal": False,
            "pending": True,
        },
        "viewMode": "list",
    }
    panel = dashboard.Panel().type("alertlist").title(about.title).description(about.description)
    return panel.options(options)


def thresholds(alarm: int | None) -> dashboard.ThresholdsConfig:
    """Returns green, and red from a value on."""
    steps = [model.Threshold(value=None, color="green")]
    if alarm is not None:
        steps.append(model.Threshold(value=alarm, color="red"))
    return dashboard.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(steps)


def _cells(column: Column) -> list[model.DynamicConfigValue]:
    unit = model.DynamicConfigValue("unit", column.unit)
    if column.alarm is None:
        return [unit]
    return [
        unit,
        model.DynamicConfigValue("custom.cellOptions", {"type": "color-text"}),
        model.DynamicConfigValue("thresholds", thresholds(column.alarm).build()),
    ]


def _linked(links: tuple[Link, ...]) -> model.DynamicConfigValue:
    return model.DynamicConfigValue("links", [{"title": x.title, "url": x.url} for x in links])
