import json
import re
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from helm import dashboard
from statemaint.demo.board import BoardQuery, board_queries
from statemaint.demo.prometheus import Server, instant_query
from statemaint.metrics.catalogue import METRICS, Detail
from tests.systems.prometheus.support import QUERIES, promtool

pytestmark = pytest.mark.prometheus

BOARD: dict[str, Any] = json.loads(dashboard.TARGET.read_text())
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]


EXPRESSIONS = board_queries(dashboard.TARGET)


def name(query: BoardQuery) -> str:
    return f"{query.panel} {query.ref}"


def test_the_file_is_what_the_code_builds() -> None:
    assert dashboard.TARGET.read_text() == dashboard.render(), "run `python helm/dashboard.py`"


def test_every_expression_parses(tmp_path: Path) -> None:
    rules = [
        {"record": f"expression:{number}", "expr": query.chosen()}
        for number, query in enumerate(EXPRESSIONS)
    ]
    file = tmp_path / "expressions.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
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
    assert all(0 <= value < 1e9 for value in values)


@pytest.mark.parametrize("query", EXPRESSIONS, ids=name)
def test_every_expression_obeys_the_choice_of_a_query(query: BoardQuery, monitored: Server) -> None:
    found = instant_query(monitored.url, query.chosen("hourly_revenue"))
    assert {sample.labels.get("query", "hourly_revenue") for sample in found} == {"hourly_revenue"}
    nothing = instant_query(monitored.url, query.chosen("no_such_query"))
    assert nothing == []


def test_the_variable_offers_the_queries(monitored: Server) -> None:
    [variable] = [each for each in BOARD["templating"]["list"] if each["name"] == "query"]
    metric = variable["query"].removeprefix("label_values(").removesuffix(", query)")
    found = instant_query(monitored.url, f"group by (query) ({metric})")
    assert sorted(sample.labels["query"] for sample in found) == sorted(QUERIES)


def test_stores_are_counted_once_each(monitored: Server) -> None:
    [stores] = [query for query in EXPRESSIONS if query.panel == "Stores"]
    [sample] = instant_query(monitored.url, stores.chosen())
    assert sample.value == 4 + 2 * 4


@pytest.mark.parametrize("metric", [one.name for one in METRICS if one.detail is Detail.QUERY])
def test_every_metric_of_a_query_is_shown(metric: str) -> None:
    pattern = re.compile(rf"statemaint_{metric}(_bucket)?\{{")
    assert any(pattern.search(query.expr) for query in EXPRESSIONS)


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_every_panel_explains_itself(panel: dict[str, Any]) -> None:
    assert panel["description"].endswith(".")
    # `graph`, `singlestat` and `table-old` are gone from Grafana.
    assert panel["type"] in {"heatmap", "stat", "table", "timeseries"}
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
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
    elif panel["type"] == "heatmap":
        assert panel["options"]["yAxis"]["unit"]
    else:
        assert panel["fieldConfig"]["defaults"]["unit"]


def test_a_table_names_the_answers_of_its_own_queries() -> None:
    for panel in PANELS:
        if panel["type"] == "table":
            [organize] = [each for each in panel["transformations"] if each["id"] == "organize"]
            assert set(organize["options"]["renameByName"]) == {
                f"Value #{target['refId']}" for target in panel["targets"]
            }


def test_panels_have_numbers_of_their_own_and_do_not_overlap() -> None:
    numbers = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(numbers)) == len(numbers)
    for one, other in combinations((panel["gridPos"] for panel in BOARD["panels"]), 2):
        apart_across = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        apart_down = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert apart_across or apart_down, (one, other)
        assert one["x"] + one["w"] <= 24
