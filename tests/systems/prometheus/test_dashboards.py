"""The three dashboards: their types, their layout, and data for each of their queries."""

import json
import re
import subprocess
from copy import deepcopy
from itertools import combinations
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from helm import dashboards
from statemaint.metrics.catalogue import METRICS
from tests.grafana.__main__ import FOLDER as TYPES
from tests.grafana.__main__ import VERSIONS
from tests.support.metrics import ORIGIN
from tests.support.paths import ROOT
from tests.systems.prometheus.support import QUERIES, promtool
from tools.demo.prometheus import BoardQuery, Server, board_queries, instant_query

pytestmark = pytest.mark.prometheus

BOARDS: dict[str, dict[str, Any]] = {
    file.stem: json.loads(file.read_text()) for file in sorted(dashboards.FOLDER.glob("*.json"))
}
PANELS = {
    f"{name} {panel['title']}": panel
    for name, board in BOARDS.items()
    for panel in board["panels"]
    if panel["type"] != "row"
}
ASKING = {
    name: panel for name, panel in PANELS.items() if panel["type"] not in ("text", "alertlist")
}
EXPRESSIONS = board_queries(dashboards.FOLDER)
# What a data source of Prometheus adds to an annotation, which the dashboard's own types lack.
OF_PROMETHEUS = {"expr", "step", "titleFormat", "useValueForTime"}
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def name(query: BoardQuery) -> str:
    return f"{query.board} {query.panel} {query.ref}"


def links(panel: dict[str, Any]) -> dict[str, list[str]]:
    """Returns the addresses that the columns of a table lead to."""
    return {
        override["matcher"]["options"]: [link["url"] for link in each["value"]]
        for override in panel["fieldConfig"]["overrides"]
        for each in override["properties"]
        if each["id"] == "links"
    }


def test_there_are_three_and_they_are_what_the_code_builds() -> None:
    assert [board["uid"] for board in BOARDS.values()] == [
        "statemaint", "statemaint-partition", "statemaint-query",
    ]  # fmt: skip
    written = {path: path.read_text() for path in dashboards.FOLDER.glob("*.json")}
    assert written == dashboards.files(), "run `python -m helm.dashboards`"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("board", BOARDS)
def test_grafanas_own_types_take_them(board: str, version: str) -> None:
    types = json.loads((TYPES / f"{version}.json").read_text())
    given = deepcopy(BOARDS[board])
    for mark in given["annotations"]["list"]:
        for key in OF_PROMETHEUS:
            del mark[key]
    jsonschema.validate(given, types["dashboard"])
    for panel in given["panels"]:
        if panel["type"] in types:
            custom = panel["fieldConfig"]["defaults"].get("custom") if "targets" in panel else None
            own = {"options": panel["options"], **({"custom": custom} if custom else {})}
            jsonschema.validate(own, types[panel["type"]])


def test_a_misspelt_option_would_be_noticed() -> None:
    types = json.loads((TYPES / f"{VERSIONS[0]}.json").read_text())
    for wrong in ({"graphMod": "none"}, {"graphMode": "bars"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"options": wrong}, types["stat"])
    board = {**BOARDS["statemaint-fleet"], "style": "dark"}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(board, types["dashboard"])


def test_every_expression_parses(tmp_path: Path) -> None:
    rules = [
        {"record": f"expression:{number}", "expr": query.chosen()}
        for number, query in enumerate(EXPRESSIONS)
    ]
    file = tmp_path / "expressions.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboards", "rules": rules}]}))
    done = subprocess.run(
        [promtool(), "check", "rules", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout


@pytest.mark.parametrize("query", EXPRESSIONS, ids=name)
def test_every_expression_returns_data(query: BoardQuery, monitored: Server) -> None:
    values = [sample.value for sample in instant_query(monitored.url, query.chosen())]
    assert values
    # What is not known is left out: it is neither NaN nor fifty years ago.
    moments = query.chosen().endswith("* 1000") or query.panel == "annotations"
    assert all(0 <= value < (1e13 if moments else 1e9) for value in values)


@pytest.mark.parametrize("query", EXPRESSIONS, ids=name)
def test_every_expression_obeys_the_choice_of_a_query(query: BoardQuery, monitored: Server) -> None:
    if "$query" not in query.expr:
        assert "statemaint_exporter_" in query.expr  # of the whole queries file
        return
    found = instant_query(monitored.url, query.chosen("hourly_revenue"))
    names = {sample.labels.get("query", "hourly_revenue") for sample in found}
    assert names == (set() if query.only_in_trouble else {"hourly_revenue"})
    nothing = instant_query(monitored.url, query.chosen("no_such_query"))
    assert nothing == []


@pytest.mark.parametrize("board", BOARDS)
def test_the_variables_offer_what_is_there_and_all_of_it(board: str, monitored: Server) -> None:
    offered = {
        "origin": [ORIGIN],
        "namespace": ["streams"],
        "query": list(QUERIES),
        "operator": ["0"],
        "partition": ["0", "1", "2", "3"],
    }
    variables = [one for one in BOARDS[board]["templating"]["list"] if one["type"] == "query"]
    for variable in variables:
        assert variable["includeAll"]
        assert variable["multi"]
        assert variable["allValue"] == ".*"
        text = (
            variable["query"].removeprefix("label_values(").removesuffix(f", {variable['name']})")
        )
        metric = re.sub(r"\$\w+", ".*", text)
        found = instant_query(monitored.url, f"group by ({variable['name']}) ({metric})")
        labels = sorted(sample.labels[variable["name"]] for sample in found)
        assert labels == offered[variable["name"]]
    of_all = ["origin", "namespace", "query"]
    expected = [*of_all, *(["operator", "partition"] if board.endswith("partition") else [])]
    assert [one["name"] for one in variables] == expected


def test_the_partitions_of_a_query_with_detail_are_all_there(monitored: Server) -> None:
    [asked] = [
        query for query in EXPRESSIONS
        if (query.board, query.panel, query.ref) == ("statemaint-partition", "Partitions", "A")
    ]  # fmt: skip
    found = instant_query(monitored.url, asked.chosen())
    partitions = sorted((one.labels["query"], one.labels["partition"]) for one in found)
    assert [one for one in partitions if one[0] == "hourly_revenue"] == [
        ("hourly_revenue", str(number)) for number in range(4)
    ]


def test_a_halted_store_is_an_incident_with_the_time_it_began(monitored: Server) -> None:
    [asked] = [query for query in EXPRESSIONS if query.panel == "Since when"]
    found = instant_query(monitored.url, asked.chosen())
    assert {(one.labels["alertname"], one.labels["query"]) for one in found} == {
        ("StatemaintBroken", "click_join")
    }


@pytest.mark.parametrize("metric", [one.name for one in METRICS])
def test_every_metric_is_shown(metric: str) -> None:
    pattern = re.compile(rf"statemaint_{metric}(_bucket)?\b")
    assert any(pattern.search(query.expr) for query in EXPRESSIONS)


@pytest.mark.parametrize("panel", PANELS.values(), ids=PANELS)
def test_every_panel_explains_itself(panel: dict[str, Any]) -> None:
    # `graph`, `singlestat` and `table-old` are gone from Grafana.
    assert panel["type"] in {"alertlist", "heatmap", "stat", "table", "text", "timeseries"}
    assert panel["datasource"] == SOURCE
    text = panel["options"]["content"] if panel["type"] == "text" else panel["description"]
    assert text.endswith(".")


@pytest.mark.parametrize("panel", ASKING.values(), ids=ASKING)
def test_every_number_has_a_unit(panel: dict[str, Any]) -> None:
    if panel["type"] == "table":
        [organize] = [each for each in panel["transformations"] if each["id"] == "organize"]
        columns = set(organize["options"]["renameByName"].values())
        with_unit = {
            override["matcher"]["options"]
            for override in panel["fieldConfig"]["overrides"]
            if any(each["id"] == "unit" and each["value"] for each in override["properties"])
        }
        assert with_unit == columns
        refs = {f"Value #{target['refId']}" for target in panel["targets"]}
        assert set(organize["options"]["renameByName"]) == refs
    elif panel["type"] == "heatmap":
        assert panel["options"]["yAxis"]["unit"]
    else:
        assert panel["fieldConfig"]["defaults"]["unit"]


@pytest.mark.parametrize("board", BOARDS)
def test_one_row_of_numbers_is_first_and_nothing_overlaps(board: str) -> None:
    panels = BOARDS[board]["panels"]
    first = [panel for panel in panels if panel["gridPos"]["y"] == 0]
    assert [panel["type"] for panel in first] == ["stat"] * 6
    assert {panel["type"] for panel in panels if panel not in first} >= {"row", "text", "table"}
    assert not [panel for panel in panels if panel["type"] == "stat" and panel not in first]
    numbers = [panel["id"] for panel in panels]
    assert len(set(numbers)) == len(numbers)
    for one, other in combinations((panel["gridPos"] for panel in panels), 2):
        apart_across = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        apart_down = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert apart_across or apart_down, (one, other)
        assert one["x"] + one["w"] <= 24


@pytest.mark.parametrize("board", BOARDS)
def test_thresholds_are_those_of_the_alerts(board: str) -> None:
    steps = [
        step["value"]
        for panel in BOARDS[board]["panels"]
        if panel["type"] == "stat"
        for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
        if step["value"] is not None
    ]
    assert steps
    rules = (ROOT / "helm/statemaint/files/alerts.yaml").read_text()
    for threshold in (200, 300, 21600):
        assert re.search(rf"(> |\+ ){threshold}\b", rules)
    assert set(steps) <= {1, 200, 300, 21600}


def test_the_fleet_leads_to_a_query_a_query_to_partitions_and_the_dag() -> None:
    fleet, one = PANELS["statemaint-fleet Queries"], PANELS["statemaint-query Worst partitions"]
    to_query, to_page = links(fleet)["query"]
    assert to_query.startswith("/d/statemaint-query?var-query=${__data.fields.query}&")
    assert to_page == "${airflow}/plugin/statemaint-queries"
    assert links(fleet)["dag"] == ["${airflow}/dags/${__value.raw}"]
    [to_partition] = links(one)["partition"]
    assert to_partition.startswith("/d/statemaint-partition?var-query=${__data.fields.query}&")
    assert links(PANELS["statemaint-query Query"])["dag"] == links(fleet)["dag"]
    assert links(PANELS["statemaint-fleet Since when"])["alertname"] == [
        "${runbook}#${__value.raw}"
    ]
    known = {f"/d/{board['uid']}?" for board in BOARDS.values()}
    used = {match for url in (to_query, to_partition) for match in re.findall(r"/d/[^?]+\?", url)}
    assert used <= known


@pytest.mark.parametrize("board", BOARDS)
def test_each_has_links_and_marks_of_runs(board: str) -> None:
    links_of = {link["title"]: link for link in BOARDS[board]["links"]}
    assert links_of["Other dashboards"]["tags"] == ["statemaint"]
    assert links_of["Other dashboards"]["includeVars"]
    assert links_of["All queries in Airflow"]["url"] == "${airflow}/plugin/statemaint-queries"
    assert links_of["Runbook"]["url"] == "${runbook}"
    marks = BOARDS[board]["annotations"]["list"]
    assert [(mark["name"], mark["iconColor"]) for mark in marks] == [
        ("Runs", "blue"), ("Failed runs", "red"),
    ]  # fmt: skip


def test_a_mark_is_at_the_end_of_its_run(monitored: Server) -> None:
    marks = {query.ref: query for query in EXPRESSIONS if query.panel == "annotations"}
    ended = {
        one.labels["query"]: one.value * 1000
        for one in instant_query(
            monitored.url, "max by (query) (statemaint_last_run_timestamp_seconds)"
        )
    }
    for ref, query in (("Runs", "hourly_revenue"), ("Failed runs", "click_join")):
        found = instant_query(monitored.url, marks[ref].chosen())
        assert {one.labels["query"]: one.value for one in found} == {query: ended[query]}


def test_the_list_of_alerts_has_ours() -> None:
    [panel] = [panel for panel in PANELS.values() if panel["type"] == "alertlist"]
    assert panel["options"]["alertInstanceLabelFilter"].startswith('{alertname=~"Statemaint.*"')
    assert panel["options"]["stateFilter"]["firing"]
