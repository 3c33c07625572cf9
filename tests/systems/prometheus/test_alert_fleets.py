"""Alerts over several installations, owners and storages, in promtool."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from helm.alerts import TARGET as RULES
from tests.systems.prometheus.alert_cases import HOURLY, LONG, SOURCES, fine, of, on
from tests.systems.prometheus.support import promtool

pytestmark = pytest.mark.prometheus

# promtool refuses rules that load more than 10,000 samples; test_alertmanager.py has 5,000 queries.
QUERIES = 1_000
FIRING = 'count by (alertname, query, origin, namespace, owner, team) (ALERTS{alertstate="firing"})'
Labels = dict[str, str]


def labelled(series: dict[str, str], **labels: str) -> dict[str, str]:
    more = "".join(f',{name}="{value}"' for name, value in labels.items())
    return {name.replace("}", more + "}"): values for name, values in series.items()}


def fires(
    folder: Path, series: dict[str, str], alerts: list[Labels], at: str = "1d", rules: str = ""
) -> None:
    """Holds that these alerts, and no others, fire at a time."""
    expected = [
        {"labels": "{" + ",".join(f'{key}="{one}"' for key, one in labels.items()) + "}",
         "value": 1}
        for labels in alerts
    ]  # fmt: skip
    test: dict[str, Any] = {
        "interval": "1m",
        "input_series": [{"series": name, "values": one} for name, one in series.items()],
        "promql_expr_test": [{"expr": FIRING, "eval_time": at, "exp_samples": expected}],
    }
    (folder / "rules.yaml").write_text(rules or RULES.read_text())
    file = folder / "test.yaml"
    head = {"rule_files": ["rules.yaml"], "evaluation_interval": "5m"}
    file.write_text(yaml.safe_dump({**head, "tests": [test]}, width=10_000))
    done = subprocess.run(
        [promtool(), "test", "rules", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


BLUE = {"origin": "blue", "namespace": "one"}
GREEN = {"origin": "green", "namespace": "two"}


def test_a_query_that_stopped_is_seen_beside_one_of_its_name_in_another_namespace(
    tmp_path: Path,
) -> None:
    stale = {of("last_run_timestamp_seconds"): f"3600x{LONG}"}
    series = labelled(fine(), **BLUE) | labelled({**fine(), **stale}, **GREEN) | SOURCES
    fires(tmp_path, series, [{"alertname": "StatemaintStale", "query": "q", **GREEN}])


def test_damage_in_one_installation_hides_nothing_in_the_other(tmp_path: Path) -> None:
    halted = {of("stores", outcome="halted"): f"2x{LONG}"}
    failed = {of("last_run_failed", cause="plan"): f"1x{LONG}"}
    series = labelled({**fine(), **halted}, **BLUE) | labelled({**fine(), **failed}, **GREEN)
    alerts = [
        {"alertname": "StatemaintHalted", "query": "q", **BLUE},
        {"alertname": "StatemaintPlanFailed", "query": "q", **GREEN},
    ]
    fires(tmp_path, series | SOURCES, alerts)


@pytest.mark.parametrize(
    ("alert", "series"),
    [
        ("StatemaintNeverRan", {of("query_info"): f"1x{LONG}"}),
        ("StatemaintUnreadable", on("s3://lake", "q", unread=1)),
    ],
)
def test_an_installation_without_records_is_seen_beside_one_with_them(
    tmp_path: Path, alert: str, series: dict[str, str]
) -> None:
    both = labelled(fine(), **BLUE) | labelled(series, **GREEN) | SOURCES
    fires(tmp_path, both, [{"alertname": alert, "query": "q", **GREEN}])


def test_mistakes_are_counted_for_each_installation(tmp_path: Path) -> None:
    problems = "statemaint_exporter_problems{}"
    both = {problems: f"1x{LONG}"}, {problems: f"0x{LONG}"}
    named = [
        {name.replace("{,", "{"): value for name, value in labelled(one, **where).items()}
        for one, where in zip(both, (BLUE, GREEN), strict=True)
    ]
    series = named[0] | named[1] | labelled(fine(), **BLUE) | SOURCES
    fires(tmp_path, series, [{"alertname": "StatemaintConfigurationProblem", **BLUE}])


def test_an_alert_has_the_owner_and_after_a_change_the_rules_still_work(tmp_path: Path) -> None:
    # A Pushgateway keeps the families that a failed plan does not push with the owner of before.
    before = labelled(fine(), owner="ann") | labelled(
        {of("last_run_timestamp_seconds"): f"3600x{LONG}", of("trash_bytes"): "0+10x2880"},
        owner="bob",
    )
    alert = {"query": "q", "owner": "bob"}
    fires(
        tmp_path,
        before | SOURCES,
        [
            {"alertname": "StatemaintStale", **alert},
            {"alertname": "StatemaintTrashGrowing", **alert},
        ],
        at="30h",
    )


def test_the_chosen_tags_become_labels_of_alerts_by_the_change_that_the_file_names(
    tmp_path: Path,
) -> None:
    rules = RULES.read_text()
    assert "sed 's/namespace, owner/namespace, owner, team/g'" in " ".join(rules.split())
    halted = {of("stores", outcome="halted"): f"2x{LONG}"}
    series = labelled({**fine(), **halted}, owner="ann", team="payments") | SOURCES
    alert = {"alertname": "StatemaintHalted", "query": "q", "owner": "ann", "team": "payments"}
    rules = rules.replace("namespace, owner", "namespace, owner, team")
    fires(tmp_path, series, [alert], rules=rules)


def test_a_storage_that_is_down_is_one_alert_for_a_thousand_queries(tmp_path: Path) -> None:
    series = dict(SOURCES)
    for number in range(QUERIES):
        name = f"q{number}"
        of_one = on("s3://lake", name, unread=1, failed=1) | {
            of("query_info", name): f"1x{LONG}",
            of("last_run_timestamp_seconds", name): HOURLY,
        }
        for key, value in labelled(of_one, **BLUE).items():
            series[key] = value.replace(str(LONG), "30")
    fires(tmp_path, series, [{"alertname": "StatemaintStorageDown", **BLUE}], at="30m")
