import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from statemaint.demo.prometheus import Server, instant_query
from tests.support.paths import ROOT
from tests.systems.prometheus.support import ALERTS, HALTED, promtool

pytestmark = pytest.mark.prometheus

UNIT_TESTS = Path(__file__).parent / "alerts_test.yaml"
RUNBOOK = ROOT / "docs" / "runbook.md"
RULES: list[dict[str, Any]] = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
NAMES = ["StatemaintStoreHalted", "StatemaintStale", "StatemaintChainTooLong"]


def expression(name: str) -> str:
    [rule] = [rule for rule in RULES if rule["alert"] == name]
    return str(rule["expr"])


def run(*arguments: str | Path) -> None:
    done = subprocess.run([promtool(), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_are_the_three_alerts_and_no_other() -> None:
    assert [rule["alert"] for rule in RULES] == NAMES


def test_the_rules_are_valid() -> None:
    run("check", "rules", ALERTS)


def test_they_fire_and_keep_silent_as_their_unit_tests_say() -> None:
    run("test", "rules", UNIT_TESTS)


@pytest.mark.parametrize("name", NAMES)
def test_every_alert_is_tested_both_ways(name: str) -> None:
    cases = yaml.safe_load(UNIT_TESTS.read_text())["tests"]
    checks = [check for case in cases for check in case["alert_rule_test"]]
    fires = {bool(check["exp_alerts"]) for check in checks if check["alertname"] == name}
    assert fires == {True, False}


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_every_alert_says_what_how_bad_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    assert rule["annotations"]["runbook_url"] == f"docs/runbook.md#{rule['alert'].lower()}"


@pytest.mark.parametrize("name", NAMES)
def test_every_alert_has_its_heading_in_the_runbook(name: str) -> None:
    if not RUNBOOK.exists():
        pytest.skip("docs/runbook.md is not written yet")
    headings = [line.lstrip("# ") for line in RUNBOOK.read_text().splitlines() if line[:1] == "#"]
    assert name in headings


def test_on_a_real_prometheus_only_the_halted_store_is_reported(monitored: Server) -> None:
    found = {name: instant_query(monitored.url, expression(name)) for name in NAMES}
    assert [dict(sample.labels) for sample in found["StatemaintStoreHalted"]] == [HALTED]
    # Its chain is long and its last success is old, which one alert says well enough.
    assert found["StatemaintStale"] == []
    assert found["StatemaintChainTooLong"] == []
