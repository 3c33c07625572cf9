"""What the three dashboards share: variables, links, annotations, and the way to a file."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as model

from helm.dashboards.panels import Link, Panel
from helm.dashboards.promql import runs

# Grafana 11 begins with this version, and 12 brings it up to its own while loading.
SCHEMA_VERSION = 39
# The chart puts the addresses of its values in their place (templates/dashboard.yaml).
AIRFLOW, RUNBOOK = "http://localhost:8080", "docs/runbook.md"
# What a link carries on: the data source and the time.
_ALONG = (
    "var-datasource=${datasource}&${__url_time_range}&var-airflow=${airflow}"
    "&${origin:queryparam}&${namespace:queryparam}"
)
_ONE = "${__data.fields.query}"
_UNIT = "&var-operator=${__data.fields.operator}&var-partition=${__data.fields.partition}"

TO_QUERY = Link("The query", f"/d/statemaint-query?var-query={_ONE}&{_ALONG}")
TO_PARTITION = Link("The partition", f"/d/statemaint-partition?var-query={_ONE}{_UNIT}&{_ALONG}")
TO_DAG = Link("The DAG in Airflow", "${airflow}/dags/${__value.raw}")
TO_PAGE = Link("All queries in Airflow", "${airflow}/plugin/statemaint-queries")
TO_RUNBOOK = Link("Runbook", "${runbook}#${__value.raw}")

# The options of panels that the builder has none for, or those of an older Grafana.
_OPTIONS: dict[str, dict[str, Any]] = {
    "heatmap": {"tooltip": {"mode": "single", "yHistogram": True}},
    "table": {"showHeader": True},
    "timeseries": {
        "legend": {
            "calcs": ["lastNotNull"],
            "displayMode": "table",
            "placement": "right",
            "showLegend": True,
        },
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
}

_SOURCE = model.DataSourceRef(type_val="prometheus", uid="${datasource}")


@dataclass(frozen=True, slots=True)
class Board:
    """A dashboard: one row of numbers, and rows of panels with a title each."""

    uid: str  # its address; stable
    title: str
    description: str  # what it answers
    numbers: Sequence[Panel]  # the first row
    rows: Mapping[str, Sequence[Panel]]  # the others, by their title
    # Labels that one chooses from, besides the query, each with a metric that has it.
    variables: Mapping[str, str] = field(default_factory=dict)


def render(board: Board) -> str:
    """Returns the text of a dashboard's file, the same text every time."""
    built = json.loads(json.dumps(_built(board).build(), cls=JSONEncoder))
    return json.dumps(_current(built), indent=2, sort_keys=True) + "\n"


def _current(built: dict[str, Any]) -> dict[str, Any]:
    """Returns what Grafana 11 and 12 read, without what the builder's older version adds."""
    kept = {key: value for key, value in built.items() if key != "style"}
    kept["annotations"] = {"list": _annotations()}
    for panel in kept["panels"]:
        if panel["type"] != "row":
            panel["options"] = {**(panel.get("options") or {}), **_OPTIONS.get(panel["type"], {})}
    for variable in kept["templating"]["list"]:
        for key in ("id", "auto", "auto_count", "auto_min"):
            variable.pop(key, None)
    return {**kept, "schemaVersion": SCHEMA_VERSION}


def _built(board: Board) -> dashboard.Dashboard:
    made = _frame(board)
    number = 0
    for panel in board.numbers:
        made.with_panel(panel.id(number := number + 1).datasource(_SOURCE))
    for title, panels in board.rows.items():
        made.with_row(dashboard.Row(title).id(number := number + 1))
        for panel in panels:
            made.with_panel(panel.id(number := number + 1).datasource(_SOURCE))
    return made


def _frame(board: Board) -> dashboard.Dashboard:
    source = dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")
    chosen = [_choice(name, "statemaint_query_info") for name in ("origin", "namespace", "query")]
    chosen += [_choice(name, metric) for name, metric in board.variables.items()]
    addresses = [_address("airflow", "Airflow", AIRFLOW), _address("runbook", "Runbook", RUNBOOK)]
    return (
        dashboard.Dashboard(board.title)
        .uid(board.uid)
        .description(board.description)
        .tags(["spark", "statemaint"])
        .refresh("1m")
        .time("now-24h", "now")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .variables([source, *chosen, *addresses])
        .links([_others(), _outside(TO_PAGE.title, TO_PAGE.url), _outside("Runbook", "${runbook}")])
    )


def _choice(name: str, metric: str) -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(name)
        .label(name.capitalize())
        .datasource(_SOURCE)
        .query(f"label_values({metric}, {name})")
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.NUMERICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(model.VariableOption(text=["All"], value=["$__all"]))
    )


def _address(name: str, label: str, default: str) -> dashboard.TextBoxVariable:
    given = model.VariableOption(text=default, value=default)
    box = dashboard.TextBoxVariable(name).label(label).default_value(default)
    return box.current(given).hide(model.VariableHide.HIDE_VARIABLE)


def _others() -> dashboard.DashboardLink:
    link = dashboard.DashboardLink("Other dashboards").type(model.DashboardLinkType.DASHBOARDS)
    return link.tags(["statemaint"]).as_dropdown(True).include_vars(True).keep_time(True)


def _outside(title: str, url: str) -> dashboard.DashboardLink:
    link = dashboard.DashboardLink(title).type(model.DashboardLinkType.LINK)
    return link.url(url).icon("external link").target_blank(True)


def _annotations() -> list[dict[str, Any]]:
    """Returns a mark at the end of each run, and a red one where it failed."""
    return [
        _annotation("Runs", "blue", runs(failed=False)),
        _annotation("Failed runs", "red", runs(failed=True)),
    ]


def _annotation(name: str, color: str, expr: str) -> dict[str, Any]:
    return {
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "enable": True,
        "expr": expr,
        "iconColor": color,
        "name": name,
        "step": "60s",
        "titleFormat": f"{name.removesuffix('s')} of {{{{query}}}}",
        # The value of the series is the time of the mark: one mark a run, however often scraped.
        "useValueForTime": "on",
    }
