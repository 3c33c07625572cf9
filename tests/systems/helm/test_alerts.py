"""The alerting rules that the chart delivers: those of the file, with the values."""

import re
from typing import Any

import helm_python
import pytest
import yaml

from tests.systems.helm.support import CHART, one, render

pytestmark = pytest.mark.helm

ORIGINAL = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())
ADDRESSES = {
    "airflow": {"url": "https://airflow.example.com/"},
    "dashboard": {"grafanaUrl": "https://grafana.example.com"},
    "alerts": {"runbookBaseUrl": "https://git.example.com/x/"},
}
# Each threshold with a value that no other has, and the alerts that it is in.
THRESHOLDS = {
    "staleAfterSeconds": (9_000_001, 21600, {"StatemaintStale", "StatemaintNeverRan"}),
    "staleAfterIntervals": (7.25, 2.5, {"StatemaintStale", "StatemaintNeverRan"}),
    "maxChainLength": (
        9_000_003,
        200,
        {"StatemaintChainTooLong", "StatemaintRestartTooSlow", "StatemaintSnapshotLag"},
    ),
    "maxRestartSeconds": (9_000_004, 300, {"StatemaintRestartTooSlow"}),
    "maxSnapshotLag": (9_000_005, 300, {"StatemaintSnapshotLag"}),
    "maxLeaseWaitSeconds": (9_000_006, 3600, {"StatemaintLeaseStale"}),
    "verifyAfterSeconds": (9_000_007, 1209600, {"StatemaintVerifyOverdue"}),
    "savepointAfterIntervals": (8.25, 3, {"StatemaintSavepointTooOld"}),
    "maxPushLosses": (9_000_008, 2, {"StatemaintPushLosses"}),
    "exporterStaleSeconds": (
        9_000_009,
        900,
        {
            "StatemaintExporterStale",
            "StatemaintStale",
            "StatemaintNeverRan",
            "StatemaintSavepointTooOld",
        },
    ),
    "storageDownShare": (0.75, 0.5, {"statemaint:storage_down"}),
}


def delivered(values: dict[str, Any] | None = None) -> dict[str, Any]:
    [text] = one(render(values), "ConfigMap", "-alerts")["data"].values()
    read: dict[str, Any] = yaml.safe_load(text)
    return read


def rules(content: dict[str, Any]) -> dict[str, dict[str, Any]]:
    every = [rule for group in content["groups"] for rule in group["rules"]]
    return {rule.get("alert") or rule["record"]: rule for rule in every}


def test_without_other_values_the_rules_are_the_file() -> None:
    assert delivered() == ORIGINAL


def test_a_prometheus_rule_has_the_rules_of_the_file() -> None:
    values = {"alerts": {"prometheusRule": {"enabled": True}}}
    assert one(render(values), "PrometheusRule")["spec"] == ORIGINAL


@pytest.mark.parametrize("name", THRESHOLDS)
def test_a_threshold_reaches_its_alerts_and_no_other_number(name: str) -> None:
    value, default, alerts = THRESHOLDS[name]
    changed = rules(delivered({"alerts": {name: value}}))
    for alert, before in rules(ORIGINAL).items():
        if alert in alerts:
            assert before["expr"] != changed[alert]["expr"]
            back = changed[alert]["expr"].replace(str(value), str(default))
            assert {**changed[alert], "expr": back} == before
        else:
            assert changed[alert] == before


def test_every_threshold_of_the_values_is_tested_here() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())["alerts"]
    numbers = {name for name, value in values.items() if type(value) in {int, float}}
    assert numbers == THRESHOLDS.keys()
    assert {name: values[name] for name in numbers} == {
        name: default for name, (_, default, _) in THRESHOLDS.items()
    }


def test_links_are_absolute_and_lead_to_the_alert_the_query_and_the_dag() -> None:
    for name, rule in rules(delivered(ADDRESSES)).items():
        if "record" in rule:
            continue
        notes = rule["annotations"]
        assert notes["runbook_url"] == f"https://git.example.com/x/docs/runbook.md#{name.lower()}"
        of_query = "$labels.query" in notes["summary"]
        board = "https://grafana.example.com/d/statemaint"
        query = "-query?var-query={{ $labels.query }}&var-origin={{ $labels.origin }}"
        assert notes["dashboard_url"] == board + (query if of_query else "")
        assert ("https://airflow.example.com/dags/{{ . |" in notes.get("dag_url", "")) is of_query


def test_a_link_whose_address_is_unknown_is_left_out() -> None:
    for rule in rules(delivered()).values():
        assert set(rule.get("annotations", ())) <= {"summary", "description"}
    jobs = {**ADDRESSES, "airflow": {"url": "https://airflow.example.com", "enabled": False}}
    found = rules(delivered(jobs)).values()
    assert not any("dag_url" in rule.get("annotations", ()) for rule in found)


def test_an_alert_can_be_left_out_and_a_name_that_is_none_is_refused() -> None:
    found = rules(delivered({"alerts": {"disabled": ["StatemaintSnapshotLag"]}}))
    assert rules(ORIGINAL).keys() - found.keys() == {"StatemaintSnapshotLag"}
    with pytest.raises(helm_python.HelmError, match=r"there is no alert Statelag"):
        render({"alerts": {"disabled": ["Statelag"]}})


def test_additional_labels_are_on_every_alert() -> None:
    found = rules(delivered({"alerts": {"additionalRuleLabels": {"team": "data", "tier": "1"}}}))
    for rule in found.values():
        if "alert" in rule:
            assert rule["labels"].items() >= {"team": "data", "tier": "1"}.items()
            assert rule["labels"]["severity"] in {"critical", "warning"}


def test_the_alert_labels_of_the_queries_file_are_kept_by_every_alert_of_a_query() -> None:
    found = rules(delivered({"queries": {"alert_labels": ["team", "tier"], "queries": {}}}))
    for name, rule in rules(ORIGINAL).items():
        assert found[name]["expr"].count("owner, team, tier") == rule["expr"].count("owner")
    assert "by (query, origin, namespace, owner, team, tier)" in found["StatemaintHalted"]["expr"]


@pytest.mark.parametrize("name", ["statemaint", "mine"])
def test_the_exporter_is_a_source_by_any_name(name: str) -> None:
    values = {
        "fullnameOverride": name,
        "image": {"repository": "r"},
        "exporter": {"enabled": True, "serviceMonitor": {"enabled": True}},
    }
    service = one(render(values), "Service", "-exporter")["metadata"]["name"]
    found = rules(delivered(values))
    for alert in ("StatemaintSourceDown", "StatemaintMetricsAbsent"):
        [jobs] = re.findall(r'job=~"(.*?)"', found[alert]["expr"])
        assert re.fullmatch(jobs, service)


# -- groups


def groups(values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {group["name"]: group for group in delivered({"alerts": values})["groups"]}


def test_a_group_evaluates_what_its_rules_use() -> None:
    # Prometheus evaluates groups at times of their own.
    for group in ORIGINAL["groups"]:
        records = {rule["record"] for rule in group["rules"] if "record" in rule}
        used = {
            word for rule in group["rules"] for word in re.findall(r"statemaint:\w+", rule["expr"])
        }
        assert used == records, group["name"]


def test_a_group_can_be_switched_off_and_evaluated_less_often_and_labelled() -> None:
    before = groups({})
    values = yaml.safe_load((CHART / "values.yaml").read_text())["alerts"]["groups"]
    assert [f"statemaint-{name}" for name in values] == [*before]
    found = groups(
        {
            "groups": {
                "savepoints": {"enabled": False},
                "state": {"interval": "5m", "labels": {"tier": "2"}},
            },
            "additionalRuleLabels": {"tier": "1"},
        }
    )
    assert before.keys() - found.keys() == {"statemaint-savepoints"}
    assert {group.get("interval") for group in found.values()} == {None, "5m"}
    for name, group in found.items():
        tier = "2" if name == "statemaint-state" else "1"
        alerts = [rule for rule in group["rules"] if "alert" in rule]
        assert {rule["labels"]["tier"] for rule in alerts} == {tier}
        assert [rule["expr"] for rule in alerts] == [
            rule["expr"] for rule in before[name]["rules"] if "alert" in rule
        ]


def test_a_group_whose_alerts_are_all_left_out_is_not_delivered() -> None:
    left = groups({"disabled": ["StatemaintVerifyFailed", "StatemaintVerifyOverdue"]})
    assert "statemaint-verification" not in left


def test_an_alert_can_be_changed_and_its_expression_stays() -> None:
    changes = {"severity": "info", "for": "2h", "labels": {"page": "no"}}
    found = rules(delivered({"alerts": {"rules": {"StatemaintSnapshotLag": changes}}}))
    before = rules(ORIGINAL)
    changed = found.pop("StatemaintSnapshotLag")
    was = before.pop("StatemaintSnapshotLag")
    assert changed == {**was, "for": "2h", "labels": {"severity": "info", "page": "no"}}
    assert found == before


@pytest.mark.parametrize(
    ("alerts", "sentence"),
    [
        ({"rules": {"Lag": {"for": "1h"}}}, "alerts.rules: there is no alert Lag; correct"),
        (
            {"rules": {"StatemaintStale": {"for": "1h"}}, "disabled": ["StatemaintStale"]},
            "alerts.rules.StatemaintStale: has no effect, as alerts.disabled leaves the alert out",
        ),
        ({"groups": {"run": {"enabled": False}}}, "additional properties 'run' not allowed"),
        ({"rules": {"StatemaintStale": {"expr": "1"}}}, "additional properties 'expr' not allowed"),
    ],
    ids=str,
)
def test_a_change_that_changes_nothing_is_refused(alerts: dict[str, Any], sentence: str) -> None:
    with pytest.raises(helm_python.HelmError) as error:
        render({"alerts": alerts})
    assert sentence in str(error.value)
