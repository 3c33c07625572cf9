"""Each alert, in cases that must fire it and nothing else, and in cases that must fire nothing."""

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from helm.alerts import ALERTS, render
from helm.alerts import TARGET as RULES
from tests.support.paths import ROOT
from tests.systems.prometheus.support import promtool

# ruff: noqa: E501 -- a case is one line of a table
pytestmark = pytest.mark.prometheus

RUNBOOK = (ROOT / "docs/runbook.md").read_text()
NAMES = [one.name for one in ALERTS]
# A query that runs every hour. Times are minutes since 1970; each series lasts two days.
LONG = 2880
HOURLY = "0+60x2880"
SOURCES = {
    'up{job="statemaint-pushgateway",instance="gw:9091"}': f"1x{LONG}",
    'up{job="node",instance="other:9100"}': f"0x{LONG}",
}


def of(metric: str, query: str = "q", **labels: str) -> str:
    """Returns the name of a series of a query."""
    texts = [f'{key}="{one}"' for key, one in {"query": query, **labels}.items()]
    return f"statemaint_{metric}{{{','.join(texts)}}}"


def fine(query: str = "q") -> dict[str, str]:
    """Returns the series of a query that has no trouble."""
    return {
        of("last_run_timestamp_seconds", query): HOURLY,
        of("expected_interval_seconds", query): f"3600x{LONG}",
        of("stores", query, outcome="halted"): f"0x{LONG}",
        of("stores", query, outcome="done"): f"20x{LONG}",
        of("chain_length_max", query): f"12x{LONG}",
        of("restart_seconds", query): f"30x{LONG}",
        of("snapshot_lag_versions", query): f"12x{LONG}",
        of("trash_bytes", query): f"10x{LONG}",
        of("store_bytes", query): f"1000x{LONG}",
        of("push_losses_total", query): f"7x{LONG}",
        of("lease_held_timestamp_seconds", query): f"0x{LONG}",
        of("last_verify_failed", query): f"0x{LONG}",
        of("last_verify_timestamp_seconds", query): f"0x{LONG}",
        of("exporter_read_failed", query): f"0x{LONG}",
        of("findings", query, code="BROKEN_CHAIN"): f"0x{LONG}",
        **{
            of("last_run_failed", query, cause=one): f"0x{LONG}"
            for one in ("plan", "damage", "storage", "lease", "task")
        },
    }


def at_work(
    origin: str, pushed: str, state: str = "working", task: str = "maintain-3"
) -> dict[str, str]:
    """Returns the series of a task, and the times of its pushes."""
    labels = {"task": task, **({"origin": origin} if origin else {})}
    push = of("task", **labels).replace("statemaint_task", "push_time_seconds")
    return {of("task_state", state=state, **labels): f"1x{LONG}", push: pushed}


@dataclass(frozen=True)
class Case:
    """Series on top of those of a healthy query, and the alerts that fire: names and queries."""

    name: str
    series: dict[str, str]
    fires: list[tuple[str, str]] = field(default_factory=list)
    at: str = "1d"
    without: tuple[str, ...] = ()
    base: bool = True


Q = "q"
HALTED = {
    of("stores", outcome="halted"): f"20x{LONG}",
    of("last_run_failed", cause="damage"): f"1x{LONG}",
}
CASES = [
    Case("all is well", {}),
    Case("a new query has few series and no trouble", {of("query_info", "new"): f"1x{LONG}"}),
    # Halted: one alert for twenty stores, whatever follows from it.
    Case("twenty stores halted by one empty commit", HALTED, [("StatemaintHalted", Q)]),
    Case(
        "what follows from damage is not reported apart",
        {
            **HALTED,
            of("chain_length_max"): f"9000x{LONG}",
            of("restart_seconds"): f"9000x{LONG}",
            of("snapshot_lag_versions"): f"9000x{LONG}",
            of("last_run_failed", cause="storage"): f"1x{LONG}",
            of("last_run_failed", cause="plan"): f"1x{LONG}",
            of("last_verify_failed"): f"1x{LONG}",
        },
        [("StatemaintHalted", Q)],
    ),
    Case("a repaired store", {of("stores", outcome="halted"): f"3x60 0x{LONG}"}, at="5h"),
    Case("two pods of a Pushgateway", {
        of("stores", outcome="halted", pod="a"): f"2x{LONG}",
        of("stores", outcome="halted", pod="b"): f"2x{LONG}",
    }, [("StatemaintHalted", Q)]),
    Case("a plan fails", {of("last_run_failed", cause="plan"): f"1x{LONG}"}, [("StatemaintPlanFailed", Q)]),
    Case("the first plan of a new query fails", {
        of("last_run_failed", "new", cause="plan"): f"1x{LONG}",
        of("last_run_timestamp_seconds", "new"): HOURLY,
    }, [("StatemaintPlanFailed", "new")]),
    Case("the storage fails", {of("last_run_failed", cause="storage"): f"1x{LONG}"}, [("StatemaintRunFailed", Q)]),
    Case("a task is killed", {of("last_run_failed", cause="task"): f"1x{LONG}"}, [("StatemaintRunFailed", Q)]),
    Case("a storage that failed once", {of("last_run_failed", cause="storage"): f"1x5 0x{LONG}"}, at="15m"),
    Case("another maintainer has the lease", {of("last_run_failed", cause="lease"): f"1x{LONG}"}, [("StatemaintTwoMaintainers", Q)]),
    Case("another maintainer had the lease once", {of("last_run_failed", cause="lease"): f"1x1400 0x{LONG}"}),
    Case("a run waits for two hours", {of("lease_held_timestamp_seconds"): f"79200x{LONG}"}, [("StatemaintLeaseStale", Q)]),
    Case("a run waits for minutes", {of("lease_held_timestamp_seconds"): f"86000x{LONG}"}),
    # Stale, by each query's own interval.
    Case("an hourly query without a run for three hours", {of("last_run_timestamp_seconds"): f"75000x{LONG}"}, [("StatemaintStale", Q)]),
    Case("an hourly query without a run for two hours", {of("last_run_timestamp_seconds"): f"79000x{LONG}"}),
    Case("a daily query without a run for three hours", {
        of("last_run_timestamp_seconds"): f"75000x{LONG}",
        of("expected_interval_seconds"): f"86400x{LONG}",
    }),
    Case("a query without a schedule after seven hours", {
        of("last_run_timestamp_seconds"): f"61000x{LONG}",
    }, [("StatemaintStale", Q)], without=(of("expected_interval_seconds"),)),
    Case("a query without a schedule after three hours", {
        of("last_run_timestamp_seconds"): f"75000x{LONG}",
    }, without=(of("expected_interval_seconds"),)),
    Case("a query that is gone", {of("last_run_timestamp_seconds", "gone"): "0x300 stale"}),
    # Stalled: a task that works has stopped reporting, in one installation of two.
    Case("a task was killed", {
        **at_work("ours", f"84000x{LONG}"), **at_work("theirs", "0+60x2880"),
    }, [("StatemaintRunStalled", Q)]),
    Case("a task that writes files was killed", {
        of("task_state", origin="ours", task="maintain-3", state="working"): f"1x{LONG}",
        'node_textfile_mtime_seconds{file="/metrics/statemaint_q@maintain-3@ours.prom"}': f"84000x{LONG}",
    }, [("StatemaintRunStalled", Q)]),
    Case("a task reports", at_work("ours", "0+60x2880")),
    Case("a task has missed five minutes", at_work("ours", f"86100x{LONG}")),
    Case("tasks have ended, and one waits", {
        name: values
        for state in ("succeeded", "failed", "waiting")
        for name, values in at_work("ours", f"0x{LONG}", state, f"maintain-{state}").items()
    }),
    Case("a task was killed in one installation and ended in another", {
        **at_work("ours", f"86000x{LONG}"), **at_work("theirs", f"84000x{LONG}", "succeeded"),
    }),
    Case("a killed task that the report has told of", {
        **at_work("", f"84000x{LONG}"), of("last_run_failed", cause="task"): f"1x{LONG}",
    }, [("StatemaintRunFailed", Q)]),
    # The cost of a restart.
    Case("a long chain", {
        of("chain_length_max"): f"8760x{LONG}", of("restart_seconds"): f"900x{LONG}",
        of("snapshot_lag_versions"): f"8760x{LONG}",
    }, [("StatemaintChainTooLong", Q)]),
    Case("a long chain before its first run ends", {of("chain_length_max"): f"8760x20 5x{LONG}"}, at="25m"),
    Case("a large state", {of("restart_seconds"): f"900x{LONG}"}, [("StatemaintRestartTooSlow", Q)]),
    Case("a restart of four minutes", {of("restart_seconds"): f"240x{LONG}"}),
    Case("a lag without a chain", {of("snapshot_lag_versions"): f"900x{LONG}"}, [("StatemaintSnapshotLag", Q)]),
    Case("a lag of 300", {of("snapshot_lag_versions"): f"300x{LONG}"}),
    Case("a verification found damage", {of("last_verify_failed"): f"1x{LONG}"}, [("StatemaintVerifyFailed", Q)]),
    Case("not verified for two weeks", {of("last_verify_timestamp_seconds"): f"-1300000x{LONG}"}, [("StatemaintVerifyOverdue", Q)]),
    Case("verified well after damage", {of("last_verify_failed"): f"1x1400 0x{LONG}"}),
    Case("verified a week ago", {of("last_verify_timestamp_seconds"): f"-520000x{LONG}"}),
    Case("never verified", {}, without=(of("last_verify_timestamp_seconds"),)),
    Case("executors maintain too", {of("findings", code="FOREIGN_MAINTAINER"): f"1x{LONG}"}, [("StatemaintForeignMaintainer", Q)]),
    Case("executors maintained until the last run", {of("findings", code="FOREIGN_MAINTAINER"): f"1x1400 0x{LONG}"}),
    Case("a finding without an alert", {of("findings", code="UNKNOWN_FILE"): f"9x{LONG}"}),
    Case("files are gone that we did not delete", {of("findings", code="PURGED_BY_SPARK"): f"9x{LONG}"}, [("StatemaintForeignDeletions", Q)]),
    Case("files were gone until the last run", {of("findings", code="PURGED_BY_SPARK"): f"2x1400 0x{LONG}"}),
    Case("the trash grows beyond the state", {of("trash_bytes"): "0+10x2880"}, [("StatemaintTrashGrowing", Q)], at="30h"),
    Case("a large trash that shrinks", {of("trash_bytes"): "90000-10x2880"}, at="30h"),
    Case("pushes are lost", {of("push_losses_total"): "0+1x2880"}, [("StatemaintPushLosses", Q)]),
    Case("one push is lost", {of("push_losses_total"): f"7x1000 8x{LONG}"}),
    Case("the exporter cannot read a query", {of("exporter_read_failed"): f"1x{LONG}"}, [("StatemaintUnreadable", Q)]),
    Case("one reading failed", {of("exporter_read_failed"): f"0x1435 1x2 0x{LONG}"}, at="1d"),
    # What is blind says so once.
    Case("a dead Pushgateway", {
        'up{job="statemaint-pushgateway",instance="gw:9091"}': f"0x{LONG}",
    }, [("StatemaintSourceDown", "")], base=False),
    Case("a dead exporter", {
        'up{job="statemaint-exporter",instance="ex:9808"}': f"0x{LONG}",
    }, [("StatemaintSourceDown", "")]),
    Case("a restart of the Pushgateway", {
        'up{job="statemaint-pushgateway",instance="gw:9091"}': f"1x1430 0x2 1x{LONG}",
    }),
    Case("a Pushgateway that is empty", {}, [("StatemaintMetricsAbsent", "")], base=False),
]  # fmt: skip
# For each alert a case that is close to it and must not fire it.
SPARED = {
    "StatemaintHalted": "a repaired store",
    "StatemaintPlanFailed": "what follows from damage is not reported apart",
    "StatemaintRunFailed": "a storage that failed once",
    "StatemaintTwoMaintainers": "another maintainer had the lease once",
    "StatemaintLeaseStale": "a run waits for minutes",
    "StatemaintRunStalled": "a task was killed in one installation and ended in another",
    "StatemaintStale": "an hourly query without a run for two hours",
    "StatemaintChainTooLong": "a long chain before its first run ends",
    "StatemaintRestartTooSlow": "a restart of four minutes",
    "StatemaintSnapshotLag": "a lag of 300",
    "StatemaintVerifyFailed": "verified well after damage",
    "StatemaintVerifyOverdue": "verified a week ago",
    "StatemaintForeignMaintainer": "executors maintained until the last run",
    "StatemaintForeignDeletions": "files were gone until the last run",
    "StatemaintTrashGrowing": "a large trash that shrinks",
    "StatemaintPushLosses": "one push is lost",
    "StatemaintUnreadable": "one reading failed",
    "StatemaintSourceDown": "a restart of the Pushgateway",
    "StatemaintMetricsAbsent": "a dead Pushgateway",
}
# From which minute on its first case is true, and for how many minutes it is only pending.
HELD = {
    "StatemaintRunFailed": (0, 10),
    "StatemaintStale": (1405, 5),
    "StatemaintChainTooLong": (0, 30),
    "StatemaintRestartTooSlow": (0, 30),
    "StatemaintSnapshotLag": (0, 30),
    "StatemaintForeignMaintainer": (0, 60),
    "StatemaintForeignDeletions": (0, 60),
    "StatemaintTrashGrowing": (1440, 60),
    "StatemaintUnreadable": (0, 15),
    "StatemaintSourceDown": (0, 5),
    "StatemaintMetricsAbsent": (0, 15),
}


def written(case: Case) -> dict[str, object]:
    """Returns a case as promtool reads it."""
    series = {**(fine() if case.base else {}), **SOURCES, **case.series}
    kept = {name: values for name, values in series.items() if name not in case.without}
    return {
        "name": case.name,
        "interval": "1m",
        "input_series": [{"series": name, "values": one} for name, one in kept.items()],
        "promql_expr_test": [seen("firing", case.at, case.fires)],
    }


def seen(state: str, at: str, alerts: list[tuple[str, str]]) -> dict[str, object]:
    """Returns the expectation that these alerts, and no others, are in a state at a time."""
    samples = []
    for name, query in alerts:
        labels = f'alertname="{name}"' + (f',query="{query}"' if query else "")
        samples.append({"labels": f"{{{labels}}}", "value": 1})
    expr = f'group by (alertname, query) (ALERTS{{alertstate="{state}"}})'
    return {"expr": expr, "eval_time": at, "exp_samples": samples}


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


def test_each_case_fires_its_alert_and_no_other(tmp_path: Path) -> None:
    file = tmp_path / "cases.yaml"
    # No alert waits for less, if it waits at all, and every case looks at a multiple of it. With an
    # evaluation each minute, all cases together take five times as long.
    head = {"rule_files": [str(RULES)], "evaluation_interval": "5m"}
    file.write_text(yaml.safe_dump({**head, "tests": [written(case) for case in CASES]}))
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


def told(file: Path, series: dict[str, str], name: str, severity: str, **texts: str) -> None:
    """Holds the annotations of an alert of the query, an hour after series have begun."""
    texts |= {
        "runbook_url": f"docs/runbook.md#{name.lower()}",
        "dashboard_url": "/d/statemaint-query?var-query=q",
    }
    alert = {"exp_labels": {"severity": severity, "query": Q}, "exp_annotations": texts}
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": one} for name, one in series.items()],
        "alert_rule_test": [{"eval_time": "1h", "alertname": name, "exp_alerts": [alert]}],
    }
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": [test]}))
    run("test", "rules", file)


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
        dag_url="/dags/statemaint__q",
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
        dag_url=f"/dags/{dag}",
    )


@pytest.mark.parametrize("alert", ALERTS, ids=NAMES)
def test_every_alert_says_what_how_bad_and_what_to_do(alert: object) -> None:
    [rule] = [
        one
        for one in yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
        if one["alert"] == alert.name  # type: ignore[attr-defined]
    ]
    assert rule["labels"]["severity"] in {"critical", "warning"}
    links = (
        {"dashboard_url", "dag_url"}
        if "$labels.query" in rule["annotations"]["summary"]
        else {"dashboard_url"}
    )
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"} | links
    assert rule["annotations"]["runbook_url"] == f"docs/runbook.md#{rule['alert'].lower()}"
    assert f"\n### {rule['alert']}\n" in RUNBOOK
