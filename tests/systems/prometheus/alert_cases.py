"""Cases of the alerts: series, and the alerts that fire in them and no others."""

from dataclasses import dataclass, field

# ruff: noqa: E501 -- a case is one line of a table

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
        of("query_info", query): f"1x{LONG}",
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
    origin: str, reported: str, state: str = "working", task: str = "maintain-3"
) -> dict[str, str]:
    """Returns the series of a task, and the times of its reports."""
    labels = {"task": task, **({"origin": origin} if origin else {})}
    report = of("task_reported_timestamp_seconds", **labels)
    return {of("task_state", state=state, **labels): f"1x{LONG}", report: reported}


@dataclass(frozen=True)
class Case:
    """Series on top of those of a healthy query, and the alerts that fire: names and queries."""

    name: str
    series: dict[str, str]
    fires: list[tuple[str, str]] = field(default_factory=list)
    at: str = "1d"
    without: tuple[str, ...] = ()
    base: bool = True


def on(storage: str, *queries: str, unread: int = 0, failed: int = 0) -> dict[str, str]:
    """Returns the series of queries on a storage."""
    return {
        name: value
        for query in queries
        for name, value in (
            (of("exporter_read_failed", query, storage=storage), f"{unread}x{LONG}"),
            (of("last_run_failed", query, storage=storage, cause="storage"), f"{failed}x{LONG}"),
        )
    }


Q = "q"
HALTED = {
    of("stores", outcome="halted"): f"20x{LONG}",
    of("last_run_failed", cause="damage"): f"1x{LONG}",
}
CASES = [
    Case("all is well", {}),
    Case("a new query has few series and no trouble", {of("query_info", "new"): f"1x{LONG}"}, at="5h"),
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
    Case("a query that would not restart", {
        of("verdict", verdict="broken", looked="names"): f"1x{LONG}", of("last_verify_failed"): f"1x{LONG}", of("stores", outcome="halted"): f"1x{LONG}",
    }, [("StatemaintBroken", Q)]),
    Case("a query that restarts and is damaged", {of("verdict", verdict="degraded", looked="names"): f"1x{LONG}"}),
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
    Case("a forecast over its limit", {
        of("restart_seconds"): f"41x{LONG}", of("restart_limit_seconds"): f"30x{LONG}",
    }, [("StatemaintRestartOverLimit", Q)]),
    Case("a forecast within its limit, with a long chain", {
        of("restart_seconds"): f"29x{LONG}", of("restart_limit_seconds"): f"30x{LONG}",
        of("chain_length_max"): f"900x{LONG}", of("snapshot_lag_versions"): f"900x{LONG}",
    }),
    Case("a lag without a chain", {of("snapshot_lag_versions"): f"900x{LONG}"}, [("StatemaintSnapshotLag", Q)]),
    Case("a lag of 300", {of("snapshot_lag_versions"): f"300x{LONG}"}),
    Case("a verification found damage", {of("last_verify_failed"): f"1x{LONG}"}, [("StatemaintVerifyFailed", Q)]),
    Case("not verified for two weeks", {of("last_verify_timestamp_seconds"): f"-1300000x{LONG}"}, [("StatemaintVerifyOverdue", Q)]),
    Case("verified well after damage", {of("last_verify_failed"): f"1x1400 0x{LONG}"}),
    Case("verified a week ago", {of("last_verify_timestamp_seconds"): f"-520000x{LONG}"}),
    Case("never verified", {}, without=(of("last_verify_timestamp_seconds"),)),
    Case("three daily savepoints are missing", {
        of("last_savepoint_timestamp_seconds"): f"-180000x{LONG}", of("savepoint_expected_interval_seconds"): f"86400x{LONG}",
    }, [("StatemaintSavepointTooOld", Q)]),
    Case("a daily savepoint two days ago", {
        of("last_savepoint_timestamp_seconds"): f"-86400x{LONG}", of("savepoint_expected_interval_seconds"): f"86400x{LONG}",
    }),
    Case("an old savepoint by hand", {of("last_savepoint_timestamp_seconds"): f"-9000000x{LONG}"}),
    Case("a query whose hourly savepoints never succeed", {of("savepoint_expected_interval_seconds"): f"3600x{LONG}"}, [("StatemaintSavepointTooOld", Q)], at="4h"),
    Case("a query before its third hourly savepoint", {of("savepoint_expected_interval_seconds"): f"3600x{LONG}"}, at="170m"),
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
    # A query of the file without a record, by its own interval.
    Case("a query without a schedule that never ran", {of("query_info", "new"): f"1x{LONG}"}, [("StatemaintNeverRan", "new")], at="7h"),
    Case("an hourly query that never ran", {
        of("query_info", "new"): f"1x{LONG}", of("expected_interval_seconds", "new"): f"3600x{LONG}",
    }, [("StatemaintNeverRan", "new")], at="3h"),
    Case("a query that never ran, across twenty minutes without Prometheus", {
        of("query_info", "new"): f"1x180 _x20 1x{LONG}",
    }, [("StatemaintNeverRan", "new")], at="7h"),
    Case("a weekly query that is not yet due", {
        of("query_info", "new"): f"1x{LONG}", of("expected_interval_seconds", "new"): f"604800x{LONG}",
    }, at="2d"),
    Case("a query whose first run has ended", {
        of("query_info", "new"): f"1x{LONG}", of("last_run_timestamp_seconds", "new"): f"_x120 7200+60x{LONG}",
        of("expected_interval_seconds", "new"): f"3600x{LONG}",
    }),
    Case("a query that never ran and cannot be read", {
        of("query_info", "new"): f"1x{LONG}", of("exporter_read_failed", "new"): f"1x{LONG}",
    }, [("StatemaintUnreadable", "new")]),
    # A storage that fails is one alert.
    Case("a storage is down", {
        **on("s3://lake", "a", "b", unread=1), **on("s3://lake", "c", failed=1), **on("s3://lake", "d"),
    }, [("StatemaintStorageDown", "")]),
    Case("two of five queries fail at a storage", {
        **on("s3://lake", "a", unread=1), **on("s3://lake", "b", failed=1), **on("s3://lake", "c", "d", "e"),
    }, [("StatemaintUnreadable", "a"), ("StatemaintRunFailed", "b")]),
    Case("the only query of a storage fails", on("s3://lake", "a", unread=1), [("StatemaintUnreadable", "a")]),
    Case("one storage is down and a query of another is damaged", {
        **on("s3://lake", "a", "b", unread=1, failed=1), **on("s3://sea", "c"), of("stores", "c", outcome="halted"): f"1x{LONG}",
    }, [("StatemaintStorageDown", ""), ("StatemaintHalted", "c")]),
    Case("a mistake in the queries file", {"statemaint_exporter_problems": f"2x{LONG}"}, [("StatemaintConfigurationProblem", "")]),
    Case("a corrected mistake", {"statemaint_exporter_problems": f"2x600 0x{LONG}"}),
    # Old readings look like queries that do not run.
    Case("readings have stopped", {
        "statemaint_exporter_last_reading_timestamp_seconds": f"3600x{LONG}",
        of("last_run_timestamp_seconds"): f"3600x{LONG}", of("query_info", "new"): f"1x{LONG}",
    }, [("StatemaintExporterStale", "")]),
    Case("readings go on, and a query has stopped", {
        "statemaint_exporter_last_reading_timestamp_seconds": HOURLY,
        of("last_run_timestamp_seconds"): f"3600x{LONG}",
    }, [("StatemaintStale", Q)]),
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
