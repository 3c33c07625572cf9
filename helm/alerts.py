"""Builds the alerting rules that the chart delivers, `helm/statemaint/files/alerts.yaml`.

    python helm/alerts.py

The expressions take the following into account:

- One incident is one alert of one query: what follows from another alert is left out (`unless`),
  in the order broken, halted, plan failed, run failed, everything else.
- A Pushgateway repeats the last value of a group for ever, so that no expression assumes that a
  value is recent; only `StatemaintStale` asks how old it is.
- Only the labels of the metrics themselves are kept (`max by`), so that an alert survives a new
  pod, and it does not matter whether `honor_labels` is set, or whether both the Pushgateway and
  the exporter are scraped. Those that identify the query's installation are always among them.
- Series of one query may differ in `owner` while it changes, so that a comparison has many series
  at its left side at most (`group_left`): one that matches twice would end the whole rule.
- A storage that fails for many queries, or an exporter that has stopped reading, is one alert.
"""

from dataclasses import dataclass
from pathlib import Path

TARGET = Path(__file__).resolve().parent / "statemaint" / "files" / "alerts.yaml"
CRITICAL, WARNING = "critical", "warning"

_HEAD = """\
# Alerting rules of statemaint, made by helm/alerts.py; do not edit. A plain Prometheus rules file
# with the default thresholds: load it as it is, or let the chart add links and labels, and change
# thresholds (`alerts` in its values). Without the chart, with `alert_labels: [team]` in the queries
# file: sed 's/namespace, owner/namespace, owner, team/g'.
groups:
"""
# The groups, each with its alerts; a record is in the group of the rules that use it, as Prometheus
# evaluates groups independently of each other.
GROUPS = ("runs", "state", "verification", "savepoints", "metrics")


@dataclass(frozen=True, slots=True)
class Alert:
    """One rule of a group; `hold` is how long it must be true."""

    name: str
    expr: str
    severity: str
    summary: str
    description: str
    hold: str = "0m"
    group: str = "runs"


# What identifies a query, and the labels of its alerts.
_ID = "query, origin, namespace"
_LABELS = f"{_ID}, owner"
_INSTALLATION = "origin, namespace"
_STORAGE = f"{_INSTALLATION}, storage"


def _max(metric: str, labels: str = _LABELS) -> str:
    return f"max by ({labels}) (statemaint_{metric})"


def _unless(*others: str, on: str = _ID) -> str:
    return "".join(f"\nunless on ({on}) {other}" for other in others)


def _number(one: str, several: str) -> str:
    return f"{{{{ $value }}}} {{{{ if eq $value 1.0 }}}}{one}{{{{ else }}}}{several}{{{{ end }}}}"


def _series(metric: str, *labels: str) -> str:
    """Returns the selector of a metric of the alert's query, for `printf`."""
    return f"statemaint_{metric}{{{','.join(('query=%q', 'origin=%q', 'namespace=%q', *labels))}}}"


def _of(expr: str) -> str:
    """Returns the template that asks Prometheus about the alert's query."""
    return f'printf "{expr}" $labels.query $labels.origin $labels.namespace | query'


_QUERY = "{{ $labels.query }}"
_AGE = "{{ humanizeDuration $value }}"
_HALTED = _max('stores{outcome="halted"}') + " > 0"
_BROKEN = _max('verdict{verdict="broken"}') + " > 0"
_PLAN = _max('last_run_failed{cause="plan"}') + " > 0"
_LEASE = _max('last_run_failed{cause="lease"}') + " > 0"
_LONG = _max("chain_length_max") + " > 200"
_LIMITED = _max("restart_limit_seconds") + " > 0"
_UNREAD = _max("exporter_read_failed", f"{_LABELS}, storage") + " > 0"
_FAILED = _max('last_run_failed{cause=~"storage|task"}', f"{_LABELS}, storage") + " > 0"
_SOURCES = 'up{job=~".*(statemaint|pushgateway).*"} == 0'
_DOWN, _NEVER = "statemaint:storage_down", "statemaint:never_ran_since"
_UNSAVED = "statemaint:never_saved_since"
_ENDED = "last_run_timestamp_seconds"
_SAVED, _SAVED_EVERY = "last_savepoint_timestamp_seconds", "savepoint_expected_interval_seconds"

_CODES = (
    f"{{{{ range {_of('sum by (code) (' + _series('findings') + ') > 0')} }}}}"
    "{{ .Labels.code }} ({{ .Value }}) {{ end }}"
)
_WITHHELD = (
    f"{{{{ with {_of('sum by (reason) (' + _series('snapshots_withheld') + ') > 0')} }}}}"
    "{{ range . }}{{ .Labels.reason }} ({{ .Value }}) {{ end }}{{ else }}none{{ end }}"
)
_LIMIT = (
    f"{{{{ range {_of('max(' + _series('restart_limit_seconds') + ')')} }}}}"
    " ({{ humanizeDuration .Value }}){{ end }}"
)
_INTERVAL = (
    f"{{{{ range {_of('max(' + _series('expected_interval_seconds') + ')')} }}}}"
    ", a run every {{ humanizeDuration .Value }}{{ end }}"
)
# As its metrics name it: queries with `together` share one, a CronJob has none.
_KNOWN_DAG = _of(_series("query_info", "dag!=''"))
_DAG = (
    f"the DAG {{{{ with {_KNOWN_DAG} }}}}"
    '{{ . | first | label "dag" }}{{ else }}of the query{{ end }}'
)
_IS_BROKEN = "verdict='broken'"
_AT_WORK = "state='working'"
# The report of the run has told of it.
_LOST = _max('last_run_failed{cause="task"}', _ID) + " > 0"
_TASK = f"{_LABELS}, task"
_BUSY = _max('task_state{state="working"}', _TASK)
_REPORTED = _max("task_reported_timestamp_seconds", _TASK)
_WORKING = _of(f"max by (task) ({_series('task_state', _AT_WORK)})")
_SILENT = f"{{{{ range {_WORKING} }}}}{{{{ .Labels.task }}}} {{{{ end }}}}"


def _patience(known: str) -> str:
    """Returns the longest time between two runs: by its own schedule, or six hours without one."""
    return (
        f"on ({_ID}) group_left () (\n  {_max('expected_interval_seconds', _ID)} * 2.5\n"
        f"  or {_max(known, _ID)} * 0 + 21600\n)"
    )


def _known_since(record: str, metric: str, without: str) -> str:
    """Returns since when queries have had one metric, and not another; an hour is bridged."""
    return (
        f"(\n  {_max(metric)}\n"
        f"  unless on ({_ID}) statemaint_{without}\n"
        f"  unless on ({_ID}) statemaint_exporter_read_failed > 0\n"
        f") * on ({_ID}) group_left () (\n"
        f"  min by ({_ID}) (last_over_time({record}[1h]))\n"
        f"  or {_max('query_info', _ID)} * 0 + time()\n)"
    )


def _storages(state: str) -> str:
    failed = _max('last_run_failed{cause="storage",storage!=""}', f"{_ID}, storage")
    unread = _max('exporter_read_failed{storage!=""}', f"{_ID}, storage")
    return f"count by ({_STORAGE}) ({failed}{state} or {unread}{state})"


# Of several shards, the one that is furthest behind.
_UNREFRESHED = (
    f"time() - min by ({_INSTALLATION}) (statemaint_exporter_last_reading_timestamp_seconds) > 900"
)

# Expressions that several rules share, by group.
RECORDS = {
    "runs": {
        # How many queries of a storage failed there, if it is half of them and more than one.
        _DOWN: f"{_storages(' > 0')} > 1\nand {_storages(' > 0')} / {_storages('')} >= 0.5",
        _NEVER: _known_since(_NEVER, "query_info", _ENDED),
    },
    "savepoints": {_UNSAVED: _known_since(_UNSAVED, f"{_SAVED_EVERY} > bool 0", _SAVED)},
}

ALERTS = (
    Alert(
        "StatemaintBroken", _BROKEN, CRITICAL,
        f"{_QUERY} would not restart",
        f"Its verdict is broken, by {{{{ range {_of(_series('verdict', _IS_BROKEN))} }}}}"
        "{{ .Labels.looked }} {{ end }}(names: a run; ends or rows: a verification). Findings: "
        f"{_CODES}. Run statemaint doctor on the checkpoint before the query is stopped.",
    ),
    Alert(
        "StatemaintHalted", _HALTED + _unless(_BROKEN), CRITICAL,
        f"{_QUERY}: {_number('store is', 'stores are')} halted",
        "Damage was found. Nothing is written or deleted in these stores until it is repaired, and "
        "a restart of the query may fail; its other stores are maintained. Findings: "
        f"{_CODES}. Run statemaint doctor on the checkpoint.",
    ),
    Alert(
        "StatemaintPlanFailed", _PLAN + _unless(_HALTED), CRITICAL,
        f"{_QUERY}: maintenance cannot be planned",
        f"The last run failed before it saw any store; nothing is maintained. The log of the task "
        f"plan of {_DAG} says why: a configuration or a checkpoint that cannot be read.",
    ),
    Alert(
        "StatemaintRunFailed", _FAILED + _unless(_HALTED, _PLAN) + _unless(_DOWN, on=_STORAGE),
        WARNING,
        f"{_QUERY}: the last run failed",
        "The storage failed, or a task gave no report. Tasks with storage errors: "
        f"{{{{ range {_of(_series('last_run_storage_errors'))} }}}}"
        f"{{{{ .Value }}}} {{{{ end }}}}. The log of the failed task of {_DAG} says more.",
        "10m",
    ),
    Alert(
        "StatemaintTwoMaintainers", _LEASE, WARNING,
        f"{_QUERY}: two maintainers compete for the lease",
        "The last run gave up because another run holds the lease, or took it over. Two DAGs, or a "
        "DAG and a CronJob, maintain the same checkpoint: stop one of them. statemaint runs lists "
        "both.",
    ),
    Alert(
        "StatemaintLeaseStale",
        f"time() - ({_max('lease_held_timestamp_seconds')} > 0) > 3600", WARNING,
        f"{_QUERY}: a run has waited {_AGE} for the lease of another",
        "A run that was killed loses its lease by itself within minutes. One that lives and does "
        "not end keeps it: the file with the highest number in _statemaint/lease says whose it is.",
    ),
    Alert(
        "StatemaintStale",
        f"time() - {_max(_ENDED)} > {_patience(_ENDED)}"
        + _unless(_UNREFRESHED, on=_INSTALLATION),
        WARNING,
        f"{_QUERY}: no run has ended for {_AGE}",
        f"More than two runs are missing by the query's own schedule{_INTERVAL}. Is {_DAG} paused, "
        "waiting for a worker, or running without end?",
        "5m",
    ),
    Alert(
        "StatemaintRunStalled",
        f"max by ({_LABELS}) (\n"
        f"  {_BUSY}\n"
        f"  * (time() - {_REPORTED}) > 600\n"
        ")\n"
        f"unless on ({_ID}) {_LOST}",
        WARNING,
        f"{_QUERY}: a task at work has not reported for {_AGE}",
        f"Tasks: {_SILENT}. A task reports several times a minute: it was killed and not tried "
        f"again, its worker is lost, or it cannot reach the Pushgateway. Its log in {_DAG} says "
        "more; the next run continues its work.",
    ),
    Alert(
        "StatemaintChainTooLong", _LONG + _unless(_HALTED, _LIMITED), WARNING,
        f"{_QUERY}: a restart replays {{{{ $value }}}} deltas in one store",
        f"Due snapshots that are not written: {_WITHHELD}. Without any, runs do not reach this "
        "store, their limits are too low, or min_deltas_for_snapshot is too high. The dashboard of "
        "the query names the worst partitions.",
        "30m",
        group="state",
    ),
    Alert(
        "StatemaintRestartTooSlow",
        _max("restart_seconds") + " > 300" + _unless(_HALTED, _LONG, _LIMITED),
        WARNING,
        f"{_QUERY}: a restart is forecast to take up to {_AGE}",
        "The chains are short, so the state is large for its slots, or one partition is. More "
        "slots, more partitions or RocksDB make a restart faster; maintenance cannot.",
        "30m",
        group="state",
    ),
    Alert(
        "StatemaintRestartOverLimit",
        _max("restart_seconds")
        + f" > on ({_ID}) group_left () ("
        + _max("restart_limit_seconds", _ID)
        + " > 0)"
        + _unless(_HALTED),
        WARNING,
        f"{_QUERY}: a restart is forecast to take up to {_AGE}, longer than restart_within{_LIMIT}",
        f"Due snapshots that are not written: {_WITHHELD}. Without any, no snapshot keeps the "
        "limit: the state is too large for its partitions and slots, or runs are too rare.",
        "30m",
        group="state",
    ),
    Alert(
        "StatemaintSnapshotLag",
        _max("snapshot_lag_versions") + " > 300" + _unless(_HALTED, _LONG, _LIMITED),
        WARNING,
        f"{_QUERY}: the newest snapshot is {{{{ $value }}}} versions old",
        "Batches are much more frequent than runs: schedule maintenance more often.",
        "30m",
        group="state",
    ),
    Alert(
        "StatemaintVerifyFailed",
        _max("last_verify_failed") + " > 0" + _unless(_BROKEN, _HALTED), CRITICAL,
        f"{_QUERY}: the last verification found damage",
        "A version that must load does not, although the last run halted no store. The log of the "
        "verification lists each finding; statemaint doctor says what a restart would do.",
        group="verification",
    ),
    Alert(
        "StatemaintVerifyOverdue",
        f"time() - {_max('last_verify_timestamp_seconds')} > 1209600", WARNING,
        f"{_QUERY}: not verified for {_AGE}",
        "The query was verified before, and not for two weeks. Trigger the DAG statemaint_verify; "
        "without Airflow, see why the job that verifies does not run.",
        group="verification",
    ),
    Alert(
        "StatemaintSavepointTooOld",
        f"time() - ({_max(_SAVED)} or {_UNSAVED})\n"
        f"> on ({_ID}) group_left () ({_max(_SAVED_EVERY, _ID)} * 3)"
        + _unless(_UNREFRESHED, on=_INSTALLATION),
        WARNING,
        f"{_QUERY}: no savepoint has been made for {_AGE}",
        f"Three of its schedule are missing. Is the DAG statemaint_savepoint__{_QUERY} paused, or "
        "does it fail? The log of its task savepoint says why.",
        group="savepoints",
    ),
    Alert(
        "StatemaintForeignMaintainer",
        _max('findings{code="FOREIGN_MAINTAINER"}') + " > 0", WARNING,
        f"{_QUERY}: its executors maintain the state too",
        "Snapshots appear that statemaint did not write. The runbook lists the settings of Spark "
        "to change.",
        "1h",
        group="state",
    ),
    Alert(
        "StatemaintForeignDeletions",
        _max('findings{code="PURGED_BY_SPARK"}') + " > 0", WARNING,
        f"{_QUERY}: {_number('version was', 'versions were')} deleted by another hand",
        "Files are gone that statemaint did not delete. More than one or two versions point to a "
        "lifecycle rule of the bucket or a clean-up script.",
        "1h",
        group="state",
    ),
    Alert(
        "StatemaintTrashGrowing",
        f"{_max('trash_bytes')} > on ({_ID}) group_left () {_max('store_bytes', _ID)}\n"
        f"and on ({_ID}) {_max('trash_bytes', _ID)} > {_max('trash_bytes offset 1d', _ID)}",
        WARNING,
        f"{_QUERY}: the trash holds {{{{ humanize1024 $value }}}}B, more than the state",
        "It grew within a day. trash_for is long for the amount that is deleted, or a damaged "
        "store keeps the trash from being emptied.",
        "1h",
        group="state",
    ),
    Alert(
        "StatemaintPushLosses",
        f"max by ({_LABELS}) (increase(statemaint_push_losses_total[1d])) > 2", WARNING,
        f'{_QUERY}: pushes of metrics are lost, {{{{ $value | printf "%.0f" }}}} in a day',
        "The Pushgateway answered too late, refused, or could not be reached; the log of the task "
        "report has the reason. Maintenance itself is not affected.",
        group="metrics",
    ),
    Alert(
        "StatemaintUnreadable",
        _UNREAD + _unless(_DOWN, on=_STORAGE), WARNING,
        f"{_QUERY}: the exporter cannot read its record",
        "Its metrics are those of the last reading, and disappear after fifteen minutes. The log "
        "of the exporter says why: credentials, network, or an address that is wrong.",
        "15m",
    ),
    Alert(
        "StatemaintNeverRan",
        f"time() - {_NEVER} > {_patience('query_info')}"
        + _unless(_UNREFRESHED, on=_INSTALLATION),
        WARNING,
        f"{_QUERY}: no run has ended since {_AGE} ago, when it was first seen",
        f"The query is in the queries file, and there is no record of a run{_INTERVAL}. Is {_DAG} "
        "paused, or its schedule missing?",
    ),
    Alert(
        "StatemaintStorageDown", _DOWN, CRITICAL,
        "{{ $labels.storage }}: {{ $value }} queries fail there",
        "At least half of the queries on this storage could not be read, or failed at it in their "
        "last run: credentials, network, or the storage itself. Their own alerts about that are "
        "left out. Nothing is deleted while a storage fails.",
        "5m",
    ),
    Alert(
        "StatemaintConfigurationProblem",
        _max("exporter_problems", _INSTALLATION) + " > 0", WARNING,
        f"The queries file has {_number('mistake', 'mistakes')}",
        "What a mistake concerns is maintained as before, or not at all: "
        '{{ range printf "statemaint_configuration_problem{origin=%q,namespace=%q}" $labels.origin '
        "$labels.namespace | query }}{{ .Labels.file }}:{{ .Labels.line }} {{ .Labels.query }} "
        "{{ end }}. statemaint queries FILE validate explains each.",
        "5m",
        group="metrics",
    ),
    Alert(
        "StatemaintExporterStale", _UNREFRESHED, CRITICAL,
        f"The exporter has not ended a reading for {_AGE}",
        "It answers, and what it shows is old: a storage hangs, or it has too little memory or "
        "processor time for its queries. Alerts about missing runs are left out until it reads "
        "again. Its log says more; a new pod reads at once.",
        group="metrics",
    ),
    Alert(
        "StatemaintSourceDown", _SOURCES, CRITICAL,
        "{{ $labels.job }} at {{ $labels.instance }} does not answer",
        "The Pushgateway or the exporter is down: all other alerts of statemaint are blind until "
        "it answers. Maintenance itself goes on.",
        "5m",
        group="metrics",
    ),
    Alert(
        "StatemaintMetricsAbsent",
        f"absent(statemaint_query_info)\nunless on () ({_SOURCES})", CRITICAL,
        "There are no metrics of statemaint at all",
        "Nothing is scraped, or the Pushgateway has restarted empty and no query has run since. "
        "All other alerts of statemaint are blind.",
        "15m",
        group="metrics",
    ),
)  # fmt: skip


def render() -> str:
    """Returns the text of the rules file, the same text every time."""
    return _HEAD + "\n".join(map(_group, GROUPS))


def _group(name: str) -> str:
    records = (_rule("record", record, expr) for record, expr in RECORDS.get(name, {}).items())
    alerts = (
        _rule("alert", one.name, one.expr) + _rest(one) for one in ALERTS if one.group == name
    )
    return f"  - name: statemaint-{name}\n    rules:\n" + "\n".join((*records, *alerts))


def _rule(kind: str, name: str, expr: str) -> str:
    lines = (f"          {line}\n" for line in expr.splitlines())
    return f"      - {kind}: {name}\n        expr: |-\n{''.join(lines)}"


def _rest(alert: Alert) -> str:
    lines = [
        f"for: {alert.hold}",
        "labels:",
        f"  severity: {alert.severity}",
        "annotations:",
        f"  summary: {_quoted(alert.summary)}",
        f"  description: {_quoted(alert.description)}",
    ]
    return "".join(f"        {line}\n" for line in lines)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def main() -> None:
    """Writes the rules into the chart."""
    TARGET.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()
