"""Each alert, in cases that must fire it and nothing else, and in cases that must fire nothing."""

import subprocess
from pathlib import Path

import pytest
import yaml

from helm.alerts import ALERTS, render
from helm.alerts import TARGET as RULES
from tests.support.paths import ROOT
from tests.systems.prometheus.alert_cases import (
    CASES,
    HALTED,
    LONG,
    Case,
    Q,
    fine,
    of,
    seen,
    written,
)
from tests.systems.prometheus.support import promtool

pytestmark = pytest.mark.prometheus

RUNBOOK = (ROOT / "docs/runbook.md").read_text()
NAMES = [one.name for one in ALERTS]
# For each alert a case that is close to it and must not fire it.
SPARED = {
    "StatemaintBroken": "a query that restarts and is damaged",
    "StatemaintHalted": "a repaired store",
    "StatemaintPlanFailed": "what follows from damage is not reported apart",
    "StatemaintRunFailed": "a storage that failed once",
    "StatemaintTwoMaintainers": "another maintainer had the lease once",
    "StatemaintLeaseStale": "a run waits for minutes",
    "StatemaintRunStalled": "a task was killed in one installation and ended in another",
    "StatemaintStale": "an hourly query without a run for two hours",
    "StatemaintChainTooLong": "a long chain before its first run ends",
    "StatemaintRestartTooSlow": "a restart of four minutes",
    "StatemaintRestartOverLimit": "a forecast within its limit, with a long chain",
    "StatemaintSnapshotLag": "a lag of 300",
    "StatemaintVerifyFailed": "verified well after damage",
    "StatemaintVerifyOverdue": "verified a week ago",
    "StatemaintSavepointTooOld": "a daily savepoint two days ago",
    "StatemaintForeignMaintainer": "executors maintained until the last run",
    "StatemaintForeignDeletions": "files were gone until the last run",
    "StatemaintTrashGrowing": "a large trash that shrinks",
    "StatemaintPushLosses": "one push is lost",
    "StatemaintUnreadable": "one reading failed",
    "StatemaintNeverRan": "a query whose first run has ended",
    "StatemaintStorageDown": "two of five queries fail at a storage",
    "StatemaintConfigurationProblem": "a corrected mistake",
    "StatemaintExporterStale": "readings go on, and a query has stopped",
    "StatemaintSourceDown": "a restart of the Pushgateway",
    "StatemaintMetricsAbsent": "a dead Pushgateway",
}
# From which minute on its first case is true, and for how many minutes it is only pending.
HELD = {
    "StatemaintRunFailed": (0, 10),
    "StatemaintStale": (1405, 5),
    "StatemaintChainTooLong": (0, 30),
    "StatemaintRestartTooSlow": (0, 30),
    "StatemaintRestartOverLimit": (0, 30),
    "StatemaintSnapshotLag": (0, 30),
    "StatemaintForeignMaintainer": (0, 60),
    "StatemaintForeignDeletions": (0, 60),
    "StatemaintTrashGrowing": (1440, 60),
    "StatemaintUnreadable": (0, 15),
    "StatemaintStorageDown": (0, 5),
    "StatemaintConfigurationProblem": (0, 5),
    "StatemaintSourceDown": (0, 5),
    "StatemaintMetricsAbsent": (0, 15),
}


def held(name: str) -> dict[str, object]:
    """Returns an alert's first case, pending until it has been true for as long as it waits."""
    begin, minutes = HELD[name]
    case = next(case for case in CASES if name in {fired for fired, _ in case.fires})
    expected = [
        seen("pending", f"{begin + minutes - 5}m", case.fires),
        seen("firing", f"{begin + minutes - 5}m", []),
        seen("firing", f"{begin + minutes}m", case.fires),
    ]
    return {**written(case), "promql_expr_test": expected}


def run(*arguments: str | Path) -> None:
    done = subprocess.run([promtool(), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_file_is_what_the_code_builds_and_is_valid() -> None:
    assert RULES.read_text() == render(), "run `make generated`"
    run("check", "rules", RULES)


def interval_of(case: Case) -> str:
    """Returns how often a case is evaluated: its time is a multiple of it, or nothing is seen.

    No alert waits for less than five minutes, if it waits at all. Nearly all of the time is spent
    on evaluations; half an hour is enough where no series changes its course.
    """
    unit, number = case.at[-1], int(case.at[:-1])
    changes = any(" " in values for values in case.series.values())
    return "5m" if changes or (unit == "m" and number % 30) else "30m"


@pytest.mark.parametrize("interval", ["5m", "30m"])
def test_each_case_fires_its_alert_and_no_other(tmp_path: Path, interval: str) -> None:
    file = tmp_path / "cases.yaml"
    cases = [written(case) for case in CASES if interval_of(case) == interval]
    head = {"rule_files": [str(RULES)], "evaluation_interval": interval}
    file.write_text(yaml.safe_dump({**head, "tests": cases}))
    run("test", "rules", file)


def test_an_alert_waits_as_long_as_is_said_here_and_no_longer(tmp_path: Path) -> None:
    assert {one.name for one in ALERTS if one.hold != "0m"} == HELD.keys()
    file = tmp_path / "held.yaml"
    head = {"rule_files": [str(RULES)], "evaluation_interval": "5m"}
    file.write_text(yaml.safe_dump({**head, "tests": [held(name) for name in HELD]}))
    run("test", "rules", file)


@pytest.mark.parametrize("name", NAMES)
def test_every_alert_has_a_case_that_fires_it(name: str) -> None:
    assert any(name == fired for case in CASES for fired, _ in case.fires)


@pytest.mark.parametrize("name", NAMES)
def test_every_alert_has_a_case_that_is_close_and_must_not_fire_it(name: str) -> None:
    [case] = [case for case in CASES if case.name == SPARED[name]]
    assert name not in {fired for fired, _ in case.fires}


def told(
    file: Path, series: dict[str, str], name: str, severity: str, *, at: str = "1h", **texts: str
) -> None:
    """Holds the annotations of an alert of the query, some time after series have begun."""
    alert = {"exp_labels": {"severity": severity, "query": Q}, "exp_annotations": texts}
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": one} for name, one in series.items()],
        "alert_rule_test": [{"eval_time": at, "alertname": name, "exp_alerts": [alert]}],
    }
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": [test]}))
    run("test", "rules", file)


@pytest.mark.parametrize("count", [1, 2])
def test_a_summary_counts_in_the_singular_and_in_the_plural(tmp_path: Path, count: int) -> None:
    things = "1 version was" if count == 1 else "2 versions were"
    told(
        tmp_path / "case.yaml",
        {**fine(), of("findings", code="PURGED_BY_SPARK"): f"{count}x{LONG}"},
        "StatemaintForeignDeletions",
        "warning",
        at="2h",
        summary=f"q: {things} deleted by another hand",
        description="Files are gone that statemaint did not delete. More than one or two versions "
        "point to a lifecycle rule of the bucket or a clean-up script.",
    )


def test_a_description_has_the_numbers_and_codes(tmp_path: Path) -> None:
    series = {
        **fine(),
        **HALTED,
        of("findings", code="BROKEN_CHAIN"): f"18x{LONG}",
        of("query_info", dag="statemaint__q"): f"1x{LONG}",
    }
    told(
        tmp_path / "case.yaml",
        series,
        "StatemaintHalted",
        "critical",
        summary="q: 20 stores are halted",
        description="Damage was found. Nothing is written or deleted in these stores until it is "
        "repaired, and a restart of the query may fail; its other stores are maintained. "
        "Findings: BROKEN_CHAIN (18) . Run statemaint doctor on the checkpoint.",
    )


@pytest.mark.parametrize(
    ("dag", "named"),
    [("statemaint_together_hourly", "statemaint_together_hourly"), ("", "of the query")],
)
def test_a_description_names_the_dag_that_the_metrics_name(
    tmp_path: Path, dag: str, named: str
) -> None:
    series = {
        **fine(),
        of("last_run_failed", cause="plan"): f"1x{LONG}",
        of("query_info", dag=dag): f"1x{LONG}",
    }
    told(
        tmp_path / "case.yaml",
        series,
        "StatemaintPlanFailed",
        "critical",
        summary="q: maintenance cannot be planned",
        description="The last run failed before it saw any store; nothing is maintained. The log "
        f"of the task plan of the DAG {named} says why: a configuration or a checkpoint that "
        "cannot be read.",
    )


@pytest.mark.parametrize("alert", ALERTS, ids=NAMES)
def test_every_alert_says_what_how_bad_and_what_to_do(alert: object) -> None:
    [rule] = [
        one
        for group in yaml.safe_load(RULES.read_text())["groups"]
        for one in group["rules"]
        if one.get("alert") == alert.name  # type: ignore[attr-defined]
    ]
    assert rule["labels"]["severity"] in {"critical", "warning"}
    # Without the chart no address is known, and a link that leads nowhere is worse than none.
    assert set(rule["annotations"]) == {"summary", "description"}
    assert f"\n### {rule['alert']}\n" in RUNBOOK
